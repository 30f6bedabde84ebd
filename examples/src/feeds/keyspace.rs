//! The keys of one pool in a Redis that may hold others' keys: all have the pool's hash tag.

use redis::{Cmd, FromRedisValue, ParsingError, cmd};
use tenure_connection::{Client, Error};

/// A failure to handle the keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyspaceError {
    /// Redis did not answer, or refused.
    #[error("redis did not do it")]
    Redis(#[from] Error),
    /// Redis answered something else than keys.
    #[error("the answer of redis is not a list of keys")]
    Answer(#[from] ParsingError),
}

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
    pub async fn left(&self) -> Result<Vec<String>, KeyspaceError> {
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
    pub async fn remove(&self) -> Result<(), KeyspaceError> {
        let keys = self.list().await?;
        if !keys.is_empty() {
            self.client.commands().command(cmd("UNLINK").arg(keys)).await?;
        }
        Ok(())
    }

    async fn list(&self) -> Result<Vec<String>, KeyspaceError> {
        let mut keys = Vec::new();
        let mut cursor = 0;
        loop {
            let answer = self.client.commands().command(&self.scan(cursor)).await?;
            let (next, found): (u64, Vec<String>) = FromRedisValue::from_redis_value(answer)?;
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
