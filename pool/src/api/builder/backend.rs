//! Where a node finds its pool.

use std::fmt;
#[cfg(feature = "sim")]
use std::sync::Arc;

use tenure_connection::Client;

use crate::store::MemoryStore;
#[cfg(feature = "sim")]
use crate::store::Store;

/// Where a pool's data are: in a Redis or in this process's memory. A memory store holds one pool, of any name.
#[derive(Clone)]
pub struct Backend(pub(super) Kind);

#[derive(Clone)]
pub(super) enum Kind {
    Redis(Client),
    Memory(MemoryStore),
    #[cfg(feature = "sim")]
    Store(Arc<dyn Store>),
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Redis(_) => "Backend(redis)",
            Kind::Memory(_) => "Backend(memory)",
            #[cfg(feature = "sim")]
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

#[cfg(feature = "sim")]
impl From<Arc<dyn Store>> for Backend {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(Kind::Store(store))
    }
}
