//! The pure core: it decides everything, and does nothing.
//!
//! ```text
//!  Redis or memory ──answers, maps──► Input ──► engine.step(now, inputs) ──► Effect ──► Store, handlers, replies
//!                                      ▲                                      │
//!  users ──Node, Worker───────────────►│◄──────── Done, HandlerEvent ─────────┘
//! ```
//! Nothing in here does I/O, reads a clock, draws a random number, logs, or iterates in an order that a run does
//! not repeat: time, ids and the seed of the jitter come in as arguments, so a failing run replays.
//!
//! Invariants, each kept by one part:
//! 1. No handler starts without an answered `begin` for its (key, token) under a lease that holds (`jobs`).
//! 2. A job is released only after its handler has ended; releases and begins are sent until they are answered
//!    or the worker is fenced (`jobs`, `ending`).
//! 3. A fenced worker sends nothing but its good-bye, and that only when nothing of it runs (`worker`).
//! 4. A worker is expired only when its counter stood still for its time to live by this node's own clock
//!    (`liveness`), and reaped only after all that are silent were expired.
//! 5. A job is assigned only from the ring at the revision that the step checks (`routing`).
//! 6. After any sign of data loss a worker whose lease holds says what it has; every other one is fenced (`phase`,
//!    `attesting`).
//! 7. A planner acts only in its turn, and its node has one plan of a schedule under way (`turn`, `planning`).
//! 8. Each lane has one call in flight, and the lanes of all workers for begins and for starts share theirs; what was
//!    not answered is sent again, unchanged (`lane`, `together`).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod call;
pub(crate) mod callers;
pub(crate) mod ctx;
pub(crate) mod effect;
pub(crate) mod engine;
pub(crate) mod input;
pub(crate) mod jobs;
mod lane;
pub(crate) mod lease;
pub(crate) mod ring;
pub(crate) mod roles;
pub(crate) mod schedules;
#[cfg(test)]
mod tests;
pub(crate) mod time;
pub(crate) mod worker;
