//! The Redis for an example: the one that `REDIS_URL` names, or a private one.

use std::env;

use crate::{Error, RedisServer};

/// A Redis to use: an existing one, or a private one that lives as long as this value.
pub struct Endpoint {
    url: String,
    server: Option<RedisServer>,
}

impl Endpoint {
    /// Uses `REDIS_URL` if it is set and not empty. Otherwise starts a private server that keeps nothing on disk. Never
    /// uses a server that happens to listen on port 6379.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub fn from_env() -> Result<Self, Error> {
        Self::at(env::var("REDIS_URL").ok())
    }

    /// The Redis at `url`, or a private server when `url` is missing or empty.
    ///
    /// # Errors
    /// When the private server cannot be started. It does not try whether a server answers at `url`.
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
