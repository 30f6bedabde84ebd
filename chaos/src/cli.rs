//! The command line of `tenure-chaos`, and its exit status: 0 when all is well, 1 when it is not.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Termination};
use std::time::Duration;

use clap::{Parser, Subcommand};
use tenure_examples::feeds::cli::describe;

use crate::Result;
use crate::bounds::{self, BoundsPlan};
use crate::broken::Broken;
use crate::node::{self, NodePlan};
use crate::poison::{self, Choice, PoisonPlan};
use crate::soak::{self, SoakPlan};
use crate::storm::{self, Fault, StormPlan};

/// Runs a pool of node processes on a Redis of its own under faults or under load, and judges what came of it.
#[derive(Debug, Parser)]
#[command(name = "tenure-chaos")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A long run with many jobs and little trouble: does anything grow?
    Soak {
        /// For how long.
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
        /// Jobs that run all the while.
        #[arg(long, default_value_t = 20_000)]
        jobs: usize,
        /// Chooses the order of things; made up unless it is given.
        #[arg(long)]
        seed: Option<u64>,
        /// Where the samples go, as a table of comma-separated values.
        #[arg(long)]
        csv: Option<PathBuf>,
        /// Where the plot of the samples goes.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Faults on real processes, and what the judges say of it.
    Storm {
        /// For how long.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Chooses the faults and the calls; made up unless it is given.
        #[arg(long)]
        seed: Option<u64>,
        /// Jobs' keys.
        #[arg(long, default_value_t = 600)]
        keys: usize,
        /// Only this fault, or these; all of them unless one is given.
        #[arg(long)]
        only: Vec<Fault>,
    },
    /// How soon the jobs of one of four nodes run elsewhere after a crash and in a drain, against what is promised.
    Bounds {
        /// Jobs on that node.
        #[arg(long, default_value_t = 1_000)]
        jobs: usize,
        /// Crashes.
        #[arg(long, default_value_t = 5)]
        crashes: usize,
        /// Drains.
        #[arg(long, default_value_t = 5)]
        drains: usize,
        /// Chooses the moments of the crashes; made up unless it is given.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Damage to the keys of a living pool, beside a neighbour on the same server.
    Poison {
        /// For how long.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Chooses the damage; made up unless it is given.
        #[arg(long)]
        seed: Option<u64>,
        /// Only this damage, or these: a key (jo), a manner (mutate, lose, stray, mistype, delete), or both (jo-lose).
        #[arg(long)]
        only: Vec<Choice>,
        /// Nothing is damaged, but jobs are stopped unseen: the judges must find it.
        #[arg(long)]
        control: bool,
    },
    /// Nodes that are broken on purpose: the judges must find it.
    Controls {
        /// Only this one.
        #[arg(long)]
        only: Option<Broken>,
        /// For how long each of them at most; it ends when an overlap is found.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Chooses the faults and the calls; made up unless it is given.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// A node, which says that it is ready in one line and ends with its parent.
    #[command(hide = true)]
    Node {
        /// What it is started with, as JSON.
        plan: String,
    },
}

impl Cli {
    /// Does what the arguments say.
    ///
    /// # Cancel safety
    /// All processes end when the future is dropped.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Soak { minutes, jobs, seed, csv, svg } => {
                let seed = seed.unwrap_or_else(rand::random);
                judged(soak::run(SoakPlan { time: time(minutes), jobs, seed, csv, svg }, say).await)
            }
            Command::Storm { minutes, seed, keys, only } => {
                let seed = seed.unwrap_or_else(rand::random);
                judged(storm::run(&StormPlan { time: time(minutes), seed, keys, only }, say).await)
            }
            Command::Bounds { jobs, crashes, drains, seed } => {
                let seed = seed.unwrap_or_else(rand::random);
                judged(bounds::run(&BoundsPlan { jobs, crashes, drains, seed }, say).await)
            }
            Command::Poison { minutes, seed, only, control } => {
                let seed = seed.unwrap_or_else(rand::random);
                let plan = PoisonPlan { time: time(minutes), seed, only, control };
                judged(poison::run(&plan, say).await)
            }
            Command::Controls { only, seconds, seed } => {
                controls(only, Duration::from_secs(seconds), seed.unwrap_or_else(rand::random)).await
            }
            Command::Node { plan } => node(&plan).await,
        };
        done.unwrap_or_else(|error| {
            complain(&describe(&*error));
            ExitCode::FAILURE
        })
    }
}

fn time(minutes: f64) -> Duration {
    Duration::from_secs_f64(minutes.clamp(0.0, 1e6) * 60.0)
}

/// Succeeds when the judges find something wrong with each.
async fn controls(only: Option<Broken>, time: Duration, seed: u64) -> Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    for broken in Broken::ALL.into_iter().filter(|broken| only.is_none_or(|only| only == *broken)) {
        let found = storm::control(broken, time, seed, say).await?.violations();
        if let Some(first) = found.first() {
            say(&format!("{broken:?}: {} violations, as it must be; the first: {first}", found.len()));
        } else {
            complain(&format!("{broken:?}: the judges have found nothing; the seed was {seed}"));
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}

/// The exit status of what was found to be wrong.
fn judged(found: Result<Vec<String>>) -> Result<ExitCode> {
    let found = found?;
    for wrong in &found {
        complain(wrong);
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn node(plan: &str) -> Result<ExitCode> {
    let plan: NodePlan = serde_json::from_str(plan)?;
    tenure_examples::logging::to_stderr();
    Ok(node::run(plan).await?.report())
}

// A reader of the output that has gone away is no error.

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "tenure-chaos: {text}");
}
