//! A master, a replica and three sentinels on 127.0.0.1. The sentinels make the replica the master when the master is
//! gone.
//!
//! `builder.rs` connects them.

mod builder;

use std::{collections::HashMap, time::Duration};

use redis::cmd;
use tokio::time::Instant;

pub use builder::Builder;

use crate::{
    Error, RedisServer,
    address::{Login, encoded, url_of_many},
    ask::ask,
    inspect::set_user,
    within,
};

/// The name by which the sentinels know the master.
pub const SERVICE: &str = "mymaster";

/// The longest time in which the servers may reach the awaited state.
const SETTLED: Duration = Duration::from_secs(60);
/// After this time the sentinels have cancelled an ordered fail-over.
const CALLED_OFF: Duration = Duration::from_secs(10);

/// Two servers that three sentinels watch. Dropping this kills and removes all of them.
pub struct Sentinels {
    servers: [RedisServer; 2],
    watchers: Vec<RedisServer>,
    login: Option<Login>,
    tls: bool,
}

impl Sentinels {
    /// Starts all of them, without a password, and waits until a fail-over is possible.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Cancel safety
    /// As [`Builder::start`].
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts all of them like [`start`](Self::start), with this password on both servers.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Cancel safety
    /// As [`Builder::start`].
    pub async fn with_password(password: &str) -> Result<Self, Error> {
        Self::builder().password(password).start().await
    }

    /// Settings for servers and sentinels.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address of the service: `redis+sentinel://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c/mymaster`;
    /// `rediss+sentinel://` with TLS. It has the password of the servers if there is one, and `?sentinel_password=` if
    /// the sentinels have one.
    pub fn url(&self) -> String {
        self.url_of(self.login.as_ref())
    }

    /// Makes a user on both servers, like [`RedisServer::acl_user`], and returns the address by which that user
    /// connects to the service.
    ///
    /// # Errors
    /// When a server does not answer or does not know a right.
    pub fn acl_user(&self, name: &str, password: &str, rights: &[&str]) -> Result<String, Error> {
        let login = Login { user: name.to_owned(), password: password.to_owned() };
        for server in &self.servers {
            server.query::<()>(&set_user(&login, rights))?;
        }
        Ok(self.url_of(Some(&login)))
    }

