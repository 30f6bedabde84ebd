//! Following jobs.

use std::time::Duration;

use futures::FutureExt;
use serde::de::DeserializeOwned;
use tenure_jobs::{Change, Error, JobId, Jobs, Watch};
use tokio::time::timeout;

use super::{CouchError, CouchState};

/// A change of a job that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CouchEvent {
    /// The job, with its type.
    pub id: JobId,
    /// Its state; `None` when it was removed, which is said once.
    pub state: Option<CouchState>,
    change: Change,
}

impl CouchEvent {
    /// Its new data; `None` when they stayed as they were.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<D: DeserializeOwned>(&self) -> Result<Option<D>, Error> {
        self.change.data()
    }
}

/// The answer to whoever wants to follow a job: the job as it is at present.
#[derive(Debug)]
pub struct Subscribed {
    watch: Watch,
    state: CouchState,
}

impl Subscribed {
    /// The state.
    pub fn state(&self) -> CouchState {
        self.state
    }

    /// The data.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<D: DeserializeOwned>(&self) -> Result<D, Error> {
        self.watch.data()
    }

    /// The subscription, which tells what comes from here on. `None` when the job has finished: there is nothing to
    /// follow.
    pub fn subscription(self) -> Option<Subscription> {
        (self.state != CouchState::Finished).then_some(Subscription { watch: self.watch, removed: false })
    }
}

/// A job that is followed. Dropping it takes the subscription back, and forgets what was not waited for. A node has one
/// subscription of a job in the store, however often it follows it.
#[derive(Debug)]
pub struct Subscription {
    watch: Watch,
    removed: bool,
}

pub(super) async fn subscribe(jobs: &Jobs, id: JobId) -> Result<Subscribed, CouchError> {
    let watch = jobs.watch(&id).await?;
    let state = watch.state().map_or(CouchState::Finished, CouchState::from);
    Ok(Subscribed { watch, state })
}

impl Subscription {
    /// The job, with its type.
    pub fn id(&self) -> &JobId {
        self.watch.id()
    }

    async fn next(&mut self) -> Result<CouchEvent, CouchError> {
        if self.removed {
            return std::future::pending().await;
        }
        let change = self.watch.next().await?;
        self.removed = change.state.is_none();
        let id = self.watch.id().clone();
        Ok(CouchEvent { id, state: change.state.map(CouchState::from), change })
    }

    /// Waits for the next change: a transition, or an update of a job that runs. `None` when none comes in this time.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: another call returns the change.
    pub async fn wait(&mut self, within: Duration) -> Result<Option<CouchEvent>, CouchError> {
        timeout(within, self.next()).await.map_or(Ok(None), |event| event.map(Some))
    }

    /// Waits for this state, and skips all other changes but a removal. `None` when it does not come in this time.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe, but changes that were skipped are gone.
    pub async fn wait_for(
        &mut self,
        state: CouchState,
        within: Duration,
    ) -> Result<Option<CouchEvent>, CouchError> {
        let wanted = async {
            loop {
                let event = self.next().await?;
                if event.state.is_none_or(|found| found == state) {
                    return Ok(event);
                }
            }
        };
        timeout(within, wanted).await.map_or(Ok(None), |event| event.map(Some))
    }
}

/// Waits for the next change of any of these jobs. `None` when none comes in this time.
///
/// # Errors
/// [`Error::Store`].
///
/// # Cancel safety
/// Safe: another call returns the change.
pub async fn wait_any(
    subscriptions: &mut [Subscription],
    within: Duration,
) -> Result<Option<CouchEvent>, CouchError> {
    if subscriptions.is_empty() {
        tokio::time::sleep(within).await;
        return Ok(None);
    }
    let all = subscriptions.iter_mut().map(|subscription| subscription.next().boxed());
    match timeout(within, futures::future::select_all(all)).await {
        Ok((event, ..)) => event.map(Some),
        Err(_) => Ok(None),
    }
}
