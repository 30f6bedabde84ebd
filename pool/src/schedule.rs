//! A schedule or a ticker, as its owner on one node holds it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::input::{Command, LocalSchedule};
use crate::error::Error;
use crate::id::ScheduleName;
use crate::node::{Node, PATIENCE, Shard};
use crate::plan::Tick;

/// This node's part in a schedule: see [`Node::schedule`]. Dropping it changes nothing: the node takes part until it is
/// [closed](Self::close) here, or the schedule or the node ends. While it is held, like any handle of the node, the node does
/// not close by itself.
#[derive(Clone, Debug)]
pub struct Schedule {
    name: ScheduleName,
    /// One in each shard.
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

    /// Another period from now on, on all nodes: 1 ms to 365 days. The next tick comes no later than after it, and after
    /// about a quarter of the worker TTL, when a node without workers has the turn.
    ///
    /// # Errors
    /// The period is out of its range; the schedule has ended; no answer within 20 s, which leaves open whether the
    /// period was changed.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the period was changed.
    pub async fn set_period(&self, period: Duration) -> Result<(), Error> {
        let changing = self.shards.iter().map(|part| part.shard.set_period(part.local, period));
        join_all(changing).await.into_iter().collect()
    }

    /// Ends the schedule on all nodes. Its jobs live on. Ending one that has ended is fine; who schedules it anew makes
    /// a new one of the same name, which finds the jobs of this one. So does a node that takes part and has not heard of the
    /// end when Redis loses data: it makes the schedule again, as it does with one that was lost.
    ///
    /// # Errors
    /// The node is closed, or takes part no more; no answer within 20 s, which leaves open whether it has ended.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether it has ended.
    pub async fn end(&self) -> Result<(), Error> {
        let ending = self.shards.iter().map(|part| part.shard.end_schedule(part.local));
        join_all(ending).await.into_iter().collect()
    }

    /// This node takes part no more; another one that does plans at once when it has workers, and after about a quarter
    /// of the worker TTL else. A plan that is under way is aborted.
    ///
    /// # Errors
    /// The node is closed; no answer within 20 s, in which case it still goes on leaving.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the leaving.
    pub async fn close(&self) -> Result<(), Error> {
        join_all(self.shards.iter().map(InShard::close)).await.into_iter().collect()
    }

    /// Waits until this node takes part no more: the schedule was ended, here, elsewhere or by its planner; or it was
    /// closed; or the node or its pool has ended.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn ended(&self) {
        join_all(self.shards.iter().map(InShard::ended)).await;
    }
}

/// This node's part in a ticker: a stream of the ticks that this node gets. See [`Node::ticker`].
///
/// A tick waits until it is taken; those that come meanwhile are not made up for. The stream ends when the ticker was
/// stopped on any node, and when the node or its pool has ended. When it is dropped this node takes part no more; while it
/// is held the node does not close by itself.
#[must_use = "a ticker that is dropped gets no ticks"]
pub struct Ticker {
    node: Node,
    shard: usize,
    local: LocalSchedule,
    name: ScheduleName,
    ticks: mpsc::Receiver<Tick>,
    /// Dropped with it, which the node notices.
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

    /// Another period from now on, on all nodes: 1 ms to 365 days. The next tick comes no later than after it.
    ///
    /// # Errors
    /// As [`Schedule::set_period`].
    ///
    /// # Cancel safety
    /// As [`Schedule::set_period`].
    pub async fn set_period(&self, period: Duration) -> Result<(), Error> {
        self.node.shards[self.shard].set_period(self.local, period).await
    }

    /// Ends the ticker on all nodes: their streams end. Stopping one that has ended is fine.
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
