//! Dedicated-worker pool on Redis: every job key has one worker, and moves safely.

pub mod id;
pub mod member;
pub mod record;
pub mod settings;
pub mod store;
