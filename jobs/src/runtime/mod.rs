//! The parts that act for a node, on a thread of its own. So a handler that blocks its thread costs no other job its lease.
//!
//! `link` sends a step until it is answered, and follows the set through losses of data. `adder` gathers jobs that come
//! in. `taker` lets jobs begin and tells their fates; `ends` keeps ends until the store knows them. `keeper` renews
//! leases and ends executions that are over. `ticker` does what is due, and `hearer` hands out the messages to the
//! node. After a loss of data, `attesting` tells the new data of the running jobs, and `incarnations` tells all parts
//! of the loss.

pub(crate) mod adder;
pub(crate) mod attesting;
pub(crate) mod clock;
pub(crate) mod ends;
pub(crate) mod execution;
pub(crate) mod filling;
pub(crate) mod hearer;
pub(crate) mod incarnations;
pub(crate) mod keeper;
pub(crate) mod link;
pub(crate) mod metrics;
pub(crate) mod taker;
pub(crate) mod ticker;
