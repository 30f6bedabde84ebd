//! The words of the pool, one type each: what stands in the store, what says where a job or a pool is, and how each is
//! written.

pub(crate) mod event;
pub mod id;
pub(crate) mod level;
pub mod member;
pub(crate) mod paused;
pub(crate) mod phase;
pub(crate) mod policy;
pub mod record;
pub(crate) mod serial;
pub mod settings;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod ticket;
pub(crate) mod trace;
pub(crate) mod unsaved;
pub(crate) mod why;
pub(crate) mod wire;
