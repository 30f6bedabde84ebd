//! The layer between the clients and the state: one lock, the clock, the process, and the watchers of changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_connection::ServerClock;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::MemoryStore;
use super::state::State;
use crate::model::id::Incarnation;
use crate::model::member::Members;
use crate::model::settings::StoredSettings;
use crate::mutation::Mutation;
use crate::store::{OnMemory, Refusal, Result, Step, StoreError};

fn members_of(state: &State) -> Members {
    Members {
        incarnation: state.meta.incarnation,
        revision: state.meta.members,
        ring_size: state.ring_size,
        cordoned: state.cordoned.clone(),
        entries: state.members.clone(),
    }
}

fn settings_of(state: &State) -> StoredSettings {
    let fields = state.settings.clone();
    StoredSettings { incarnation: state.meta.incarnation, revision: state.meta.settings, fields }
}

/// The store was made unavailable.
#[derive(Debug, thiserror::Error)]
#[error("the store in memory is switched off")]
struct SwitchedOff;

/// One server process and its data.
pub(super) struct Server {
    pub(super) state: State,
    /// How many processes there were before.
    pub(super) process: u64,
    /// Server time, ms, at which the process began. The first process counts as having always run, because nobody can
    /// have used the store before it.
    pub(super) started: u64,
    pub(super) flushed: bool,
    pub(super) available: bool,
}

impl Server {
    /// The id of the process.
    pub(super) fn run_id(&self) -> String {
        format!("memory{}", self.process)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut server = f.debug_struct("Server");
        server.field("run_id", &self.run_id()).field("available", &self.available);
        server.field("pool", &self.state.pool_state()).finish_non_exhaustive()
    }
}

/// The server, and the state that its clients share.
pub(super) struct Shared {
    server: Mutex<Server>,
    pub(super) clock: ServerClock,
    /// Changes when a blocked reader must look again.
    woken: watch::Sender<u64>,
    pub(super) members: watch::Sender<Arc<Members>>,
    pub(super) settings: watch::Sender<Arc<StoredSettings>>,
    /// A store for each shard, if the pool has several.
    pub(super) shards: Mutex<BTreeMap<u32, MemoryStore>>,
}

impl Shared {
    /// A server without a pool.
    pub(super) fn new(clock: ServerClock) -> Self {
        let state = State::default();
        Self {
            server: Mutex::new(Server { state, process: 0, started: 0, flushed: false, available: true }),
            clock,
            woken: watch::Sender::default(),
            members: watch::Sender::default(),
            settings: watch::Sender::default(),
            shards: Mutex::default(),
        }
    }

    /// Locks the server. No step can panic halfway, so even a poisoned lock holds a whole state.
    pub(super) fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets blocked readers look again.
    pub(super) fn wake(&self) {
        self.woken.send_modify(|count| *count += 1);
    }

    /// Brings the replicated maps up to date.
    pub(super) fn publish(&self, state: &State) {
        let incarnation = state.meta.incarnation;
        let revision = state.meta.members;
        self.members.send_if_modified(|known| {
            let changed = (known.incarnation, known.revision) != (incarnation, revision);
            if changed {
                *known = Arc::new(members_of(state));
            }
            changed
        });
        let revision = state.meta.settings;
        self.settings.send_if_modified(|known| {
            let changed = (known.incarnation, known.revision) != (incarnation, revision);
            if changed {
                *known = Arc::new(settings_of(state));
            }
            changed
        });
    }

    /// Publishes the settings, and the members if `members` is true, if they differ from those last published.
    pub(super) fn publish_again(&self, state: &State, members: bool) {
        fn tell<T: PartialEq>(told: &watch::Sender<Arc<T>>, now: T) {
            told.send_if_modified(|known| {
                let changed = **known != now;
                if changed {
                    *known = Arc::new(now);
                }
                changed
            });
        }
        tell(&self.settings, settings_of(state));
        if members {
            tell(&self.members, members_of(state));
        }
    }
}

/// A step's change of the state. It is pure: time comes from outside.
pub(crate) trait Transition: Step {
    /// Any server performs the step, also one that no client has blessed.
    const ANY_SERVER: bool = false;
    /// Changes the state at this server time, ms, or refuses the step and changes nothing.
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self>;
}

/// The answer of a step, or its refusal.
pub(crate) type Applied<S> = std::result::Result<<S as Step>::Answer, Refusal>;

impl<S: Transition> OnMemory for S {
    async fn on_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<S::Answer> {
        if S::ANY_SERVER {
            return store.execute(&mut *store.reach()?, |state, now| self.apply(state, now, inc));
        }
        store.step(|state, now| self.apply(state, now, inc)).await
    }
}

impl MemoryStore {
    /// The server, whichever process it is.
    pub(super) fn reach(&self) -> Result<MutexGuard<'_, Server>> {
        let server = self.shared.lock();
        if server.available { Ok(server) } else { Err(StoreError::NotExecuted(Arc::new(SwitchedOff))) }
    }

    /// The server, if its process is the blessed one.
    pub(super) fn admitted(&self) -> Result<MutexGuard<'_, Server>> {
        let server = self.reach()?;
        let run_id = server.run_id();
        let blessed = self.blessed.lock().unwrap_or_else(PoisonError::into_inner);
        let unasked = server.state.broken.has(Mutation::ScriptBeforeIdentity);
        if unasked || blessed.as_ref() == Some(&run_id) {
            Ok(server)
        } else {
            Err(StoreError::OtherServer { run_id })
        }
    }

    /// Runs one step and publishes its changes.
    pub(super) fn execute<T>(
        &self,
        server: &mut Server,
        step: impl FnOnce(&mut State, u64) -> std::result::Result<T, Refusal>,
    ) -> Result<T> {
        let now = self.shared.clock.now();
        let state = &mut server.state;
        state.level = self.level;
        state.expire_keys(now);
        let (appended, revisions) = (state.appended, state.revisions());
        let answer = step(state, now).map_err(StoreError::Refused)?;
        let changed = revisions != state.revisions();
        if changed {
            self.shared.publish(state);
        }
        if changed || appended != state.appended {
            self.shared.wake();
        }
        Ok(answer)
    }

    /// Runs one step on the blessed process.
    pub(super) async fn step<T>(
        &self,
        step: impl FnOnce(&mut State, u64) -> std::result::Result<T, Refusal>,
    ) -> Result<T> {
        // A step never waits: a loop of them must still let others run.
        tokio::task::consume_budget().await;
        self.execute(&mut *self.admitted()?, step)
    }

    /// Looks until something is found, for at most `block`.
    pub(super) async fn wait_for<T>(
        &self,
        block: Duration,
        mut look: impl FnMut(&mut State, u64) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut woken = self.shared.woken.subscribe();
        let deadline = Instant::now() + block;
        loop {
            let found = self.step(|state, now| Ok(look(state, now))).await?;
            if found.is_some() || block.is_zero() || timeout_at(deadline, woken.changed()).await.is_err() {
                return Ok(found);
            }
        }
    }
}
