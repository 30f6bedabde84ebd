//! Where connections come from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo};

use crate::link::Connector;
use crate::{Admission, Blocking, Connection, Error, Subscriber};

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An address, the settings for talking to it, and one shared connection for commands. Cheap to clone.
///
/// Nothing is sent before the first call on one of its connections.
#[derive(Clone)]
pub struct Client {
    connector: Connector,
    commands: Connection,
}

impl Client {
    /// A client with the default settings.
    ///
    /// The URL is `redis://[[user]:password@]host[:port][/db]`, or `redis+unix:///path[?db=0&user=…&pass=…]`.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL that is none of these.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// A client with other settings.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder {
            url: url.to_owned(),
            response_timeout: RESPONSE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }

    fn from_connector(connector: Connector) -> Self {
        Self { commands: Connection::new(connector.clone()), connector }
    }

    /// A client of the same server whose connections all have the admission; it shares no connection with this one.
    ///
    /// Subscriptions have none: what any server at this address publishes is delivered, and a replicated map applies
    /// it when it is the next revision. That is safe as long as all who change the map are admitted clients: none of
    /// them writes to a process that is not admitted, so that no change is published there.
    #[must_use]
    pub fn with_admission(&self, admission: impl Admission) -> Self {
        let mut connector = self.connector.clone();
        connector.admission = Some(Arc::new(admission));
        Self::from_connector(connector)
    }

    /// The connection for commands that all clones of this client share.
    pub fn commands(&self) -> Connection {
        self.commands.clone()
    }

    /// A connection for commands that nobody else uses: for a lease that must not wait behind other traffic, or for
    /// another tokio runtime.
    pub fn dedicated(&self) -> Connection {
        Connection::new(self.connector.clone())
    }

    /// A connection for reads that block.
    pub fn blocking(&self) -> Blocking {
        Blocking::new(self.connector.clone())
    }

    /// A subscription to these channels, made at its first use.
    pub fn subscriber<C: Into<String>>(&self, channels: impl IntoIterator<Item = C>) -> Subscriber {
        Subscriber::new(self.connector.clone(), channels.into_iter().map(Into::into).collect())
    }

    /// The deadline of calls, unless a connection was given another.
    pub fn response_timeout(&self) -> Duration {
        self.connector.response_timeout
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Client");
        match self.connector.info.addr() {
            ConnectionAddr::Tcp(host, port) => debug.field("host", host).field("port", port),
            ConnectionAddr::Unix(path) => debug.field("path", path),
            _ => &mut debug,
        };
        debug.finish_non_exhaustive()
    }
}

/// Settings of a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    response_timeout: Duration,
    connect_timeout: Duration,
}

impl ClientBuilder {
    /// How long a call may take in all, reconnecting included. 2 s by default.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// How long one attempt to connect may take. 1 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Checks the settings. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Config`] for an unusable URL or a timeout of zero.
    pub fn build(self) -> Result<Client, Error> {
        let Self { url, response_timeout, connect_timeout } = self;
        if response_timeout.is_zero() || connect_timeout.is_zero() {
            return Err(Error::Config { what: "a timeout of zero leaves no time to connect", source: None });
        }
        let info = url.as_str().into_connection_info().map_err(|source| Error::Config {
            what: "not a usable redis url (redis://host:port/db or redis+unix:///path)",
            source: Some(source),
        })?;
        Ok(Client::from_connector(Connector {
            info: Arc::new(info),
            connect_timeout,
            response_timeout,
            admission: None,
        }))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("ClientBuilder")
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}
