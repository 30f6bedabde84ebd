//! The handle of a connection for commands that do not block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ToRedisArgs, Value};

use crate::link::Connector;
use crate::pipeline::Pipeline;
use crate::request::Request;
use crate::shared::{Deadline, Shared};
use crate::{Call, Error, Script, ServerInfo};

/// A connection for commands and scripts. Clones share it.
///
/// It connects at its first call, on the tokio runtime of that call, and must not outlive that runtime: use
/// [`Client::dedicated`](crate::Client::dedicated) to have one per runtime.
#[derive(Clone)]
pub struct Connection {
    server: Arc<Shared>,
    timeout: Duration,
}

impl Connection {
    pub(crate) fn new(connector: Connector) -> Self {
        let timeout = connector.settings.response_timeout;
        Self { server: Shared::new(connector), timeout }
    }

    /// The same connection with another deadline for the calls made through this handle.
    #[must_use]
    pub fn with_response_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
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
        let deadline = Deadline::after(self.timeout);
        let link = self.server.link(deadline).await?;
        self.server.send(&link, command, deadline).await
    }

    /// Calls a script: [`Connection::call`] of a call prepared with these keys and arguments.
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

    /// Sends a prepared call. A server that does not know the script was not changed by the call: the script is
    /// loaded and the call sent again, within the same deadline and on the same connection.
    ///
    /// # Errors
    /// Every class of [`Error`]; `NOSCRIPT` only when scripts are flushed again and again.
    ///
    /// # Cancel safety
    /// As [`Connection::command`].
    pub async fn call(&self, call: &Call) -> Result<Value, Error> {
        let deadline = Deadline::after(self.timeout);
        let link = self.server.link(deadline).await?;
        self.server.call(&link, call, deadline).await
    }

    /// An empty pipeline on this connection, with the deadline of this handle.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(self.clone())
    }

    /// Asks the server who it is. Works whether or not the server is admitted: nothing is written.
    ///
    /// # Errors
    /// Every class of [`Error`] but [`Error::OtherServer`].
    ///
    /// # Cancel safety
    /// Safe: the command only reads.
    pub async fn server(&self) -> Result<ServerInfo, Error> {
        let deadline = Deadline::after(self.timeout);
        let link = self.server.link(deadline).await?;
        let info = redis::cmd("INFO").arg("all").take();
        ServerInfo::parse(&self.server.send_unchecked(&link, &info, deadline).await?)
    }

    pub(crate) async fn send_all(&self, requests: &[Request]) -> Vec<Result<Value, Error>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let deadline = Deadline::after(self.timeout);
        match self.server.link(deadline).await {
            Ok(link) => {
                let requests: Vec<_> = requests.iter().collect();
                self.server.send_all(&link, &requests, false, deadline).await
            }
            Err(error) => vec![Err(error); requests.len()],
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("response_timeout", &self.timeout).finish_non_exhaustive()
    }
}
