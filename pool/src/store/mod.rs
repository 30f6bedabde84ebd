//! The store: every atomic step of the protocol, every read, and nothing else. `docs/protocol` is the contract.
//!
//! A step is a value: a struct with its arguments, such as [`Dispatch`], whose [`Step`] names the answer. A [`Store`]
//! performs any step, by `memory` as Rust over ordered maps ([`OnMemory`]), or by `redis` as Lua ([`OnRedis`]). A
//! conformance suite and a refinement test show that both are equal.
//!
//! Every step is atomic, checks the caller's incarnation, and is idempotent for the identity that the step carries (nonce,
//! dispatch id, token, counter). A step without an answer is sent again, unchanged. Two kinds are exceptions. A [`Read`],
//! and [`Bootstrap`], take no incarnation. A [`Notify`] that is sent again may keep its notification twice.

mod asking;
mod attesting;
mod checkpoints;
#[cfg(feature = "sim")]
mod dump;
mod error;
mod events;
mod evidence;
mod figures;
mod history;
mod jobs;
mod membership;
mod memory;
mod ownership;
mod parking;
mod redis;
mod requests;
mod schedules;
mod server;
mod steering;
mod step;
mod upkeep;

pub use crate::model::settings::SettingChange;
pub use asking::*;
pub use attesting::*;
pub use checkpoints::*;
#[cfg(feature = "sim")]
pub use dump::{Content, Dump, Text};
pub use error::*;
pub use events::*;
pub use evidence::*;
pub use figures::*;
pub use history::*;
pub use jobs::*;
pub use membership::*;
pub use memory::MemoryStore;
#[cfg(feature = "sim")]
pub use memory::Snapshot;
pub use ownership::*;
pub use parking::*;
#[cfg(feature = "micro")]
pub(crate) use redis::decode_begin;
#[cfg(feature = "sim")]
pub(crate) use redis::needs_memory as script_needs_memory;
pub use redis::{RedisStore, UnsuitableServer};
pub use requests::*;
pub use schedules::*;
pub use server::*;
pub use steering::*;
pub use step::*;
pub use tenure_streaming::EntryId;
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
pub(crate) const NODE_STREAM_MAX: usize = 1_024;

/// Refuses a step with too many items.
pub(crate) fn check_batch(items: usize) -> Result<()> {
    if items > BATCH_MAX { Err(StoreError::Refused(Refusal::BadArgument)) } else { Ok(()) }
}

/// A duration in ms, at most a day: longer than any use, and far below the limit for exact numbers in Lua and Redis.
pub(crate) fn millis_of_a_day(duration: Duration) -> u64 {
    const DAY: u64 = 86_400_000;
    u64::try_from(duration.as_millis()).map_or(DAY, |ms| ms.min(DAY))
}

/// The outcome of a dispatch: `ok`, `stopped`, `parked`, `shutdown`, `ended`, or `e:<error>` from the start handler.
/// It is text, because the store keeps it. A node that waits for a stop may be told [`STOP_FAILED`] and an error; the
/// outcome that is kept is `stopped` all the same.
pub type Outcome = String;

/// Before the error of a stop handler, in the result of a release.
pub const STOP_FAILED: &str = "s:";
