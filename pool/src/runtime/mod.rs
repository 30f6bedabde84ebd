//! The shell around the core: it reads the clock, performs the effects, runs the handlers, and decides nothing.
//!
//! | loop | where | ends when |
//! |---|---|---|
//! | the driver: inputs to the engine, effects from it | `driver`, on an engine thread for a full node, on the user's runtime for a client, with all its connections: `tenure_connection::Thread` | the engine ends, the node is abandoned, or the user's runtime ends |
//! | one actor per job that does something | `actor`, a task each on the user's runtime; `actors` has them all | nothing is left to do, or it is aborted |
//! | one plan per schedule that is planned here | `planners`, a task each on the user's runtime | it has come to something, or it is aborted |
//! | the lease: renewals, the watchdog, and who blocks a thread | `lease` with `polls`, an OS thread with a connection of its own | the driver ends |
//!
//! The driver ends first, and with it the actors. The lease thread goes on until all handlers of all workers have
//! ended.

pub(crate) mod actor;
pub(crate) mod actors;
mod alarm;
pub(crate) mod driver;
pub(crate) mod health;
mod history;
mod int_map;
mod lately;
pub(crate) mod lease;
mod log;
pub(crate) mod metrics;
mod pace;
pub(crate) mod planners;
pub(crate) mod polls;
pub(crate) mod room;
mod saving;
