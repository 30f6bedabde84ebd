//! The store in the memory of one process: a server of the protocol behind one lock, with a clock, blocking reads and
//! replicated maps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(any(test, feature = "test-util"))]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_connection::ServerClock;
use tenure_protocol::memory::{Client, OnMemory, Server};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Result;
use crate::model::id::{Incarnation, Revision};
use crate::model::member::Members;
use crate::model::settings::StoredSettings;

/// The pool's steps in the memory of one process.
///
/// Every clone is another client of the same pool, like another connection to the same server. It is blessed
/// separately, and closing it does not affect the others.
pub struct MemoryStore {
    shared: Arc<Shared>,
    client: Arc<Mutex<Client>>,
}

/// The server, and what its clients share.
struct Shared {
    server: Mutex<Server>,
    clock: ServerClock,
    /// Changes when a blocked reader must look again.
    woken: watch::Sender<u64>,
    members: watch::Sender<Arc<Members>>,
    settings: watch::Sender<Arc<StoredSettings>>,
    /// A store for each shard, if the pool has several.
    shards: Mutex<BTreeMap<u32, MemoryStore>>,
}

/// No step can panic halfway, so even a poisoned lock holds a whole state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a value whose version has changed.
fn tell<T>(told: &watch::Sender<Arc<T>>, has_changed: impl FnOnce(&T) -> bool, now: impl FnOnce() -> T) {
    told.send_if_modified(|known| {
        let changed = has_changed(known);
        if changed {
            *known = Arc::new(now());
        }
        changed
    });
}

impl Shared {
    /// Lets blocked readers look again.
    fn wake(&self) {
        self.woken.send_modify(|count| *count += 1);
    }

