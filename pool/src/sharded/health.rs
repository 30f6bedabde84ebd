//! How a node is in all shards of its pool.

use super::ShardedPool;
use crate::health::{Health, Unhealthy};
use crate::node::Node;

/// How a node is in each shard of its pool, and in all. From [`ShardedPool::health`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardedHealth {
    /// Each shard, in their order.
    pub shards: Vec<Health>,
}

impl ShardedPool {
    /// As [`Node::health`], for each shard and for all together. No round trip, and never waits.
    pub fn health(&self) -> ShardedHealth {
        ShardedHealth { shards: self.nodes.iter().map(Node::health).collect() }
    }
}

impl ShardedHealth {
    /// Nothing is wrong in any shard. As a readiness probe.
    pub fn is_healthy(&self) -> bool {
        self.shards.iter().all(Health::is_healthy)
    }

    /// In some shard something is wrong that does not pass by itself: see [`Health::needs_restart`].
    pub fn needs_restart(&self) -> bool {
        self.shards.iter().any(Health::needs_restart)
    }

    /// What is wrong, each with its shard.
    pub fn reasons(&self) -> impl Iterator<Item = (usize, &Unhealthy)> {
        let shards = self.shards.iter().enumerate();
        shards.flat_map(|(shard, health)| health.reasons.iter().map(move |reason| (shard, reason)))
    }
}
