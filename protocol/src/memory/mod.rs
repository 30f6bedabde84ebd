//! The protocol's steps over ordered maps, without I/O: the reference for the scripts on Redis.
//!
//! The state is pure. A [`Server`] adds a process that can be replaced, and the level of each client. Whoever has a server
//! adds a lock, a clock, and blocking reads.

mod asking;
mod attesting;
mod checkpoints;
mod closing;
mod cordons;
mod dispatching;
#[cfg(any(test, feature = "proof"))]
mod dump;
#[cfg(any(test, feature = "proof"))]
mod exam;
mod explaining;
mod figures;
mod history;
mod inspecting;
mod levels;
mod log;
mod losses;
mod membership;
mod messages;
mod notifications;
mod ownership;
mod parking;
#[cfg(any(test, feature = "proof"))]
mod proof;
mod reaping;
mod repair;
mod run_ends;
mod schedules;
mod server;
mod state;
mod statuses;
mod steering;
mod steps;
mod stopping;
mod streams;
mod suspicion;
mod updating;

#[cfg(any(test, feature = "proof"))]
pub use exam::Facts;
#[cfg(any(test, feature = "proof"))]
pub use proof::Snapshot;
pub use server::{Changes, Client, OnMemory, Server};
