//! The history of a pool's jobs as it really happened, and the judgement of it.
//!
//! Handlers and drivers record [`Event`]s into a [`History`]. [`check`] computes the intervals in which handlers ran
//! (`runs.rs`) and reports every [`Fault`] in a [`Report`]. Nothing here knows the pool: a history only says who did
//! what to which key and when.
//!
//! All times are nanoseconds of `CLOCK_BOOTTIME`, which all processes of a machine share. It continues while one of
//! them is paused.

mod calls;
mod checker;
mod event;
mod recorder;
mod report;
mod runs;

pub use checker::{Expect, check};
pub use event::{AskEnd, AskWord, Entry, Event};
pub use recorder::{History, LoadError, boottime_ns};
pub use report::{Fault, Gap, Holder, Percentiles, Report};
