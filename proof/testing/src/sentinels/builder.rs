//! Connects a master, a replica and their sentinels.
//!
//! Commands (`SENTINEL DEBUG`) make the sentinels look and talk more often than in production, so that a fail-over
//! takes one or two seconds. Otherwise they behave as usual.

use std::time::Duration;

use redis::{Cmd, cmd};

use super::{SERVICE, Sentinels, port_of};
use crate::{Error, RedisServer, builder as server, tls::Authority};

const SENTINELS: u32 = 3;
/// The number of sentinels that must find the master down before a vote, which still needs two of three.
const QUORUM: &str = "1";
/// The time without an answer after which the first sentinel calls the master down; each further one waits this much
/// longer. If all found it down at the same moment, each would vote for itself, again and again.
const DOWN_AFTER: Duration = Duration::from_secs(1);
/// A fail-over that takes longer is cancelled; an election without a winner is repeated after twice this time.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings for starting [`Sentinels`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    /// The settings of the two servers.
    server: server::Builder,
    /// The settings of the sentinels.
    sentinel: server::Builder,
    password: Option<String>,
    tls: bool,
}

impl Builder {
    /// Requires this password on both servers; it becomes part of [`Sentinels::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.server = self.server.password(&password).config("masterauth", &password);
        self.password = Some(password);
        self
    }

    /// Requires this password on the sentinels; it becomes part of [`Sentinels::url`].
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.sentinel =
            self.sentinel.password(&password).directive("sentinel", &["sentinel-pass", &password]);
        self
    }

    /// Makes clients, servers and sentinels speak TLS only, with certificates like those of [`crate::Builder::tls`].
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

    /// Starts all of them, and waits until a fail-over is possible.
    ///
    /// # Errors
    /// When a server cannot be started, or they do not find each other in time; nothing is left behind then.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing behind.
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

/// Makes a sentinel look, and tell the others, more often. It also keeps a busy machine from looking like a broken
/// clock.
fn impatience() -> Cmd {
    let mut command = cmd("SENTINEL");
    command.arg("DEBUG");
    for (name, ms) in [
        ("info-period", 200),
        // A replica that was silent for five times this is not promoted; the sentinels ask it once a second.
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
