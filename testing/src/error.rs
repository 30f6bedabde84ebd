//! What can go wrong while a private Redis server is started, steered or asked.

use std::{io, path::PathBuf, time::Duration};

/// A private server that could not be started or steered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No `redis-server` or `valkey-server` could be found or fetched.
    #[error("no redis-server at hand, nothing was started: {0}")]
    NoBinary(String),
    /// The guard process that owns the server did not do what it was asked.
    #[error("the guard of the private redis server failed while it was to {doing}")]
    Guard {
        /// What it was asked to do.
        doing: &'static str,
        /// Why it did not.
        #[source]
        source: io::Error,
    },
    /// A file or folder of the private server could not be read or changed.
    #[error("cannot use {}", path.display())]
    Path {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
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
        /// How long it was waited for.
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
    /// No port of 127.0.0.1 could be had.
    #[error("no free port could be had, nothing was started")]
    Port(#[source] io::Error),
    /// A proxy could not listen on its port.
    #[error("the proxy cannot listen")]
    Proxy(#[source] io::Error),
    /// A key or a certificate could not be made.
    #[error("no certificate was made")]
    Certificate(#[from] rcgen::Error),
    /// Servers that belong together run, but are not in the state that was awaited.
    #[error("{what} is not so after {after:?}, last seen: {seen}")]
    Unsettled {
        /// What was awaited.
        what: &'static str,
        /// How long it was waited for.
        after: Duration,
        /// What was there instead.
        seen: String,
    },
    /// A signal could not be sent to the server.
    #[error("cannot signal the redis server")]
    Signal(#[source] io::Error),
}
