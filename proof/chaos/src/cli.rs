//! The command line of `tenure-chaos`. Its exit status is 0 when all is well, and 1 otherwise.

use std::io::{self, Write};
use std::process::{ExitCode, Termination};
use std::sync::LazyLock;
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Parser, Subcommand, ValueEnum};
use tenure_testing::{describe, logging};

use crate::Result;
use crate::bounds::{self, BoundsPlan};
use crate::broken::{Broken, ENOUGH};
use crate::children::{self, ChildrenPlan};
use crate::jobs::{self, BrokenJobs, JobsNodePlan, JobsPlan};
use crate::node::{self, NodePlan};
use crate::poison::{self, PoisonPlan};
use crate::soak::{self, SoakPlan};
use crate::storm::{self, StormPlan};

/// Runs a pool of node processes on a private Redis under faults or under load, and judges the outcome.
#[derive(Debug, Parser)]
#[command(name = "tenure-chaos")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A long run with many jobs and little trouble: does anything grow?
    Soak(SoakPlan),
    /// Faults on real processes, and the judges' findings.
    Storm(StormPlan),
    /// How soon the jobs of one of four nodes run elsewhere after a crash and in a drain, compared with the promises.
    Bounds(BoundsPlan),
    /// Damage to the keys of a living pool or set of jobs, beside a neighbour on the same server.
    Poison(PoisonPlan),
    /// Faults on nodes of background jobs, and the judges' findings.
    Jobs(JobsPlan),
    /// Faults on nodes whose jobs are processes of other programs, and the judges' findings.
    Children(ChildrenPlan),
    /// Nodes that are broken on purpose: the judges must find them.
    Controls {
        /// Only these kinds. By default all kinds for the nodes of a pool, and none for the nodes of background jobs.
        #[arg(long)]
        only: Vec<Control>,
        /// The longest time for a kind. A run ends early once the judges have found enough.
        #[arg(long, default_value_t = 180)]
        seconds: u64,
        /// The seed of the faults and the calls; random by default.
        #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
        seed: u64,
    },
    /// A node of background jobs, as `node`.
    #[command(hide = true)]
    JobsNode {
        /// The node's settings, as JSON.
        plan: String,
    },
    /// A node, which reports in one line that it is ready, and ends with its parent.
    #[command(hide = true)]
    Node {
        /// The node's settings, as JSON.
        plan: String,
    },
}

impl Cli {
    /// Executes the command line.
    ///
    /// # Cancel safety
    /// All processes end when the future is dropped.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Soak(plan) => judged(soak::run(plan, say).await),
            Command::Storm(plan) => judged(storm::run(&plan, say).await),
            Command::Bounds(plan) => judged(bounds::run(&plan, say).await),
            Command::Poison(plan) => judged(poison::run(&plan, say).await),
            Command::Jobs(plan) => judged(jobs::run(&plan, say).await),
            Command::Children(plan) => judged(children::run(&plan, say).await),
            Command::JobsNode { plan } => jobs_node(&plan).await,
            Command::Controls { only, seconds, seed } => {
                controls(&only, Duration::from_secs(seconds), seed).await
            }
            Command::Node { plan } => node(&plan).await,
        };
        done.unwrap_or_else(|error| {
            complain(&describe(&*error));
            ExitCode::FAILURE
        })
    }
}

/// A choice as the command line names it.
pub(crate) fn named(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A length of time in minutes, as a number with or without a fraction.
pub(crate) fn minutes(text: &str) -> std::result::Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    Duration::try_from_secs_f64(minutes.clamp(0.0, 1e6) * 60.0).map_err(|error| error.to_string())
}

/// Nodes that are broken on purpose.
#[derive(Clone, Copy, Debug)]
enum Control {
    Pool(Broken),
    Jobs(BrokenJobs),
}

impl ValueEnum for Control {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Control>> = LazyLock::new(|| {
            let of_jobs = BrokenJobs::value_variants().iter().copied().map(Control::Jobs);
            of_pool().chain(of_jobs).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Pool(broken) => broken.to_possible_value(),
            Self::Jobs(broken) => broken.to_possible_value(),
        }
    }
}

fn of_pool() -> impl Iterator<Item = Control> {
    Broken::value_variants().iter().copied().map(Control::Pool)
}

impl Control {
    /// The findings of the judges.
    async fn found(self, time: Duration, seed: u64) -> Result<Vec<String>> {
        match self {
            Self::Pool(broken) => Ok(storm::control(broken, time, seed, say).await?.violations()),
            Self::Jobs(broken) => {
                // The run goes on for up to ten times as long, until enough is found.
                let (time, only) = (time / 5, vec![broken.shown_by()]);
                jobs::run(&JobsPlan { time, seed, only, control: Some(broken) }, say).await
            }
        }
    }
}

/// Runs the controls, and succeeds when the judges find enough of each.
async fn controls(only: &[Control], time: Duration, seed: u64) -> Result<ExitCode> {
    let mut status = ExitCode::SUCCESS;
    let all: Vec<_> = of_pool().collect();
    for control in if only.is_empty() { &all } else { only } {
        let found = control.found(time, seed).await?;
        let name = named(control);
        match found.first() {
            Some(first) if found.len() >= ENOUGH => {
                say(&format!("{name}: {} violations, as it must be; the first: {first}", found.len()));
            }
            _ => {
                let few = found.len();
                complain(&format!("{name}: {few} violations, {ENOUGH} are needed; the seed was {seed}"));
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

/// The exit status for these faults.
fn judged(found: Result<Vec<String>>) -> Result<ExitCode> {
    let found = found?;
    for wrong in &found {
        complain(wrong);
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn node(plan: &str) -> Result<ExitCode> {
    let plan: NodePlan = serde_json::from_str(plan)?;
    logging::to_stderr();
    Ok(node::run(plan).await?.report())
}

async fn jobs_node(plan: &str) -> Result<ExitCode> {
    let plan: JobsNodePlan = serde_json::from_str(plan)?;
    logging::to_stderr();
    jobs::node::run(plan).await
}

// A reader of the output that has gone is no error.

fn say(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "tenure-chaos: {text}");
}
