//! The pool as its users hold it: a node and its workers, how to build one, what it says of itself, and the
//! inspector, which only reads.

pub(crate) mod builder;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod figures;
pub(crate) mod health;
pub(crate) mod inspector;
pub(crate) mod listing;
pub(crate) mod node;
pub(crate) mod overview;
pub(crate) mod parked;
pub(crate) mod reader;
pub(crate) mod ring_view;
pub(crate) mod schedule;
pub(crate) mod scheduled;
pub(crate) mod shard_state;
pub(crate) mod worker;
