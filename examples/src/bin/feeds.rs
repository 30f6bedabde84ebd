//! `feeds demo`: one live connection per tenant on a pool whose nodes come, go and crash, judged from outside.

use std::process::ExitCode;

use clap::Parser;
use tenure_examples::feeds::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    tenure_testing::logging::to_stderr();
    Cli::parse().run().await
}
