//! The store on Redis. Every step is one Lua script of `lua/`, sent only to the blessed server process.
//!
//! It has one connection for scripts and commands, one for each kind of blocking read, and one subscription for both
//! maps. Another connection accepts any server. It is used until the pool is known to live on a server, and always
//! for `pool_state`, `server_identity`, `server_checks`, `bootstrap` and `recover`.

mod asking;
mod attesting;
mod checkpoints;
#[cfg(feature = "proof")]
mod dump;
mod events;
mod explaining;
mod figures;
mod heartbeats;
mod history;
mod jobs;
mod keys;
mod maps;
mod membership;
mod messages;
mod ownership;
mod parking;
mod reply;
mod schedules;
mod script;
mod server;
mod steps;
mod updating;
mod upkeep;

use std::sync::Arc;

use tenure_connection::{Blocking, Client};
use tokio::sync::{Mutex, watch};

use self::keys::Keys;
use self::maps::{Broken, Maps};
#[cfg(any(test, feature = "proof"))]
pub use self::script::needs_memory;
use self::script::{Clock, Scripts};
pub use self::server::UnsuitableServer;
use self::steps::{Steps, Told};
#[cfg(feature = "proof")]
use super::Dump;
use super::Result;
use crate::model::id::PoolName;
use crate::mutation::ScriptPatch;

/// The pool's steps as Lua scripts on Redis.
///
/// It connects on first use, on the runtime of that use, and sends no step before a server was blessed. It shares no
/// connection with other users of the client, because those may be on a blocked runtime. Its background task follows
/// the members and the settings, and ends with it.
#[derive(Debug)]
pub struct RedisStore {
    client: Client,
    blessed: Arc<watch::Sender<Option<Box<str>>>>,
    /// Sends to any server.
    open: Steps,
    /// Sends only to the blessed server process.
    steps: Steps,
    pool_reads: Mutex<Blocking>,
    node_reads: Mutex<Blocking>,
    history_reads: Mutex<Blocking>,
    maps: Arc<Maps>,
    clock: Clock,
}

impl RedisStore {
    /// A store for the pool of this name. Sends nothing. Call it within a tokio runtime.
    pub fn open(client: &Client, pool: &PoolName) -> Self {
        Self::with_clock(client, pool, Clock::Server, &[], Broken::default())
    }

    /// A store whose scripts read the time, in ms, from the pool's key `clock`: for tests.
    #[cfg(feature = "proof")]
    pub fn open_with_clock_key(client: &Client, pool: &PoolName) -> Self {
        Self::with_clock(client, pool, Clock::Key, &[], Broken::default())
    }

    /// A store whose scripts are broken on purpose, and read the time from the pool's key `clock` if `clock_key`: for
    /// proofs.
    ///
    /// # Panics
    /// A patched script does not contain the text that its patch replaces.
    #[cfg(feature = "proof")]
    pub fn open_patched(client: &Client, pool: &PoolName, clock_key: bool, patches: &[ScriptPatch]) -> Self {
        let clock = if clock_key { Clock::Key } else { Clock::Server };
        Self::with_clock(client, pool, clock, patches, Broken::default())
    }

    /// A store whose scripts, and whose copies of the pool's maps, are broken on purpose: for proofs.
    ///
    /// # Panics
    /// A patched script does not contain the text that its patch replaces.
    #[cfg(feature = "proof")]
    pub fn open_broken(
        client: &Client,
        pool: &PoolName,
        patches: &[ScriptPatch],
        maps: tenure_rmap::Mutations,
    ) -> Self {
        Self::with_clock(client, pool, Clock::Server, patches, maps)
    }

    /// The names of all scripts, and their hashes in Redis: for proofs.
    #[cfg(feature = "proof")]
    pub fn script_hashes(&self) -> Vec<(String, String)> {
        let scripts = self.open.scripts.all();
        scripts.into_iter().map(|script| (script.name().to_owned(), script.sha().to_owned())).collect()
    }

    /// The whole state: for tests.
    ///
    /// # Errors
    /// As for any read.
    #[cfg(feature = "proof")]
    pub async fn dump(&self) -> Result<Dump> {
        dump::dump(&self.open).await
    }

    fn with_clock(
        client: &Client,
        pool: &PoolName,
        clock: Clock,
        patches: &[ScriptPatch],
        broken_maps: Broken,
    ) -> Self {
        let keys = Keys::new(pool);
        let scripts = Arc::new(Scripts::new(&keys, clock, patches));
        let (blessed, told) = (Arc::new(watch::Sender::new(None)), Told::default());
        let guarded = guarded(client, &blessed);
        let maps = Maps::follow(guarded.clone(), &keys, blessed.subscribe(), broken_maps);
        Self {
            open: Steps {
                keys: keys.clone(),
                scripts: scripts.clone(),
                connection: client.dedicated(),
                told: told.clone(),
            },
            steps: Steps { keys, scripts, connection: guarded.commands(), told },
            pool_reads: Mutex::new(guarded.blocking()),
            node_reads: Mutex::new(guarded.blocking()),
            history_reads: Mutex::new(guarded.blocking()),
            client: client.clone(),
            maps: Arc::new(maps),
            blessed,
            clock,
        }
    }

    /// The same pool with the same blessing, over new connections. They are made on the runtime that uses them.
    pub(super) fn over_own_connections(&self) -> Self {
        let guarded = guarded(&self.client, &self.blessed);
        let over = |steps: &Steps, client: &Client| Steps { connection: client.dedicated(), ..steps.clone() };
        Self {
            open: over(&self.open, &self.client),
            steps: over(&self.steps, &guarded),
            pool_reads: Mutex::new(guarded.blocking()),
            node_reads: Mutex::new(guarded.blocking()),
            history_reads: Mutex::new(guarded.blocking()),
            client: self.client.clone(),
            maps: self.maps.clone(),
            blessed: self.blessed.clone(),
            clock: self.clock,
        }
    }
}

/// The client with connections that admit the blessed server process only.
fn guarded(client: &Client, blessed: &Arc<watch::Sender<Option<Box<str>>>>) -> Client {
    let blessed = blessed.clone();
    client.with_admission(move |identity: &str| blessed.borrow().as_deref() == Some(identity))
}

/// Reads an answer of `begin` to these: for the micro-benchmarks.
pub fn decode_begin(answer: redis::Value, begins: &[super::WorkerBegins]) -> Result<Vec<super::WorkerBegun>> {
    ownership::begun_all(reply::Reply::of("begin", answer)?, begins)
}
