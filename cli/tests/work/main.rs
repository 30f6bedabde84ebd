//! `tenure work`: a private Redis, a pool with a node of this process that dispatches, and workers as processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod ends;
mod hostile;
mod kills;
mod limits;
mod many;
mod many_kills;
mod output;
#[path = "../pool/mod.rs"]
mod pool;
mod probes;
mod processes;
mod starts;
#[path = "../stderr/mod.rs"]
mod stderr;
mod steered;
mod talk;
mod unread;
mod world;
