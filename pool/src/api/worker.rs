//! The handle of a worker on this node.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::sync::watch;

use crate::api::listing::{self, JobInfo, WorkerInfo};
use crate::api::node::Node;
use crate::core::input::LocalWorker;
use crate::error::Error;
use crate::model::id::{JobKey, WorkerId};

/// A worker that this process runs. Dropping it changes nothing: the worker leaves with its node, or when it is
/// drained.
#[derive(Clone, Debug)]
pub struct Worker {
    node: Node,
    /// Ordered by shard.
    shards: Arc<[InShard]>,
}

/// A worker in one shard.
#[derive(Clone, Debug)]
pub(crate) struct InShard {
    pub(crate) local: LocalWorker,
    pub(crate) id: watch::Receiver<Option<WorkerId>>,
}

impl Worker {
    pub(crate) fn new(node: Node, shards: Vec<InShard>) -> Self {
        Self { node, shards: shards.into() }
    }

    /// Its id in the pool, or in the first of several shards. The id changes when the worker joins again after a lost
    /// lease. `None` once it has left.
    pub fn id(&self) -> Option<WorkerId> {
        *self.shards[0].id.borrow()
    }

    /// Its id in each shard.
    pub fn ids(&self) -> Vec<Option<WorkerId>> {
        self.shards.iter().map(|part| *part.id.borrow()).collect()
    }

    /// Its entry among the pool's members, as this node knows it. With several shards, its entry in the first.
    pub fn info(&self) -> Option<WorkerInfo> {
        self.infos().into_iter().find(|info| info.shard == 0)
    }

    /// Its entries among the members of all shards, as this node knows them. At most one for each shard.
    pub fn infos(&self) -> Vec<WorkerInfo> {
        let ids = self.ids();
        let known = self.node.inspect().known_workers();
        known.into_iter().filter(|info| ids[info.shard] == Some(info.id)).collect()
    }

    /// Its jobs, like [`Inspector::jobs_of`](crate::Inspector::jobs_of). None once it has left.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Vec<JobInfo>, Error> {
        let shards = self.ids().into_iter().enumerate().filter_map(|(shard, id)| Some((shard, id?)));
        let listing = shards.map(|(shard, id)| async move {
            listing::jobs_of(&self.node.shards[shard].store(), id, after, limit).await
        });
        let mut jobs = listing::one_after_another(try_join_all(listing).await?);
        if self.shards.len() > 1 {
            // Each shard's part is complete up to its last key. So the first `limit` keys of all parts are the first
            // of all.
            jobs.sort_by(|a, b| a.key.cmp(&b.key));
            jobs.truncate(limit.max(1));
        }
        Ok(jobs)
    }

    /// Moves its jobs to other workers, and leaves the pool. Each job is stopped here before it begins elsewhere.
    /// Waits up to 30 s. A worker that then still holds jobs goes on draining, and can be awaited again.
    ///
    /// # Errors
    /// The node is closed; [`Error::Deadline`] if the time was up.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the draining.
    pub async fn drain(&self) -> Result<(), Error> {
        self.drain_within(Duration::from_secs(30)).await
    }

    /// Like [`drain`](Self::drain), with this time limit.
    ///
    /// # Errors
    /// As `drain`.
    ///
    /// # Cancel safety
    /// As `drain`.
    pub async fn drain_within(&self, budget: Duration) -> Result<(), Error> {
        let parts = self.node.shards.iter().zip(&*self.shards);
        let drained = join_all(parts.map(|(shard, part)| shard.drain(part.local, budget))).await;
        drained.into_iter().collect()
    }
}