    /// Brings the replicated maps up to date.
    fn publish(&self, server: &Server) {
        let (inc, members, settings) = server.revisions();
        tell(
            &self.members,
            |known| (known.incarnation, known.revision) != (inc, members),
            || server.members(),
        );
        tell(
            &self.settings,
            |known| (known.incarnation, known.revision) != (inc, settings),
            || server.settings(),
        );
    }
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
        let shared = Shared {
            server: Mutex::default(),
            clock,
            woken: watch::Sender::default(),
            members: watch::Sender::default(),
            settings: watch::Sender::default(),
            shards: Mutex::default(),
        };
        Self { shared: Arc::new(shared), client: Arc::default() }
    }

    /// A store for a test whose time is paused, by `#[tokio::test(start_paused = true)]`. The clock begins at 2026-01-01 00:00
    /// UTC. All nodes that join in this test follow the time of the test's runtime, in which an hour of
    /// waiting takes no hour. So do their leases. Handlers may wait for nothing outside of the
    /// runtime. Needs the feature `test-util`, as the three below do.
    ///
    /// # Panics
    /// The time of the present runtime is not paused.
    #[cfg(any(test, feature = "test-util"))]
    pub fn paused() -> Self {
        Self::of(tenure_connection::paused::follow())
    }

    /// The time of this clock.
    #[cfg(any(test, feature = "test-util"))]
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.shared.clock.now())
    }

    /// Puts this clock forward, and no clock of a node. So no lease of a node ends meanwhile, and what is due by the store's
    /// time is due at once: retries, the ends of pauses and of retentions.
    #[cfg(any(test, feature = "test-util"))]
    pub fn skip(&self, time: Duration) {
        self.shared.clock.skip(time);
    }

    /// Puts this clock forward to this moment. A moment that has passed changes nothing.
    #[cfg(any(test, feature = "test-util"))]
    pub fn skip_to(&self, moment: SystemTime) {
        self.shared.clock.skip_to(moment);
    }

    /// The store of one shard of the pool, the same for all clients.
    pub(crate) fn shard(&self, index: u32) -> Self {
        let mut shards = lock(&self.shared.shards);
        let shard = shards.entry(index).or_insert_with(|| Self::of(self.shared.clock.clone())).clone();
        drop(shards);
        lock(&shard.client).level = self.level();
        shard
    }

    /// Performs one step, and publishes its changes.
    fn perform<S: OnMemory>(&self, inc: Incarnation, step: &S) -> Result<S::Answer> {
        let mut server = lock(&self.shared.server);
        let (answer, changes) = server.perform(&lock(&self.client), self.shared.clock.now(), inc, step)?;
        if changes.maps {
            self.shared.publish(&server);
        }
        if changes.maps || changes.entries {
            self.shared.wake();
        }
        Ok(answer)
    }

    /// Performs a step. A read that waits for news looks again after each change.
    pub(super) async fn run<S: OnMemory>(&self, inc: Incarnation, step: &S) -> Result<S::Answer> {
        // A step never waits: a loop of them must still let others run.
        tokio::task::consume_budget().await;
        let mut waiting = None;
        loop {
            let answer = self.perform(inc, step)?;
            let Some(block) = step.wait(&answer).filter(|block| !block.is_zero()) else { return Ok(answer) };
            let Some((woken, deadline)) = &mut waiting else {
                // What comes before the next look wakes nobody.
                waiting = Some((self.shared.woken.subscribe(), Instant::now() + block));
                continue;
            };
            if timeout_at(*deadline, woken.changed()).await.is_err() {
                return Ok(answer);
            }
        }
    }

    pub(super) fn level(&self) -> u32 {
        lock(&self.client).level
    }

    pub(super) fn server_checks(&self) -> Result<()> {
        lock(&self.shared.server).reach()
    }

    pub(super) fn bless(&self, run_id: &str) {
        lock(&self.client).blessed = Some(run_id.into());
    }

    pub(super) fn blessed(&self) -> Option<Box<str>> {
        lock(&self.client).blessed.clone()
    }

    pub(super) fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.shared.members.subscribe()
    }

    pub(super) fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.shared.settings.subscribe()
    }

    pub(super) fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        // One map at a time, and none behind the lock: a writer who waits keeps out a second reader.
        let of_members = |known: &Members| (known.incarnation, known.revision) != (Some(inc), members);
        let other_members = of_members(&self.shared.members.borrow());
        let other_settings = self.shared.settings.borrow().revision != settings;
        let stale = other_members || other_settings;
        let server = lock(&self.shared.server);
        if stale && server.admit(&lock(&self.client)).is_ok() {
            self.shared.publish(&server);
        }
    }

    pub(super) fn reread(&self, members: bool) {
        let server = lock(&self.shared.server);
        if server.admit(&lock(&self.client)).is_err() {
            return;
        }
        let now = server.settings();
        tell(&self.shared.settings, |known| *known != now, || now.clone());
        if members {
            let now = server.members();
            tell(&self.shared.members, |known| *known != now, || now.clone());
        }
    }

    /// The same client, for another runtime.
    pub(super) fn apart(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), client: Arc::clone(&self.client) }
    }
}

/// What no step does, for proofs.
#[cfg(any(test, feature = "proof"))]
#[doc(hidden)]
impl MemoryStore {
    /// The same store for a client of another level.
    #[must_use]
    pub fn at_level(&self, level: u32) -> Self {
        let client = Client { blessed: None, level };
        Self { shared: Arc::clone(&self.shared), client: Arc::new(Mutex::new(client)) }
    }

    /// Looks at the server, or changes it and tells no watcher of the maps. Blocked readers look again.
    pub fn tamper<T>(&self, change: impl FnOnce(&mut Server) -> T) -> T {
        let changed = change(&mut lock(&self.shared.server));
        self.shared.wake();
        changed
    }

    /// While the store is not available, every call fails at once and is not executed.
    pub fn set_available(&self, available: bool) {
        self.tamper(|server| {
            server.set_available(available);
            if available {
                self.shared.publish(server);
            }
        });
    }

    /// Another server process takes over the data.
    pub fn new_process(&self) {
        self.tamper(|server| {
            server.new_process(self.shared.clock.now());
            self.shared.publish(server);
        });
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        let client = Client { blessed: None, level: self.level() };
        Self { shared: Arc::clone(&self.shared), client: Arc::new(Mutex::new(client)) }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("server", &*lock(&self.shared.server)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
