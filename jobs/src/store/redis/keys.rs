//! The names of a set's keys and channels. All stand under one hash tag, and none is named after a queue or a job.

use crate::model::id::{NodeName, SetName};

/// The keys that a script may declare, but for a lane's.
pub(super) const NAMES: [&str; 13] = [
    "meta", "queues", "counts", "jobs", "bodies", "extras", "ready", "timers", "leases", "groups", "turns",
    "waiting", "index",
];

#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(set: &SetName) -> Self {
        Self { prefix: format!("tenure:{{{set}}}:q:") }
    }

    /// The beginning of all names.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The key of the last call of a lane.
    pub(super) fn lane(&self, lane: &str) -> String {
        format!("{}lane:{lane}", self.prefix)
    }

    /// The beginning of the channels of nodes.
    pub(super) fn channels(&self) -> String {
        self.named("n:")
    }

    pub(super) fn channel(&self, node: &NodeName) -> String {
        format!("{}{node}", self.channels())
    }
}
