//! The steps of repair, and of the end of a pool.

use super::performing::step;
use super::{Inspected, Outcome, ShutdownMode, Swept};
use crate::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use crate::model::settings::ShutdownFlag;
use std::time::Duration;

/// Repairs due jobs.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The most jobs to repair.
    pub limit: usize,
    /// The sweep includes jobs without a worker. The number says how many of these jobs to skip.
    pub kick: Option<usize>,
}

step!(Sweep: "sweep" -> Swept);

/// Inspects a page of the records. Puts the jobs into the indexes of their states. Gives an unknown owner a counter, so that
/// the owner expires. Compares `held`, at most [`BATCH_MAX`](super::BATCH_MAX) jobs in the hands of workers, with the records.
#[derive(Clone, Debug)]
pub struct Inspect {
    /// Where the page begins; 0: with the first record.
    pub cursor: u64,
    /// About how many records the page has.
    pub limit: usize,
    /// Jobs in the hands of workers.
    pub held: Vec<(WorkerId, JobKey, Token)>,
}

step!(Inspect: "inspect" -> Inspected, |step| step.held.len());

/// Sets or advances the shutdown flag, and returns the flag.
#[derive(Clone, Debug)]
pub struct ShutDown {
    /// The asking node.
    pub by: NodeName,
    /// The request.
    pub mode: ShutdownMode,
}

step!(ShutDown: "shutdown" -> Option<ShutdownFlag>);

/// While stopping: deletes jobs without a running owner. An empty answer: no such job is left.
#[derive(Clone, Debug)]
pub struct Purge {
    /// The most jobs to delete.
    pub limit: usize,
}

step!(Purge: "purge" -> Vec<(DispatchId, Outcome)>);

/// The last step of a shutdown: deletes every key, and leaves a tombstone. Returns the number of dropped jobs.
#[derive(Clone, Debug)]
pub struct CleanUp {
    /// How long the name of the pool stays marked.
    pub tombstone: Duration,
}

step!(CleanUp: "cleanup" -> u64);

/// Creates a missing consumer group again, from the stream's beginning.
#[derive(Clone, Debug)]
pub struct RestoreGroup;

step!(RestoreGroup: "restore_group" -> ());

/// Forgets idle consumers without entries.
#[derive(Clone, Debug)]
pub struct PruneConsumers {
    /// How long a consumer was idle at least.
    pub idle: Duration,
}

step!(PruneConsumers: "prune_consumers" -> ());
