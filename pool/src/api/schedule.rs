//! Handles of a schedule and of a ticker on one node.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};

use crate::api::node::{Node, PATIENCE, Shard};
use crate::core::input::{Command, LocalSchedule};
use crate::error::Error;
use crate::job::plan::Tick;
use crate::model::id::ScheduleName;

/// This node's part in a schedule: see [`Node::schedule`]. Dropping it changes nothing: the node takes part until
/// [`close`](Self::close), or until the schedule or the node ends. Like any handle of a node, it keeps the node from
/// closing by itself.
#[derive(Clone, Debug)]
pub struct Schedule {
    name: ScheduleName,
    /// Ordered by shard.
    shards: Arc<[InShard]>,
}

/// This node's part in one shard of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct InShard {
    pub(crate) shard: Shard,
    pub(crate) local: LocalSchedule,
    pub(crate) ended: watch::Receiver<()>,
}

impl InShard {
    pub(crate) async fn close(&self) -> Result<(), Error> {
        self.shard.request(PATIENCE, |reply| Command::LeaveSchedule { reply, local: self.local }).await
    }

    async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl Schedule {
    pub(crate) fn new(name: ScheduleName, shards: Vec<InShard>) -> Self {
        Self { name, shards: shards.into() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Changes the period on all nodes: 1 ms to 365 days. The next tick comes within the new period. But if a node
    /// without workers has the turn, it may hear of the change only after about a quarter of the worker TTL.
    ///
    /// # Errors
    /// The period is out of its range, the schedule has ended, or the pool needs a newer version
    /// ([`Error::TooOld`](crate::Error::TooOld)). After 20 s without an answer the period may have changed.
    ///
    /// # Cancel safety
    /// After a dropped call the period may have changed.
    pub async fn set_period(&self, period: Duration) -> Result<(), Error> {
        let changing = self.shards.iter().map(|part| part.shard.set_period(part.local, period));
        join_all(changing).await.into_iter().collect()
    }

    /// Ends the schedule on all nodes. Its jobs live on. Ending it again is fine. A node that schedules again creates
    /// a new schedule of the same name, which takes over these jobs. A loss of data in Redis may do the same. A node
    /// that takes part and has not heard of the end then creates the schedule again, as if it had been lost.
    ///
    /// # Errors
    /// The node is closed, or no longer takes part, or the pool needs a newer version
    /// ([`Error::TooOld`](crate::Error::TooOld)). After 20 s without an answer the schedule may have ended.
    ///
    /// # Cancel safety
    /// After a dropped call the schedule may have ended.
    pub async fn end(&self) -> Result<(), Error> {
        let ending = self.shards.iter().map(|part| part.shard.end_schedule(part.local));
        join_all(ending).await.into_iter().collect()
    }

    /// Ends this node's part and aborts a running plan. Another node that takes part plans at once if it has workers,
    /// and else after about a quarter of the worker TTL.
    ///
    /// # Errors
    /// The node is closed. After 20 s without an answer it goes on leaving.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the leaving.
    pub async fn close(&self) -> Result<(), Error> {
        join_all(self.shards.iter().map(InShard::close)).await.into_iter().collect()
    }

    /// Waits until this node no longer takes part. Either the schedule has ended, or this part was closed, or the
    /// node or its pool has ended.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn ended(&self) {
        join_all(self.shards.iter().map(InShard::ended)).await;
    }
}

/// This node's part in a ticker: a stream of the ticks that this node gets. See [`Node::ticker`].
///
/// A tick waits until it is taken. Ticks that come meanwhile are not made up for. The stream ends when the ticker was
/// stopped on any node, or when the node or its pool has ended. When the stream is dropped, this node no longer takes
/// part. While it is held, the node does not close by itself.
#[must_use = "a ticker that is dropped gets no ticks"]
pub struct Ticker {
    node: Node,
    shard: usize,
    local: LocalSchedule,
    name: ScheduleName,
    ticks: mpsc::Receiver<Tick>,
    /// Dropped with the ticker, which tells the node.
    _listening: oneshot::Sender<()>,
}

impl Ticker {
    pub(crate) fn new(
        node: Node,
        shard: usize,
        local: LocalSchedule,
        name: ScheduleName,
        ticks: mpsc::Receiver<Tick>,
        listening: oneshot::Sender<()>,
    ) -> Self {
        Self { node, shard, local, name, ticks, _listening: listening }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Changes the period on all nodes: 1 ms to 365 days. The next tick comes within the new period.
    ///
    /// # Errors
    /// As [`Schedule::set_period`].
    ///
    /// # Cancel safety
    /// As [`Schedule::set_period`].
    pub async fn set_period(&self, period: Duration) -> Result<(), Error> {
        self.node.shards[self.shard].set_period(self.local, period).await
    }

    /// Ends the ticker on all nodes, and with it their streams. Stopping it again is fine.
    ///
    /// # Errors
    /// As [`Schedule::end`].
    ///
    /// # Cancel safety
    /// As [`Schedule::end`].
    pub async fn stop(&self) -> Result<(), Error> {
        self.node.shards[self.shard].end_schedule(self.local).await
    }
}

impl Stream for Ticker {
    type Item = Tick;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Tick>> {
        self.ticks.poll_recv(cx)
    }
}

impl fmt::Debug for Ticker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticker").field("name", &self.name).finish_non_exhaustive()
    }
}
