//! Shutdowns of a whole pool.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::time::{Instant, sleep};

use super::{Alone, LEAVING, Operator, Way};
use crate::api::node::calls::MARGIN;
use crate::api::node::{Node, Shard};
use crate::api::shard_state::ShardState;
use crate::clock;
use crate::core::input::{Answer, Command};
use crate::error::Error;
use crate::model::id::WorkerId;
use crate::model::phase::PoolPhase;
use crate::store::ShutdownMode;

/// How long accepted jobs may still begin during a shutdown.
pub(in crate::api::node) const CLOSING: Duration = Duration::from_secs(10);
/// The pause between two looks at a pool that ends.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause before a pool that shuts down is joined, once more.
const JOINING: Duration = Duration::from_secs(1);

/// The result of [`Operator::shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Whether the pool is gone. If not, the time was up. The shutdown then goes on while any node lives.
    pub complete: bool,
    /// The number of accepted jobs that had not begun when the pool stopped and that the node of the caller has dropped. Every
    /// node may drop some of them. The dispatcher of each is told.
    pub dropped_here: u64,
    /// The workers that were still members. An id is unique within its shard.
    pub left: Vec<WorkerId>,
}

impl Operator {
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
    /// [leave](Node::close) before the end, the next node that joins with the same number of shards ends the rest.
    /// Until then another number is refused.
    ///
    /// An operator that was [opened](Self::open) by itself joins the pool as a full node, because a client may not shut a
    /// pool down. No node joins a pool that is shutting down already. The operator then waits for the end. The pool keeps
    /// its time for closing, but for [`drop_queued`](Shutdown::drop_queued), which makes the end come sooner. If no node
    /// lives in the pool, the operator ends the pool.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let report = node.operate().shutdown().closing(Duration::from_secs(30)).within(Duration::from_secs(90)).await?;
    /// if !report.complete {
    ///     eprintln!("still there: {:?}", report.left);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(&self) -> Shutdown {
        let (mode, budget) = (ShutdownMode::Closing(CLOSING), Duration::from_secs(60));
        Shutdown { operator: self.clone(), mode, budget }
    }
}

/// A shutdown of the whole pool, made by [`Operator::shutdown`]. It begins when it is awaited.
///
/// # Errors
/// [`Error::ClientOnly`] for a client-only node; the node is closed; [`Error::Deadline`] if the node does not answer
/// at all. If one of several shards fails, the shutdown goes on in the others. An operator without a node may also fail as
/// [`NodeBuilder::join`](crate::NodeBuilder::join), or with [`Error::PoolOpen`].
///
/// # Cancel safety
/// A dropped call does not stop a shutdown that has begun.
#[derive(Clone, Debug)]
#[must_use = "a shutdown begins only when it is awaited"]
pub struct Shutdown {
    operator: Operator,
    mode: ShutdownMode,
    budget: Duration,
}

impl Shutdown {
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
}

impl IntoFuture for Shutdown {
    type Output = Result<ShutdownReport, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { operator, mode, budget } = self;
        Box::pin(async move {
            match &operator.way {
                Way::Node(node) => node.shut_down(mode, budget).await,
                Way::Alone(alone) => alone.shut_down(mode, budget).await,
            }
        })
    }
}

impl Node {
    async fn shut_down(&self, mode: ShutdownMode, budget: Duration) -> Result<ShutdownReport, Error> {
        let ended = join_all(self.shards.iter().map(|shard| shard.shut_down(mode, budget))).await;
        let mut whole = ShutdownReport { complete: true, ..ShutdownReport::default() };
        for (shard, report) in self.shards.iter().zip(ended) {
            let ShutdownReport { complete, dropped_here, left } = match report {
                // Another shard was asked first. This one heard of it, and ended before it was asked.
                Err(Error::NodeClosed) if self.shards.len() > 1 && shard.saw_the_end() => continue,
                report => report?,
            };
            whole.complete &= complete;
            whole.dropped_here += dropped_here;
            whole.left.extend(left);
        }
        Ok(whole)
    }
}

impl Shard {
    /// Shuts this shard down.
    pub(in crate::api::node) async fn shut_down(
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

/// Whether the shard is shutting down.
fn ends(shard: &ShardState) -> bool {
    matches!(shard.phase, PoolPhase::Closing | PoolPhase::Stopping)
}

impl Alone {
    async fn shut_down(&self, mode: ShutdownMode, budget: Duration) -> Result<ShutdownReport, Error> {
        // A join waits for the end of a shutdown.
        if !self.inspector.pool_state().await?.iter().any(ends) {
            match self.builder.clone().join().await {
                Ok(node) => return node.shut_down(mode, budget).await,
                Err(Error::ShuttingDown) => {}
                Err(error) => return Err(error),
            }
        }
        if mode == ShutdownMode::DropQueued {
            self.builder.clone().hasten_shutdown().await?;
        }
        let complete = self.follow(budget).await?;
        let left = if complete { Vec::new() } else { self.inspector.workers().await.unwrap_or_default() };
        let left = left.into_iter().map(|worker| worker.id).collect();
        Ok(ShutdownReport { complete, dropped_here: 0, left })
    }

    /// Waits until a pool that shuts down has ended. False if the time was up before.
    async fn follow(&self, budget: Duration) -> Result<bool, Error> {
        // Perhaps nobody lives in the pool. Then a node that joins ends the pool.
        let joins = async {
            loop {
                sleep(JOINING).await;
                if let Ok(node) = self.builder.clone().join().await {
                    let _ = node.close_within(LEAVING).await;
                }
            }
        };
        tokio::select! {
            ended = self.has_ended(budget) => ended,
            () = joins => Ok(false),
        }
    }

    /// Looks until the pool has ended. While the store fails, it looks again; a failure of the last look is the answer.
    async fn has_ended(&self, budget: Duration) -> Result<bool, Error> {
        let began = Instant::now();
        loop {
            let looked = match self.inspector.pool_state().await {
                // The first of several shards ends last.
                Ok(shards) if shards.first().is_some_and(|first| first.phase == PoolPhase::Closed) => {
                    return Ok(true);
                }
                Ok(shards)
                    if shards.iter().any(|shard| shard.phase == PoolPhase::Open)
                        && !shards.iter().any(ends) =>
                {
                    return Err(Error::PoolOpen);
                }
                Err(error) if !matches!(error, Error::Store(_)) => return Err(error),
                looked => looked.map(|_| false),
            };
            if began.elapsed() >= budget {
                return looked;
            }
            sleep(PAUSE).await;
        }
    }
}
