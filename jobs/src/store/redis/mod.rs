//! The store on Redis. Every step is one Lua script of `lua/`, sent only to the blessed server process.

#[cfg(feature = "sim")]
mod dump;
mod keys;
mod listening;
mod looking;
mod reply;
mod script;
mod steps;

use std::sync::Arc;

use tenure_connection::{Client, Connection};
use tenure_steps::ScriptPatch;
use tokio::sync::watch;

use self::keys::Keys;
use self::script::{Clock, Scripts};
pub use self::steps::OnRedis;
#[cfg(feature = "sim")]
use super::{Dump, Result};
use crate::model::id::SetName;

/// The steps as Lua scripts on Redis.
///
/// It connects on first use, on the runtime of that use, and sends no step before a server was blessed. It shares no
/// connection with other users of the client.
#[derive(Debug)]
pub struct RedisStore {
    client: Client,
    keys: Keys,
    scripts: Arc<Scripts>,
    blessed: Arc<watch::Sender<Option<Box<str>>>>,
    /// Sends to any server.
    open: Connection,
    /// Sends only to the blessed server process.
    guarded: Connection,
}

impl RedisStore {
    /// A store for the set of this name. Sends nothing.
    pub fn open(client: &Client, set: &SetName) -> Self {
        Self::with_clock(client, set, Clock::Server, &[])
    }

    /// A store whose scripts are broken on purpose, and read the time, in ms, from the set's key `clock`: for proofs.
    ///
    /// # Panics
    /// A patched script does not contain the text that its patch replaces.
    #[cfg(feature = "sim")]
    pub fn open_patched(client: &Client, set: &SetName, patches: &[ScriptPatch]) -> Self {
        Self::with_clock(client, set, Clock::Key, patches)
    }

    /// A store whose scripts are broken on purpose, by the server's clock: for proofs with real processes.
    ///
    /// # Panics
    /// As for [`open_patched`](Self::open_patched).
    #[cfg(feature = "sim")]
    pub fn open_broken(client: &Client, set: &SetName, patches: &[ScriptPatch]) -> Self {
        Self::with_clock(client, set, Clock::Server, patches)
    }

    /// The names of all scripts, and their hashes in Redis: for proofs.
    #[cfg(feature = "sim")]
    pub fn script_hashes(&self) -> Vec<(String, String)> {
        let scripts = self.scripts.all();
        scripts.into_iter().map(|script| (script.name().to_owned(), script.sha().to_owned())).collect()
    }

    /// The whole state: for tests.
    ///
    /// # Errors
    /// As for any read.
    #[cfg(feature = "sim")]
    pub async fn dump(&self) -> Result<Dump> {
        dump::dump(&self.open, &self.keys).await
    }

    fn with_clock(client: &Client, set: &SetName, clock: Clock, patches: &[ScriptPatch]) -> Self {
        let keys = Keys::new(set);
        let scripts = Arc::new(Scripts::new(&keys, clock, patches));
        Self::over(client.clone(), keys, scripts, Arc::new(watch::Sender::new(None)))
    }

    fn over(
        client: Client,
        keys: Keys,
        scripts: Arc<Scripts>,
        blessed: Arc<watch::Sender<Option<Box<str>>>>,
    ) -> Self {
        let admitted = blessed.clone();
        let guarded =
            client.with_admission(move |identity: &str| admitted.borrow().as_deref() == Some(identity));
        Self { open: client.dedicated(), guarded: guarded.commands(), client, keys, scripts, blessed }
    }
}
