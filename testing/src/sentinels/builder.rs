//! Brings a master, a replica and their sentinels together.
//!
//! The sentinels are told (`SENTINEL DEBUG`) to look and to talk more often than they do in production, so that a
//! fail-over takes one or two seconds. They do what they always do.

use std::time::Duration;

use redis::{Cmd, cmd};

use super::{SERVICE, Sentinels, port_of};
use crate::{Error, RedisServer, builder as server, tls::Authority};

const SENTINELS: u32 = 3;
/// One that finds the master down asks the others for their votes; it still needs two of three.
const QUORUM: &str = "1";
/// A master that has not answered for so long is down, says the first sentinel; the next ones wait as much longer each.
/// If they all found it down at the same moment, each would vote for itself, and again.
const DOWN_AFTER: Duration = Duration::from_secs(1);
/// A fail-over that takes longer is called off, and an election without a winner held again after twice this time.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of [`Sentinels`] that are to be started.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    /// What the two servers are to be.
    server: server::Builder,
    /// What the sentinels are to be.
    sentinel: server::Builder,
    password: Option<String>,
    tls: bool,
}

impl Builder {
    /// Asks for this password on both servers; it is part of [`Sentinels::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.server = self.server.password(&password).config("masterauth", &password);
        self.password = Some(password);
        self
    }

    /// Asks for this password on the sentinels; it is part of [`Sentinels::url`].
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.sentinel =
            self.sentinel.password(&password).directive("sentinel", &["sentinel-pass", &password]);
        self
    }

    /// Has clients, servers and sentinels speak TLS only, with certificates as [`crate::Builder::tls`] has them.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn tls(mut self, authority: &Authority) -> Result<Self, Error> {
        self.server = self.server.tls(authority)?.config("tls-replication", "yes");
        self.sentinel = self.sentinel.tls(authority)?.config("tls-replication", "yes");
        self.tls = true;
        Ok(self)
    }

    /// Sets one directive of `redis.conf` on both servers.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.server = self.server.config(name, value);
        self
    }

    /// Starts them, and waits until a fail-over is possible.
    ///
    /// # Errors
    /// When a server cannot be started, or they do not come together in time; nothing is left behind then.
    ///
    /// # Cancel safety
    /// Nothing is left of a start that is dropped.
    pub async fn start(self) -> Result<Sentinels, Error> {
        let server = self
            .server
            .clone()
            .tcp()
            .config("repl-diskless-sync-delay", "0")
            .config("repl-ping-replica-period", "1");
        let master = server.clone().start()?;
        let port = port_of(&master).to_string();
        let replica = server.directive("replicaof", &["127.0.0.1", &port]).start()?;
        let watchers: Vec<_> =
            (1..=SENTINELS).map(|rank| self.sentinel(rank, &port)).collect::<Result<_, _>>()?;
        let login = master.login().cloned();
        let sentinels = Sentinels { servers: [master, replica], watchers, login, tls: self.tls };
        sentinels.await_replica().await?;
        Ok(sentinels)
    }

    fn sentinel(&self, rank: u32, port: &str) -> Result<RedisServer, Error> {
        let ms = |time: Duration| time.as_millis().to_string();
        let sentinel = self
            .sentinel
            .clone()
            .sentinel()
            .directive("sentinel", &["monitor", SERVICE, "127.0.0.1", port, QUORUM])
            .directive("sentinel", &["down-after-milliseconds", SERVICE, &ms(DOWN_AFTER * rank)])
            .directive("sentinel", &["failover-timeout", SERVICE, &ms(FAILOVER_TIMEOUT)]);
        let sentinel = match &self.password {
            Some(password) => sentinel.directive("sentinel", &["auth-pass", SERVICE, password]),
            None => sentinel,
        };
        let sentinel = sentinel.start()?;
        sentinel.query::<()>(&impatience())?;
        Ok(sentinel)
    }
}

/// Makes a sentinel look, and tell the others, more often; and keeps a busy machine from looking like a broken clock.
fn impatience() -> Cmd {
    let mut command = cmd("SENTINEL");
    command.arg("DEBUG");
    for (name, ms) in [
        ("info-period", 200),
        // A replica that was not heard of for five times this is not promoted; the sentinels ask it once a second.
        ("ping-period", 500),
        ("ask-period", 100),
        ("publish-period", 200),
        ("tilt-trigger", 20_000),
        ("tilt-period", 1_000),
    ] {
        command.arg(name).arg(ms);
    }
    command
}
