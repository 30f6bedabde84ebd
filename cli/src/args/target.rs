//! The jobs that a command changes: by their keys, or by a filter.

use clap::Args;
use tenure_pool::JobKey;

use super::{KeyArg, Steer, Which};

/// Jobs to change.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// The jobs' keys. Without any, a filter says which jobs
    #[arg(value_parser = KeyArg, value_name = "KEY")]
    pub(crate) keys: Vec<JobKey>,
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) steer: Steer,
}
