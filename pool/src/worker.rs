//! A worker of this node, as its owner holds it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::sync::watch;

use crate::core::input::LocalWorker;
use crate::error::Error;
use crate::id::{JobKey, WorkerId};
use crate::listing::{JobInfo, WorkerInfo};
use crate::node::Node;

/// A worker that this process runs. Dropping it changes nothing: a worker leaves with its node, or when it is
/// drained.
#[derive(Clone, Debug)]
pub struct Worker {
    node: Node,
    /// One in each shard.
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

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Its id in the pool, or in the first of several shards; another one after it has lost a lease and joined anew, `None`
    /// once it has left.
    pub fn id(&self) -> Option<WorkerId> {
        *self.shards[0].id.borrow()
    }

    /// Its id in each shard.
    pub fn ids(&self) -> Vec<Option<WorkerId>> {
        self.shards.iter().map(|part| *part.id.borrow()).collect()
    }

    /// Its entry among the pool's members, or among those of the first of several shards, as this node knows it.
    pub fn info(&self) -> Option<WorkerInfo> {
        self.infos().into_iter().find(|info| info.shard == 0)
    }

    /// Its entries among the members of all shards, as this node knows them: at most one for each shard.
    pub fn infos(&self) -> Vec<WorkerInfo> {
        let ids = self.ids();
        self.node.workers().into_iter().filter(|info| ids[info.shard] == Some(info.id)).collect()
    }

    /// Its jobs, as [`Node::jobs_of`] lists them; none once it has left.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Vec<JobInfo>, Error> {
        let shards = self.ids().into_iter().enumerate().filter_map(|(shard, id)| Some((shard, id?)));
        let listing = shards.map(|(shard, id)| self.node.shards[shard].jobs_of(id, after, limit));
        let mut jobs = try_join_all(listing).await?.concat();
        if self.shards.len() > 1 {
            // Of each shard, all up to its last are there: so the first of all of them are.
            jobs.sort_by(|a, b| a.key.cmp(&b.key));
            jobs.truncate(limit.max(1));
        }
        Ok(jobs)
    }

    /// Hands its jobs on, each stopped here before it begins elsewhere, and leaves the pool. Waits up to 30 s; a
    /// worker that holds jobs then goes on draining, and can be waited for again.
    ///
    /// # Errors
    /// The node is closed; [`Error::Deadline`] when the time was up.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the draining.
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
        let parts = self.node.shards.iter().zip(&*self.shards);
        let drained = join_all(parts.map(|(shard, part)| shard.drain(part.local, budget))).await;
        drained.into_iter().collect()
    }
}
