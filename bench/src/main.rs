//! Benchmarks of the pool on a private Redis. Every figure stands beside the floor of the same minute, measured on the
//! same server: compare ratios, machines are noisy.

mod dispatch;
mod figures;
mod floor;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Benchmarks of Tenure")]
struct Options {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// Jobs dispatched until started, by 1, 16, 256 and 1000 callers at once.
    Dispatch {
        /// One JSON line instead of a table.
        #[arg(long)]
        json: bool,
        /// Measured runs; the median counts.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Options { scenario: Scenario::Dispatch { json, runs } } = Options::parse();
    if runs == 0 {
        return Err("at least one run".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(dispatch::run(json, runs))
}
