//! The answer of explain.

use std::collections::BTreeSet;

use super::{Lookup, Pause};
use crate::model::id::{Token, WorkerId};
use crate::model::settings::ShutdownFlag;

/// All that the store knows of a key's job, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The server's clock, ms.
    pub now: u64,
    /// The pool is in phase R.
    pub recovering: bool,
    /// In phase R: the workers that have attested all that they have.
    pub attested: BTreeSet<WorkerId>,
    /// The shutdown flag.
    pub flag: Option<ShutdownFlag>,
    /// The record, and what is remembered of the dispatch.
    pub found: Lookup,
    /// When the sweeper takes the job up, and its last error.
    pub pause: Pause,
    /// How many notifications wait.
    pub notifications: u64,
    /// Its checkpoint.
    pub checkpoint: Option<CheckpointSeen>,
    /// The counter of its owner. From the owner's first renewal on, it is the time of the last one, ms.
    pub heard: Option<u64>,
    /// Its owner is expired, and the job is not taken from it yet.
    pub expired: bool,
    /// The highest counter of a worker, unless the job is parked: the time of the last renewal of a lease, ms. A worker
    /// that has not renewed yet counts as one that has just renewed.
    pub freshest: Option<u64>,
}

/// A checkpoint without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSeen {
    /// The token under which it was given.
    pub token: Token,
    /// The server's clock when the pool kept it, ms.
    pub at: u64,
    /// Its length, bytes.
    pub len: u64,
}
