//! The end of a node, and the end of a pool.

mod hastening;

use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};

use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command};
use crate::error::Error;
use crate::model::id::{JobKey, WorkerId};
use crate::store::ShutdownMode;

/// How long accepted jobs may still begin during a shutdown.
pub(crate) const CLOSING: Duration = Duration::from_secs(10);

/// How long a call waits after its deadline, in case its answer was lost.
const MARGIN: Duration = Duration::from_secs(2);

/// How long a call waits for a node that has left to write its last events. The node gives up after a second.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The result of [`Node::close`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Whether the node has left the pool. If not, the time was up. The node then goes on leaving, renews its leases
    /// meanwhile, and `close` can be called again.
    pub complete: bool,
    /// The jobs that the node still holds.
    pub left: Vec<JobKey>,
}

/// The result of [`Node::shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Whether the pool is gone. If not, the time was up. The shutdown then goes on while any node lives.
    pub complete: bool,
    /// The number of accepted jobs that had not begun when the pool stopped and that this node has dropped. Every
    /// node may drop some of them. The dispatcher of each is told.
    pub dropped_here: u64,
    /// The workers that were still members. An id is unique within its shard.
    pub left: Vec<WorkerId>,
}

impl Node {
    /// Leaves the pool. Every worker of this node moves its jobs to others, and each job is stopped here before it
    /// begins elsewhere. Waits up to 30 s. A node that then still holds jobs goes on leaving and renewing, and can be
    /// closed again.
    ///
    /// # Errors
    /// The node did not leave but was abandoned, or its runtime ended. Closing a closed node is fine. If one of
    /// several shards fails, the others are left all the same, and the jobs that they still hold are not reported.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the closing.
    pub async fn close(&self) -> Result<CloseReport, Error> {
        self.close_within(Duration::from_secs(30)).await
    }

    /// Like [`close`](Self::close), with this time limit.
    ///
    /// # Errors
    /// As `close`; and [`Error::Deadline`] if the node does not answer at all, because its runtime is blocked. It
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

    /// Shuts the whole pool down. The pool accepts no new jobs, and accepted jobs may begin for up to 10 s more. Then
    /// every worker of every node ends its jobs and leaves. Only a tombstone stays, for an hour. Waits up to 60 s;
    /// [`Shutdown`] has options.
    ///
    /// Once the pool has recorded the shutdown, it no longer depends on the caller: if this process dies, the other
    /// nodes go on. If all nodes die, the next one that joins finishes it. The pool can then be created again at
    /// once.
    ///
    /// The first of several shards ends last. So the pool cannot be created again, perhaps with another number of
    /// shards, before all of them have ended. Only nodes that stay see to that. If all nodes die or
    /// [leave](Self::close) before the end, the next node that joins with the same number of shards ends the rest.
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

    /// Waits until the node has left its pool, for any reason.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn closed(&self) {
        join_all(self.shards.iter().map(Shard::closed)).await;
    }

    /// Drops everything at once without telling the pool, as a crash would, but the process goes on. Handlers are
    /// aborted, and the cancellations of all jobs fire. The jobs start elsewhere when the leases have run out.
    pub fn abandon(&self) {
        for shard in &*self.shards {
            shard.abandon();
        }
    }
}

impl Shard {
    /// Like [`Node::close_within`], for this shard.
    pub(super) async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let deadline = clock::now() + budget;
        let closed = self.ask(|reply| Command::Close { reply, deadline });
        let Ok(closed) = tokio::time::timeout(budget.saturating_add(MARGIN), closed).await else {
            return Err(self.late(budget));
        };
        match closed {
            Some(Answer::Closed { complete: false, left }) => {
                return Ok(CloseReport { complete: false, left });
            }
            Some(Answer::Closed { .. }) => {}
            _ if self.shared.left.load(Ordering::Acquire) => {}
            _ => return Err(self.gone().await.into()),
        }
        // The node has left. A process that ends now must not take the node's last events with it.
        let _ = tokio::time::timeout(LAST_WORDS, self.shared.health.end()).await;
        Ok(CloseReport { complete: true, left: Vec::new() })
    }

    /// Waits until the shard was left, for any reason.
    pub(super) async fn closed(&self) {
        self.shared.messages.closed().await;
        self.gone().await;
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
            Ok(Some(Answer::ShutDown { result: Err(error), .. })) => Err(error),
            Ok(_) => Err(self.gone().await.into()),
            Err(_) => Err(self.late(budget)),
        }
    }
}

/// A shutdown of the whole pool, made by [`Node::shutdown`]. It begins when it is awaited.
///
/// # Errors
/// [`Error::ClientOnly`] for a client-only node; the node is closed; [`Error::Deadline`] if the node does not answer
/// at all. If one of several shards fails, the shutdown goes on in the others.
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
    /// How long accepted jobs may still begin, at most a day. It ends early if all of them have begun. The default is
    /// 10 s.
    pub fn closing(self, time: Duration) -> Self {
        Self { mode: ShutdownMode::Closing(time), ..self }
    }

    /// Drops at once all jobs that have not begun. Their dispatchers get the error that the pool is shutting down.
    pub fn drop_queued(self) -> Self {
        Self { mode: ShutdownMode::DropQueued, ..self }
    }

    /// How long to wait for the end. The shutdown goes on after that. The default is 60 s.
    pub fn within(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    async fn run(self) -> Result<ShutdownReport, Error> {
        let Self { node, mode, budget } = self;
        let ended = join_all(node.shards.iter().map(|shard| shard.shut_down(mode, budget))).await;
        let mut whole = ShutdownReport { complete: true, ..ShutdownReport::default() };
        for (shard, report) in node.shards.iter().zip(ended) {
            let ShutdownReport { complete, dropped_here, left } = match report {
                // Another shard was asked first. This one heard of it, and ended before it was asked.
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
mod tests;
