//! The `tenure` command as a process, against pools of this process on private servers.
#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_raw_string_hashes, reason = "snapshots are written so")]

mod contexts;
mod events;
mod exits;
mod fleet;
mod jobs;
mod many;
mod pages;
mod steering;
mod texts;
mod top;
#[path = "../workers/mod.rs"]
mod workers;
mod world;
