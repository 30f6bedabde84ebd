//! The command line of `feeds`. Its exit status is 0 when all is well, 1 after a failure, 2 for wrong arguments or
//! input, and 130 when interrupted.

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use tenure_connection::Client;
use tenure_testing::history::History;
use tenure_testing::{describe, end_with_parent};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::conductor::{self, Demo, DemoError, Store};
use super::judge::Fencing;
use super::node::{FeedNode, Timings};
use super::server::FeedServer;
use super::tenants::{self, Tenant, TenantsError};

const FAILED: u8 = 1;
const WRONG_INPUT: u8 = 2;
const INTERRUPTED: u8 = 130;

/// The tenants in the repository.
const TENANTS: (&str, &[u8]) = ("data/tenants.csv", include_bytes!("../../data/tenants.csv"));

/// One live connection per tenant, spread over nodes that come, go and crash.
#[derive(Debug, Parser)]
#[command(name = "feeds")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays the whole story and judges it.
    Demo(DemoArgs),
    /// A feed server, which prints its address in one line and ends with its parent.
    #[command(hide = true)]
    Server,
    /// A node, which reports in one line that it is ready, and ends with its parent.
    #[command(hide = true)]
    Node(NodeArgs),
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// Where the pool lives.
    #[arg(long, value_enum, default_value_t = Store::Redis)]
    store: Store,
    /// A CSV file with the columns id,name,region,symbol. Without it, 200 tenants of the demo's own.
    #[arg(long, value_name = "PATH")]
    tenants: Option<PathBuf>,
    /// The seed that decides which nodes leave and which tenants stop.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    timings: Timings,
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// The pool to join.
    #[arg(long)]
    pool: String,
    /// The node's name.
    #[arg(long)]
    name: String,
    /// The address of the feed server.
    #[arg(long)]
    feed: SocketAddr,
    /// The pool's Redis.
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    redis: String,
    /// A history file, to which the node appends when it attended to which tenant.
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,
    #[command(flatten)]
    timings: Timings,
}

impl Cli {
    /// Executes the command line.
    ///
    /// # Cancel safety
    /// Not safe: send the process a signal instead.
    pub async fn run(self) -> ExitCode {
        match self.command {
            Command::Demo(args) => demo(args).await,
            Command::Server => status(server().await),
            Command::Node(args) => status(node(args).await),
        }
    }
}

async fn demo(args: DemoArgs) -> ExitCode {
    let tenants = match read_tenants(args.tenants) {
        Ok(tenants) => tenants,
        Err(error) => return failed(&error, WRONG_INPUT),
    };
    let interrupt = CancellationToken::new();
    if let Err(error) = listen(&interrupt) {
        return failed(&error, FAILED);
    }
    let demo = Demo { store: args.store, tenants, seed: args.seed, timings: args.timings };
    match conductor::run(&demo, &interrupt).await {
        Ok(report) => {
            let faults = report.faults();
            for fault in &faults {
                complain(fault);
            }
            say(&format!("\n{report}\n{}", report.json()));
            if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
        }
        Err(error @ (DemoError::Interrupted | DemoError::NotCleared(_))) => failed(&error, INTERRUPTED),
        Err(error) => failed(&error, FAILED),
    }
}

fn read_tenants(path: Option<PathBuf>) -> Result<Vec<Tenant>, TenantsError> {
    match path {
        Some(path) => tenants::load(&path),
        None => tenants::read(TENANTS.0, TENANTS.1),
    }
}

/// Cancels the token at Ctrl-C and at SIGTERM.
fn listen(interrupt: &CancellationToken) -> io::Result<()> {
    let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let interrupt = interrupt.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
        interrupt.cancel();
    });
    Ok(())
}

async fn server() -> Result<(), Box<dyn Error>> {
    end_with_parent();
    let server = FeedServer::start(Fencing::Enforced).await?;
    say(&server.address().to_string());
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

async fn node(args: NodeArgs) -> Result<(), Box<dyn Error>> {
    end_with_parent();
    let client = Client::open(&args.redis)?;
    let history = args.history.map(History::append_to).transpose()?.map(Arc::new);
    let node =
        FeedNode::join(client.into(), &args.pool, &args.name, &args.timings, args.feed, history).await?;
    // Listens before there is anything to hand off.
    let serving = node.close_on_signal();
    node.work().await?;
    say("ready");
    Ok(serving.await?)
}

fn status(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error, FAILED),
    }
}

fn failed(error: &(dyn Error + 'static), status: u8) -> ExitCode {
    complain(&describe(error));
    ExitCode::from(status)
}

// A reader of the output that has gone is no error.

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "feeds: {text}");
}
