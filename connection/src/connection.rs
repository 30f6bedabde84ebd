//! A connection for commands that do not block, shared by its clones, which makes itself anew when it breaks.
//!
//! Invariants:
//! - At most one attempt to connect runs at a time; all callers that need it wait for the same one, each no longer
//!   than its own deadline. No lock is held while waiting.
//! - After a failure the next attempt waits for its pause. A connection that never answered counts as a failure.
//! - A reply that is late ends the connection: the link may be dead without saying so. Calls that are in flight on
//!   it keep it until their own deadline.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use redis::{Cmd, ToRedisArgs, Value};
use tokio::time::{Instant, sleep, timeout_at};

use crate::link::{Connector, Link};
use crate::{Backoff, Call, Error, Script, ServerInfo};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A script flushed again between its load and its call is loaded again, this often in all.
const LOADS_PER_CALL: usize = 3;

type Attempt = Shared<BoxFuture<'static, Result<Arc<Link>, Error>>>;

/// A connection for commands and scripts. Clones share it.
///
/// It connects at its first call, on the tokio runtime of that call, and must not outlive that runtime: use
/// [`Client::dedicated`](crate::Client::dedicated) to have one per runtime.
#[derive(Clone)]
pub struct Connection {
    core: Arc<Core>,
    timeout: Duration,
}

struct Core {
    connector: Connector,
    state: Mutex<State>,
}

struct State {
    backoff: Backoff,
    slot: Slot,
}

enum Slot {
    Empty,
    Connecting(Attempt),
    Ready(Arc<Link>),
}

impl Connection {
    pub(crate) fn new(connector: Connector) -> Self {
        let timeout = connector.response_timeout;
        let state = State { backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), slot: Slot::Empty };
        Self { core: Arc::new(Core { connector, state: Mutex::new(state) }), timeout }
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
        let deadline = Instant::now() + self.timeout;
        let link = self.core.link(deadline).await?;
        self.core.connector.admit(&link)?;
        self.send(&link, command, deadline).await
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
        let deadline = Instant::now() + self.timeout;
        let link = self.core.link(deadline).await?;
        let mut loads = 0;
        loop {
            self.core.connector.admit(&link)?;
            match self.send(&link, call.command(), deadline).await {
                Err(error) if error.code() == Some("NOSCRIPT") && loads < LOADS_PER_CALL => {
                    loads += 1;
                    tracing::debug!(script = call.script().name(), "loading script");
                    self.send(&link, &call.script().load(), deadline).await?;
                }
                other => return other,
            }
        }
    }

    /// Asks the server who it is. Works whether or not the server is admitted: nothing is written.
    ///
    /// # Errors
    /// Every class of [`Error`] but [`Error::OtherServer`].
    ///
    /// # Cancel safety
    /// Safe: the command only reads.
    pub async fn server(&self) -> Result<ServerInfo, Error> {
        let deadline = Instant::now() + self.timeout;
        let link = self.core.link(deadline).await?;
        ServerInfo::parse(&self.send(&link, redis::cmd("INFO").arg("all"), deadline).await?)
    }

    async fn send(&self, link: &Arc<Link>, command: &Cmd, deadline: Instant) -> Result<Value, Error> {
        let result = link.send_by(command, deadline, self.timeout).await;
        match &result {
            Err(error) if error.ends_connection() => self.core.retire(link),
            _ => self.core.answered(),
        }
        result
    }
}

impl Core {
    /// A live link, waited for until `deadline`.
    async fn link(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Link>, Error> {
        let mut last = None;
        loop {
            let attempt = match self.ready_or_attempt() {
                Ok(link) => return Ok(link),
                Err(attempt) => attempt,
            };
            match timeout_at(deadline, attempt).await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error)) if error.is_transient() => last = Some(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.unwrap_or_else(Error::connect_timed_out)),
            }
        }
    }

    fn ready_or_attempt(self: &Arc<Self>) -> Result<Arc<Link>, Attempt> {
        let mut state = self.lock();
        if let Slot::Ready(link) = &state.slot {
            if !link.is_closed() {
                return Ok(link.clone());
            }
            state.slot = Slot::Empty;
        }
        if let Slot::Connecting(attempt) = &state.slot {
            return Err(attempt.clone());
        }
        let attempt = Self::attempt(self.connector.clone(), state.backoff.pause(), Arc::downgrade(self));
        // Taken back by the first reply: a server that accepts and hangs up is not called without a pause.
        state.backoff.fail();
        let attempt = attempt.boxed().shared();
        state.slot = Slot::Connecting(attempt.clone());
        Err(attempt)
    }

    async fn attempt(connector: Connector, pause: Duration, core: Weak<Self>) -> Result<Arc<Link>, Error> {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let result = connector.connect().await.map(Arc::new);
        if let Err(error) = &result {
            tracing::debug!(error = error as &dyn std::error::Error, "cannot connect to redis");
        }
        if let Some(core) = core.upgrade() {
            core.lock().slot = result.as_ref().map_or(Slot::Empty, |link| Slot::Ready(link.clone()));
        }
        result
    }

    fn retire(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        if matches!(&state.slot, Slot::Ready(current) if Arc::ptr_eq(current, link)) {
            state.slot = Slot::Empty;
        }
    }

    fn answered(&self) {
        self.lock().backoff.reset();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("response_timeout", &self.timeout).finish_non_exhaustive()
    }
}
