//! Benchmarks on a private Redis, with workers in processes of their own. Every figure is the median of some repetitions
//! with its spread, and stands beside the floor, measured on the same server in the same minute: compare ratios,
//! machines are noisy.
//!
//! `arena` is the pool that is measured, `process` and `worker` its processes; `load` calls, `usage` counts what that
//! costs, `floor` and `staged` say what the same Redis does at best; `report` and `results` show it. Each other file is
//! a scenario.

mod all;
mod arena;
mod clock;
mod deploy;
mod dispatch;
mod failover;
mod figures;
mod floor;
mod held;
mod idle;
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
mod staged;
mod streaming;
mod tally;
mod usage;
mod worker;

use clap::{Parser, Subcommand};

use options::Options;

/// How many threads each process' runtime has, where somebody has set it. Otherwise all of a process runs on one: four
/// processes and a Redis share the machine, and more threads than cores wake each other instead of working.
const THREADS: &str = "TOKIO_WORKER_THREADS";

/// Whatever went wrong: nothing was measured then.
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
    /// A worker process is killed, and a worker is drained: how soon do its jobs run again?
    Failover(Options),
    /// A fifth worker comes: which jobs move, and for how long does nobody run them?
    Rebalance(Options),
    /// A rolling deploy of all worker processes.
    Deploy(Options),
    /// What nodes send while nothing happens, with jobs and without.
    Idle(Options),
    /// Memory that a running job takes, in its worker and in Redis.
    Held(Options),
    /// A replicated map: writes, how soon another process sees them, joining, memory.
    Rmap(Options),
    /// Streams: adding, a sink, how soon a reader wakes up.
    Streaming(Options),
    /// All of them, written to a folder as a table and plots.
    All(all::Everything),
    /// A process with workers.
    #[command(hide = true)]
    Worker(worker::Life),
    /// The other process of `rmap`.
    #[command(hide = true)]
    Follow(rmap::follow::Following),
}

fn main() -> Result<(), Error> {
    let CommandLine { scenario } = CommandLine::parse();
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
            Scenario::Failover(options) => (failover::run(options).await?, options),
            Scenario::Rebalance(options) => (rebalance::run(options).await?, options),
            Scenario::Deploy(options) => (deploy::run(options).await?, options),
            Scenario::Idle(options) => (Box::pin(idle::run(options)).await?, options),
            Scenario::Held(options) => (held::run(options).await?, options),
            Scenario::Rmap(options) => (rmap::run(options).await?, options),
            Scenario::Streaming(options) => (streaming::run(options).await?, options),
            Scenario::All(options) => return Box::pin(all::run(options)).await,
            Scenario::Worker(options) => return worker::run(options).await,
            Scenario::Follow(options) => return rmap::follow::run(options).await,
        };
        report.print(options.json);
        Ok(())
    })
}
