//! A private Redis server for one test or one example.
//!
//! The server listens on a unix socket (or a port of 127.0.0.1) in a folder of its own, keeps nothing on disk
//! unless it is told to, and is killed with its folder removed when its [`RedisServer`] is dropped or the
//! process that holds it ends, SIGKILL included. `guard.rs` sees to that; `binary.rs` finds the binary.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use crate::{Error, binary, guard::Guard};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);
/// A unix socket's path has at most 107 bytes; the private folder and the socket's name need about 30 of them.
const LONGEST_BASE: usize = 70;
/// How often a port that somebody else took between our choice and the server's start is chosen again.
const PORT_CHOICES: usize = 10;

/// What a restart does to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// A live server comes back with all that it held; a killed one with what it had written to its disk.
    Keep,
    /// The server comes back empty, with its disk emptied.
    Wipe,
}

/// A private Redis server; killed and removed when dropped.
///
/// All methods block for the few milliseconds that a local server takes.
pub struct RedisServer {
    guard: Mutex<Guard>,
    url: String,
    append_only: bool,
}

/// Settings of a [`RedisServer`] that is to be started.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    tcp: bool,
    password: Option<String>,
    append_only: bool,
    config: Vec<String>,
}

impl Builder {
    /// Listens on a free port of 127.0.0.1 instead of a unix socket.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Asks for this password; it is part of [`RedisServer::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Writes an append-only file, so that a killed server comes back with every write that it answered.
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Sets one directive of `redis.conf`, such as `("maxmemory-policy", "allkeys-lru")`.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// When no binary is at hand, or the server ends or does not answer in time; nothing is left behind then.
    pub fn start(self) -> Result<RedisServer, Error> {
        let binary = binary::find()?;
        let mut choices = PORT_CHOICES;
        loop {
            let result = self.start_once(&binary);
            choices -= 1;
            match result {
                Err(Error::Exited { log }) if self.tcp && choices > 0 && log.contains("already in use") => {}
                result => return result,
            }
        }
    }

    fn start_once(&self, binary: &Path) -> Result<RedisServer, Error> {
        let port = if self.tcp { free_port()? } else { 0 };
        let mut guard = Guard::spawn(&base_dir(), &self.command_line(binary, port))?;
        let url = self.url(guard.dir(), port);
        guard.start()?;
        let server = RedisServer { guard: Mutex::new(guard), url, append_only: self.append_only };
        server.await_ready(&server.guard())?;
        Ok(server)
    }

    fn command_line(&self, binary: &Path, port: u16) -> Vec<String> {
        let mut line = vec![binary.to_string_lossy().into_owned()];
        let mut set = |name: &str, value: &str| line.extend([format!("--{name}"), value.to_owned()]);
        set("port", &port.to_string());
        if self.tcp {
            set("bind", "127.0.0.1");
        } else {
            // Relative to data/, where the guard runs the server.
            set("unixsocket", "../redis.sock");
            set("unixsocketperm", "700");
        }
        set("save", "");
        set("appendonly", if self.append_only { "yes" } else { "no" });
        set("loglevel", "warning");
        if let Some(password) = &self.password {
            set("requirepass", password);
        }
        line.extend_from_slice(&self.config);
        line
    }

    fn url(&self, dir: &Path, port: u16) -> String {
        let password = self.password.as_deref().map(percent_encoded);
        match (self.tcp, password) {
            (true, None) => format!("redis://127.0.0.1:{port}"),
            (true, Some(password)) => format!("redis://:{password}@127.0.0.1:{port}"),
            (false, None) => format!("redis+unix://{}/redis.sock", dir.display()),
            (false, Some(password)) => format!("redis+unix://{}/redis.sock?pass={password}", dir.display()),
        }
    }
}

impl RedisServer {
    /// Starts a server on a unix socket that keeps nothing on disk.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address, with the password if there is one: `redis+unix:///…` or `redis://127.0.0.1:port`. It stays the
    /// same over restarts.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The server's process; `None` after [`kill`](Self::kill).
    pub fn pid(&self) -> Option<u32> {
        self.guard().server().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// The private folder, which is gone when the server is dropped.
    pub fn dir(&self) -> PathBuf {
        self.guard().dir().to_owned()
    }

    /// Stops the server's process with SIGSTOP: clients may connect and write, nothing is answered.
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

    /// Lets a paused server go on. Fine when it is not paused.
    ///
    /// # Errors
    /// When the server does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.guard().signal(Signal::CONT)
    }

    /// Kills the server with SIGKILL and returns when it is gone. Its folder stays for a
    /// [`restart`](Self::restart). Fine when it is killed already.
    ///
    /// # Errors
    /// When the guard process is gone.
    pub fn kill(&self) -> Result<(), Error> {
        self.guard().kill()
    }

    /// Kills the server if it runs, and starts it on the same address.
    ///
    /// # Errors
    /// When the data cannot be kept or wiped, or the server does not come back in time.
    pub fn restart(&self, data: Data) -> Result<(), Error> {
        let mut guard = self.guard();
        if data == Data::Keep && !self.append_only && !matches!(guard.server_state(), None | Some('Z')) {
            guard.signal(Signal::CONT)?;
            redis::cmd("SAVE").query::<()>(&mut self.connection(START)?)?;
        }
        guard.kill()?;
        if data == Data::Wipe {
            empty(&guard.dir().join("data"))?;
        }
        let deadline = Instant::now() + START;
        loop {
            guard.start()?;
            match self.await_ready(&guard) {
                // Somebody's outgoing connection may have our port for a moment.
                Err(Error::Exited { log }) if log.contains("already in use") && Instant::now() < deadline => {
                    guard.kill()?;
                    thread::sleep(POLL);
                }
                result => return result,
            }
        }
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self, timeout: Duration) -> Result<redis::Connection, redis::RedisError> {
        let connection = redis::Client::open(self.url.as_str())?.get_connection_with_timeout(timeout)?;
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

    /// Whether our own server answers: on a port, another process may have been quicker.
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

fn base_dir() -> PathBuf {
    let dir = env::temp_dir();
    if dir.is_absolute() && dir.as_os_str().len() <= LONGEST_BASE { dir } else { PathBuf::from("/tmp") }
}

fn free_port() -> Result<u16, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|source| Error::Guard { doing: "choose a free port", source })
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

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
