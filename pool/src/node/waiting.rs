//! Waiting for what becomes of a dispatch, and ending just that one.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::calls::{MARGIN, PATIENCE};
use super::{Node, Shard};
use crate::core::input::{Answer, Command, Until};
use crate::error::{DispatchError, Error};
use crate::id::{DispatchId, JobKey};
use crate::record::Record;
use crate::runtime::clock;
use crate::store::Lookup;
use crate::ticket::Ticket;

/// How long the cancelling of a dispatch whose deadline has passed may take.
const CANCELLING: Duration = Duration::from_secs(5);

/// The wait for a dispatch, to be awaited. Made by [`Node::wait`].
///
/// # Cancel safety
/// Yes.
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct Wait {
    shard: Shard,
    ticket: Ticket,
    patience: Duration,
}

impl Node {
    /// Waits until a submitted job has been started; from any node of the pool.
    ///
    /// # Errors
    /// What else became of it; [`DispatchError::Unknown`] where the pool knows nothing of it; no answer by the deadline.
    pub fn wait(&self, ticket: &Ticket) -> Wait {
        Wait { shard: self.of(&ticket.key).clone(), ticket: ticket.clone(), patience: PATIENCE }
    }

    /// Ends this dispatch, wherever it is in its life, and no other of its key: it does not come back, and one that is
    /// still on its way is not accepted any more. Returns when that is recorded.
    ///
    /// # Errors
    /// It has ended before ([`Error::JobNotFound`]); no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the dispatch is being ended.
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

    /// A dispatch was not started in time: ends it, and says so; or that it was `late`, if it cannot be ended.
    pub(super) async fn cancel_late(&self, ticket: &Ticket, late: DispatchError) -> DispatchError {
        match self.cancel_within(ticket, CANCELLING).await {
            Ok(()) => DispatchError::Cancelled { ticket: ticket.clone() },
            Err(Error::JobNotFound(_)) => DispatchError::Ended,
            Err(_) => late,
        }
    }

    /// Says of a record that cannot be read whether a newer version wrote it, and which.
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

    /// As [`named`](Self::named).
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
            result => result,
        }
    }

    /// What of the job a newer version wrote.
    async fn newer(&self, key: &JobKey, id: Option<&DispatchId>) -> Option<Newer> {
        let items = [(key.clone(), id.cloned())];
        let look = self.shared.store.0.lookup(&items);
        let found = tokio::time::timeout(CANCELLING, look).await.ok()?.ok()?.into_iter().next()?;
        let record = |version| Newer { what: "the job's record", version, known: Record::VERSION };
        let own = |version| Newer { what: "the record of the id", version, known: Lookup::ID_VERSION };
        found.newer.map(record).or_else(|| found.newer_id.map(own))
    }
}

/// What is stored with a version that this node does not read.
struct Newer {
    what: &'static str,
    version: u64,
    known: u64,
}

impl Wait {
    /// How long to wait: 20 s unless it is said here. Then the answer is [`DispatchError::Deadline`], and the job stays
    /// accepted.
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
            Ok(_) => Err(DispatchError::NodeClosed),
            Err(_) => {
                Err(DispatchError::Deadline { ticket, accepted: true, no_worker: false, trouble: None })
            }
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
