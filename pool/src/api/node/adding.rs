//! New workers.

use std::fmt;
use std::future::IntoFuture;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};

use super::Node;
use crate::api::worker::{InShard, Worker};
use crate::error::Error;
use crate::job::handler::{AnyHandler, JobHandler};
use crate::model::settings::bounds::check;
use crate::runtime::room::Room;

/// How long a worker has to leave the other shards after one shard refused it.
const TAKING_BACK: Duration = Duration::from_secs(30);

/// A new worker, made by [`Node::add_worker`]. Await it.
///
/// # Cancel safety
/// A dropped future leaves the worker in place. The worker leaves with the node.
#[derive(Clone)]
#[must_use = "no worker is added until it is awaited"]
pub struct AddWorker {
    node: Node,
    handler: Arc<dyn AnyHandler>,
    meta: String,
    capacity: Option<u32>,
}

impl fmt::Debug for AddWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddWorker")
            .field("node", &self.node)
            .field("meta", &self.meta)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Adds a worker that runs jobs with this handler. Awaited, it joins every shard, and returns when it is a member
    /// of the pool. It gets its share of the keys at once if it takes over the slot of a leaving worker, else after
    /// `join_settle`.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// use tenure_pool::{BoxError, Job};
    ///
    /// async fn work(job: Job) -> Result<(), BoxError> {
    ///     job.cancelled().await;
    ///     Ok(())
    /// }
    ///
    /// node.add_worker(tenure_pool::run(work)).await?;
    /// node.add_worker(tenure_pool::run(work)).meta("zone-1").capacity(10).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The pool runs with other settings, or is shutting down.
    /// - The node is client-only or closing.
    /// - The [meta](AddWorker::meta) or the [capacity](AddWorker::capacity) is not valid.
    /// - The worker is not a member within 60 s, or twice the worker TTL and 10 s if that is longer. With one shard it
    ///   then stays in place, as after a dropped call.
    /// - One of several shards refuses it, or does not answer in that time. It is then drained in all of them, which
    ///   takes up to 30 s more.
    pub fn add_worker(&self, handler: impl JobHandler) -> AddWorker {
        let handler = Arc::new(handler);
        AddWorker { node: self.clone(), handler, meta: String::new(), capacity: None }
    }
}

impl AddWorker {
    /// A text of `[A-Za-z0-9_:.-]{0,64}`. Listings on every node show it with the worker.
    pub fn meta(self, meta: impl Into<String>) -> Self {
        Self { meta: meta.into(), ..self }
    }

    /// How many jobs the worker takes: 1 to 1,000,000, in all shards of the pool together. Without this it takes all that
    /// the ring gives it.
    ///
    /// A worker that is full turns a job away before it is begun. The next worker that the pool would choose for the key
    /// is asked at once, and the job stays there. If all workers are full, the job waits in the queue. It is tried again
    /// after pauses of 1 s to 30 s, and soon after another worker has come.
    ///
    /// Jobs that the worker has count until their handlers have ended. Several shards that are given jobs at the same
    /// moment may take a few more.
    pub fn capacity(self, jobs: u32) -> Self {
        Self { capacity: Some(jobs), ..self }
    }

    async fn send(self) -> Result<Worker, Error> {
        let Self { node, handler, meta, capacity } = self;
        capacity.map_or(Ok(()), |jobs| check("capacity", jobs.into()))?;
        let capacity = capacity.and_then(NonZeroU32::new);
        let room = (capacity.is_some() && node.shards.len() > 1).then(Room::default);
        let places: Vec<_> = node.shards.iter().map(|shard| (shard, shard.next_worker())).collect();
        let adding = places.iter().map(|&(shard, local)| {
            let room = room.as_ref().map(Room::of_another_shard);
            let added = shard.add_worker_at(local, &meta, capacity, room, handler.clone());
            async move { added.await.map(|id| InShard { local, id }) }
        });
        let added: Result<Vec<_>, _> = join_all(adding).await.into_iter().collect();
        if added.is_err() && node.shards.len() > 1 {
            // A shard of which it is not a member yet may still let it in.
            join_all(places.iter().map(|(shard, local)| shard.drain(*local, TAKING_BACK))).await;
        }
        let added = added?;
        Ok(Worker::new(node, added))
    }
}

impl IntoFuture for AddWorker {
    type Output = Result<Worker, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
