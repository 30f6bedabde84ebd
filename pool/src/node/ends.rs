//! How a node leaves its pool, and how a pool ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Node;
use crate::core::input::{Answer, Command};
use crate::error::Error;
use crate::id::{JobKey, WorkerId};
use crate::runtime::clock;
use crate::store::ShutdownMode;

/// How long a shutdown lets what was accepted begin.
const CLOSING: Duration = Duration::from_secs(10);

/// What an answer that went astray is given on top of its deadline.
const MARGIN: Duration = Duration::from_secs(2);

/// What [`Node::close`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The node has left the pool. Otherwise the time was up: it goes on leaving, renews its leases meanwhile, and
    /// `close` can be called again.
    pub complete: bool,
    /// The jobs that it still holds.
    pub left: Vec<JobKey>,
}

/// What [`Node::shutdown`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The pool is gone. Otherwise the time was up, and the shutdown goes on as long as any node lives.
    pub complete: bool,
    /// Jobs that were accepted and had not begun when the pool stopped, as far as this node dropped them.
    pub dropped: u64,
    /// The workers that were still members.
    pub left: Vec<WorkerId>,
}

impl Node {
    /// Leaves the pool: every worker of this node hands its jobs on, each stopped here before it begins elsewhere.
    /// Waits up to 30 s; a node that holds jobs then goes on, renews, and can be closed again.
    ///
    /// # Errors
    /// The node's end was not a leaving: it was abandoned, or its runtime ended. Closing a closed node is fine.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the closing.
    pub async fn close(&self) -> Result<CloseReport, Error> {
        self.close_within(Duration::from_secs(30)).await
    }

    /// Like [`close`](Self::close), with this much time.
    ///
    /// # Errors
    /// As `close`; and [`Error::Deadline`] when the node does not even answer, since its runtime is held up. It
    /// goes on leaving as soon as it can.
    ///
    /// # Cancel safety
    /// As `close`.
    pub async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let deadline = clock::now() + budget;
        let closed = self.ask(|reply| Command::Close { reply, deadline });
        let Ok(closed) = tokio::time::timeout(budget.saturating_add(MARGIN), closed).await else {
            return Err(Error::Deadline(budget));
        };
        match closed {
            Some(Answer::Closed { complete, left }) => Ok(CloseReport { complete, left }),
            _ if self.shared.left.load(Ordering::Acquire) => {
                Ok(CloseReport { complete: true, left: Vec::new() })
            }
            _ => Err(Error::NodeClosed),
        }
    }

    /// Shuts the whole pool down: nothing new is accepted, what was accepted is begun for up to 10 s more, then
    /// every worker of every node ends its jobs and leaves, and nothing is left but a tombstone. Waits up to 60 s.
    ///
    /// # Errors
    /// The node is closed.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the shutdown.
    pub async fn shutdown(&self) -> Result<ShutdownReport, Error> {
        let budget = Duration::from_secs(60);
        let (mode, deadline) = (ShutdownMode::Closing(CLOSING), clock::now() + budget);
        match self.ask(|reply| Command::Shutdown { reply, mode, deadline }).await {
            Some(Answer::ShutDown { result: Ok(()), complete, dropped, left }) => {
                Ok(ShutdownReport { complete, dropped, left })
            }
            Some(Answer::ShutDown { result: Err(refused), .. }) => Err(refused.into_error(budget)),
            _ => Err(Error::NodeClosed),
        }
    }

    /// Waits until the node has left its pool, for whatever reason.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn closed(&self) {
        self.shared.messages.closed().await;
    }

    /// Drops everything at once, and tells the pool nothing: handlers are aborted where they stand, and the jobs
    /// start elsewhere when the leases have run out. What a crash does, without ending the process.
    pub fn abandon(&self) {
        self.shared.driver.abort();
        self.shared.leases.end();
    }
}
