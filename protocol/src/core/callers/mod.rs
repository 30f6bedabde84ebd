//! Commands of the node's users: dispatches, and requests about single jobs.

mod asking;
pub(super) mod dispatching;
mod line;
mod notifying;
mod request;
pub(super) mod requests;
mod steering;
mod stopping;
mod updating;
