//! The handle of a connection for commands that do not block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ToRedisArgs, Value};

use crate::cluster::Cluster;
use crate::deadline::Deadline;
use crate::origin::{Origin, Place};
use crate::pipeline::Pipeline;
use crate::request::Request;
use crate::shared::{Patience, Shared};
use crate::{Call, Error, Script, ServerInfo, slot};

/// A connection for commands and scripts. Clones share it.
///
/// It connects at its first call, on the tokio runtime of that call, and must not outlive that runtime: use
/// [`Client::dedicated`](crate::Client::dedicated) to have one per runtime.
///
/// In a cluster it is one connection for each node that is needed. A command goes to the owner of its first key, and a
/// command without a key to any node. Redirects are followed within the deadline: a node does not execute a command
/// that it redirects.
#[derive(Clone)]
pub struct Connection {
    servers: Servers,
    timeout: Duration,
    patience: Patience,
}

#[derive(Clone)]
enum Servers {
    One(Arc<Shared>),
    Cluster(Arc<Cluster>),
}

impl Connection {
    pub(crate) fn new(origin: &Origin) -> Self {
        let timeout = origin.access.settings.response_timeout;
        let servers = match &origin.place {
            Place::One(target) => Servers::One(Shared::new(origin.connector(target.clone()))),
            Place::Cluster(directory) => {
                Servers::Cluster(Cluster::new(directory.clone(), origin.access.clone()))
            }
        };
        Self { servers, timeout, patience: Patience::UntilTheDeadline }
    }

    /// The same connection with another deadline for calls through this handle. With zero nothing is sent.
    #[must_use]
    pub fn with_response_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same connection with calls that end at the first failure to connect, in place of further attempts until the
    /// deadline. So a caller hears at once why the server cannot be reached.
    #[must_use]
    pub fn without_retries(mut self) -> Self {
        self.patience = Patience::OneAttempt;
        self
    }

    /// The deadline of each call, reconnecting included.
    pub fn response_timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends one command and returns its reply.
    ///
    /// # Errors
    /// Every class of [`Error`]. The whole call, a reconnect included, ends within the deadline.
    ///
    /// # Cancel safety
    /// Dropping the future is fine for the connection; the command may be executed all the same.
    pub async fn command(&self, command: &Cmd) -> Result<Value, Error> {
        self.send(command.into()).await
    }

    /// Sends a command without a key, such as `TIME`, to the server of a key. A cluster is asked anew who owns the
    /// key's slot, at most every 100 ms, because a former owner would execute such a command too.
    ///
    /// # Errors
    /// As [`Connection::command`].
    ///
    /// # Cancel safety
    /// As [`Connection::command`].
    pub async fn command_at(&self, key: impl AsRef<[u8]>, command: &Cmd) -> Result<Value, Error> {
        match &self.servers {
            Servers::One(_) => self.send(command.into()).await,
            Servers::Cluster(cluster) => {
                let deadline = Deadline::after(self.timeout);
                let (server, link) = cluster.owner(slot(key), deadline, self.patience).await?;
                server.send(&link, command, deadline).await
            }
        }
    }

    /// Calls a script: shorthand for [`Connection::call`] with these keys and arguments.
    ///
    /// # Errors
    /// As [`Connection::call`].
    ///
    /// # Cancel safety
    /// As [`Connection::command`].
    pub async fn script<K: ToRedisArgs, A: ToRedisArgs>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[A],
    ) -> Result<Value, Error> {
        let mut call = script.call(keys);
        for arg in args {
            call.arg(arg);
        }
        self.call(&call).await
    }

    /// Sends a prepared call. If the server does not know the script, it executes nothing: the script is loaded and the
    /// call sent again, within the same deadline and on the same connection.
    ///
    /// # Errors
    /// Every class of [`Error`]; `NOSCRIPT` only when scripts are flushed again and again.
    ///
    /// # Cancel safety
    /// As [`Connection::command`].
    pub async fn call(&self, call: &Call) -> Result<Value, Error> {
        self.send(call.into()).await
    }

    /// An empty pipeline on this connection, with the deadline of this handle.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.clone())
    }

    /// Asks the server for its identity and settings. This works even if the server is not admitted: nothing is
    /// written.
    ///
    /// # Errors
    /// Every class of [`Error`] but [`Error::OtherServer`]. [`Error::Config`] in a cluster, which has many servers: use
    /// [`server_of`](Self::server_of) there.
    ///
    /// # Cancel safety
    /// Safe: the command only reads.
    pub async fn server(&self) -> Result<ServerInfo, Error> {
        match &self.servers {
            Servers::One(server) => self.server_at(server).await,
            Servers::Cluster(_) => {
                let what = "a cluster has many servers: ask for the server of a key";
                Err(Error::Config { what, source: None })
            }
        }
    }

    /// Asks the server of a key like [`server`](Self::server). In a cluster this is the owner of the key's slot, about
    /// which the cluster is asked anew.
    ///
    /// # Errors
    /// Every class of [`Error`] but [`Error::OtherServer`].
    ///
    /// # Cancel safety
    /// Safe: the command only reads.
    pub async fn server_of(&self, key: impl AsRef<[u8]>) -> Result<ServerInfo, Error> {
        match &self.servers {
            Servers::One(server) => self.server_at(server).await,
            Servers::Cluster(cluster) => {
                let deadline = Deadline::after(self.timeout);
                let (server, link) = cluster.owner(slot(key), deadline, self.patience).await?;
                ServerInfo::parse(&server.send_unchecked(&link, &info(), deadline).await?)
            }
        }
    }

    async fn server_at(&self, server: &Arc<Shared>) -> Result<ServerInfo, Error> {
        let deadline = Deadline::after(self.timeout);
        let link = server.link(deadline, self.patience).await?;
        ServerInfo::parse(&server.send_unchecked(&link, &info(), deadline).await?)
    }

    async fn send(&self, request: Request<'_>) -> Result<Value, Error> {
        let deadline = Deadline::after(self.timeout);
        match &self.servers {
            Servers::One(server) => {
                let link = server.link(deadline, self.patience).await?;
                server.call(&link, request, deadline).await
            }
            Servers::Cluster(cluster) => {
                let mut answers = cluster.send_all(&[request], deadline, self.patience).await;
                answers.pop().unwrap_or(Err(Error::Reply { expected: "one reply for each command" }))
            }
        }
    }

    pub(crate) async fn send_all(&self, requests: &[Request<'_>]) -> Vec<Result<Value, Error>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let deadline = Deadline::after(self.timeout);
        match &self.servers {
            Servers::One(server) => match server.link(deadline, self.patience).await {
                Ok(link) => server.send_all(&link, requests, false, deadline).await,
                Err(error) => vec![Err(error); requests.len()],
            },
            Servers::Cluster(cluster) => cluster.send_all(requests, deadline, self.patience).await,
        }
    }
}

fn info() -> Cmd {
    redis::cmd("INFO").arg("all").take()
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("response_timeout", &self.timeout).finish_non_exhaustive()
    }
}
