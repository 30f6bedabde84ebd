//! The command line of `gateway`. The exit status of a self-test is 0 when every request was answered by an owner.

use std::error::Error;
use std::io::{self, Write};
use std::process::{ExitCode, Termination};
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use tenure_testing::{describe, end_with_parent};
use tokio::net::TcpListener;

use super::front::Front;
use super::owner;
use super::trial::{self, Plan};

/// Sends each HTTP request and WebSocket to the process that owns its tenant.
#[derive(Debug, Parser)]
#[command(name = "gateway", args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Runs three nodes and a front under load. One node leaves, and one is killed. The last line is the verdict, as JSON.
    #[arg(long)]
    self_test: bool,
    /// Tenants of the self-test.
    #[arg(long, default_value_t = 200, value_parser = between(50, 100_000), requires = "self_test")]
    tenants: usize,
    /// Clients of the self-test, each with one request at a time.
    #[arg(long, default_value_t = 16, value_parser = between(1, 1_000), requires = "self_test")]
    clients: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A node: it runs tenants and answers for them. Its first line is its address.
    Node {
        /// The node's name.
        name: String,
        /// The time after which a silent worker counts as lost, ms.
        #[arg(long, default_value_t = 30_000)]
        ttl: u64,
        /// Where fronts reach it, such as `http://10.0.0.7:8080`, if that is not where it listens.
        #[arg(long)]
        address: Option<String>,
        /// Ends with the process that has started it.
        #[arg(long, hide = true)]
        child: bool,
        #[command(flatten)]
        at: At,
    },
    /// A front: it sends each request to the owner of its tenant. Its first line is its address.
    Front {
        /// Dispatches the job of a tenant that is not known. Anybody can then make jobs.
        #[arg(long)]
        ensure: bool,
        /// How long a request waits for an owner, ms.
        #[arg(long, default_value_t = 2_000)]
        patience: u64,
        #[command(flatten)]
        at: At,
    },
}

#[derive(Debug, Args)]
struct At {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// The pool's Redis.
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    redis: String,
}

fn between(least: u64, most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..=most)
}

impl Cli {
    /// Executes the command line.
    ///
    /// # Cancel safety
    /// All processes of a self-test end when the future is dropped.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Some(Command::Node { name, ttl, address, child, at }) => {
                if child {
                    end_with_parent();
                }
                node(&name, address, Duration::from_millis(ttl), at).await
            }
            Some(Command::Front { ensure, patience, at }) => {
                front(ensure, Duration::from_millis(patience), at).await
            }
            None => self_test(Plan { tenants: self.tenants, clients: self.clients }).await,
        };
        done.unwrap_or_else(|error| {
            complain(&describe(&*error));
            ExitCode::FAILURE
        })
    }
}

async fn node(
    name: &str,
    address: Option<String>,
    ttl: Duration,
    at: At,
) -> Result<ExitCode, Box<dyn Error>> {
    let report = owner::run(&at.redis, name, &at.listen, address, ttl, say).await?;
    Ok(report.report())
}

async fn front(ensure: bool, patience: Duration, at: At) -> Result<ExitCode, Box<dyn Error>> {
    let listener = TcpListener::bind(&at.listen).await?;
    let front = Front::join(&at.redis, patience, ensure).await?;
    say(&format!("http://{}", listener.local_addr()?));
    front.serve(listener).await?;
    Ok(ExitCode::SUCCESS)
}

async fn self_test(plan: Plan) -> Result<ExitCode, Box<dyn Error>> {
    let verdict = trial::run(plan, say).await?;
    let faults = verdict.faults();
    for fault in &faults {
        complain(fault);
    }
    say(&serde_json::to_string(&verdict)?);
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

// A reader of the output that has gone is no error.

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "gateway: {text}");
}
