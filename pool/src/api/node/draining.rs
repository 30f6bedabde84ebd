//! Workers of any node are drained from any other.

use futures::future::try_join_all;

use super::Node;
use super::calls::PATIENCE;
use crate::api::listing::WorkerInfo;
use crate::api::reader::NO_SHARD;
use crate::error::Error;
use crate::store::{Refusal, StoreError};

impl Node {
    /// Takes a [worker](Self::workers) of any node out of the ring of its shard. Its node hands its jobs off, and
    /// removes it for good. Returns when the drain is recorded: from then on the worker gets no new job. Draining a worker
    /// again is fine.
    ///
    /// A worker that runs on this node can also be awaited: [`Worker::drain`](crate::Worker::drain).
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// // All at once: so no job moves from one of them to another.
    /// let workers: Vec<_> = node.workers().into_iter().filter(|worker| worker.meta == "old-rack").collect();
    /// futures::future::try_join_all(workers.iter().map(|worker| node.drain(worker))).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::WorkerNotFound`]: it has left, or has joined again under another id.
    /// - The pool has no such shard, or was shut down; or the node is closed.
    /// - There is no answer within 20 s: the drain may be recorded.
    ///
    /// # Cancel safety
    /// After a dropped call the drain may be recorded.
    pub async fn drain(&self, worker: &WorkerInfo) -> Result<(), Error> {
        let (shard, id) = (self.shards.get(worker.shard).ok_or(NO_SHARD)?, worker.id);
        let drained = shard.insist(|store, incarnation| async move {
            match store.drain(incarnation, id).await {
                Ok(_) => Ok(Ok(())),
                Err(StoreError::Refused(Refusal::Fenced)) => Ok(Err(Error::WorkerNotFound(id))),
                Err(error) => Err(error),
            }
        });
        tokio::time::timeout(PATIENCE, drained).await.unwrap_or(Err(Error::Deadline(PATIENCE)))?
    }

    /// [Drains](Self::drain) every worker of the node with this name, in all shards, and returns how many there were. The
    /// node goes on without them.
    ///
    /// # Errors
    /// As `drain`. Some of the workers may then be drained.
    ///
    /// # Cancel safety
    /// After a dropped call some of the workers may be drained.
    pub async fn drain_node(&self, name: &str) -> Result<usize, Error> {
        let workers = self.workers().into_iter().filter(|worker| worker.node == name);
        let drained = try_join_all(workers.map(|worker| async move {
            match self.drain(&worker).await {
                Ok(()) => Ok(1),
                // It has left meanwhile.
                Err(Error::WorkerNotFound(_)) => Ok(0),
                Err(error) => Err(error),
            }
        }));
        Ok(drained.await?.into_iter().sum())
    }
}
