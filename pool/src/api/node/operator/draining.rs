//! Workers of any node are drained from any other.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;

use super::Operator;
use crate::api::listing::WorkerInfo;
use crate::api::node::Shard;
use crate::api::reader::NO_SHARD;
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::WorkerId;
use crate::store::{BATCH_MAX, Drain};

impl Operator {
    /// Takes a [worker](crate::Inspector::workers) of any node out of the ring of its shard. Its node hands its jobs off, and
    /// removes it for good. Returns when the drain is recorded: from then on the worker gets no new job. Draining a worker
    /// again is fine.
    ///
    /// A worker of one's own node can also be awaited: [`Worker::drain`](crate::Worker::drain).
    ///
    /// # Errors
    /// - [`Error::WorkerNotFound`]: it has left, or has joined again under another id.
    /// - The pool has no such shard, or was shut down; or the node is closed.
    /// - There is no answer within 20 s: the drain may be recorded.
    ///
    /// # Cancel safety
    /// After a dropped call the drain may be recorded.
    pub async fn drain(&self, worker: &WorkerInfo) -> Result<(), Error> {
        match self.drain_all([worker]).await? {
            0 => Err(Error::WorkerNotFound(worker.id)),
            _ => Ok(()),
        }
    }

    /// [Drains](Self::drain) these workers, and returns how many of them were there to be drained. The workers of a shard
    /// leave its ring together, so no job moves from one of them to another. Of more than 128 in a shard, 128 leave at a
    /// time: then a job may move to one that leaves a moment later.
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// let workers = feeds.inspect().workers().await?;
    /// feeds.drain_all(workers.iter().filter(|worker| worker.meta == "old-rack")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The pool has no such shard, or was shut down; or the node is closed.
    /// - There is no answer within 20 s.
    ///
    /// After an error, some of the workers may be drained.
    ///
    /// # Cancel safety
    /// After a dropped call some of the workers may be drained.
    pub async fn drain_all(&self, workers: impl IntoIterator<Item = &WorkerInfo>) -> Result<usize, Error> {
        let mut of_shards: BTreeMap<usize, BTreeSet<WorkerId>> = BTreeMap::new();
        for worker in workers {
            of_shards.entry(worker.shard).or_default().insert(worker.id);
        }
        let shards = &self.node().await?.shards;
        let mut drains = Vec::new();
        for (shard, workers) in of_shards {
            let shard = shards.get(shard).ok_or(NO_SHARD)?;
            let workers = Vec::from_iter(workers);
            drains.extend(workers.chunks(BATCH_MAX).map(|batch| drain(shard, batch.to_vec())));
        }
        Ok(try_join_all(drains).await?.into_iter().sum())
    }

    /// [Drains](Self::drain_all) every worker of the node with this name, in all shards, and returns how many there were.
    /// The node goes on without them.
    ///
    /// # Errors
    /// As `drain_all`.
    ///
    /// # Cancel safety
    /// After a dropped call some of the workers may be drained.
    pub async fn drain_node(&self, name: &str) -> Result<usize, Error> {
        let workers = self.inspect().workers().await?;
        self.drain_all(workers.iter().filter(|worker| worker.node == name)).await
    }
}

async fn drain(shard: &Shard, workers: Vec<WorkerId>) -> Result<usize, Error> {
    let drain = &Drain { workers };
    let drained = shard.insist(|store, incarnation| async move { store.run(incarnation, drain).await });
    let drained = shard.patiently(drained).await?;
    for (worker, _) in drain.workers.iter().zip(&drained).filter(|(_, member)| member.is_some()) {
        shard.note(News::new(EventKind::Asked).at(*worker).saying("drain"));
    }
    Ok(drained.iter().flatten().count())
}
