//! The store on Redis.

/// The pool's steps as Lua scripts on Redis.
#[derive(Debug)]
pub struct RedisStore;
