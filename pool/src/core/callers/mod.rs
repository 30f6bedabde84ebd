//! Commands of the node's users: dispatches, requests about single jobs, and asks of their owners.

pub(super) mod asking;
pub(super) mod dispatching;
mod notifying;
mod refusing;
mod request;
pub(super) mod requests;
mod steering;
pub(super) mod updating;
