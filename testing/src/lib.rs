//! Tools that Tenure's tests and examples share: private Redis servers, faults, waiting with deadlines, and a checker
//! of histories.
//!
//! - [`RedisServer`] is a private server that can be paused, killed and restarted, and leaves nothing behind.
//!   [`Endpoint`] is the Redis of `REDIS_URL`, or a private server. [`tls`] makes certificates for servers.
//! - [`Cluster`] and [`Sentinels`] are groups of such servers, with fail-overs.
//! - [`Proxy`] stands before a server and cuts, delays, loses or refuses traffic.
//! - [`eventually`] and [`within`] wait for a condition, and name it when the time is up: one panics, one is an error.
//! - [`ChildProcess`] is a process that can be spoken to, paused and killed, and ends with its parent. [`logging`] is the
//!   log of such a program, and [`describe`] the text of its errors. [`Lines`] keeps the log of a test.
//! - [`history`] records who ran which key when, and [`history::check`] finds the broken promises.
//! - [`mod@mutants`] breaks lines of scripts, and checks that a test notices each.
//! - [`plot`] draws measurements.

mod address;
mod ask;
mod binary;
mod builder;
mod child;
pub mod cluster;
mod describe;
mod endpoint;
mod error;
mod guard;
pub mod history;
mod inspect;
mod lines;
pub mod logging;
pub mod mutants;
pub mod plot;
mod port;
pub mod proxy;
pub mod sentinels;
mod server;
pub mod tls;
mod wait;

pub use builder::Builder;
pub use child::{ChildProcess, end_with_parent};
pub use cluster::Cluster;
pub use describe::describe;
pub use endpoint::Endpoint;
pub use error::Error;
pub use inspect::Connected;
pub use lines::Lines;
pub use proxy::Proxy;
pub use sentinels::Sentinels;
pub use server::{Data, RedisServer};
pub use wait::{Outcome, eventually, within};
