//! Following jobs.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{CouchError, CouchState};
use crate::api::jobs::Jobs;
use crate::api::watch::Watch;
use crate::data;
use crate::error::Error;
use crate::model::id::JobId;

/// A change of a job that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CouchEvent {
    /// The job, with its type.
    pub id: JobId,
    /// Its state; `None` when it was removed, which is said once.
    pub state: Option<CouchState>,
    data: Option<Bytes>,
}

impl CouchEvent {
    /// Its new data; `None` when they stayed as they were.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<D: DeserializeOwned>(&self) -> Result<Option<D>, Error> {
        self.data.as_ref().map(|data| data::decode(data)).transpose()
    }
}

/// The answer to whoever wants to follow a job.
#[derive(Debug)]
#[non_exhaustive]
pub enum Subscribed {
    /// It has finished: there is nothing to follow. These are its data.
    Finished(Bytes),
    /// It is followed, from this state and these data on.
    Following(Subscription, CouchState, Bytes),
}

impl Subscribed {
    /// The state.
    pub fn state(&self) -> CouchState {
        match self {
            Self::Finished(_) => CouchState::Finished,
            Self::Following(_, state, _) => *state,
        }
    }

    /// The data.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<D: DeserializeOwned>(&self) -> Result<D, Error> {
        match self {
            Self::Finished(data) | Self::Following(_, _, data) => data::decode(data),
        }
    }

    /// The subscription of a job that has not finished.
    pub fn subscription(self) -> Option<Subscription> {
        match self {
            Self::Finished(_) => None,
            Self::Following(subscription, ..) => Some(subscription),
        }
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
    let watch = match jobs.watch(&id).await {
        Err(Error::NotFound(_)) => return Err(CouchError::NotFound),
        watch => watch?,
    };
    let state = watch.state().map_or(CouchState::Finished, CouchState::from);
    let body = watch.body().clone();
    Ok(match state {
        CouchState::Finished => Subscribed::Finished(body),
        state => Subscribed::Following(Subscription { watch, removed: false }, state, body),
    })
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
        let (id, data) = (self.watch.id().clone(), change.body().cloned());
        Ok(CouchEvent { id, state: change.state.map(CouchState::from), data })
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
