//! How a node leaves all shards of its pool, and how such a pool ends.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};

use super::ShardedPool;
use crate::error::Error;
use crate::node::{CloseReport, Node, Shutdown, ShutdownReport};
use crate::service::{Leave, leave_on_signal};

impl ShardedPool {
    /// As [`Node::close`]: leaves all shards at once. Not to be called while the pool is to be shut down by this process
    /// alone: see [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// As `Node::close`, for any shard; the others were left, or are still being left.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the closing.
    pub async fn close(&self) -> Result<CloseReport, Error> {
        self.close_within(Duration::from_secs(30)).await
    }

    /// As [`Node::close_within`]: leaves all shards at once, and reports of all together.
    ///
    /// # Errors
    /// As `Node::close_within`, for any shard; the others are left, and what they still hold is not reported.
    ///
    /// # Cancel safety
    /// As `close`.
    pub async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let closed = join_all(self.nodes.iter().map(|node| node.close_within(budget))).await;
        let mut whole = CloseReport { complete: true, left: Vec::new() };
        for report in closed {
            let CloseReport { complete, left } = report?;
            whole.complete &= complete;
            whole.left.extend(left);
        }
        Ok(whole)
    }

    /// Waits until the node has left all shards, for whatever reason.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn closed(&self) {
        join_all(self.nodes.iter().map(Node::closed)).await;
    }

    /// As [`Node::abandon`], in all shards.
    pub fn abandon(&self) {
        for node in self.nodes.iter() {
            node.abandon();
        }
    }

    /// As [`Node::close_on_signal`]: leaves all shards.
    ///
    /// # Errors
    /// As `Node::close_on_signal`.
    ///
    /// # Cancel safety
    /// As `Node::close_on_signal`.
    pub fn close_on_signal(
        &self,
        budget: Duration,
    ) -> impl Future<Output = Result<CloseReport, Error>> + Send + use<> {
        leave_on_signal(self.clone(), budget)
    }

    /// As [`Node::shutdown`], of all shards at once. Whichever shard hears of it, all end, as long as any node lives that
    /// is part of them; the first one ends last, so that nobody makes the pool anew, with another number of shards perhaps,
    /// before all of them have ended. When all nodes die or [leave](Self::close) before that, the next one that joins with
    /// the same number of shards ends what is left, and makes the pool anew; until then another number is refused.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: &tenure_pool::ShardedPool) -> Result<(), tenure_pool::Error> {
    /// let report = pool.shutdown().closing(Duration::from_secs(30)).within(Duration::from_secs(90)).await?;
    /// assert!(report.complete, "still there: {:?}", report.left);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(&self) -> ShardedShutdown<'_> {
        ShardedShutdown { nodes: &self.nodes, shards: self.nodes.iter().map(Node::shutdown).collect() }
    }
}

impl Leave for ShardedPool {
    fn name(&self) -> &str {
        Self::name(self)
    }

    async fn closed(&self) {
        Self::closed(self).await;
    }

    async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        Self::close_within(self, budget).await
    }

    fn abandon(&self) {
        Self::abandon(self);
    }
}

/// A shutdown of a whole pool, asked for by [`ShardedPool::shutdown`]; it begins when this is awaited. Its report is of all
/// shards together, in which a worker's id is unique within its shard alone. A pool that has been shut down is reported as
/// complete.
///
/// # Errors
/// As [`Shutdown`], for any shard; what became of the others is not reported, and the shutdown goes on.
///
/// # Cancel safety
/// A dropped call does not stop a shutdown that has begun.
#[derive(Debug)]
#[must_use = "a shutdown begins only when it is awaited"]
pub struct ShardedShutdown<'a> {
    nodes: &'a [Node],
    shards: Vec<Shutdown<'a>>,
}

impl<'a> ShardedShutdown<'a> {
    /// As [`Shutdown::closing`].
    pub fn closing(self, time: Duration) -> Self {
        self.each(|shard| shard.closing(time))
    }

    /// As [`Shutdown::drop_queued`].
    pub fn drop_queued(self) -> Self {
        self.each(Shutdown::drop_queued)
    }

    /// As [`Shutdown::within`].
    pub fn within(self, budget: Duration) -> Self {
        self.each(|shard| shard.within(budget))
    }

    fn each(self, change: impl Fn(Shutdown<'a>) -> Shutdown<'a>) -> Self {
        Self { shards: self.shards.into_iter().map(change).collect(), ..self }
    }

    async fn run(self) -> Result<ShutdownReport, Error> {
        let ended = join_all(self.shards.into_iter().map(IntoFuture::into_future)).await;
        let mut whole = ShutdownReport { complete: true, ..ShutdownReport::default() };
        for (node, report) in self.nodes.iter().zip(ended) {
            let ShutdownReport { complete, dropped_here, left } = match report {
                // Another shard was asked first, and this one has heard of it and ended before it was.
                Err(Error::NodeClosed) if node.saw_the_end() => continue,
                report => report?,
            };
            whole.complete &= complete;
            whole.dropped_here += dropped_here;
            whole.left.extend(left);
        }
        Ok(whole)
    }
}

impl<'a> IntoFuture for ShardedShutdown<'a> {
    type Output = Result<ShutdownReport, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
