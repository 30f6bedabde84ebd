//! The options that all commands share, and the arguments that several commands have.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]

mod body;
mod key;
mod kind;
mod named;
mod number;
mod steer;
mod target;
mod which;

use std::time::Duration;

use clap::Args;

pub(crate) use body::Body;
pub(crate) use key::KeyArg;
pub(crate) use kind::KindArg;
pub(crate) use named::Named;
pub(crate) use number::number;
pub(crate) use steer::Steer;
pub(crate) use target::Target;
pub(crate) use which::{Pattern, StateArg, Which, worker};

use crate::out::Format;

/// The options that all commands share.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Pool and output")]
pub(crate) struct Global {
    /// The pool. Else TENURE_POOL, else the context's
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) pool: Option<String>,
    /// The URL of Redis. Else REDIS_URL, else the context's
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The context to take pool and URL from: see `tenure ctx`. It goes before the environment
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// How long to wait for an answer
    #[arg(long, global = true, value_name = "TIME", value_parser = time, default_value = "20s")]
    pub(crate) timeout: Duration,
    /// How to print
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: Format,
    /// Print points in time instead of how long ago they were
    #[arg(long, global = true)]
    pub(crate) utc: bool,
}

/// A length of time, such as `10s`, `500ms` or `1h 30m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "a time is a number with its unit, such as 500ms, 10s, 5m or 1h30m".to_owned())
}
