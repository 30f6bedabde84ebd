//! Where a node finds its pool.

use std::fmt;

use tenure_connection::Client;

use crate::model::id::PoolName;
use crate::model::settings::{InvalidSetting, ShardId};
use crate::store::{MemoryStore, RedisStore, Store};

/// Where a pool's data are: in a Redis or in this process's memory. A memory store holds one pool, of any name.
#[derive(Clone)]
pub struct Backend(Kind);

#[derive(Clone)]
enum Kind {
    Redis(Client),
    Memory(MemoryStore),
    #[cfg(feature = "proof")]
    Store(Store),
}

impl Backend {
    /// The store of a pool, or of this shard of it. `user` names its connections to Redis.
    #[cfg_attr(not(feature = "proof"), allow(clippy::unnecessary_wraps))]
    pub(crate) fn store(
        &self,
        pool: &PoolName,
        shard: Option<ShardId>,
        user: &str,
    ) -> Result<Store, InvalidSetting> {
        Ok(match (&self.0, shard) {
            (Kind::Redis(client), _) => {
                let pool = shard.map_or_else(|| pool.clone(), |shard| pool.of_shard(shard.index));
                let client = client.with_name(&format!("tenure:{}:{user}", pool.as_str()));
                RedisStore::open(&client, &pool).into()
            }
            (Kind::Memory(store), None) => store.clone().into(),
            (Kind::Memory(store), Some(shard)) => store.shard(shard.index).into(),
            #[cfg(feature = "proof")]
            (Kind::Store(store), None) => store.clone(),
            #[cfg(feature = "proof")]
            (Kind::Store(_), Some(shard)) => {
                let why = "must not be asked for on a store of one pool";
                return Err(InvalidSetting::new("shards", shard.count.to_string(), why));
            }
        })
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Redis(_) => "Backend(redis)",
            Kind::Memory(_) => "Backend(memory)",
            #[cfg(feature = "proof")]
            Kind::Store(_) => "Backend(store)",
        })
    }
}

impl From<Client> for Backend {
    fn from(client: Client) -> Self {
        Self(Kind::Redis(client))
    }
}

impl From<&Client> for Backend {
    fn from(client: &Client) -> Self {
        Self(Kind::Redis(client.clone()))
    }
}

impl From<MemoryStore> for Backend {
    fn from(store: MemoryStore) -> Self {
        Self(Kind::Memory(store))
    }
}

impl From<&MemoryStore> for Backend {
    fn from(store: &MemoryStore) -> Self {
        Self(Kind::Memory(store.clone()))
    }
}

#[cfg(feature = "proof")]
impl From<Store> for Backend {
    fn from(store: Store) -> Self {
        Self(Kind::Store(store))
    }
}
