//! The parts of a pool as they are shown: the rows and documents of commands, pages and interfaces. Each is written once.

pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod jobs;
pub(crate) mod moves;
pub(crate) mod outcomes;
pub(crate) mod parked;
pub(crate) mod payload;
pub(crate) mod schedules;
pub(crate) mod settings;
