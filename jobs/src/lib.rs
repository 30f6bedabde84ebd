#![doc = include_str!("../README.md")]

mod model;
#[cfg_attr(not(feature = "sim"), allow(unreachable_pub, dead_code))]
pub mod store;

pub use model::id::{GroupName, Incarnation, InvalidName, JobId, NodeName, QueueName, SetName, Token};
pub use model::queue::Settings;
pub use model::record::{Record, State};
pub use store::{MemoryStore, RedisStore};
