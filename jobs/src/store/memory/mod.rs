//! The store in memory: the same steps over ordered maps, for tests of those who use the crate, and for its own.

mod add;
mod attest;
mod edit;
mod ends;
mod group;
mod news;
mod notes;
mod settle;
mod state;
mod steer;
mod steps;
mod take;
mod tick;
mod wake;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "test-util")]
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_connection::ServerClock;

pub use self::edit::Edit;
use self::state::State;
pub use self::steps::Transition;
#[cfg(feature = "sim")]
use super::{Breakage, Dump};

/// A set in memory. Clones share it: nodes that are given clones of one store work together.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: ServerClock,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A set of its own, by the system's clock.
    pub fn new() -> Self {
        Self::of(ServerClock::default())
    }

    /// A set of its own, by this clock in ms since the Unix epoch.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self::of(ServerClock::new(clock))
    }

    fn of(clock: ServerClock) -> Self {
        Self { state: Arc::default(), clock }
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
        UNIX_EPOCH + Duration::from_millis(self.clock.now())
    }

    /// Puts this clock forward, and no clock of a node. What is due by the store's time is due at once: delayed jobs, limits and
    /// retentions. The leases of running jobs last as much longer, since their nodes have not slept.
    #[cfg(feature = "test-util")]
    pub fn skip(&self, time: Duration) {
        let mut state = self.state();
        self.clock.skip(time);
        state.data.put_leases_off(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }

    /// Puts this clock forward to this moment, as [`skip`](Self::skip) does. A moment that has passed changes nothing.
    #[cfg(feature = "test-util")]
    pub fn skip_to(&self, moment: SystemTime) {
        self.skip(moment.duration_since(self.now()).unwrap_or_default());
    }

    /// Loses all data, as a server does that restarts without any.
    pub fn wipe(&self) {
        let data = &mut self.state().data;
        *data = state::Data { breakage: data.breakage, ..state::Data::default() };
    }

    /// Leaves out a line of the protocol: for proofs.
    #[cfg(feature = "sim")]
    pub fn break_with(&self, breakage: Breakage) {
        self.state().data.breakage = Some(breakage);
    }

    /// All data: for proofs.
    #[cfg(feature = "sim")]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state().data.clone())
    }

    /// Goes back to former data on another server, as after a fail-over: for proofs.
    #[cfg(feature = "sim")]
    pub fn go_back(&self, to: &Snapshot) {
        let mut state = self.state();
        state.data.clone_from(&to.0);
        state.server += 1;
    }

    /// The whole state but for the lanes: for proofs.
    #[cfg(feature = "sim")]
    pub fn dump_without_lanes(&self) -> Dump {
        self.state().data.dump_without_lanes()
    }

    /// The whole state: for tests.
    #[cfg(feature = "sim")]
    pub fn dump(&self) -> Dump {
        self.state().data.dump()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ms(&self) -> u64 {
        self.clock.now()
    }
}

/// The data of a moment.
#[cfg(feature = "sim")]
#[derive(Debug)]
pub struct Snapshot(state::Data);

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("jobs", &self.state().data.jobs.len()).finish_non_exhaustive()
    }
}
