//! The feed server. It streams lines over TCP to each client that connects as a tenant, takes the heartbeats, and lets
//! the [judge](super::judge) decide about each message. It knows nothing of the pool.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::judge::{Admission, ConnectionId, Fencing, Judge, Stale};
use super::link::Link;
use super::wire::{Hello, Reply, Request};

/// The interval between lines to every tenant.
const LINE_EVERY: Duration = Duration::from_millis(200);
/// A client that sends nothing for this long is given up.
const CLIENT_PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a replaced connection is still observed, to see whether its client continues to act.
const LINGER: Duration = Duration::from_secs(2);
/// The pause after a failure to accept a connection, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running feed server; dropping it closes its connections.
#[derive(Debug)]
pub struct FeedServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl FeedServer {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// A network error.
    ///
    /// # Cancel safety
    /// Safe: nothing runs before it returns.
    pub async fn start(fencing: Fencing) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            started: Instant::now(),
            judge: Mutex::new(Judge::new(fencing)),
            open: Mutex::new(HashMap::new()),
        });
        Ok(Self { address, accepting: tokio::spawn(accept(listener, shared)) })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FeedServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    if let Err(error) = serve(&shared, stream).await {
                        debug!(%error, "a connection broke");
                    }
                });
            }
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    let mut link = Link::new(stream)?;
    let mut request = receive(&mut link).await?;
    loop {
        match request {
            Some(Request::Hello(hello)) => return serve_tenant(shared, link, hello).await,
            Some(Request::Stats) => {
                let stats = shared.judge().stats(shared.now());
                link.send(&Reply::Stats(stats)).await?;
            }
            Some(Request::Mark) => {
                shared.judge().mark();
                link.send(&Reply::Marked).await?;
            }
            Some(Request::Beat { .. } | Request::Noted { .. } | Request::Bye { .. }) => {
                let reason = "say hello first".to_owned();
                return link.send(&Reply::Invalid { reason }).await;
            }
            None => return Ok(()),
        }
        request = receive(&mut link).await?;
    }
}

async fn serve_tenant(shared: &Shared, mut link: Link, hello: Hello) -> io::Result<()> {
    let (place, replaced) = match shared.admit(&hello) {
        Ok(admitted) => admitted,
        Err(Stale { highest }) => return link.send(&Reply::Refused { highest }).await,
    };
    link.send(&Reply::Welcome).await?;
    let mut lines = interval(LINE_EVERY);
    lines.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        tokio::select! {
            () = replaced.cancelled() => return linger(shared, link, &place).await,
            _ = lines.tick() => {
                number += 1;
                link.send(&quote(&hello.symbol, number)).await?;
            }
            request = receive(&mut link) => match request? {
                Some(request) => match shared.judge_message(&place.connection, &request) {
                    Some(Ok(())) if matches!(request, Request::Bye { .. }) => {
                        return link.send(&Reply::Bye).await;
                    }
                    Some(Ok(())) => {}
                    Some(Err(Stale { highest })) => link.send(&Reply::Refused { highest }).await?,
                    None => {
                        let reason = "a tenant sends beat, noted or bye".to_owned();
                        return link.send(&Reply::Invalid { reason }).await;
                    }
                },
                None => return Ok(()),
            },
        }
    }
}

/// Tells a replaced client to go, and observes its further attempts.
async fn linger(shared: &Shared, mut link: Link, place: &Place<'_>) -> io::Result<()> {
    link.send(&Reply::Replaced).await?;
    let end = Instant::now() + LINGER;
    loop {
        tokio::select! {
            () = sleep_until(end) => return Ok(()),
            request = receive(&mut link) => match request? {
                Some(Request::Bye { .. }) => {
                    shared.judge().ended(&place.connection, shared.now());
                    return link.send(&Reply::Bye).await;
                }
                Some(request) => {
                    if let Some(Err(Stale { highest })) = shared.judge_message(&place.connection, &request) {
                        link.send(&Reply::Refused { highest }).await?;
                    }
                }
                None => return Ok(()),
            },
        }
    }
}

async fn receive(link: &mut Link) -> io::Result<Option<Request>> {
    link.receive(CLIENT_PATIENCE).await
}

/// A price that wanders as a function of its number.
fn quote(symbol: &str, number: u64) -> Reply {
    let swing = (number as f64 / 7.0).sin() * 250.0;
    Reply::Line { number, symbol: symbol.to_owned(), cents: (10_000.0 + swing) as u64 }
}

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    started: Instant,
    judge: Mutex<Judge>,
    open: Mutex<HashMap<ConnectionId, CancellationToken>>,
}

impl Shared {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ConnectionId, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a tenant's connection, and notifies those that it replaces.
    fn admit(&self, hello: &Hello) -> Result<(Place<'_>, CancellationToken), Stale> {
        let mut judge = self.judge();
        match judge.hello(hello, self.now()) {
            Admission::Refused(stale) => Err(stale),
            Admission::Accepted { connection, replaced } => {
                let token = CancellationToken::new();
                let mut open = self.open();
                for older in &replaced {
                    if let Some(token) = open.get(older) {
                        token.cancel();
                    }
                }
                open.insert(connection.clone(), token.clone());
                Ok((Place { shared: self, connection }, token))
            }
        }
    }

    /// The judge's decision; `None` for a message that no tenant sends.
    fn judge_message(&self, connection: &ConnectionId, request: &Request) -> Option<Result<(), Stale>> {
        let mut judge = self.judge();
        match *request {
            Request::Beat { token, line } => Some(judge.beat(connection, token, line)),
            Request::Noted { token, number } => Some(judge.noted(connection, token, number)),
            Request::Bye { .. } => {
                judge.ended(connection, self.now());
                Some(Ok(()))
            }
            Request::Hello(_) | Request::Stats | Request::Mark => None,
        }
    }
}

/// A tenant's connection. It ends when this is dropped, for any reason.
struct Place<'a> {
    shared: &'a Shared,
    connection: ConnectionId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let now = self.shared.now();
        self.shared.judge().ended(&self.connection, now);
        self.shared.open().remove(&self.connection);
    }
}
