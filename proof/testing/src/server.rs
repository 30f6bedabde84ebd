//! A private Redis server for one test or one example.
//!
//! The server listens on a unix socket, or on a port of 127.0.0.1 with or without TLS. It has a folder of its own, and
//! by default keeps nothing on disk. When its [`RedisServer`] is dropped, or the process that holds it ends in any way,
//! the server is killed and its folder removed. `guard.rs` ensures that; `builder.rs` has the settings, `binary.rs`
//! finds the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::{
    Builder, Error,
    address::{Address, Login},
    guard::Guard,
    port::Port,
};

/// The longest time until a server answers.
pub(crate) const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

/// The effect of a restart on the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data {
    /// Keeps the data: all of it for a live server, the data on its disk for a killed one.
    Keep,
    /// Empties the server and its disk.
    Wipe,
}

/// A private Redis server. Dropping this kills and removes it.
///
/// All methods block for the few milliseconds that a local server takes.
pub struct RedisServer {
    guard: Mutex<Guard>,
    place: Box<Place>,
}

/// The part of a server that restarts do not change.
struct Place {
    address: Address,
    login: Option<Login>,
    control: String,
    durable: bool,
    _ports: Vec<Port>,
}

impl RedisServer {
    /// Starts a server on a unix socket that keeps nothing on disk.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Settings for a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a server whose process is starting, once it answers.
    ///
    /// `control` is its address for commands without TLS. A `durable` server has all data that it must keep on its
    /// disk.
    pub(crate) fn started(
        guard: Guard,
        address: Address,
        control: &Address,
        login: Option<Login>,
        durable: bool,
        ports: Vec<Port>,
    ) -> Result<Self, Error> {
        let control = control.url(login.as_ref());
        let place = Box::new(Place { address, login, control, durable, _ports: ports });
        let server = Self { guard: Mutex::new(guard), place };
        server.await_ready(&server.guard())?;
        Ok(server)
    }

    /// The address, with the password if there is one: `redis+unix:///…`, `redis://127.0.0.1:port` or
    /// `rediss://127.0.0.1:port`. It stays the same across restarts.
    pub fn url(&self) -> String {
        self.place.address.url(self.place.login.as_ref())
    }

    /// The address for clients.
    pub(crate) fn address(&self) -> &Address {
        &self.place.address
    }

    /// The login of clients by default.
    pub(crate) fn login(&self) -> Option<&Login> {
        self.place.login.as_ref()
    }

    /// The address for commands without TLS, with all rights.
    pub(crate) fn control(&self) -> &str {
        &self.place.control
    }

    /// The server's process; `None` after [`kill`](Self::kill).
    pub fn pid(&self) -> Option<u32> {
        self.guard().server().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// The private folder, which is removed when the server is dropped.
    pub fn dir(&self) -> PathBuf {
        self.guard().dir().to_owned()
    }

    /// Stops the server's process with SIGSTOP: clients may connect and write, but get no answer.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn pause(&self) -> Result<(), Error> {
        let guard = self.guard();
        guard.signal(Signal::STOP)?;
        // The signal takes effect a moment after it was sent.
        let deadline = Instant::now() + START;
        while guard.server_state() != Some('T') {
            if Instant::now() > deadline {
                return Err(Error::NotRunning);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Resumes a paused server. Does nothing when it is not paused.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.guard().signal(Signal::CONT)
    }

    /// Kills the server with SIGKILL, and returns when it is gone. Its folder stays for a [`restart`](Self::restart).
    /// Does nothing when it is dead already.
    ///
    /// # Errors
    /// When the guard process is gone.
    pub fn kill(&self) -> Result<(), Error> {
        self.guard().kill()
    }

    /// Kills the server if it runs, and starts it on the same address.
    ///
    /// # Errors
    /// When the data cannot be kept or wiped, or the server does not return in time.
    pub fn restart(&self, data: Data) -> Result<(), Error> {
        let mut guard = self.guard();
        if data == Data::Keep && !self.place.durable && !matches!(guard.server_state(), None | Some('Z')) {
            guard.signal(Signal::CONT)?;
            redis::cmd("SAVE").query::<()>(&mut self.connection(START)?)?;
        }
        guard.kill()?;
        if data == Data::Wipe {
            empty(&guard.dir().join("data"))?;
        }
        guard.start()?;
        self.await_ready(&guard)
    }

    /// Whether the server's process runs and is not paused.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.guard().server_state(), None | Some('T' | 'Z'))
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connection(&self, timeout: Duration) -> Result<redis::Connection, redis::RedisError> {
        let connection = redis::Client::open(self.control())?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    fn await_ready(&self, guard: &Guard) -> Result<(), Error> {
        let deadline = Instant::now() + START;
        let Some(pid) = guard.server() else { return Err(Error::NotRunning) };
        while !self.answers_as(pid) {
            if matches!(guard.server_state(), None | Some('Z')) {
                return Err(Error::Exited { log: log_tail(guard.dir()) });
            }
            if Instant::now() > deadline {
                return Err(Error::Unready { after: START, log: log_tail(guard.dir()) });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whether this very server answers: another process may have taken its port first.
    fn answers_as(&self, pid: Pid) -> bool {
        let ask = || -> Result<String, redis::RedisError> {
            let mut connection = self.connection(Duration::from_secs(1))?;
            redis::cmd("PING").query::<()>(&mut connection)?;
            redis::cmd("INFO").arg("server").query(&mut connection)
        };
        let own = format!("process_id:{}", pid.as_raw_nonzero());
        ask().is_ok_and(|info| info.lines().any(|line| line == own))
    }
}

fn empty(dir: &Path) -> Result<(), Error> {
    let at = |source| Error::Path { path: dir.to_owned(), source };
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|source| Error::Path { path, source })?;
    }
    Ok(())
}

fn log_tail(dir: &Path) -> String {
    let log = fs::read(dir.join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<_> = log.lines().rev().take(4).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
