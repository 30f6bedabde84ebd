//! Every key and channel name of a pool, in one slot of a Redis Cluster.

use crate::model::id::{NodeName, PoolName, WorkerId};

/// The keys that every pool has one of, by the names that the scripts' headers use.
pub(super) const NAMES: [&str; 21] = [
    "pool",
    "workers",
    "expired",
    "heartbeats",
    "settings",
    "jobs",
    "payloads",
    "owners",
    "queue",
    "parked",
    "errors",
    "notifications",
    "checkpoints",
    "starts",
    "ended",
    "outcomes",
    "schedules",
    "planned",
    "history",
    "nodes",
    "changes",
];

/// The consumer group of the pool's stream.
pub(super) const GROUP: &str = "routers";

/// The names of one pool: `tenure:{<pool>}:<name>`.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(pool: &PoolName) -> Self {
        Self { prefix: format!("tenure:{{{pool}}}:") }
    }

    /// The prefix of all names of the pool.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key by its short name.
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A worker's stream.
    pub(super) fn worker(&self, worker: WorkerId) -> String {
        format!("{}worker:{worker}", self.prefix)
    }

    /// A node's stream.
    pub(super) fn node(&self, node: &str) -> String {
        format!("{}node:{node}", self.prefix)
    }

    /// The node's stream of a node that is sure to have a name.
    pub(super) fn node_of(&self, node: &NodeName) -> String {
        self.node(node.as_str())
    }

    /// The worker whose stream this is.
    pub(super) fn worker_of(&self, key: &[u8]) -> Option<WorkerId> {
        let name = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"worker:")?;
        std::str::from_utf8(name).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn all_names_of_a_pool_share_one_hash_tag() {
        let keys = Keys::new(&PoolName::new("a.b").unwrap());
        assert_eq!(keys.named("jobs"), "tenure:{a.b}:jobs");
        assert_eq!(keys.worker(WorkerId(7)), "tenure:{a.b}:worker:7");
        assert_eq!(keys.node("n1"), "tenure:{a.b}:node:n1");
        assert_eq!(keys.worker_of(b"tenure:{a.b}:worker:7"), Some(WorkerId(7)));
        assert_eq!(keys.worker_of(b"tenure:{a.b}:node:7"), None);
        assert_eq!(keys.worker_of(b"tenure:{other}:worker:7"), None);
    }
}
