//! `deploy-drill`: a rolling deploy of ten nodes under 2,000 running jobs; the last line is the verdict, as JSON.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use tenure_examples::drill::cli::Cli;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    Cli::parse().run().await
}
