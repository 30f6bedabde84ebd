//! `tenure serve` as a process, over a pool of this process on a private server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod changes;
mod described;
mod hostile;
mod reach;
mod stream;
#[path = "../workers/mod.rs"]
mod workers;
mod world;
