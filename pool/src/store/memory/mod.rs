//! The store in the memory of one process: the protocol's steps over ordered maps, behind one lock.
//!
//! [`State`] is pure. This file adds the parts of a server: a clock, a process that can be replaced, blocking reads
//! and replicated maps. The store is the reference for the scripts of [`RedisStore`](super::RedisStore), and serves
//! pools within one process.

mod attesting;
mod closing;
mod dispatching;
mod dump;
#[cfg(feature = "sim")]
mod exam;
mod inspecting;
mod log;
mod losses;
mod membership;
mod notifications;
mod ownership;
mod parking;
#[cfg(feature = "sim")]
mod proof;
mod repair;
mod schedules;
mod scored;
mod server;
mod state;
mod stopping;
mod store;
mod streams;
mod suspicion;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use self::server::Shared;
use self::state::{State, Stored};
use super::Dump;
use crate::model::id::{JobKey, WorkerId};
use crate::model::record::Record;
#[cfg(feature = "sim")]
use crate::mutation::Mutations;

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
}

/// The state at one moment.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Snapshot(State);

impl MemoryStore {
    /// A store without a pool, with the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }))
    }

    /// A store without a pool, with the caller's clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { shared: Arc::new(Shared::new(clock)), blessed: Arc::default() }
    }

    /// The store of one shard of the pool, the same for all clients.
    pub(crate) fn shard(&self, index: u32) -> Self {
        let mut shards = self.shared.shards.lock().unwrap_or_else(PoisonError::into_inner);
        shards.entry(index).or_insert_with(|| Self::with_clock(self.shared.clock.clone())).clone()
    }

    /// Leaves these lines of the protocol out from now on, for all its clients: for proofs.
    #[doc(hidden)]
    #[cfg(feature = "sim")]
    pub fn break_on_purpose(&self, mutations: Mutations) {
        self.shared.lock().state.broken = mutations;
    }

    /// The whole state.
    #[doc(hidden)]
    pub fn dump(&self) -> Dump {
        self.shared.lock().state.dump()
    }

    /// Loses all data and tells nobody.
    #[doc(hidden)]
    pub fn wipe(&self) {
        let mut server = self.shared.lock();
        server.state = State { broken: std::mem::take(&mut server.state.broken), ..State::default() };
        server.flushed = true;
        drop(server);
        self.shared.wake();
    }

    /// The present state.
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.shared.lock().state.clone())
    }

    /// Restores an earlier state and tells nobody.
    #[doc(hidden)]
    pub fn restore(&self, snapshot: Snapshot) {
        self.shared.lock().state = snapshot.0;
        self.shared.wake();
    }

    /// While the store is not available, every call fails at once and is not executed.
    #[doc(hidden)]
    pub fn set_available(&self, available: bool) {
        let mut server = self.shared.lock();
        server.available = available;
        if available {
            self.shared.publish(&server.state);
        }
        drop(server);
        self.shared.wake();
    }

    /// Another server process takes over the data.
    #[doc(hidden)]
    pub fn new_process(&self) {
        let now = (self.shared.clock)();
        let mut server = self.shared.lock();
        server.process += 1;
        server.started = now;
        server.flushed = false;
        self.shared.publish(&server.state);
        drop(server);
        self.shared.wake();
    }

    /// Writes a record, well-formed or not. The indexes do not change.
    #[doc(hidden)]
    pub fn write_record(&self, key: &JobKey, raw: &[u8]) {
        let stored =
            Record::parse(raw).map_or_else(|| Stored::Damaged(Bytes::copy_from_slice(raw)), Stored::Record);
        let mut server = self.shared.lock();
        match server.state.jobs.get_mut(key) {
            Some(job) => job.stored = stored,
            None => server.state.insert(key.clone(), stored, Bytes::new()),
        }
    }

    /// Sets the counter of tokens.
    #[doc(hidden)]
    pub fn set_token(&self, token: u64) {
        self.shared.lock().state.meta.token = token;
    }

    /// Writes the header of a job's notifications without a check.
    #[doc(hidden)]
    pub fn write_header(&self, key: &JobKey, raw: &[u8]) {
        let mut server = self.shared.lock();
        let mailbox = server.state.mailboxes.entry(key.clone()).or_default();
        mailbox.damage = (raw != mailbox.header().as_bytes()).then(|| Bytes::copy_from_slice(raw));
    }

    /// Puts a key into a worker's index, whether it belongs there or not.
    #[doc(hidden)]
    pub fn write_index(&self, worker: WorkerId, key: &JobKey) {
        self.shared.lock().state.own(worker, key.clone());
    }

    /// Removes a setting, as if the pool had been created without it.
    #[doc(hidden)]
    pub fn forget_setting(&self, name: &str) {
        self.shared.lock().state.settings.remove(name);
    }

    /// Loses one of the pool's keys: `workers`, `heartbeats`, `jobs` (with the payloads), `payloads`, `owners`, `queue`,
    /// `parked` or a worker's stream.
    #[doc(hidden)]
    pub fn lose(&self, name: &str) {
        let state = &mut self.shared.lock().state;
        match name {
            "workers" => {
                state.members.clear();
                state.ring_size = 0;
            }
            "heartbeats" => state.heartbeats.clear(),
            "jobs" => {
                state.jobs.clear();
                state.serials.clear();
            }
            "payloads" => state.jobs.values_mut().for_each(|job| job.payload = None),
            "owners" => state.owned.clear(),
            "queue" => state.queue = scored::Scored::default(),
            "parked" => state.parked = scored::Scored::default(),
            name => {
                if let Some(worker) = name.strip_prefix("worker:").and_then(|id| id.parse().ok()) {
                    state.worker_streams.remove(&worker);
                }
            }
        }
    }

    /// Loses the routers' consumer group.
    #[doc(hidden)]
    pub fn destroy_group(&self) {
        self.shared.lock().state.pool_stream.group = None;
        self.shared.wake();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), blessed: Arc::default() }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("server", &*self.shared.lock()).finish_non_exhaustive()
    }
}
