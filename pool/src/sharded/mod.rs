//! One pool that is made of several: past what one Redis core can do.
//!
//! A [`ShardedPool`] has one [`Node`] in each of the pools `name#0`, `name#1` and so on. Each key belongs to one of them, by
//! a hash that never changes ([`place`]), so that what concerns one key is a call of one node, and what concerns all is
//! asked of each. Two nodes that disagree about the number of shards would run a key twice: so it stands in every shard's
//! settings, as `shard` = `index/count`, a node that was given another is refused before it has written anything, and the
//! first shard is joined before the others ([`joining`]) and ends after them ([`guard`]).

mod builder;
mod ends;
mod guard;
mod health;
mod jobs;
mod joining;
mod listings;
mod look;
mod place;
mod schedules;
mod settings;
#[cfg(test)]
mod tests;
mod workers;

pub use builder::ShardedPoolBuilder;
pub use ends::ShardedShutdown;
pub use health::ShardedHealth;
pub use listings::{ShardCursor, ShardWorkerInfo};
pub(crate) use place::node_of;
pub use schedules::ShardedSchedule;
pub use workers::ShardedWorker;

use std::sync::Arc;

use crate::builder::Backend;
use crate::id::{IdError, JobKey};
use crate::node::Node;

/// One process's part in a pool that is spread over several shards, each a pool of its own in a hash slot of its own: so
/// that a cluster's servers share the work of one pool. It does all that a [`Node`] does, and each key is still one
/// worker's.
///
/// The number of shards is fixed for the life of the pool: every node is to be given the same, and one that is given
/// another is refused. To change it, [shut the pool down](Self::shutdown) and make it anew.
///
/// Each shard costs each process what a node costs: a lease's thread, its connections, its idle commands. What is told a
/// pool as a limit ([`max_queued`](crate::Settings::max_queued)) holds in each shard. So take as few shards as do: one for
/// each core that Redis is to use.
///
/// Cheap to clone. When the last clone is dropped the nodes close by themselves, in the background.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure_pool::{Client, Job, ShardedPool};
///
/// let client = Client::open("redis+cluster://127.0.0.1:7000")?;
/// let pool = ShardedPool::builder("feeds", 4, client).join().await?;
/// pool.add_worker(tenure_pool::run(|job: Job| async move {
///     job.cancelled().await;
///     Ok(())
/// }))
/// .await?;
/// pool.dispatch("acme", "payload").await?;
/// pool.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ShardedPool {
    /// One for each shard; never empty.
    nodes: Arc<[Node]>,
}

impl ShardedPool {
    /// A node of the pool with this name and so many shards (1 to 1,024), on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::MemoryStore), which has a store for each shard then.
    pub fn builder(pool: &str, shards: u32, backend: impl Into<Backend>) -> ShardedPoolBuilder {
        ShardedPoolBuilder::new(Node::builder(pool, backend), shards)
    }

    /// The node's name, the same in every shard.
    pub fn name(&self) -> &str {
        self.nodes[0].name()
    }

    /// How many shards the pool has.
    pub fn shards(&self) -> usize {
        self.nodes.len()
    }

    /// The shard that a key belongs to, from 0.
    ///
    /// # Errors
    /// The key is not valid.
    pub fn shard_of<K>(&self, key: K) -> Result<usize, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Ok(place::shard_of(key.try_into().map_err(Into::into)?.as_bytes(), self.nodes.len()))
    }

    fn node_of(&self, key: &JobKey) -> &Node {
        node_of(&self.nodes, Some(key))
    }
}
