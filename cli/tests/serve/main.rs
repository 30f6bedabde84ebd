//! `tenure serve` as a process, over a pool of this process on a private server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod changes;
mod described;
mod edges;
mod hostile;
mod reach;
mod schema;
#[path = "../stderr/mod.rs"]
mod stderr;
mod stream;
mod unread;
#[path = "../workers/mod.rs"]
mod workers;
mod world;
