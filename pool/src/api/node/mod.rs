//! A node: one process's part in a pool.

mod adding;
mod asking;
mod batch;
mod calls;
mod dispatching;
mod ends;
mod health;
mod joining;
mod locating;
mod notifying;
pub(crate) mod operator;
mod overseen;
mod schedules;
mod service;
mod shard;
mod shard_of;
pub(crate) mod shards;
mod starting;
mod stopping;
mod updating;
mod waiting;

pub use adding::AddWorker;
pub use asking::AskOwner;
pub use batch::DispatchMany;
pub(crate) use calls::PATIENCE;
pub use dispatching::{Dispatch, Ensured};
pub use ends::CloseReport;
pub(crate) use joining::Limit;
pub use locating::Guess;
pub use notifying::NotifyJob;
pub(crate) use shard::Shard;
pub(crate) use shard_of::shard_of;
pub use stopping::StopJob;
pub use updating::Update;
pub use waiting::Wait;

use std::sync::Arc;

use crate::api::builder::{Backend, NodeBuilder};
use crate::api::inspector::Inspector;
use crate::model::id::JobKey;

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
    /// Over the stores of the same shards.
    inspector: Inspector,
}

impl Node {
    /// A node of the pool with this name, on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::store::MemoryStore).
    pub fn builder(pool: &str, backend: impl Into<Backend>) -> NodeBuilder {
        NodeBuilder::new(pool, backend.into())
    }

    pub(crate) fn new(shards: impl Into<Arc<[Shard]>>) -> Self {
        let shards = shards.into();
        // The name of a shard is that of its pool, and perhaps `#` and its index.
        let first = shards[0].pool_name();
        let pool = first.split_once('#').map_or(first, |(pool, _)| pool);
        let inspector = Inspector::of_node(pool, shards.iter().map(Shard::store));
        Self { shards, inspector }
    }

    /// The node's name, the same in every shard.
    pub fn name(&self) -> &str {
        self.shards[0].name()
    }

    /// Looks at the pool, over the connections of this node: its jobs, workers, figures and schedules, and why a job is
    /// where it is.
    pub fn inspect(&self) -> &Inspector {
        &self.inspector
    }

    /// The shard of a key. Without a valid key any shard will do, because each of them refuses the call.
    fn of<'a>(&self, key: impl Into<Option<&'a JobKey>>) -> &Shard {
        match (&*self.shards, key.into()) {
            ([_, _, ..], Some(key)) => &self.shards[shard_of(key.as_bytes(), self.shards.len())],
            _ => &self.shards[0],
        }
    }
}
