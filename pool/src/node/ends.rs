//! How a node leaves its pool, and how a pool ends.

use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};

use super::{Node, Shard};
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
    /// The workers that were still members. An id is unique within its shard.
    pub left: Vec<WorkerId>,
}

impl Node {
    /// Leaves the pool: every worker of this node hands its jobs on, each stopped here before it begins elsewhere.
    /// Waits up to 30 s; a node that holds jobs then goes on, renews, and can be closed again.
    ///
    /// # Errors
    /// The node's end was not a leaving: it was abandoned, or its runtime ended. Closing a closed node is fine. Of several
    /// shards one may fail: the others are left all the same, and what they still hold is not reported.
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
        let closed = join_all(self.shards.iter().map(|shard| shard.close_within(budget))).await;
        let mut whole = CloseReport { complete: true, left: Vec::new() };
        for report in closed {
            let CloseReport { complete, left } = report?;
            whole.complete &= complete;
            whole.left.extend(left);
        }
        Ok(whole)
    }

    /// Shuts the whole pool down: nothing new is accepted, what was accepted is begun for up to 10 s more, then every
    /// worker of every node ends its jobs and leaves, and nothing is left but a tombstone for an hour. Waits up to
    /// 60 s; [`Shutdown`] has other choices.
    ///
    /// Once the pool has heard of it nobody is needed to carry it on: whoever asked may die, the other nodes go on,
    /// and when all are dead the next one that joins finishes it. The pool can then be made anew at once.
    ///
    /// Of several shards the first ends last, so that nobody makes the pool anew, with another number of shards perhaps,
    /// before all of them have ended. A node that is left meanwhile is no longer there to see to that: when all nodes
    /// die or [leave](Self::close) before the end, the next one that joins with the same number of shards ends what is left.
    /// Until then another number is refused.
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
        join_all(self.shards.iter().map(Shard::closed)).await;
    }

    /// Drops everything at once, and tells the pool nothing: handlers are aborted where they stand, the cancellations of
    /// all jobs fire, and the jobs start elsewhere when the leases have run out. What a crash does, without ending the process.
    pub fn abandon(&self) {
        for shard in &*self.shards {
            shard.abandon();
        }
    }
}

impl Shard {
    /// As [`Node::close_within`], of this shard.
    pub(super) async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
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

    /// Waits until it has been left, for whatever reason.
    pub(super) async fn closed(&self) {
        self.shared.messages.closed().await;
    }

    /// As [`Node::abandon`].
    pub(super) fn abandon(&self) {
        self.shared.driver.abort();
        self.shared.leases.end();
    }

    /// Shuts this shard down.
    pub(super) async fn shut_down(
        &self,
        mode: ShutdownMode,
        budget: Duration,
    ) -> Result<ShutdownReport, Error> {
        self.check_full()?;
        let deadline = clock::now() + budget;
        let ended = self.ask(|reply| Command::Shutdown { reply, mode, deadline });
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

/// A shutdown of the whole pool, asked for by [`Node::shutdown`]; it begins when this is awaited.
///
/// # Errors
/// [`Error::ClientOnly`] for a client-only node; the node is closed; [`Error::Deadline`] when the node does not even
/// answer. Of several shards one may fail, and the shutdown goes on in the others.
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
        let ended = join_all(node.shards.iter().map(|shard| shard.shut_down(mode, budget))).await;
        let mut whole = ShutdownReport { complete: true, ..ShutdownReport::default() };
        for (shard, report) in node.shards.iter().zip(ended) {
            let ShutdownReport { complete, dropped_here, left } = match report {
                // Another shard was asked first. This one has heard of it, and has ended before it was asked.
                Err(Error::NodeClosed) if node.shards.len() > 1 && shard.saw_the_end() => continue,
                report => report?,
            };
            whole.complete &= complete;
            whole.dropped_here += dropped_here;
            whole.left.extend(left);
        }
        Ok(whole)
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
