//! The settings of all shards, changed while they run.

use std::sync::Arc;
use std::time::Instant;

use super::ShardedPool;
use super::look::{Look, Seen};
use crate::error::Error;
use crate::node::PATIENCE;
use crate::settings::Settings;

impl ShardedPool {
    /// The pool-wide settings as they are now, in the first shard: all have the same, but while they are being
    /// [changed](Self::change_settings).
    pub fn settings(&self) -> Arc<Settings> {
        self.nodes[0].settings()
    }

    /// As [`Node::change_settings`](crate::Node::change_settings): `change` is asked for the first shard, and the others are
    /// given what the first has then. Where several change settings at once, all shards come to what the last change of the
    /// first has left.
    ///
    /// # Errors
    /// As `Node::change_settings`, for any shard. The first one may have the new settings then, and others the former ones,
    /// and nodes that join with either are refused: `change_settings(|_| {})` gives the others what the first has.
    ///
    /// # Cancel safety
    /// A dropped call leaves open in which shards they were changed; as after an error.
    pub async fn change_settings(&self, change: impl Fn(&mut Settings)) -> Result<Arc<Settings>, Error> {
        let first = &self.nodes[0];
        let mut wanted = first.change_settings(&change).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            for node in &self.nodes[1..] {
                let values = |settings: &mut Settings| {
                    // Each has its own place, and keys of its own.
                    let Settings { hash_keys, shard, .. } = *settings;
                    *settings = Settings { hash_keys, shard, ..(*wanted).clone() };
                };
                node.change_settings(values).await?;
            }
            // Whoever has changed the first one since may have been quicker with the others.
            let Seen::Present(_, stored) = Look::through(first.store(), deadline).see().await? else {
                return Err(Error::PoolClosed);
            };
            let now = wanted.adopting(&stored.fields);
            if now == *wanted {
                return Ok(wanted);
            }
            if Instant::now() >= deadline {
                return Err(Error::Deadline(PATIENCE));
            }
            wanted = Arc::new(now);
        }
    }
}
