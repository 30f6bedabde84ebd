//! What Tenure's tests and examples share: private Redis servers, waiting with deadlines, and a history checker.
//!
//! - [`RedisServer`] is a server of one's own that can be paused, killed and restarted, and leaves nothing behind.
//!   [`Endpoint`] is the Redis of `REDIS_URL`, or such a server.
//! - [`eventually`] waits for a condition, and says what it waited for when the time is up.
//! - [`history`] records who ran which key when, and [`history::check`] says which promises were broken.

mod binary;
mod endpoint;
mod error;
mod guard;
pub mod history;
mod server;
mod wait;

pub use endpoint::Endpoint;
pub use error::Error;
pub use server::{Builder, Data, RedisServer};
pub use wait::{Outcome, eventually};
