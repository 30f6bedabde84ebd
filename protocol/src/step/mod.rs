//! The steps of the protocol, every read, and their answers. `docs/protocol` is the contract.
//!
//! A step is a value: a struct with its arguments, such as [`Dispatch`], whose [`Step`] names the answer. A store performs
//! the step: [`memory`](crate::memory) as Rust over ordered maps, Redis as Lua.
//!
//! Every step is atomic, checks the caller's incarnation, and is idempotent for the identity that the step carries (nonce,
//! dispatch id, token, counter). A step without an answer is sent again, unchanged. Two kinds are exceptions. A [`Read`],
//! and [`Bootstrap`], take no incarnation. A [`Notify`] that is sent again may keep its notification twice.

mod asking;
mod attesting;
mod checkpoints;
#[cfg(any(test, feature = "proof"))]
mod dump;
mod error;
mod events;
mod evidence;
mod figures;
mod history;
mod jobs;
mod membership;
mod ownership;
mod parking;
mod performing;
mod requests;
mod schedules;
mod server;
mod steering;
mod upkeep;

pub use crate::model::settings::SettingChange;
pub use asking::*;
pub use attesting::*;
pub use checkpoints::*;
#[cfg(any(test, feature = "proof"))]
pub use dump::{Content, Dump, Text};
pub use error::*;
pub use events::*;
pub use evidence::*;
pub use figures::*;
pub use history::*;
pub use jobs::*;
pub use membership::*;
pub use ownership::*;
pub use parking::*;
pub use performing::*;
pub use requests::*;
pub use schedules::*;
pub use server::*;
pub use steering::*;
pub use tenure_steps::{EntryId, Step};
pub use upkeep::*;

use std::time::Duration;

/// The most items that one step takes.
pub const BATCH_MAX: usize = 128;
/// The most bytes of keys and payloads that one step takes or returns.
pub const BATCH_BYTES: usize = 1 << 20;
/// A call that has deleted this many notifications deletes no further job, because more would hold up the server.
pub const NOTES_PAGE: usize = 4_096;
/// The most jobs of the queue that figures looks at.
pub const LOOK_MAX: usize = 1_024;
/// About how many entries a node's stream keeps. A slower node asks for the outcomes.
pub const NODE_STREAM_MAX: usize = 1_024;

/// A duration in ms, at most a day: longer than any use, and far below the limit for exact numbers in Lua and Redis.
pub fn millis_of_a_day(duration: Duration) -> u64 {
    const DAY: u64 = 86_400_000;
    u64::try_from(duration.as_millis()).map_or(DAY, |ms| ms.min(DAY))
}

/// The outcome of a dispatch: `ok`, `stopped`, `parked`, `shutdown`, `ended`, or `e:<error>` from the start handler.
/// It is text, because the store keeps it. A node that waits for a stop may be told [`STOP_FAILED`] and an error; the
/// outcome that is kept is `stopped` all the same.
pub type Outcome = String;

/// Before the error of a stop handler, in the result of a release.
pub const STOP_FAILED: &str = "s:";
