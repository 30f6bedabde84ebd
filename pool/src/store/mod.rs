//! The store: what performs the steps of the protocol. `docs/protocol` is the contract.
//!
//! A [`Store`] performs any step: in the memory of this process, or by `redis` as Lua ([`OnRedis`]). A conformance suite and a
//! refinement test show that both are equal.

mod memory;
mod redis;
mod shared;

pub use memory::MemoryStore;
#[cfg(any(test, feature = "proof"))]
pub use redis::needs_memory;
pub use redis::{RedisStore, UnsuitableServer, decode_begin};
pub use shared::{Known, OnRedis, Store};
pub use tenure_protocol::step::*;
