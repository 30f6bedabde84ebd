//! What the node's users ask for: dispatches, and requests about single jobs.

pub(super) mod dispatching;
mod request;
pub(super) mod requests;
