//! Failures of servers, proxies and processes, and of waiting for them.

use std::{io, path::PathBuf, time::Duration};

/// A tool could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No `redis-server` or `valkey-server` could be found or fetched.
    #[error("no redis-server at hand, nothing was started: {0}")]
    NoBinary(String),
    /// The guard process that owns the server did not do its task.
    #[error("the guard of the private redis server failed: it should {doing}")]
    Guard {
        /// The task.
        doing: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file or folder of the private server could not be read or changed.
    #[error("cannot use {}", path.display())]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server ended before it answered.
    #[error("the redis server ended before it answered, its log ends with: {log}")]
    Exited {
        /// The last lines of its log.
        log: String,
    },
    /// The server runs but did not answer in time; it is still running.
    #[error("the redis server did not answer within {after:?}, its log ends with: {log}")]
    Unready {
        /// The time waited.
        after: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// The server is killed and was not restarted.
    #[error("the redis server is not running")]
    NotRunning,
    /// The server answered a command with an error.
    #[error("the redis server refused a command")]
    Redis(#[from] redis::RedisError),
    /// No free port of 127.0.0.1 was available.
    #[error("no free port could be had, nothing was started")]
    Port(#[source] io::Error),
    /// A proxy could not listen on its port.
    #[error("the proxy cannot listen")]
    Proxy(#[source] io::Error),
    /// No key or certificate could be made.
    #[error("no certificate was made")]
    Certificate(#[from] rcgen::Error),
    /// A condition did not hold in time.
    #[error("waited {after:?} in vain for {what}; last seen: {seen}")]
    Late {
        /// The condition.
        what: String,
        /// The time waited.
        after: Duration,
        /// The state seen last.
        seen: String,
    },
    /// A child process could not be started, signalled, spoken to or awaited.
    #[error("{name}: the process cannot be handled")]
    Process {
        /// The process.
        name: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A child process ended or continued when it should not have.
    #[error("{name}: {what}")]
    Unexpected {
        /// The process.
        name: String,
        /// The unexpected behaviour.
        what: String,
    },
    /// A signal could not be sent to the server.
    #[error("cannot signal the redis server")]
    Signal(#[source] io::Error),
}

impl Error {
    /// One look has not found this.
    pub(crate) fn late(what: &str, seen: String) -> Self {
        Self::Late { what: what.to_owned(), after: Duration::ZERO, seen }
    }
}
