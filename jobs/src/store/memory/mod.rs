//! The store in memory: the same steps over ordered maps, for tests of those who use the crate, and for its own.

mod add;
mod ends;
mod group;
mod settle;
mod state;
mod steer;
mod step;
mod steps;
mod take;
mod tick;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use self::state::State;
#[cfg(feature = "sim")]
use super::Dump;

/// A clock, in ms since the Unix epoch.
type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A set in memory. Clones share it: nodes that are given clones of one store work together.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A set of its own, by the system's clock.
    pub fn new() -> Self {
        Self::with_clock(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }

    /// A set of its own, by this clock in ms since the Unix epoch.
    pub fn with_clock(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { state: Arc::default(), clock: Arc::new(clock) }
    }

    /// Loses all data, as a server does that restarts without any.
    pub fn wipe(&self) {
        self.state().data = state::Data::default();
    }

    /// The whole state: for tests.
    #[cfg(feature = "sim")]
    pub fn dump(&self) -> Dump {
        self.state().data.dump()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("jobs", &self.state().data.jobs.len()).finish_non_exhaustive()
    }
}
