//! The keys of one pool in a Redis that may hold others' keys: all have the pool's hash tag.

use redis::{Cmd, FromRedisValue, cmd};
use tenure_connection::Client;

use super::failed::{Context, Failed};

/// The keys of one pool.
#[derive(Debug)]
pub struct Keyspace {
    client: Client,
    prefix: String,
}

impl Keyspace {
    /// The keys of this pool.
    pub fn new(client: Client, pool: &str) -> Self {
        Self { client, prefix: format!("tenure:{{{pool}}}:") }
    }

    /// The existing keys, without the tombstone that a shutdown leaves.
    ///
    /// # Errors
    /// Redis cannot be queried.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn left(&self) -> Result<Vec<String>, Failed> {
        let tombstone = format!("{}pool", self.prefix);
        Ok(self.list().await?.into_iter().filter(|key| *key != tombstone).collect())
    }

    /// Removes all keys of the pool.
    ///
    /// # Errors
    /// Redis cannot be queried; some keys may be removed.
    ///
    /// # Cancel safety
    /// Some keys may be removed; call it again.
    pub async fn remove(&self) -> Result<(), Failed> {
        let keys = self.list().await?;
        if !keys.is_empty() {
            let removed = self.client.commands().command(cmd("UNLINK").arg(keys)).await;
            removed.context("the pool's keys cannot be removed")?;
        }
        Ok(())
    }

    async fn list(&self) -> Result<Vec<String>, Failed> {
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            let answer = self.client.commands().command(&self.scan(cursor)).await;
            let answer = answer.context("the pool's keys cannot be listed")?;
            let found = FromRedisValue::from_redis_value(answer);
            let (next, found): (u64, Vec<String>) = found.context("redis lists no keys")?;
            keys.extend(found);
            cursor = next;
            if cursor == 0 {
                // A scan may return a key twice.
                keys.sort();
                keys.dedup();
                return Ok(keys);
            }
        }
    }

    fn scan(&self, cursor: u64) -> Cmd {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{}*", self.prefix)).arg("COUNT").arg(1000);
        scan
    }
}
