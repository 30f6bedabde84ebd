//! The pool as its users hold it: a node and its workers, how to build one, and what it says of itself.

pub(crate) mod builder;
pub(crate) mod health;
pub(crate) mod listing;
pub(crate) mod node;
pub(crate) mod parked;
pub(crate) mod schedule;
pub(crate) mod worker;
