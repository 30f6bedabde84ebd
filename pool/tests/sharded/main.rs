//! A pool of several shards through its public API, as users see it, in memory and on Redis.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod counts;
mod ends;
mod fleet;
mod jobs;
mod listings;
#[allow(dead_code, reason = "shared with the behaviour tests")]
#[path = "../behaviour/recorder.rs"]
mod recorder;
mod schedules;
mod workers;
