//! `tenure-chaos`: faults on real processes, and a long run under load. The last line is the verdict, as JSON.

use std::process::ExitCode;

use clap::Parser;
use tenure_chaos::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
