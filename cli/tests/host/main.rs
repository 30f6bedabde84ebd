//! `tenure host`, from outside: real hosts on a real server, as processes that are killed and stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod check;
mod hostile;
mod jobs;
mod kills;
#[path = "../work/processes.rs"]
mod processes;
mod world;
