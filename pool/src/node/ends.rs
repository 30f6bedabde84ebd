//! How a node leaves its pool, and how a pool ends.

use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;

use super::Node;
use crate::core::input::{Answer, Command};
use crate::error::Error;
use crate::id::{JobKey, WorkerId};
use crate::runtime::clock;
use crate::store::ShutdownMode;

/// How long a shutdown lets what was accepted begin.
pub(crate) const CLOSING: Duration = Duration::from_secs(10);

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
    /// Jobs that were accepted and had not begun when the pool stopped, and that this node has dropped. Every node may
    /// drop some of them; each one's dispatcher is told.
    pub dropped_here: u64,
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

    /// Shuts the whole pool down: nothing new is accepted, what was accepted is begun for up to 10 s more, then every
    /// worker of every node ends its jobs and leaves, and nothing is left but a tombstone for an hour. Waits up to
    /// 60 s; [`Shutdown`] has other choices.
    ///
    /// Once the pool has heard of it nobody is needed to carry it on: whoever asked may die, the other nodes go on,
    /// and when all are dead the next one that joins finishes it. The pool can then be made anew at once.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let report = node.shutdown().closing(Duration::from_secs(30)).within(Duration::from_secs(90)).await?;
    /// if !report.complete {
    ///     eprintln!("still there: {:?}", report.left);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(&self) -> Shutdown<'_> {
        Shutdown { node: self, mode: ShutdownMode::Closing(CLOSING), budget: Duration::from_secs(60) }
    }

    /// Waits until the node has left its pool, for whatever reason.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn closed(&self) {
        self.shared.messages.closed().await;
    }

    /// Drops everything at once, and tells the pool nothing: handlers are aborted where they stand, the cancellations of
    /// all jobs fire, and the jobs start elsewhere when the leases have run out. What a crash does, without ending the process.
    pub fn abandon(&self) {
        self.shared.driver.abort();
        self.shared.leases.end();
    }
}

/// A shutdown of the whole pool, asked for by [`Node::shutdown`]; it begins when this is awaited.
///
/// # Errors
/// [`Error::ClientOnly`] for a client-only node; the node is closed; [`Error::Deadline`] when the node does not even
/// answer.
///
/// # Cancel safety
/// A dropped call does not stop a shutdown that has begun.
#[derive(Debug)]
#[must_use = "a shutdown begins only when it is awaited"]
pub struct Shutdown<'a> {
    node: &'a Node,
    mode: ShutdownMode,
    budget: Duration,
}

impl Shutdown<'_> {
    /// How long jobs that were accepted may still begin, a day at most. It is over as soon as all of them have. 10 s.
    pub fn closing(self, time: Duration) -> Self {
        Self { mode: ShutdownMode::Closing(time), ..self }
    }

    /// Drops at once what has not begun; its dispatchers learn that the pool is shutting down.
    pub fn drop_queued(self) -> Self {
        Self { mode: ShutdownMode::DropQueued, ..self }
    }

    /// How long to wait for the end. The shutdown goes on after that. 60 s.
    pub fn within(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    async fn run(self) -> Result<ShutdownReport, Error> {
        let Self { node, mode, budget } = self;
        node.check_full()?;
        let deadline = clock::now() + budget;
        let ended = node.ask(|reply| Command::Shutdown { reply, mode, deadline });
        match tokio::time::timeout(budget.saturating_add(MARGIN), ended).await {
            Ok(Some(Answer::ShutDown { result: Ok(()), complete, dropped, left })) => {
                Ok(ShutdownReport { complete, dropped_here: dropped, left })
            }
            Ok(Some(Answer::ShutDown { result: Err(refused), .. })) => Err(refused.into_error(budget)),
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(budget)),
        }
    }
}

impl<'a> IntoFuture for Shutdown<'a> {
    type Output = Result<ShutdownReport, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
