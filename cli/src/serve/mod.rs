//! `tenure serve`: a page about the pool, an interface for programs, metrics and probes, in one process that joins nothing.
//!
//! ```text
//! request ──► gate (host, origin, time) ──► routes (token, scope) ──► read   ──► source, log, search ──► Inspector
//!                                                                └──► change ──► a node, for this change alone
//! ```
//!
//! - `source` reads once for all who ask within a moment, and `log` once for all who look at events: over reads that the
//!   server holds. Nothing is read while nobody asks.
//! - A change takes a token in a header, so a page of another site cannot make one.

mod ask;
mod change;
mod dispatch;
mod door;
mod drains;
mod gate;
mod log;
mod metrics;
mod page;
mod problem;
mod read;
mod routes;
mod search;
mod source;
mod stream;
mod token;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use tempfile::NamedTempFile;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::door::{Door, base};
use self::gate::Hosts;
use self::log::Log;
use self::source::Source;
use self::token::{Named, Scope, Tokens};
use crate::args::{Global, time};
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::http::Bounds;
use crate::journal;
use crate::signals::Ends;

/// Streams, and room for a person's other requests beside them.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    head: Duration::from_secs(5),
    stall: Duration::from_secs(30),
    // Longer than a stream.
    life: Duration::from_secs(330),
    // Longer than a change.
    rest: Duration::from_secs(90),
    keep_alive: true,
};
/// The least time that a caller is given for a part of an answer.
const LEAST_STALL: Duration = Duration::from_millis(100);
/// How many searches and forecasts are made at once.
const SEARCHES: usize = 2;
/// How long a change may take to end, when the process is to end.
const REST: Duration = Duration::from_secs(10);

/// Serve a page about the pool, an API, metrics and probes over HTTP
///
/// It joins nothing, and reads nothing while nobody looks. A change takes a token. Without a token
/// file it is reached from this machine only, and has a token for as long as it runs: on the terminal, or in a file
/// of its user where standard error is no terminal.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen. Beyond this machine it takes --token-file or --open
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7450")]
    listen: SocketAddr,
    /// Listen on a socket at this path instead, which only this user reaches
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    unix: Option<PathBuf>,
    /// Serve all of it below this path, such as /tenure, for a proxy that strips none
    #[arg(long, value_name = "PATH", value_parser = base, default_value = "/", hide_default_value = true)]
    base_path: String,
    /// Another name of this server, such as a proxy's. IP addresses and localhost are always taken
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Tokens: a line of --new-token for each. Then reading takes one, too
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let everybody read without a token
    #[arg(long)]
    open: bool,
    /// Take no request that changes something
    #[arg(long)]
    read_only: bool,
    /// Show the payloads of jobs to those who may operate
    #[arg(long)]
    show_payloads: bool,
    /// Hang up on a caller that takes nothing of its answer for this time
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    stall: Duration,
    /// Show the queues of this set of tenure-jobs, too
    #[arg(long, value_name = "SET")]
    queues: Vec<String>,
    /// Print a new token and its line for the file, and end. A scope is view or operate
    #[arg(long, value_name = "NAME[:SCOPE]", exclusive = true)]
    new_token: Option<Named>,
}

/// All that the routes share.
pub(crate) struct App {
    place: Place,
    source: Source,
    log: Log,
    tokens: Tokens,
    hosts: Hosts,
    /// The beginning of all paths: empty, or without a slash at its end.
    base: String,
    read_only: bool,
    shows_payloads: bool,
    changes: Semaphore,
    /// Of their own: a dispatch waits for the start of its job, and an operator's changes do not wait for that.
    dispatches: Semaphore,
    searches: Semaphore,
    streams: Arc<Semaphore>,
    /// Tells the numbers of events from those of another process.
    life: String,
}

impl Serve {
    /// Serves until SIGINT or SIGTERM.
    ///
    /// # Errors
    /// The pool is not there, the tokens cannot be read, or nobody can be served at the address.
    pub(crate) fn run(self, global: &Global) -> Result<Code, Failure> {
        if let Some(named) = &self.new_token {
            let (token, line) = token::make(named)?;
            writeln!(io::stdout(), "token: {token}\nline:  {line}")?;
            return Ok(Code::Done);
        }
        let place = Place::of(global)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let done = runtime.block_on(self.serve(place));
        runtime.shutdown_background();
        done
    }

