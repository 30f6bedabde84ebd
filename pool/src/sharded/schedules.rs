//! What is done again and again for all shards of a pool.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::ShardedPool;
use super::place::shard_of;
use crate::error::{BoxError, Error};
use crate::plan::{Plan, Planner, Tick};
use crate::schedule::{Schedule, Ticker};

/// This node's part in a schedule of all shards: see [`ShardedPool::schedule`]. Dropping it changes nothing, as with a
/// [`Schedule`].
#[derive(Clone, Debug)]
pub struct ShardedSchedule {
    /// One in each shard.
    parts: Arc<[Schedule]>,
}

/// The planner of one shard: it plans the keys of that shard.
struct OfShard<P> {
    planner: Arc<P>,
    shard: usize,
    shards: usize,
}

impl<P: Planner> Planner for OfShard<P> {
    fn plan(&self, tick: Tick) -> impl Future<Output = Result<Plan, BoxError>> + Send {
        let Self { planner, shard, shards } = self;
        // What is wrong with a job is said in one shard.
        let of = |key: Option<&[u8]>| key.map_or(0, |key| shard_of(key, *shards));
        async move {
            let plan = planner.plan(tick).await?;
            Ok(plan.only(|key| of(key.map(AsRef::as_ref)) == *shard))
        }
    }
}

impl ShardedPool {
    /// As [`Node::schedule`](crate::Node::schedule), in every shard: the planner is asked in each, by itself and perhaps on
    /// different nodes, and what it answers is carried out for the keys of that shard. So it is asked as many times as there
    /// are shards, also at the same time, and is to want the same whichever asks; a [`Tick`]'s number and term are those of
    /// one shard. A plan that [ends](Plan::end) the schedule ends it in the shard that has asked.
    ///
    /// # Errors
    /// As `Node::schedule`, for any shard. After an error the node does not take part in any.
    ///
    /// # Cancel safety
    /// A dropped call leaves open in which shards the node takes part.
    pub async fn schedule(
        &self,
        name: impl AsRef<str>,
        planner: impl Planner,
        every: Duration,
    ) -> Result<ShardedSchedule, Error> {
        let (name, planner, shards) = (name.as_ref(), Arc::new(planner), self.nodes.len());
        let scheduling = self.nodes.iter().enumerate().map(|(shard, node)| {
            let planner = OfShard { planner: planner.clone(), shard, shards };
            node.schedule(name, planner, every)
        });
        let (mut parts, mut failed) = (Vec::with_capacity(shards), None);
        for scheduled in join_all(scheduling).await {
            match scheduled {
                Ok(part) => parts.push(part),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            // One whose node does not answer leaves as soon as it can.
            join_all(parts.iter().map(Schedule::close)).await;
            return Err(error);
        }
        Ok(ShardedSchedule { parts: parts.into() })
    }

    /// As [`Node::ticker`](crate::Node::ticker). It lives in one shard, that of its name taken as a key. Hold the pool's
    /// handle for as long as the ticker: it keeps that shard's node alone from closing by itself.
    ///
    /// # Errors
    /// As `Node::ticker`.
    ///
    /// # Cancel safety
    /// As `Node::ticker`.
    pub async fn ticker(&self, name: impl AsRef<str>, every: Duration) -> Result<Ticker, Error> {
        let shard = shard_of(name.as_ref().as_bytes(), self.nodes.len());
        self.nodes[shard].ticker(name, every).await
    }
}

impl ShardedSchedule {
    /// Its name.
    pub fn name(&self) -> &str {
        self.parts[0].name()
    }

    /// As [`Schedule::set_period`], in all shards.
    ///
    /// # Errors
    /// As `Schedule::set_period`, for any shard; the others have the new period.
    ///
    /// # Cancel safety
    /// A dropped call leaves open in which shards the period was changed.
    pub async fn set_period(&self, period: Duration) -> Result<(), Error> {
        all(self.parts.iter().map(|part| part.set_period(period))).await
    }

    /// As [`Schedule::end`], in all shards.
    ///
    /// # Errors
    /// As `Schedule::end`, for any shard; it has ended in the others.
    ///
    /// # Cancel safety
    /// A dropped call leaves open in which shards it has ended.
    pub async fn end(&self) -> Result<(), Error> {
        all(self.parts.iter().map(Schedule::end)).await
    }

    /// As [`Schedule::close`], in all shards.
    ///
    /// # Errors
    /// As `Schedule::close`, for any shard.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the leaving, where it has begun.
    pub async fn close(&self) -> Result<(), Error> {
        all(self.parts.iter().map(Schedule::close)).await
    }

    /// As [`Schedule::ended`]: waits until this node takes part in no shard any more.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn ended(&self) {
        join_all(self.parts.iter().map(Schedule::ended)).await;
    }
}

/// All of it, and the first error.
async fn all(calls: impl Iterator<Item = impl Future<Output = Result<(), Error>>>) -> Result<(), Error> {
    join_all(calls).await.into_iter().collect()
}
