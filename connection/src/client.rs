//! The source of connections.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;

use crate::address::{Credentials, Deployment, Url};
use crate::directory::Directory;
use crate::link::{Access, Settings, Target};
use crate::origin::{Origin, Place};
use crate::reach::Names;
use crate::sentinel::Sentinels;
use crate::tls::{Identity, Tls};
use crate::{Admission, Blocking, Connection, Error, Subscriber};

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The servers, the settings for talking to them, and one shared connection for commands. Cheap to clone.
///
/// Nothing is sent before the first call on one of its connections.
#[derive(Clone)]
pub struct Client {
    origin: Origin,
    commands: Connection,
}

impl Client {
    /// A client with the default settings.
    ///
    /// The URL holds everything: `redis://[[user]:password@]host[:port][/db]`, `redis+unix:///path`,
    /// `redis+sentinel://[[user]:password@]host[:port],…/service[/db]` or
    /// `redis+cluster://[[user]:password@]host[:port],…`; with `rediss` for TLS. The [crate] documents the parameters.
    ///
    /// # Errors
    /// [`Error::Config`] for any other URL, and for one that names unusable files.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Settings for a client.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    fn new(origin: Origin) -> Self {
        Self { commands: Connection::new(&origin), origin }
    }

    /// A client of the same servers with this admission for all its connections. It shares no connection with this one.
    ///
    /// Subscriptions have no admission: they deliver the messages of any server at these addresses, and a replicated
    /// map applies a message that is the next revision. This is safe while only admitted clients change the map: none
    /// of them writes to a process that is not admitted, so no change is published there.
    #[must_use]
    pub fn with_admission(&self, admission: impl Admission) -> Self {
        let mut origin = self.origin.clone();
        origin.access.admission = Some(Arc::new(admission));
        Self::new(origin)
    }

    /// A client of the same servers whose connections have this name in the server's `CLIENT LIST`. It shares no
    /// connection with this one. Spaces and control characters, which Redis does not allow in a name, are left out.
    #[must_use]
    pub fn with_name(&self, name: &str) -> Self {
        let mut origin = self.origin.clone();
        let name: String = name.chars().filter(char::is_ascii_graphic).collect();
        origin.access.name = Some(name.into());
        Self::new(origin)
    }

    /// The connection for commands that all clones of this client share.
    pub fn commands(&self) -> Connection {
        self.commands.clone()
    }

    /// An unshared connection for commands, for a lease that must not wait behind other traffic, or for another tokio
    /// runtime.
    pub fn dedicated(&self) -> Connection {
        Connection::new(&self.origin)
    }

    /// A connection for reads that block.
    pub fn blocking(&self) -> Blocking {
        Blocking::new(self.origin.clone())
    }

    /// A subscription to these sharded channels, made at its first use. The channels must be in one slot, even outside
    /// of a cluster. Otherwise its first event is [`Disconnected`](crate::Event::Disconnected) with an
    /// [`Error::Config`].
    pub fn subscriber<C: Into<String>>(&self, channels: impl IntoIterator<Item = C>) -> Subscriber {
        Subscriber::new(self.origin.clone(), channels.into_iter().map(Into::into).collect())
    }

    /// Whether the address is that of a cluster, where all keys of one call must be in one [`slot`](crate::slot).
    pub fn is_cluster(&self) -> bool {
        self.origin.is_cluster()
    }

    /// The deadline of calls on connections without another one.
    pub fn response_timeout(&self) -> Duration {
        self.origin.access.settings.response_timeout
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("addresses", &self.origin.addresses()).finish_non_exhaustive()
    }
}

/// Settings of a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    url: String,
    response_timeout: Duration,
    connect_timeout: Duration,
    ca: Option<Vec<u8>>,
    identity: Option<Identity>,
    sentinel_credentials: Option<Credentials>,
    names: Names,
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            response_timeout: RESPONSE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            ca: None,
            identity: None,
            sentinel_credentials: None,
            names: Names::default(),
        }
    }

    /// Sets the whole time of a call, reconnecting included. 2 s by default.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets the time to resolve a server's name, and the time of an attempt to connect to one address. 1 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the authorities that may vouch for a server, one or more certificates in PEM, instead of the platform's.
    /// This overrides a `ca` in the URL.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Sets the client's certificate chain and private key, in PEM, for a server that asks for them. This overrides
    /// `cert` and `key` in the URL.
    #[must_use]
    pub fn client_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(Identity { certificates: chain.into(), key: key.into() });
        self
    }

    /// Sets the login to sentinels that need one; the user and password of the URL are for the Redis servers. An empty
    /// user is the default one. This overrides `sentinel_user` and `sentinel_password` in the URL.
    #[must_use]
    pub fn sentinel_credentials(mut self, user: &str, password: &str) -> Self {
        let user = (!user.is_empty()).then(|| user.into());
        self.sentinel_credentials = Some(Credentials { user, password: password.into() });
        self
    }

    /// Sets the source of the addresses of names.
    #[cfg(test)]
    pub(crate) fn names(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// Checks the settings and reads the files that the URL names. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::Config`] for an unusable URL, a timeout of zero, or certificates that cannot be read.
    pub fn build(self) -> Result<Client, Error> {
        if self.response_timeout.is_zero() || self.connect_timeout.is_zero() {
            return Err(config("a timeout of zero leaves no time to connect"));
        }
        let url = Url::parse(&self.url)?;
        let certificates = self.ca.is_some() || self.identity.is_some();
        if certificates && !url.tls {
            return Err(config("certificates need a url with tls (rediss://, rediss+…://)"));
        }
        let tls = if url.tls { Some(self.tls(&url)?) } else { None };
        let settings = Arc::new(Settings {
            credentials: url.credentials,
            db: url.db,
            tls,
            names: self.names,
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
        });
        let place = match url.deployment {
            Deployment::Single(address) => Place::One(Target::Server(address)),
            Deployment::Sentinel { sentinels, service } => {
                let credentials = self.sentinel_credentials.or(url.sentinel_credentials);
                Place::One(Target::MasterOf(Sentinels::new(sentinels, service, credentials)))
            }
            Deployment::Cluster { seeds } => Place::Cluster(Directory::new(seeds, settings.clone())),
        };
        Ok(Client::new(Origin { place, access: Access { settings, admission: None, name: None } }))
    }

    fn tls(&self, url: &Url) -> Result<Tls, Error> {
        let from_file = match (&self.ca, &url.ca) {
            (None, Some(path)) => Some(read(path)?),
            _ => None,
        };
        let identity = match (&self.identity, &url.certificate, &url.key) {
            (Some(identity), ..) => Some(identity.clone()),
            (None, Some(chain), Some(key)) => Some(Identity { certificates: read(chain)?, key: read(key)? }),
            (None, None, None) => None,
            _ => return Err(config("a client's certificate and its key (cert, key) come together")),
        };
        Tls::new(self.ca.as_deref().or(from_file.as_deref()), identity.as_ref())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::Config {
        what: "a file of certificates that the url names cannot be read",
        source: Some(RedisError::from(error)),
    })
}

fn config(what: &'static str) -> Error {
    Error::Config { what, source: None }
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
