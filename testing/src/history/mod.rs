//! A history of what really happened to the jobs of a pool, and the judgement of it.
//!
//! Handlers and drivers record [`Event`]s into a [`History`]; [`check`] reads the intervals in which a handler
//! ran (`runs.rs`) and reports every [`Fault`] in a [`Report`]. Nothing here knows the pool: a history says only
//! who did what to which key when.
//!
//! All times are nanoseconds of `CLOCK_BOOTTIME`, which all processes of a machine share and which goes on while
//! one of them is paused.

mod calls;
mod checker;
mod event;
mod recorder;
mod report;
mod runs;

pub use checker::{Expect, check};
pub use event::{Entry, Event};
pub use recorder::{History, LoadError, boottime_ns};
pub use report::{Fault, Gap, Holder, Percentiles, Report};
