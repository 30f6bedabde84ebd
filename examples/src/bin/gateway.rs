//! `gateway`: a reverse proxy that sends each request to the owner of its tenant.

use std::process::ExitCode;

use clap::Parser;
use tenure_examples::gateway::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    tenure_testing::logging::to_stderr();
    Cli::parse().run().await
}
