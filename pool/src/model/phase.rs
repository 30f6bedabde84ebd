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
