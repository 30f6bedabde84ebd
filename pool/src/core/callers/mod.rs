//! Commands of the node's users: dispatches, and requests about single jobs.

pub(super) mod dispatching;
mod request;
pub(super) mod requests;
