//! A node: one process's part in a pool.

mod adding;
mod asking;
mod batch;
mod calls;
mod cordoning;
mod dispatching;
mod draining;
mod ends;
mod health;
mod joining;
mod level;
mod listings;
mod locating;
mod notifications;
mod notifying;
mod overseen;
mod parking;
mod schedules;
mod service;
mod settings;
mod shard;
mod shard_of;
pub(crate) mod shards;
mod starting;
mod steering;
mod stopping;
mod updating;
mod waiting;

pub use adding::AddWorker;
pub use asking::AskOwner;
pub use batch::DispatchMany;
pub(crate) use calls::PATIENCE;
pub use dispatching::Dispatch;
pub use ends::{CloseReport, Shutdown, ShutdownReport};
pub(crate) use joining::Limit;
pub use locating::{Guess, Owner};
pub use notifications::WaitingNotification;
pub use notifying::NotifyJob;
pub(crate) use shard::Shard;
pub(crate) use shard_of::shard_of;
pub use steering::Steer;
pub use stopping::StopJob;
pub use updating::Update;
pub use waiting::Wait;

use std::sync::Arc;

use crate::api::builder::{Backend, NodeBuilder};
use crate::api::reader::Reader;
use crate::api::worker::Worker;
use crate::error::Error;
use crate::model::id::{IdError, JobKey};

/// One process's part in a pool. It dispatches jobs, routes them, watches workers, and runs workers of its own.
///
/// A node is cheap to clone. When the last clone is dropped, the node closes in the background.
///
/// A pool may have several [shards](NodeBuilder::shards). Every method concerns the whole pool: a call about one key
/// goes to the shard of that key, and any other call goes to all shards at once.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure_pool::{Client, Job, Node};
///
/// let node = Node::builder("feeds", Client::open("redis://127.0.0.1")?).join().await?;
/// node.add_worker(tenure_pool::run(|job: Job| async move {
///     job.cancelled().await;
///     Ok(())
/// }))
/// .await?;
/// node.dispatch(("acme", "payload")).await?;
/// node.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    /// Ordered by their index; never empty.
    pub(crate) shards: Arc<[Shard]>,
    /// Over the same shards.
    pub(super) reader: Reader,
}

impl Node {
    /// A node of the pool with this name, on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::store::MemoryStore).
    pub fn builder(pool: &str, backend: impl Into<Backend>) -> NodeBuilder {
        NodeBuilder::new(pool, backend.into())
    }

    pub(crate) fn new(shards: impl Into<Arc<[Shard]>>) -> Self {
        let shards = shards.into();
        let reader = Reader::new(shards.iter().map(Shard::store));
        Self { shards, reader }
    }

    /// The pool's name.
    pub fn pool_name(&self) -> &str {
        let first = self.shards[0].pool_name();
        first.split_once('#').map_or(first, |(pool, _)| pool)
    }

    /// The node's name, the same in every shard.
    pub fn name(&self) -> &str {
        self.shards[0].name()
    }

    /// How many shards the pool has.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The index of the shard that a key belongs to, from 0.
    ///
    /// # Errors
    /// The key is not valid.
    pub fn shard_of<K>(&self, key: K) -> Result<usize, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Ok(shard_of(key.try_into().map_err(Into::into)?.as_bytes(), self.shards.len()))
    }

    /// The shard of a key. Without a valid key any shard will do, because each of them refuses the call.
    fn of<'a>(&self, key: impl Into<Option<&'a JobKey>>) -> &Shard {
        match (&*self.shards, key.into()) {
            ([_, _, ..], Some(key)) => &self.shards[shard_of(key.as_bytes(), self.shards.len())],
            _ => &self.shards[0],
        }
    }

    /// Removes a worker of this node, like [`Worker::drain`].
    ///
    /// # Errors
    /// [`Error::OtherNode`] for a worker of another node; otherwise as `Worker::drain`.
    ///
    /// # Cancel safety
    /// As `Worker::drain`.
    pub async fn remove_worker(&self, worker: &Worker) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.shards, &worker.node().shards) {
            return Err(Error::OtherNode);
        }
        worker.drain().await
    }
}
