//! The parts that act for a node, on a thread of its own. So a handler that blocks its thread costs no other job its lease.
//!
//! `driver` feeds the [engine](crate::core) and does what the engine says; `handle` is a handler's part of an execution.
//! `link` sends a step until it is answered, and follows the set through losses of data. `attesting` tells the new data of
//! the running jobs. `batcher` gathers jobs that come in, and `ticker` does what is due.

pub(crate) mod attesting;
pub(crate) mod batcher;
pub(crate) mod driver;
pub(crate) mod handle;
pub(crate) mod link;
pub(crate) mod metrics;
pub(crate) mod ticker;
