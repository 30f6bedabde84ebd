//! What a node does for its pool, beside its own workers: it opens the pool and ends it, reads, routes, sweeps and watches.

pub(super) mod closing;
pub(super) mod liveness;
pub(super) mod phase;
pub(super) mod reading;
pub(super) mod rereading;
pub(super) mod routing;
pub(super) mod sweeping;
