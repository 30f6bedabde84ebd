//! `feeds demo`: one live connection per tenant on a pool whose nodes come, go and crash, judged from outside.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use tenure_examples::feeds::cli::Cli;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    Cli::parse().run().await
}
