//! The words of the pool, one type each: what stands in the store, what says where a job or a pool is, and how each is
//! written.

pub mod event;
pub mod id;
pub mod level;
pub mod member;
pub mod paused;
pub mod phase;
pub mod policy;
pub mod record;
pub mod serial;
pub mod settings;
pub mod status;
pub mod stop;
pub mod ticket;
pub mod trace;
pub mod unsaved;
pub mod why;
pub mod wire;
