//! `tenure-chaos`: faults on real processes, and a long run under load. The last line is the verdict, as JSON.

use std::process::ExitCode;

use clap::Parser;
use tenure_chaos::children;
use tenure_chaos::cli::Cli;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    children::part(&args).unwrap_or_else(run)
}

#[tokio::main]
async fn run() -> ExitCode {
    Cli::parse().run().await
}
