//! The ticket of an accepted job.

use std::fmt;

use crate::model::id::{DispatchId, JobKey};

/// Identifies an accepted dispatch. Pass it to `Node::wait` on any node of the pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The job's key.
    pub key: JobKey,
    /// The dispatch.
    pub id: DispatchId,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.id, self.key)
    }
}
