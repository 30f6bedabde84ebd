//! The entries of streams, and where a node reads on.

use std::collections::BTreeMap;

use super::{EntryId, Outcome};
use crate::id::{DispatchId, JobKey, NodeName, Token, WorkerId};

/// An entry of a worker's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// `s`: jobs were assigned under this token.
    Start {
        /// The token of all of them.
        token: Token,
        /// Their keys.
        keys: Vec<JobKey>,
    },
    /// `x`: jobs are to stop.
    Stop {
        /// The node that waits for it.
        waiting: Option<NodeName>,
        /// Keys, tokens, and the dispatches that are to end, where the entry names them.
        jobs: Vec<(JobKey, Token, Option<DispatchId>)>,
    },
    /// `n`: notifications wait.
    Notify {
        /// Keys and tokens.
        jobs: Vec<(JobKey, Token)>,
    },
    /// An entry that cannot be read: passed over and deleted.
    Unknown,
}

/// The result of one read of a node's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEvents {
    /// Events of its workers, each worker's in order.
    pub workers: Vec<(WorkerId, EntryId, WorkerEvent)>,
    /// Outcomes for the node, in order.
    pub outcomes: Vec<(EntryId, Vec<(DispatchId, Outcome)>)>,
}

/// The request of one blocking read of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Its workers, each with the last entry it has.
    pub workers: BTreeMap<WorkerId, EntryId>,
    /// The last entry of the node's own stream that it has.
    pub node: EntryId,
}
