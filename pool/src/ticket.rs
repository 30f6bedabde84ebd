//! What an accepted job is waited for by.

use std::fmt;

use crate::id::{DispatchId, JobKey};

/// An accepted dispatch: give it to [`Node::wait`](crate::Node::wait) of any node of the pool.
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