    /// The three sentinels, in the order of the address.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.watchers
    }

    /// The server that the sentinels now call the master.
    ///
    /// # Errors
    /// When the running sentinels do not all name the same server.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn master(&self) -> Result<&RedisServer, Error> {
        let master = within(Duration::from_secs(1), "the sentinels' agreement on a master", async || {
            self.named_master().await
        });
        Ok(&self.servers[master.await?])
    }

    /// The server that the sentinels do not call the master. It may be down.
    ///
    /// # Errors
    /// As [`master`](Self::master).
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn replica(&self) -> Result<&RedisServer, Error> {
        let port = port_of(self.master().await?);
        Ok(if port_of(&self.servers[0]) == port { &self.servers[1] } else { &self.servers[0] })
    }

    /// Orders a fail-over (`SENTINEL FAILOVER`) when it is possible. Returns the new master as soon as all sentinels
    /// name it and it accepts writes. The old one stays up. It accepts writes too, until the sentinels make it a
    /// replica and it loses them.
    ///
    /// # Errors
    /// When the replica is not ready in time, or the fail-over does not happen in time.
    ///
    /// # Cancel safety
    /// When dropped, the fail-over may still happen.
    pub async fn fail_over(&self) -> Result<&RedisServer, Error> {
        self.await_replica().await?;
        let old = self.settled_master(None).await?;
        let mut order = cmd("SENTINEL");
        order.arg("FAILOVER").arg(SERVICE);
        // On a busy machine it may take longer than the sentinels allow; they then cancel it.
        let mut ordered: Option<Instant> = None;
        let new = within(SETTLED, "a fail-over on order", async || {
            match self.settled_master_now(Some(old)).await {
                Err(_) if ordered.is_none_or(|at| at.elapsed() > CALLED_OFF) => {
                    ask::<()>(self.watchers[0].control(), &order).await?;
                    ordered = Some(Instant::now());
                    Err("it was ordered just now".to_owned())
                }
                result => result,
            }
        });
        Ok(&self.servers[new.await?])
    }

    /// Cuts the replica off from all later writes: its master refuses it. If the master is killed then, the new master
    /// lacks those writes, and the history forks.
    ///
    /// # Errors
    /// As [`master`](Self::master), or when a server does not answer.
    ///
    /// # Cancel safety
    /// [`let_replica_follow`](Self::let_replica_follow) undoes it, dropped or not.
    pub async fn hold_replica_back(&self) -> Result<&RedisServer, Error> {
        let (master, replica) = (self.master().await?, self.replica().await?);
        log_in_as(replica, "nobody", "nothing")?;
        master.query::<()>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica"))?;
        Ok(replica)
    }

    /// Lets both servers follow each other again, whichever is the master.
    ///
    /// # Errors
    /// When a server that runs does not answer.
    pub fn let_replica_follow(&self) -> Result<(), Error> {
        let password = self.login.as_ref().map_or("", |login| &login.password);
        let mut running = self.servers.iter().filter(|server| server.is_running());
        running.try_for_each(|server| log_in_as(server, "", password))
    }

    /// Kills the master, and returns at once. [`await_new_master`](Self::await_new_master) awaits its successor.
    /// [`RedisServer::restart`] restores the old one, as a master that nobody has told yet.
    ///
    /// # Errors
    /// As [`master`](Self::master), or when it cannot be killed.
    ///
    /// # Cancel safety
    /// When dropped, the master may be dead or alive.
    pub async fn kill_master(&self) -> Result<&RedisServer, Error> {
        let old = self.master().await?;
        old.kill()?;
        Ok(old)
    }

    /// Waits until all sentinels name another master than `old`, and that master accepts writes.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_new_master(&self, old: &RedisServer) -> Result<&RedisServer, Error> {
        let old = self.servers.iter().position(|server| port_of(server) == port_of(old));
        Ok(&self.servers[self.settled_master(old).await?])
    }

    /// Waits until the other server is a replica in step with its master, and all sentinels know it, so that a
    /// fail-over is possible.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_replica(&self) -> Result<(), Error> {
        let what = "a replica in step that all sentinels know";
        within(SETTLED, what, async || -> Result<(), String> {
            let master = self.named_master().await?;
            let replica = &self.servers[1 - master];
            let role: redis::Value = ask(replica.control(), &cmd("ROLE")).await?;
            let expected = port_of(&self.servers[master]);
            if !is_replica_of(&role, expected) {
                return Err(format!("the replica's role is {role:?}"));
            }
            for sentinel in &self.watchers {
                self.knows_all(sentinel, master).await?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until the replica has everything that the master has now, so that a fail-over loses none of it.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_replicated(&self) -> Result<(), Error> {
        let written = replication(self.master().await?, "master_repl_offset")?;
        let replica = self.replica().await?;
        within(SETTLED, "a replica that has all that was written", async || -> Result<(), String> {
            let has = replication(replica, "slave_repl_offset").map_err(|error| error.to_string())?;
            if has >= written { Ok(()) } else { Err(format!("it has {has} of {written} bytes")) }
        })
        .await
    }

    fn url_of(&self, login: Option<&Login>) -> String {
        let scheme = if self.tls { "rediss+sentinel" } else { "redis+sentinel" };
        let url = url_of_many(scheme, login, self.watchers.iter().map(port_of));
        let password = self.watchers.first().and_then(|sentinel| Some(encoded(&sentinel.login()?.password)));
        let query = password.map_or(String::new(), |password| format!("?sentinel_password={password}"));
        format!("{url}/{SERVICE}{query}")
    }

    /// The number of the server, other than `old`, that all running sentinels name and that accepts writes.
    async fn settled_master(&self, old: Option<usize>) -> Result<usize, Error> {
        within(SETTLED, "a master that all sentinels name", async || self.settled_master_now(old).await).await
    }

    async fn settled_master_now(&self, old: Option<usize>) -> Result<usize, String> {
        let named = self.named_master().await?;
        let role: redis::Value = ask(self.servers[named].control(), &cmd("ROLE")).await?;
        match &role {
            redis::Value::Array(words) if is(words.first(), "master") && Some(named) != old => Ok(named),
            _ => Err(format!("they name the server {named} of {old:?}, whose role is {role:?}")),
        }
    }

    /// The number of the server that all running sentinels name.
    async fn named_master(&self) -> Result<usize, String> {
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(SERVICE);
        let mut named = Vec::new();
        for sentinel in self.watchers.iter().filter(|sentinel| sentinel.is_running()) {
            let (_, port): (String, u16) = ask(sentinel.control(), &question).await?;
            named.push(port);
        }
        let first = self.servers.iter().position(|server| Some(&port_of(server)) == named.first());
        match first {
            Some(first) if named.iter().all(|port| Some(port) == named.first()) => Ok(first),
            _ => Err(format!("the sentinels name {named:?}")),
        }
    }

    /// Checks that this sentinel knows the others, and a replica that it may promote.
    async fn knows_all(&self, sentinel: &RedisServer, master: usize) -> Result<(), String> {
        if !sentinel.is_running() {
            return Ok(());
        }
        let mut question = cmd("SENTINEL");
        question.arg("MASTER").arg(SERVICE);
        let seen: HashMap<String, String> = ask(sentinel.control(), &question).await?;
        let mut question = cmd("SENTINEL");
        question.arg("REPLICAS").arg(SERVICE);
        let replicas: Vec<HashMap<String, String>> = ask(sentinel.control(), &question).await?;
        let port = port_of(&self.servers[1 - master]).to_string();
        let others = (self.watchers.len() - 1).to_string();
        let ready = seen.get("num-other-sentinels") == Some(&others)
            && seen.get("flags").is_some_and(|flags| flags == "master")
            && replicas.iter().any(|replica| {
                replica.get("port") == Some(&port)
                    && replica.get("flags").is_some_and(|flags| flags == "slave")
                    && replica.get("master-link-status").is_some_and(|status| status == "ok")
            });
        if ready { Ok(()) } else { Err(format!("a sentinel sees {seen:?} with {replicas:?}")) }
    }
}

/// A number from the server's description of its replication; 0 if it is missing.
fn replication(server: &RedisServer, name: &str) -> Result<u64, Error> {
    let info: String = server.query(cmd("INFO").arg("replication"))?;
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.and_then(|number| number.trim().parse().ok()).unwrap_or_default())
}

/// Sets the login of a replica to its master.
fn log_in_as(replica: &RedisServer, user: &str, password: &str) -> Result<(), Error> {
    let mut command = cmd("CONFIG");
    command.arg("SET").arg("masteruser").arg(user).arg("masterauth").arg(password);
    replica.query(&command)
}

fn port_of(server: &RedisServer) -> u16 {
    server.address().port().unwrap_or_default()
}

/// Whether a `ROLE` is that of a connected replica of the master on this port.
fn is_replica_of(role: &redis::Value, port: u16) -> bool {
    match role {
        redis::Value::Array(words) => {
            is(words.first(), "slave")
                && words.get(2) == Some(&redis::Value::Int(port.into()))
                && is(words.get(3), "connected")
        }
        _ => false,
    }
}

fn is(value: Option<&redis::Value>, word: &str) -> bool {
    matches!(value, Some(redis::Value::BulkString(bytes)) if bytes == word.as_bytes())
}
