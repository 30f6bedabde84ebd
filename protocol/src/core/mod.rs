//! The pure core: it decides everything, and does nothing.
//!
//! ```text
//!  Redis or memory ──answers, maps──► Input ──► engine.step(now, inputs) ──► Effect ──► Store, handlers, replies
//!                                      ▲                                      │
//!  users ──Node, Worker───────────────►│◄──────── Done, HandlerEvent ─────────┘
//! ```
//! Nothing here does I/O, reads a clock, draws a random number, or logs. No iteration order differs between runs.
//! Time, ids and the seed of the jitter are arguments, so a failing run replays.
//!
//! Invariants, each kept by one part:
//! 1. No handler starts without an answered `begin` for its (key, token) under a lease that holds (`jobs`).
//! 2. A job is released only after its handler has ended. Releases and begins are sent until they are answered, or
//!    the worker is fenced (`jobs`, `ending`).
//! 3. A fenced worker sends only its good-bye, and only after all its handlers have ended (`worker`).
//! 4. A worker is expired only if its counter stands still for its time to live by this node's own clock
//!    (`liveness`). It is reaped only after all silent workers were expired.
//! 5. A job is assigned only from the ring at the revision that the step checks (`routing`).
//! 6. After any sign of data loss a worker whose lease holds reports its jobs; every other one is fenced (`phase`,
//!    `attesting`).
//! 7. A planner acts only in its turn, and its node has one plan of a schedule under way (`schedule`, `planning`).
//! 8. Each batcher has one call in flight. All workers of a node share one call for begins and one for starts.
//!    Unanswered items are sent again, unchanged (`batcher`, `shared_calls`).

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod batcher;
pub mod call;
pub mod callers;
pub mod ctx;
pub mod effect;
pub mod engine;
pub mod input;
pub mod jobs;
pub mod lease;
mod one_call;
pub mod ring;
pub mod roles;
pub mod schedules;
#[cfg(test)]
mod tests;
mod throttle;
pub mod time;
pub mod worker;
