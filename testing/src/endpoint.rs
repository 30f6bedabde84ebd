//! The Redis that an example uses: the one that `REDIS_URL` names, else a private one.

use std::env;

use crate::{Error, RedisServer};

/// A Redis to use: somebody's, or a private one that lives as long as this value.
pub struct Endpoint {
    url: String,
    server: Option<RedisServer>,
}

impl Endpoint {
    /// Takes `REDIS_URL` when it is set and not empty, else starts a private server that keeps nothing on disk.
    /// Never uses whatever happens to listen on port 6379.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub fn from_env() -> Result<Self, Error> {
        Self::at(env::var("REDIS_URL").ok())
    }

    /// The Redis at `url`, or a private server when there is none or it is empty.
    ///
    /// # Errors
    /// When the private server cannot be started. Whether something answers at `url` is not tried.
    pub fn at(url: Option<String>) -> Result<Self, Error> {
        match url.filter(|url| !url.is_empty()) {
            Some(url) => Ok(Self { url, server: None }),
            None => RedisServer::start().map(|server| Self { url: server.url(), server: Some(server) }),
        }
    }

    /// The address to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The private server, unless `REDIS_URL` named one.
    pub fn private(&self) -> Option<&RedisServer> {
        self.server.as_ref()
    }
}
