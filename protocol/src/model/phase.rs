//! The phases of a pool.

use serde::Serialize;

/// The phase of a pool, as far as one node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PoolPhase {
    /// Not known yet: the node has just started, or there was a sign of lost data.
    #[default]
    Unknown,
    /// The pool is being opened, after its creation or a loss of data.
    Recovering,
    /// The pool is open.
    Open,
    /// The pool is shutting down: it accepts no new jobs, and accepted jobs may still begin.
    Closing,
    /// The pool is shutting down: every job ends.
    Stopping,
    /// The pool was shut down.
    Closed,
}

impl PoolPhase {
    /// The phase that is further from an open pool. While some shard has not ended, the pool is ending.
    #[doc(hidden)]
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let distance = |phase| match phase {
            Self::Open => 0,
            Self::Recovering => 1,
            Self::Unknown => 2,
            Self::Closing => 3,
            Self::Stopping => 4,
            Self::Closed => 5,
        };
        match (self, other) {
            (Self::Closed, living) | (living, Self::Closed) if living != Self::Closed => Self::Stopping,
            _ if distance(other) > distance(self) => other,
            _ => self,
        }
    }
}
