//! One live connection and how to make it. Whether to make another is its owner's business: `connection`,
//! `blocking` and `subscriber`.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Cmd, ConnectionInfo, RedisConnectionInfo, RedisError, Value};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::server;
use crate::{Admission, Error, transport};

/// Commands that may wait for their turn to be written; more wait in their callers.
const PIPELINE_DEPTH: usize = 1024;

/// All that is needed to make a connection, shared by the roles of a client.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) info: Arc<ConnectionInfo>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) admission: Option<Arc<dyn Admission>>,
}

impl Connector {
    /// Makes one connection within the connect timeout, ready for commands.
    pub(crate) async fn connect(&self) -> Result<Link, Error> {
        let made = async {
            let stream = self.stream().await?;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(None)
                .set_pipeline_buffer_size(PIPELINE_DEPTH);
            // User, password and database are sent by `prepare`, which keeps the server's error codes.
            let bare = RedisConnectionInfo::default().set_skip_set_lib_name();
            let (multiplexed, driver) = MultiplexedConnection::new_with_config(&bare, stream, config)
                .await
                .map_err(Error::connecting)?;
            let mut link = Link { multiplexed, driver: tokio::spawn(driver), run_id: None };
            self.prepare(&mut link).await.map_err(Error::during_setup)?;
            Ok(link)
        };
        timeout(self.connect_timeout, made).await.unwrap_or_else(|_| Err(Error::connect_timed_out()))
    }

    /// Makes one connection for pub/sub within the connect timeout.
    pub(crate) async fn connect_pubsub(&self) -> Result<PubSub, Error> {
        let made = async {
            let stream = self.stream().await?;
            let settings = self.info.redis_settings().clone().set_skip_set_lib_name();
            PubSub::new(&settings, stream).await.map_err(Error::connecting)
        };
        timeout(self.connect_timeout, made).await.unwrap_or_else(|_| Err(Error::connect_timed_out()))
    }

    /// Whether commands may be sent on this link now.
    pub(crate) fn admit(&self, link: &Link) -> Result<(), Error> {
        match (&self.admission, &link.run_id) {
            (Some(admission), Some(run_id)) if !admission.admit(run_id) => {
                Err(Error::OtherServer { run_id: run_id.clone() })
            }
            _ => Ok(()),
        }
    }

    async fn stream(&self) -> Result<Box<dyn transport::Transport>, Error> {
        transport::open(self.info.addr()).await.map_err(|error| Error::Unreachable(RedisError::from(error)))
    }

    async fn prepare(&self, link: &mut Link) -> Result<(), Error> {
        let settings = self.info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = settings.username() {
                auth.arg(username);
            }
            link.send(auth.arg(password)).await?;
        }
        if settings.db() != 0 {
            link.send(redis::cmd("SELECT").arg(settings.db())).await?;
        }
        if self.admission.is_some() {
            let info = link.send(redis::cmd("INFO").arg("server")).await?;
            link.run_id = Some(server::run_id(&info)?);
        }
        Ok(())
    }
}

/// One live connection. It ends with the last owner, whatever is still in flight on it.
pub(crate) struct Link {
    multiplexed: MultiplexedConnection,
    driver: JoinHandle<()>,
    run_id: Option<Box<str>>,
}

impl Link {
    /// Whether the other end has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_finished()
    }

    /// Sends a command and waits for its reply until `deadline`; `allowed` is what the caller was given.
    pub(crate) async fn send_by(
        &self,
        command: &Cmd,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<Value, Error> {
        timeout_at(deadline, self.send(command)).await.unwrap_or(Err(Error::TimedOut(allowed)))
    }

    async fn send(&self, command: &Cmd) -> Result<Value, Error> {
        match self.multiplexed.clone().send_packed_command(command).await {
            Ok(Value::ServerError(error)) => Err(Error::answered(error)),
            Ok(value) => Ok(value),
            Err(error) => Err(Error::in_flight(error)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
