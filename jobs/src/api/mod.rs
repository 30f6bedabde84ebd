//! The types that users hold.

pub(crate) mod accept;
pub(crate) mod add;
pub(crate) mod batches;
pub(crate) mod builder;
pub(crate) mod ctx;
mod failures;
pub(crate) mod flow;
pub(crate) mod handle;
pub(crate) mod inspector;
pub(crate) mod jobs;
mod notes;
pub(crate) mod outcome;
pub(crate) mod queue;
mod reading;
pub(crate) mod view;
pub(crate) mod watch;
pub(crate) mod worker;
