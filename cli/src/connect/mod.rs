//! Where the pool is, and the ways to it: an inspector that only reads, an operator that may also change, or a node.

pub(crate) mod contexts;
mod session;

use std::env;
use std::time::Duration;

use tenure_pool::error::StoreError;
use tenure_pool::{Client, Error, Inspector, Node, Operator};
use tokio::time::{Instant, sleep, timeout};

use self::contexts::{Context, Contexts, without_password};
pub(crate) use self::session::{Session, close};
use crate::args::Global;
use crate::exit::{Code, Failure};

/// The most time that a join may take while nothing is wrong: the pool may be opening.
const JOINING: Duration = Duration::from_secs(60);

/// A node that waits no longer than this for its server logs nothing.
const QUIET: Duration = Duration::from_secs(2);
/// The pause between two attempts to reach the server.
const AGAIN: Duration = Duration::from_millis(200);

/// A pool on a server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) pool: String,
    pub(crate) client: Client,
    /// The server's URL, without its password.
    server: String,
    timeout: Duration,
}

impl Place {
    /// The way to the pool and its server. In order, it asks a flag, the context that a flag names, the environment, and the
    /// context in use.
    ///
    /// # Errors
    /// No pool or server is named, the context does not exist, or the URL cannot be read.
    pub(crate) fn of(global: &Global) -> Result<Self, Failure> {
        let pool = sought(global, "TENURE_POOL", global.pool.clone(), |context| context.pool)?;
        let pool = pool.ok_or_else(|| {
            Failure::usage(
                "which pool? Say --pool NAME, set TENURE_POOL, or choose one with `tenure ctx use`",
            )
        })?;
        let url = url(global)?;
        let (client, server) = (open(&url)?, without_password(&url));
        Ok(Self { pool, client, server, timeout: global.timeout })
    }

    /// The pool, to look at. It writes nothing.
    ///
    /// # Errors
    /// There is no such pool, or Redis does not answer.
    pub(crate) async fn inspector(&self) -> Result<Inspector, Failure> {
        let opened = Inspector::open_within(self.timeout, &self.pool, &self.client).await;
        opened.map_err(|error| Failure::from(error).of_server(&self.server))
    }

    /// As [`inspector`](Self::inspector), for a node that comes to stay. A server that cannot be reached may start later than the
    /// node, so the call waits for a minute, and logs why. None: there is no such pool.
    ///
    /// # Errors
    /// Redis refuses, or the server could not be reached for a minute.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn inspector_in_time(&self) -> Result<Option<Inspector>, Failure> {
        let (began, mut told) = (Instant::now(), String::new());
        loop {
            let error = match Inspector::open_within(self.timeout, &self.pool, &self.client).await {
                Ok(inspector) => return Ok(Some(inspector)),
                Err(Error::NoPool { .. }) => return Ok(None),
                Err(error) if is_out_of_reach(&error) => Failure::from(error).of_server(&self.server),
                Err(error) => return Err(Failure::from(error).of_server(&self.server)),
            };
            let waited = began.elapsed();
            if waited >= JOINING {
                return Err(error);
            }
            let text = error.to_string();
            if waited >= QUIET && told != text {
                tracing::warn!(
                    pool = self.pool,
                    error = text,
                    "Redis cannot be reached yet, it is tried again"
                );
                told = text;
            }
            sleep(AGAIN).await;
        }
    }

    /// The pool, to look at and to change. The first change joins the pool as a client.
    ///
    /// # Errors
    /// There is no such pool, or Redis does not answer.
    pub(crate) async fn operator(&self) -> Result<Operator, Failure> {
        self.operator_of("cli").await
    }

    /// As [`operator`](Self::operator), by another name than that of the command: `kind` stands at its beginning, and so in
    /// the pool's events.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn operator_of(&self, kind: &str) -> Result<Operator, Failure> {
        let builder = Node::builder(&self.pool, &self.client).name(node_name(kind));
        let opened = builder.join_timeout(self.timeout.clamp(Duration::from_millis(1), JOINING)).operate();
        opened.await.map_err(|error| Failure::from(error).of_server(&self.server))
    }

    /// A client of the pool, which must exist.
    ///
    /// # Errors
    /// The pool does not exist, or the join takes too long.
    pub(crate) async fn node(&self) -> Result<Node, Failure> {
        Ok(self.operator().await?.node().await?.clone())
    }

    /// The result of looks at the pool.
    ///
    /// # Errors
    /// Theirs, or they take longer than the command may.
    pub(crate) async fn in_time<T>(
        &self,
        looks: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        timeout(self.timeout, looks).await.unwrap_or_else(|_| Err(self.silent()))
    }

    fn silent(&self) -> Failure {
        let text = format!("Redis has not answered within {}", humantime::format_duration(self.timeout));
        Failure::new(Code::Redis, text).of_server(&self.server)
    }
}

/// Whether the server may answer in a moment: nothing came back, or nothing could be sent.
fn is_out_of_reach(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError::NotExecuted(_) | StoreError::Unanswered(_)))
}

/// The server alone, for commands that look at it.
///
/// # Errors
/// No server is named, or its URL cannot be read.
pub(crate) fn client(global: &Global) -> Result<Client, Failure> {
    open(&url(global)?)
}

fn url(global: &Global) -> Result<String, Failure> {
    let url = sought(global, "REDIS_URL", global.url.clone(), |context| context.url)?;
    // A secret in a file often ends with a newline.
    url.map(|url| url.trim().to_owned()).ok_or_else(|| {
        Failure::usage("which Redis? Say --url URL, set REDIS_URL, or choose one with `tenure ctx use`")
    })
}

fn open(url: &str) -> Result<Client, Failure> {
    Client::open(url).map_err(|error| Failure::usage(error.to_string()))
}

fn sought(
    global: &Global,
    variable: &str,
    flag: Option<String>,
    of: impl Fn(Context) -> Option<String>,
) -> Result<Option<String>, Failure> {
    if flag.is_some() {
        return Ok(flag);
    }
    let named = global.context.as_deref().map(|name| Contexts::read()?.take(name)).transpose()?;
    if let Some(value) = named.and_then(&of) {
        return Ok(Some(value));
    }
    match env::var(variable) {
        Ok(value) if !value.is_empty() => return Ok(Some(value)),
        Ok(_) | Err(env::VarError::NotPresent) => {}
        Err(error) => return Err(Failure::usage(format!("{variable}: {error}"))),
    }
    Ok(Contexts::read()?.in_use()?.and_then(of))
}

/// The longest name of a node.
const NAME_MAX: usize = 64;

/// The name of this process as a node: it stands in the ids of its dispatches. `<kind>-<host>-<process>`, in the
/// alphabet of names.
pub(crate) fn node_name(kind: &str) -> String {
    let process = std::process::id().to_string();
    let room = NAME_MAX.saturating_sub(kind.len() + process.len() + 2).min(40);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().take_while(|c| *c != '.').take(room).collect();
    let host = host.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
    format!("{kind}-{host}-{process}")
}
