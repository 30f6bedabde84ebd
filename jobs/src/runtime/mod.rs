//! The acting parts of a node, on an engine thread. So a handler may block a thread, and no other job loses its lease.
//!
//! `driver` feeds the [engine](crate::core) and performs its effects; `handle` is a handler's part of an execution.
//! `link` sends a step until the answer comes, and follows the set through losses of data. `attesting` tells the new data of
//! the running jobs. `batcher` gathers new jobs, and `ticker` does what is due.

pub(crate) mod attesting;
pub(crate) mod batcher;
pub(crate) mod driver;
pub(crate) mod handle;
pub(crate) mod link;
pub(crate) mod metrics;
pub(crate) mod ticker;
