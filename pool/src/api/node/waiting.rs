//! Waits for the outcome of a dispatch, and cancels a single dispatch.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::calls::{MARGIN, PATIENCE};
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command, Until};
use crate::error::{DispatchError, Error, FailedAttempt};
use crate::job::own::own;
use crate::model::id::{DispatchId, JobKey};
use crate::model::record::Record;
use crate::model::ticket::Ticket;
use crate::store::{Evidence, Explain, LookUp, Lookup};

/// How long it may take to cancel a dispatch after its deadline.
const CANCELLING: Duration = Duration::from_secs(5);

/// The wait for a dispatch, made by [`Node::wait`]. Await it.
///
/// # Cancel safety
/// Safe to drop at any time.
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct Wait {
    shard: Shard,
    ticket: Ticket,
    patience: Duration,
}

impl Node {
    /// Waits until a submitted job has been started. Any node of the pool may wait for it.
    ///
    /// # Errors
    /// Any other outcome of the dispatch; [`DispatchError::Unknown`] if the pool does not know it; or no answer by
    /// the deadline.
    pub fn wait(&self, ticket: &Ticket) -> Wait {
        Wait { shard: self.of(&ticket.key).clone(), ticket: ticket.clone(), patience: PATIENCE }
    }

    /// Ends this dispatch at any point of its life, and no other of its key. It does not come back. If it is still on
    /// its way, it is no longer accepted. Returns when this is recorded.
    ///
    /// # Errors
    /// The dispatch has already ended ([`Error::JobNotFound`]), or there is no answer within 20 s.
    ///
    /// # Cancel safety
    /// After a dropped call the dispatch may be ended or not.
    pub async fn cancel(&self, ticket: &Ticket) -> Result<(), Error> {
        self.of(&ticket.key).cancel_within(ticket, PATIENCE).await
    }
}

impl Shard {
    async fn cancel_within(&self, ticket: &Ticket, patience: Duration) -> Result<(), Error> {
        let Ticket { key, id } = ticket.clone();
        let (deadline, id, until) = (clock::now() + patience, Some(id), Until::Cancelled);
        let command = |reply| Command::StopJob { reply, key, id, until, deadline };
        let result = self.request(patience, command).await;
        self.named(&ticket.key, Some(&ticket.id), result).await
    }

    /// Ends a dispatch that was not started in time, and returns that it was cancelled. Returns `late` if it cannot
    /// be ended.
    pub(super) async fn cancel_late(&self, ticket: &Ticket, late: DispatchError) -> DispatchError {
        match self.cancel_within(ticket, CANCELLING).await {
            Ok(()) => DispatchError::Cancelled { ticket: ticket.clone() },
            Err(Error::JobNotFound(_)) => DispatchError::Ended,
            Err(_) => late,
        }
    }

    /// Refuses a call of the job's own handler that would wait for the end of the job.
    pub(super) async fn refuse_own_handler(&self, key: &JobKey, patience: Duration) -> Result<(), Error> {
        let Some(own) = own().filter(|own| own.key() == key) else { return Ok(()) };
        let look = LookUp { items: vec![(key.clone(), None)] };
        let found = tokio::time::timeout(patience, self.shared.store.0.read(&look)).await;
        // A job of the same key may live in another pool. Without an answer it counts as the caller's own.
        let is_other = match found {
            Ok(Ok(found)) => {
                let record = found.into_iter().next().and_then(|found| found.record);
                record.is_none_or(|record| record.id != *own.dispatch_id() || record.token != own.token())
            }
            Ok(Err(_)) | Err(_) => false,
        };
        if is_other { Ok(()) } else { Err(Error::OwnHandler(key.clone())) }
    }

    /// Replaces the error for an unreadable record with one that names the newer version, if a newer version wrote
    /// it.
    pub(super) async fn named<T>(
        &self,
        key: &JobKey,
        id: Option<&DispatchId>,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        match result {
            Err(bad @ Error::BadRecord { .. }) => match self.newer(key, id).await {
                Some(Newer { what, version, known }) => Err(Error::NewerVersion { what, version, known }),
                None => Err(bad),
            },
            result => result,
        }
    }

    /// Like [`named`](Self::named). A late answer gets the last attempt.
    pub(super) async fn named_dispatch<T>(
        &self,
        ticket: &Ticket,
        result: Result<T, DispatchError>,
    ) -> Result<T, DispatchError> {
        match result {
            Err(bad @ DispatchError::BadRecord(_)) => match self.newer(&ticket.key, Some(&ticket.id)).await {
                Some(Newer { what, version, known }) => {
                    Err(DispatchError::NewerVersion { what, version, known })
                }
                None => Err(bad),
            },
            Err(late) => Err(self.with_failure(ticket, late).await),
            Ok(answer) => Ok(answer),
        }
    }

    /// Adds the last attempt to an answer that says only that a job has not started in time. It costs a read, for which a
    /// caller waits no longer than for any late answer.
    pub(super) async fn with_failure(&self, ticket: &Ticket, mut late: DispatchError) -> DispatchError {
        if let DispatchError::Deadline {
            accepted: true,
            obstacle: None,
            refusal: None,
            failure,
            trouble: None,
            ..
        } = &mut late
        {
            let Ticket { key, id } = ticket.clone();
            let look = Explain { key, id: Some(id) };
            let seen = tokio::time::timeout(MARGIN, self.shared.store.0.read(&look)).await;
            let its =
                |seen: &Evidence| seen.found.record.as_ref().is_some_and(|record| record.id == ticket.id);
            let seen = seen.ok().and_then(std::result::Result::ok).filter(its);
            *failure = seen.as_ref().and_then(FailedAttempt::of).map(Box::new);
        }
        late
    }

    /// The part of the job that a newer version wrote.
    async fn newer(&self, key: &JobKey, id: Option<&DispatchId>) -> Option<Newer> {
        let look = LookUp { items: vec![(key.clone(), id.cloned())] };
        let look = self.shared.store.0.read(&look);
        let found = tokio::time::timeout(CANCELLING, look).await.ok()?.ok()?.into_iter().next()?;
        let record = |version| Newer { what: "the job's record", version, known: Record::VERSION };
        let own = |version| Newer { what: "the record of the id", version, known: Lookup::ID_VERSION };
        found.newer.map(record).or_else(|| found.newer_id.map(own))
    }
}

/// A stored part whose version this node does not read.
struct Newer {
    what: &'static str,
    version: u64,
    known: u64,
}

impl Wait {
    /// How long to wait. The default is 20 s. At the deadline the error is [`DispatchError::Deadline`], and the job
    /// stays accepted.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { patience: deadline, ..self }
    }

    async fn send(self) -> Result<(), DispatchError> {
        let Self { shard, ticket, patience } = self;
        let deadline = clock::now() + patience;
        let wait =
            shard.ask_about(&ticket.id, |reply| Command::Wait { reply, ticket: ticket.clone(), deadline });
        match tokio::time::timeout(patience.saturating_add(MARGIN), wait).await {
            Ok(Some(Answer::Submitted(result))) => shard.named_dispatch(&ticket, result).await.map(|_| ()),
            Ok(_) => Err(shard.gone().await.into()),
            Err(_) => Err(DispatchError::Deadline {
                ticket,
                accepted: true,
                obstacle: None,
                refusal: None,
                failure: None,
                trouble: None,
            }),
        }
    }
}

impl IntoFuture for Wait {
    type Output = Result<(), DispatchError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
