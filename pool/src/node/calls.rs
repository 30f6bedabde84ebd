//! What a node is asked for: jobs waited for, stopped and notified.

use std::time::Duration;

use bytes::Bytes;

use super::Node;
use crate::core::input::{Answer, Command, ReplyTo};
use crate::error::{DispatchError, Error};
use crate::id::{IdError, JobKey};
use crate::runtime::clock;
use crate::ticket::Ticket;

/// How long a call waits for its answer unless it is told otherwise.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// What an answer that went astray is given on top of its deadline.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

impl Node {
    /// Waits until a submitted job has been started; from any node of the pool.
    ///
    /// # Errors
    /// What else became of it; no answer within 20 s.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn wait(&self, ticket: &Ticket) -> Result<(), DispatchError> {
        let deadline = clock::now() + PATIENCE;
        let wait = self.ask(|reply| Command::Wait { reply, ticket: ticket.clone(), deadline });
        match tokio::time::timeout(PATIENCE + MARGIN, wait).await {
            Ok(Some(Answer::Submitted(result))) => result.map(|_| ()),
            Ok(_) => Err(DispatchError::NodeClosed),
            Err(_) => Err(DispatchError::Deadline { ticket: ticket.clone(), accepted: true }),
        }
    }

    /// Stops the job, wherever it is in its life, and keeps it from coming back. Returns when that is recorded;
    /// the handler may still be on its way out. Stopping a job that is being stopped is fine.
    ///
    /// # Errors
    /// No such job; no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job is being stopped.
    pub async fn stop_job<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let deadline = clock::now() + PATIENCE;
        self.request(|reply| Command::StopJob { reply, key, deadline }).await
    }

    /// Keeps a notification for the job; its owner, now or later, hands it to the handler, in order, at least
    /// once.
    ///
    /// # Errors
    /// No such job; too many wait; too long; no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the notification was kept.
    pub async fn notify<K>(&self, key: K, body: impl Into<Bytes>) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let (body, max) = (body.into(), self.shared.settings.notify_bytes as usize);
        if body.len() > max {
            return Err(Error::TooLong { what: "the notification", len: body.len(), max });
        }
        let deadline = clock::now() + PATIENCE;
        self.request(|reply| Command::Notify { reply, key, body, deadline }).await
    }

    pub(super) async fn request(&self, command: impl FnOnce(ReplyTo) -> Command) -> Result<(), Error> {
        match tokio::time::timeout(PATIENCE + MARGIN, self.ask(command)).await {
            Ok(Some(Answer::Stopped(result) | Answer::Notified(result) | Answer::Unparked(result))) => {
                result.map_err(|refused| refused.into_error(PATIENCE))
            }
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(PATIENCE)),
        }
    }
}
