//! Workers: each has a place in every shard.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::{ShardWorkerInfo, ShardedPool};
use crate::error::Error;
use crate::handler::{AnyHandler, JobHandler};
use crate::id::WorkerId;
use crate::worker::Worker;

/// How long a worker that some shard refuses is given to leave the others.
const TAKING_BACK: Duration = Duration::from_secs(30);

/// A worker that this process runs in every shard of a pool. Dropping it changes nothing: a worker leaves with its node, or
/// when it is drained.
#[derive(Clone, Debug)]
pub struct ShardedWorker {
    pool: ShardedPool,
    /// One in each shard.
    workers: Arc<[Worker]>,
}

impl ShardedPool {
    /// As [`Node::add_worker`](crate::Node::add_worker): a worker in every shard, all with this one handler. Returns when it
    /// is a member of all.
    ///
    /// # Errors
    /// As `Node::add_worker`, for any shard; it is drained then in those that it is a member of.
    ///
    /// # Cancel safety
    /// A dropped call leaves the worker in place; it leaves with the node.
    pub async fn add_worker(&self, handler: impl JobHandler) -> Result<ShardedWorker, Error> {
        self.add_worker_as("", handler).await
    }

    /// As [`Node::add_worker_as`](crate::Node::add_worker_as): see [`add_worker`](Self::add_worker).
    ///
    /// # Errors
    /// As `add_worker`; and the text is not valid.
    ///
    /// # Cancel safety
    /// As `add_worker`.
    pub async fn add_worker_as(&self, meta: &str, handler: impl JobHandler) -> Result<ShardedWorker, Error> {
        let handler: Arc<dyn AnyHandler> = Arc::new(handler);
        let places: Vec<_> = self.nodes.iter().map(|node| (node, node.next_worker())).collect();
        let adding = places.iter().map(|(node, local)| node.add_worker_at(*local, meta, handler.clone()));
        let added: Result<Vec<_>, _> = join_all(adding).await.into_iter().collect();
        match added {
            Ok(workers) => Ok(ShardedWorker { pool: self.clone(), workers: workers.into() }),
            Err(error) => {
                // Also one that is no member yet may become one.
                join_all(places.iter().map(|(node, local)| node.drain(*local, TAKING_BACK))).await;
                Err(error)
            }
        }
    }

    /// Removes a worker of this node: what [`ShardedWorker::drain`] does.
    ///
    /// # Errors
    /// [`Error::OtherNode`] for a worker of another node; otherwise as `ShardedWorker::drain`.
    ///
    /// # Cancel safety
    /// As `ShardedWorker::drain`.
    pub async fn remove_worker(&self, worker: &ShardedWorker) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.nodes, &worker.pool.nodes) {
            return Err(Error::OtherNode);
        }
        worker.drain().await
    }
}

impl ShardedWorker {
    /// Its id in each shard, as [`Worker::id`].
    pub fn ids(&self) -> Vec<Option<WorkerId>> {
        self.workers.iter().map(Worker::id).collect()
    }

    /// Its entries among the shards' members, as this node knows them: at most one for each shard.
    pub fn info(&self) -> Vec<ShardWorkerInfo> {
        let workers = self.workers.iter().enumerate();
        let of_one =
            |(shard, worker): (usize, &Worker)| Some(ShardWorkerInfo { shard, worker: worker.info()? });
        workers.filter_map(of_one).collect()
    }

    /// As [`Worker::drain`], in all shards at once.
    ///
    /// # Errors
    /// As `Worker::drain`, for any shard. It goes on draining in all of them.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the draining, where it has begun.
    pub async fn drain(&self) -> Result<(), Error> {
        self.drain_within(Duration::from_secs(30)).await
    }

    /// Like [`drain`](Self::drain), with this much time.
    ///
    /// # Errors
    /// As `drain`.
    ///
    /// # Cancel safety
    /// As `drain`.
    pub async fn drain_within(&self, budget: Duration) -> Result<(), Error> {
        let drained = join_all(self.workers.iter().map(|worker| worker.drain_within(budget))).await;
        drained.into_iter().collect()
    }
}