    /// Makes a token for this run, and says where the token is: on a terminal, which has one reader, or in a file of the user,
    /// for a log has many. Without a place for the file nobody can change something.
    ///
    /// # Errors
    /// The machine has no random numbers.
    fn own_token(&self, tokens: &mut Tokens, door: &Door) -> Result<Option<NamedTempFile>, Failure> {
        let (token, line) = token::make(&Named { name: "local".to_owned(), scope: Scope::Operate })?;
        let (way, kept) = if io::stderr().is_terminal() {
            (door.way(&self.base_path, &token), None)
        } else {
            match token::kept(&token) {
                Ok(file) => (format!("take the token in {}", file.path().display()), Some(file)),
                Err(error) => {
                    journal::tell(format_args!("nobody can change something, a token has no file: {error}"));
                    return Ok(None);
                }
            }
        };
        tokens.add(&line).map_err(|why| Failure::new(Code::Failed, why))?;
        journal::tell(format_args!("to change something, {way}"));
        Ok(kept)
    }

    async fn serve(self, place: Place) -> Result<Code, Failure> {
        let is_near = self.unix.is_some() || self.listen.ip().is_loopback();
        // Behind a name there is a proxy, with others before it.
        let is_seen = !is_near || !self.host.is_empty();
        if is_seen && self.token_file.is_none() && !self.open {
            let text = "beyond this machine, say who may look: --token-file FILE, or --open for everybody";
            return Err(Failure::usage(text));
        }
        let without = if self.token_file.is_none() || self.open { Scope::View } else { Scope::Nobody };
        let mut tokens = match &self.token_file {
            Some(path) => Tokens::read(path, without)?,
            None => Tokens::none(without),
        };
        let mut ends = Ends::hear([SIGTERM, SIGINT])?;
        // Its name in the file system goes when this ends.
        let (door, _socket) = Door::open(self.listen, self.unix.as_deref()).await?;
        // The log says who changes what, and why the start waits for Redis.
        journal::log(tracing::Level::INFO)?;
        let opened = async {
            match place.inspector_in_time().await? {
                Some(pool) => Ok(pool),
                // The error names the pool.
                None => place.inspector().await,
            }
        };
        let pool = tokio::select! {
            opened = opened => opened?,
            () = ends.next() => return Ok(Code::Done),
        };
        let life = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();

        journal::tell(format_args!("serving the pool {} at {}", place.pool, door.page(&self.base_path)));
        // The file goes when the server ends.
        let _kept = if self.token_file.is_none() && is_near && !self.read_only {
            self.own_token(&mut tokens, &door)?
        } else {
            None
        };
        let log = Log::default();
        tokio::spawn(log.clone().read(pool.clone()));
        let app = Arc::new(App {
            source: Source::new(pool, &place.client, &self.queues)?,
            place,
            log,
            tokens,
            hosts: Hosts::new(self.host),
            base: self.base_path,
            read_only: self.read_only,
            shows_payloads: self.show_payloads,
            changes: Semaphore::new(change::AT_ONCE as usize),
            dispatches: Semaphore::new(change::AT_ONCE as usize),
            searches: Semaphore::new(SEARCHES),
            streams: Arc::new(Semaphore::new(stream::STREAMS)),
            life: format!("{life:x}"),
        });
        let bounds = Bounds { stall: self.stall.max(LEAST_STALL), ..BOUNDS };
        tokio::select! {
            never = door.serve(bounds, routes::router(&app)) => match never? {},
            () = ends.next() => {}
        }
        // Nobody else begins a change, and those that have begun may end.
        let rest = async {
            let _changes = app.changes.acquire_many(change::AT_ONCE).await;
            let _dispatches = app.dispatches.acquire_many(change::AT_ONCE).await;
        };
        let _ = timeout(REST, rest).await;
        Ok(Code::Done)
    }
}
