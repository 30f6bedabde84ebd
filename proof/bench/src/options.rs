//! The options of every scenario.

use clap::Args;
use tenure_testing::RedisServer;

use crate::Error;

/// The default number of repetitions.
const RUNS: usize = 5;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Options {
    /// One JSON line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Repetitions; the median counts. 5, with --quick 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: Option<u32>,
    /// Small sizes, which show that the scenario works and measure nothing.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Redis listens on a unix socket instead of TCP.
    #[arg(long)]
    unix: bool,
    /// Redis keeps an append-only file, written through every second.
    #[arg(long)]
    pub(crate) aof: bool,
}

impl Options {
    /// The number of repetitions.
    pub(crate) fn runs(&self) -> usize {
        self.runs.map_or(if self.quick { 1 } else { RUNS }, |runs| runs as usize)
    }

    /// The first size, or the second one with `--quick`.
    pub(crate) fn sized<T>(&self, size: T, quick: T) -> T {
        if self.quick { quick } else { size }
    }

    /// The same options with an append-only file.
    pub(crate) fn durable(self) -> Self {
        Self { aof: true, ..self }
    }

    /// A private server.
    pub(crate) fn server(&self) -> Result<RedisServer, Error> {
        let mut builder = RedisServer::builder();
        if !self.unix {
            builder = builder.tcp();
        }
        if self.aof {
            builder = builder.append_only().config("appendfsync", "everysec");
        }
        Ok(builder.start()?)
    }
}
