//! `tenure host`, from outside: real hosts on a real server, as processes that are killed and stopped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod attach;
mod check;
mod hostile;
mod jobs;
mod kills;
mod many;
#[path = "../pool/mod.rs"]
mod pool;
#[allow(dead_code, reason = "the tests of work need more of it")]
#[path = "../work/processes.rs"]
mod processes;
mod ready;
#[path = "../stderr/mod.rs"]
mod stderr;
mod unread;
mod world;
