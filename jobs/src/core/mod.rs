//! The pure core of a node: it decides everything about leases, workers and messages, and does nothing.
//!
//! ```text
//!  store ──answers, messages──► Input ──► engine.step(now, inputs) ──► Effect ──► store, handlers, replies
//!                                ▲                                      │
//!  users ──Jobs, Worker, Watch──►│◄──────── answers, ends of handlers ──┘
//! ```
//! Nothing here does I/O, reads a clock, takes a lock or logs. No iteration order differs between runs.
//!
//! Invariants, each kept by one part:
//! 1. A handler is aborted before the store may let its job run elsewhere (`leases`).
//! 2. An execution comes to one end, which is told until the store knows the end or refuses the end for good (`leases`,
//!    `ends`).
//! 3. After a loss of data a worker tells the ends that it has lately told before it takes again (`journal`, `worker`).
//! 4. A worker has one round trip in flight: what ends meanwhile goes with the next (`worker`).
//! 5. After any gap in the messages everybody looks for himself (`subscribers`).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod effect;
pub(crate) mod ends;
pub(crate) mod engine;
pub(crate) mod execution;
pub(crate) mod filling;
pub(crate) mod input;
mod journal;
mod leases;
pub(crate) mod subscribers;
#[cfg(test)]
mod tests;
mod worker;

/// A moment: the time since the boot of the machine, suspends included. The core is given the present one.
pub(crate) type Time = std::time::Duration;
