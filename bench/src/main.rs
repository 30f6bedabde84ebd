//! Benchmarks on a private Redis. Every figure stands beside the floor of the same minute, measured on the same server:
//! compare ratios, machines are noisy.

mod dispatch;
mod figures;
mod floor;
mod idle;
mod rmap;
mod streaming;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Benchmarks of Tenure")]
struct Options {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// Jobs dispatched until started, by 1, 16, 256 and 1000 callers at once.
    Dispatch(Repeat),
    /// What running jobs cost while nothing happens, in commands; fails when they cost more than 2 %.
    Idle(idle::Options),
    /// A replicated map: writes, how soon another process sees them, joining, memory.
    Rmap(Repeat),
    /// Streams: adding, a sink, how soon a reader wakes up.
    Streaming(Repeat),
    /// The other process of `rmap`.
    #[command(hide = true)]
    Follow(rmap::follow::Options),
}

#[derive(Args)]
struct Repeat {
    /// One JSON line instead of a table.
    #[arg(long)]
    json: bool,
    /// Measured runs; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Options { scenario } = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        match scenario {
            Scenario::Dispatch(Repeat { json, runs }) => dispatch::run(json, runs).await,
            Scenario::Idle(options) => idle::run(options).await,
            Scenario::Rmap(Repeat { json, runs }) => rmap::run(json, runs).await,
            Scenario::Streaming(Repeat { json, runs }) => streaming::run(json, runs).await,
            Scenario::Follow(options) => rmap::follow::run(options).await,
        }
    })
}
