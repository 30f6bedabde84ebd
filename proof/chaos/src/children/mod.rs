//! Faults hit nodes of `tenure work` and `tenure host`, whose jobs are processes of other programs.
//!
//! This program is all of them: the command, by [`part`], and the programs of the jobs, in `program.rs`. `arena.rs` starts the
//! nodes and inflicts the faults, `family.rs` finds their processes, `load.rs` dispatches and stops, and `verdict.rs` judges.
//! The programs of the jobs tell the judges of locks, starts and overlaps in `traces.rs`.

mod arena;
mod family;
mod hosted;
mod load;
mod program;
mod traces;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_testing::end_with_parent;
use tokio::time::{Instant, sleep};

use crate::Result;
use arena::Arena;
use load::Load;

/// The settings of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct ChildrenPlan {
    /// The length of the faults. The judges wait until all jobs run, up to two minutes.
    #[arg(long = "minutes", value_name = "MINUTES", value_parser = crate::cli::minutes, default_value = "3")]
    pub time: Duration,
    /// The seed of the faults and the calls; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
    /// Only these faults; all of them by default.
    #[arg(long)]
    pub only: Vec<ChildrenFault>,
    /// Only nodes of this kind; both by default.
    #[arg(long)]
    pub kind: Option<ChildrenKind>,
    /// Stops what must end jobs at the end of their lease: the judges must find it, and the exit status is 1.
    #[arg(long)]
    pub control: bool,
}

/// A kind of node, by the command that starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum ChildrenKind {
    /// `tenure work`: a process for each job.
    Work,
    /// `tenure host`: a process for all jobs of a worker.
    Host,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum ChildrenFault {
    /// The node's process is killed, and the guard has to end all.
    KillNode,
    /// The guard is killed.
    KillGuard,
    /// A keeper is killed.
    KillKeeper,
    /// The program of a job is killed.
    KillChild,
    /// The node's process stands still for up to two leases.
    StopNode,
    /// The guard stands still.
    StopGuard,
    /// A keeper stands still.
    StopKeeper,
    /// The program of a job stands still.
    StopChild,
    /// Another node drains this one.
    Drain,
    /// A node leaves.
    Leave,
    /// Redis stands still.
    RedisPause,
    /// Redis is killed, and comes back with its data.
    RedisRestart,
}

/// Becomes a process of a run, if this one was started as such: the command `tenure`, or the program of a job.
pub fn part(args: &[OsString]) -> Option<ExitCode> {
    match args.get(1)?.to_str()? {
        // The guard. It ends with the run, however that ends; its node ends with it.
        "work" | "host" if std::env::var_os("TENURE_GUARD").is_none() => {
            end_with_parent();
            Some(tenure_cli::main())
        }
        "work" | "host" | "__keeper" | "__shim" => Some(tenure_cli::main()),
        program::JOB => Some(program::run(&args[2..])),
        hosted::HOST => Some(hosted::run(&args[2..])),
        _ => None,
    }
}

/// Runs the faults and asks the judges. Returns their findings. The last line it prints is the verdict as JSON.
///
/// # Errors
/// The run cannot be executed.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: &ChildrenPlan, say: fn(&str)) -> Result<Vec<String>> {
    let dir = tempfile::Builder::new().prefix("tenure-chaos.").tempdir()?.keep();
    say(&format!("seed {}; logs: {}", plan.seed, dir.display()));
    let mut arena = Arena::open(&dir, plan).await?;
    let load = Load::start(arena.node(), arena.traces(), plan.seed, if plan.control { 8 } else { 40 });
    if plan.control {
        arena.stop_what_ends_jobs().await?;
    } else {
        inflict(&mut arena, plan).await?;
    }
    let verdict = arena.judge(load.stop().await, plan.control).await?;
    say(&verdict.to_string());
    let found = verdict.violations();
    if found.is_empty() || plan.control {
        std::fs::remove_dir_all(&dir)?;
    } else {
        say(&format!("run it again with seed {}; logs are in {}", plan.seed, dir.display()));
    }
    say(&verdict.json(plan.seed));
    Ok(found)
}

/// Causes a fault, heals it, rests, and goes on until the time is over, or a judge has found something.
async fn inflict(arena: &mut Arena, plan: &ChildrenPlan) -> Result<()> {
    let (began, mut random) = (Instant::now(), StdRng::seed_from_u64(plan.seed));
    let known =
        if plan.only.is_empty() { ChildrenFault::value_variants().to_vec() } else { plan.only.clone() };
    while began.elapsed() < plan.time && arena.is_well() {
        sleep(Duration::from_millis(random.random_range(300..2_000))).await;
        let Some(fault) = known.choose(&mut random).copied() else { continue };
        arena.cause(fault, &mut random).await?;
    }
    Ok(())
}
