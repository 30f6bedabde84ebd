//! The command line of `deploy-drill`. Its exit status is 0 when the deploy kept its bounds, and 1 when it did not.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Termination};

use clap::{Parser, Subcommand};
use tenure_testing::{describe, end_with_parent};

use super::deploy::{self, Plan};
use super::node;

/// Replaces every node of a pool, one after the other, while its jobs run, and judges the effect on the jobs.
#[derive(Debug, Parser)]
#[command(name = "deploy-drill", args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Jobs that run throughout.
    #[arg(long, default_value_t = 2_000)]
    jobs: usize,
    /// Nodes, and the same number of deploys.
    #[arg(long, default_value_t = 10)]
    nodes: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A node, which reports in one line that it is ready, and ends with its parent.
    #[command(hide = true)]
    Node {
        /// The node's name.
        name: String,
        /// The history file, to which the node appends the start and stop of each job.
        history: PathBuf,
        /// The pool's Redis.
        #[arg(long, env = "REDIS_URL", hide_env_values = true)]
        redis: String,
    },
}

impl Cli {
    /// Executes the command line.
    ///
    /// # Cancel safety
    /// All processes end when the future is dropped.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Some(Command::Node { name, history, redis }) => node(&redis, &name, history).await,
            None => drill(Plan { jobs: self.jobs, nodes: self.nodes }).await,
        };
        done.unwrap_or_else(|error| {
            complain(&describe(&*error));
            ExitCode::FAILURE
        })
    }
}

async fn drill(plan: Plan) -> Result<ExitCode, Box<dyn Error>> {
    let verdict = deploy::run(plan, say).await?;
    let faults = verdict.faults();
    for fault in &faults {
        complain(fault);
    }
    say(&verdict.json());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn node(url: &str, name: &str, history: PathBuf) -> Result<ExitCode, Box<dyn Error>> {
    end_with_parent();
    let report = node::run(url, name, &history, || say("ready")).await?;
    if !report.complete {
        complain(&format!("{name} still holds {} jobs", report.left.len()));
    }
    Ok(report.report())
}

// A reader of the output that has gone is no error.

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "deploy-drill: {text}");
}
