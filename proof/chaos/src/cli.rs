//! The command line of `tenure-chaos`. Its exit status is 0 when all is well, and 1 otherwise.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Termination};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Parser, Subcommand, ValueEnum};
use tenure_testing::{describe, logging};

use crate::Result;
use crate::bounds::{self, BoundsPlan};
use crate::broken::{Broken, ENOUGH};
use crate::children::{self, ChildrenFault, ChildrenKind, ChildrenPlan};
use crate::jobs::{self, BrokenJobs, JobsFault, JobsNodePlan, JobsPlan};
use crate::node::{self, NodePlan};
use crate::poison::{self, Choice, PoisonPlan, Target};
use crate::soak::{self, SoakPlan};
use crate::storm::{self, Fault, StormPlan};

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
    Soak {
        /// The length of the run.
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
        /// Jobs that run throughout.
        #[arg(long, default_value_t = 20_000)]
        jobs: usize,
        /// The seed of the order of events; random by default.
        #[arg(long)]
        seed: Option<u64>,
        /// The file for the samples, as comma-separated values.
        #[arg(long)]
        csv: Option<PathBuf>,
        /// The file for the plot of the samples.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Faults on real processes, and the judges' findings.
    Storm {
        /// The length of the run.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// The seed of the faults and the calls; random by default.
        #[arg(long)]
        seed: Option<u64>,
        /// The number of job keys.
        #[arg(long, default_value_t = 600)]
        keys: usize,
        /// Only these faults; all of them by default.
        #[arg(long)]
        only: Vec<Fault>,
    },
    /// How soon the jobs of one of four nodes run elsewhere after a crash and in a drain, compared with the promises.
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
        /// The seed of the moments of the crashes; random by default.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Damage to the keys of a living pool or set of jobs, beside a neighbour on the same server.
    Poison {
        /// The target of the damage.
        #[arg(long, value_enum, default_value_t = Target::Pool)]
        of: Target,
        /// The length of the run.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// The seed of the damage; random by default.
        #[arg(long)]
        seed: Option<u64>,
        /// Only this damage: a key (jobs), a manner (mutate, lose, stray, mistype, delete), or both (jobs-lose).
        #[arg(long)]
        only: Vec<Choice>,
        /// Damages nothing, and stops jobs unseen: the judges must find it.
        #[arg(long)]
        control: bool,
    },
    /// Faults on nodes of background jobs, and the judges' findings.
    Jobs {
        /// The length of the faults. The judges wait until all jobs have ended, up to two minutes.
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// The seed of the faults and the jobs; random by default.
        #[arg(long)]
        seed: Option<u64>,
        /// Only these faults; all of them by default.
        #[arg(long)]
        only: Vec<JobsFault>,
        /// Nodes that are broken in this way: the judges must find it, and the exit status is 1.
        #[arg(long)]
        control: Option<BrokenJobs>,
    },
    /// Faults on nodes whose jobs are processes of other programs, and the judges' findings.
    Children {
        /// The length of the faults. The judges wait until all jobs run, up to two minutes.
        #[arg(long, default_value_t = 3.0)]
        minutes: f64,
        /// The seed of the faults and the calls; random by default.
        #[arg(long)]
        seed: Option<u64>,
        /// Only these faults; all of them by default.
        #[arg(long)]
        only: Vec<ChildrenFault>,
        /// Only nodes of this kind; both by default.
        #[arg(long)]
        kind: Option<ChildrenKind>,
        /// Stops what must end jobs at the end of their lease: the judges must find it, and the exit status is 1.
        #[arg(long)]
        control: bool,
    },
    /// Nodes that are broken on purpose: the judges must find them.
    Controls {
        /// Only these kinds. By default all kinds for the nodes of a pool, and none for the nodes of background jobs.
        #[arg(long)]
        only: Vec<Control>,
        /// The longest time for a kind. A run ends early once the judges have found enough.
        #[arg(long, default_value_t = 180)]
        seconds: u64,
        /// The seed of the faults and the calls; random by default.
        #[arg(long)]
        seed: Option<u64>,
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
            Command::Poison { of, minutes, seed, only, control } => {
                let seed = seed.unwrap_or_else(rand::random);
                let plan = PoisonPlan { time: time(minutes), seed, target: of, only, control };
                judged(poison::run(&plan, say).await)
            }
            Command::Jobs { minutes, seed, only, control } => {
                let seed = seed.unwrap_or_else(rand::random);
                judged(jobs::run(&JobsPlan { time: time(minutes), seed, only, control }, say).await)
            }
            Command::Children { minutes, seed, only, kind, control } => {
                let seed = seed.unwrap_or_else(rand::random);
                let plan = ChildrenPlan { time: time(minutes), seed, only, kind, control };
                judged(children::run(&plan, say).await)
            }
            Command::JobsNode { plan } => jobs_node(&plan).await,
            Command::Controls { only, seconds, seed } => {
                controls(&only, Duration::from_secs(seconds), seed.unwrap_or_else(rand::random)).await
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

/// Nodes that are broken on purpose.
#[derive(Clone, Copy, Debug)]
enum Control {
    Pool(Broken),
    Jobs(BrokenJobs),
}

impl ValueEnum for Control {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Control; Broken::ALL.len() + BrokenJobs::ALL.len()] = {
            let mut all = [Control::Pool(Broken::ALL[0]); Broken::ALL.len() + BrokenJobs::ALL.len()];
            let mut at = 0;
            while at < all.len() {
                all[at] = match at.checked_sub(Broken::ALL.len()) {
                    None => Control::Pool(Broken::ALL[at]),
                    Some(of_jobs) => Control::Jobs(BrokenJobs::ALL[of_jobs]),
                };
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Pool(broken) => broken.to_possible_value(),
            Self::Jobs(broken) => broken.to_possible_value(),
        }
    }
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
    let all = Broken::ALL.map(Control::Pool);
    for control in if only.is_empty() { &all } else { only } {
        let found = control.found(time, seed).await?;
        let name = control.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
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
