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
#[cfg(feature = "test-util")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_connection::ServerClock;

use self::server::Shared;
use crate::model::level;
#[cfg(feature = "sim")]
pub use proof::Snapshot;

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
        Self::of(ServerClock::default())
    }

    /// A store without a pool, with the caller's clock: it says the ms since 1970.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self::of(ServerClock::new(clock))
    }

    fn of(clock: ServerClock) -> Self {
        Self { shared: Arc::new(Shared::new(clock)), blessed: Arc::default(), level: level::OWN }
    }

    /// A store for a test whose time is paused, by `#[tokio::test(start_paused = true)]`. The clock begins at 2026-01-01 00:00
    /// UTC. All nodes that join in this test follow the time of the test's runtime, in which an hour of
    /// waiting takes no hour. So do their leases. Handlers may wait for nothing outside of the
    /// runtime. Needs the feature `test-util`, as the three below do.
    ///
    /// # Panics
    /// The time of the present runtime is not paused.
    #[cfg(feature = "test-util")]
    pub fn paused() -> Self {
        Self::of(tenure_connection::paused::follow())
    }

    /// The time of this clock.
    #[cfg(feature = "test-util")]
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.shared.clock.now())
    }

    /// Puts this clock forward, and no clock of a node. So no lease of a node ends meanwhile, and what is due by the store's
    /// time is due at once: retries, the ends of pauses and of retentions.
    #[cfg(feature = "test-util")]
    pub fn skip(&self, time: Duration) {
        self.shared.clock.skip(time);
    }

    /// Puts this clock forward to this moment. A moment that has passed changes nothing.
    #[cfg(feature = "test-util")]
    pub fn skip_to(&self, moment: SystemTime) {
        self.shared.clock.skip_to(moment);
    }

    /// The store of one shard of the pool, the same for all clients.
    pub(crate) fn shard(&self, index: u32) -> Self {
        let mut shards = self.shared.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.entry(index).or_insert_with(|| Self::of(self.shared.clock.clone()));
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
