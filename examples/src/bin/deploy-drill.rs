//! `deploy-drill`: a rolling deploy of ten nodes under 2,000 running jobs. The last line is the verdict, as JSON.

use std::process::ExitCode;

use clap::Parser;
use tenure_examples::drill::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    tenure_testing::logging::to_stderr();
    Cli::parse().run().await
}
