//! The store in the memory of one process: the protocol's steps over ordered maps, behind one lock.
//!
//! [`State`] is pure. This file adds the parts of a server: a clock, a process that can be replaced, blocking reads
//! and replicated maps. The store is the reference for the scripts of [`RedisStore`](super::RedisStore), and serves
//! pools within one process.

mod asking;
mod attesting;
mod checkpoints;
mod closing;
mod cordons;
mod dispatching;
#[cfg(feature = "sim")]
mod dump;
#[cfg(feature = "sim")]
mod exam;
mod explaining;
mod figures;
mod history;
mod inspecting;
mod levels;
mod log;
mod losses;
mod membership;
mod messages;
mod notifications;
mod ownership;
mod parking;
#[cfg(feature = "sim")]
mod proof;
mod reaping;
mod repair;
mod run_ends;
mod schedules;
mod scored;
mod server;
mod state;
mod statuses;
mod steering;
mod stopping;
mod store;
mod streams;
mod suspicion;
#[cfg(test)]
mod tests;
mod updating;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use self::server::Shared;
use crate::model::level;
#[cfg(feature = "sim")]
pub use proof::Snapshot;

/// The server's clock: ms since 1970.
type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The pool's steps in the memory of one process.
///
/// Every clone is another client of the same pool, like another connection to the same server. It is blessed
/// separately, and closing it does not affect the others.
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// The server process that this client was told to use.
    blessed: Arc<Mutex<Option<String>>>,
    /// The level of this client.
    level: u32,
}

impl MemoryStore {
    /// A store without a pool, with the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }))
    }

    /// A store without a pool, with the caller's clock: it says the ms since 1970.
    pub fn with_clock(clock: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self { shared: Arc::new(Shared::new(clock)), blessed: Arc::default(), level: level::OWN }
    }

    /// The store of one shard of the pool, the same for all clients.
    pub(crate) fn shard(&self, index: u32) -> Self {
        let mut shards = self.shared.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.entry(index).or_insert_with(|| Self::with_clock(self.shared.clock.clone()));
        Self { level: self.level, ..shard.clone() }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), blessed: Arc::default(), level: self.level }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("server", &*self.shared.lock()).finish_non_exhaustive()
    }
}
