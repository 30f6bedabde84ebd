//! What Tenure's tests and examples share: private Redis servers, faults, waiting with deadlines, and a checker of
//! histories.
//!
//! - [`RedisServer`] is a server of one's own that can be paused, killed and restarted, and leaves nothing behind.
//!   [`Endpoint`] is the Redis of `REDIS_URL`, or such a server. [`tls`] makes certificates for it.
//! - [`Cluster`] and [`Sentinels`] are several of them that belong together, with their fail-overs.
//! - [`Proxy`] stands before a server and cuts, stalls, loses or refuses what passes.
//! - [`eventually`] waits for a condition, and says what it waited for when the time is up.
//! - [`history`] records who ran which key when, and [`history::check`] says which promises were broken.
//! - [`mod@mutants`] breaks lines of scripts, and sees that a test notices each.
//! - [`plot`] draws what was measured.

mod address;
mod binary;
mod builder;
pub mod cluster;
mod endpoint;
mod error;
mod guard;
pub mod history;
mod inspect;
pub mod mutants;
pub mod plot;
mod port;
pub mod proxy;
pub mod sentinels;
mod server;
mod settle;
pub mod tls;
mod wait;

pub use builder::Builder;
pub use cluster::Cluster;
pub use endpoint::Endpoint;
pub use error::Error;
pub use inspect::Connected;
pub use proxy::Proxy;
pub use sentinels::Sentinels;
pub use server::{Data, RedisServer};
pub use wait::{Outcome, eventually};
