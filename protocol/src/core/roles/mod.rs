//! The node's work for its pool: opening and ending it, reading, routing, sweeping and watching.

pub(super) mod closing;
pub(super) mod liveness;
pub(super) mod phase;
pub(super) mod reading;
pub(super) mod rereading;
pub(super) mod routing;
pub(super) mod sweeping;
