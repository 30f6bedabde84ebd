//! Benchmarks on a private Redis, with workers in processes of their own. Every figure is the median of several
//! repetitions with its spread. It stands beside the floor, measured on the same server in the same minute. Compare
//! ratios, because machines are noisy.
//!
//! `arena` is the measured pool; `process` and `worker` are its processes. `load` makes calls, and `usage` counts their
//! cost. `floor` and `staged` measure the best that the same Redis can do. `report` and `results` show the figures.
//! Each other file is a scenario.

mod all;
mod arena;
mod ask;
mod checkpoint;
mod clock;
mod deploy;
mod dispatch;
mod failover;
mod figures;
mod fleet;
mod floor;
mod held;
mod idle;
mod idle_fleets;
mod jobs;
mod load;
mod machine;
mod moves;
mod options;
mod process;
mod rebalance;
mod report;
mod requests;
mod results;
mod rmap;
mod sequence;
mod staged;
mod streaming;
mod tally;
mod usage;
mod worker;

use clap::{Parser, Subcommand};
use tenure_testing::Failure;

use options::Options;

/// The number of threads of each process's runtime, if it is set. Otherwise each process uses one thread. Four
/// processes and a Redis share the machine, and more threads than cores wake each other instead of working.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// Any failure: nothing was measured then.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Benchmarks of Tenure")]
struct CommandLine {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// Jobs dispatched until started, by 1, 16, 256 and 1000 callers, with up to 200,000 jobs held.
    Dispatch {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        part: dispatch::Part,
    },
    /// Jobs stopped until their handlers have ended.
    Stop(Options),
    /// Jobs notified until their handlers have heard of it.
    Notify(Options),
    /// Jobs asked until they have answered, also while all of them move.
    Ask(Options),
    /// Jobs that leave their state in the pool, and a drain of jobs that each owe one.
    Checkpoint(Options),
    /// The time until the jobs of a killed worker process, and of a drained worker, run again.
    Failover(Options),
    /// A fifth worker joins: which jobs move, and for how long does nobody run them?
    Rebalance(Options),
    /// A rolling deploy of all worker processes.
    Deploy(Options),
    /// The traffic of idle nodes, with jobs and without.
    Idle(Options),
    /// The cost of idle fleets of 2, 50, 200 and 1,000 nodes.
    IdleFleets {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        part: idle_fleets::Part,
    },
    /// The memory of a running job, in its worker and in Redis.
    Held(Options),
    /// Jobs dispatched at several rates in fleets of up to 200 nodes, and a million jobs held by 200 workers.
    Fleet {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        part: fleet::Part,
    },
    /// A replicated map: writes, the delay until another process sees them, joining, memory.
    Rmap(Options),
    /// Streams: adding, a sink, the delay until a reader wakes up.
    Streaming(Options),
    /// A consumer of indexed jobs beside a bare loop, and its memory with a hole.
    Sequence(Options),
    /// Background jobs: added and processed until done, in groups, in flows, delayed, and beside a million that wait.
    Jobs(Options),
    /// All scenarios, written to a folder as a table and plots.
    All(all::Everything),
    /// A process with workers.
    #[command(hide = true)]
    Worker(worker::Life),
    /// The other process of `rmap`.
    #[command(hide = true)]
    Follow(rmap::follow::Following),
}

fn main() -> Result<(), Failure> {
    run(CommandLine::parse().scenario).map_err(|error| -> Box<dyn std::error::Error> { error })?;
    Ok(())
}

fn run(scenario: Scenario) -> Result<(), Error> {
    let mut runtime = match std::env::var_os(THREADS) {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        let (report, options) = match scenario {
            Scenario::Dispatch { options, part } => (dispatch::run(options, part).await?, options),
            Scenario::Stop(options) => (requests::stop(options).await?, options),
            Scenario::Notify(options) => (requests::notify(options).await?, options),
            Scenario::Ask(options) => (Box::pin(ask::run(options)).await?, options),
            Scenario::Checkpoint(options) => (Box::pin(checkpoint::run(options)).await?, options),
            Scenario::Failover(options) => (failover::run(options).await?, options),
            Scenario::Rebalance(options) => (rebalance::run(options).await?, options),
            Scenario::Deploy(options) => (deploy::run(options).await?, options),
            Scenario::Idle(options) => (Box::pin(idle::run(options)).await?, options),
            Scenario::IdleFleets { options, part } => {
                (Box::pin(idle_fleets::run(options, &part)).await?, options)
            }
            Scenario::Held(options) => (held::run(options).await?, options),
            Scenario::Fleet { options, part } => (Box::pin(fleet::run(options, &part)).await?, options),
            Scenario::Rmap(options) => (rmap::run(options).await?, options),
            Scenario::Streaming(options) => (streaming::run(options).await?, options),
            Scenario::Sequence(options) => (sequence::run(options).await?, options),
            Scenario::Jobs(options) => (Box::pin(jobs::run(options)).await?, options),
            Scenario::All(options) => return Box::pin(all::run(options)).await,
            Scenario::Worker(options) => return worker::run(options).await,
            Scenario::Follow(options) => return rmap::follow::run(options).await,
        };
        report.print(options.json);
        Ok(())
    })
}
