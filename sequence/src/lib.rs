#![doc = include_str!("../README.md")]

mod consumer;
mod core;
mod error;
mod keys;
mod log;
mod lua;
#[cfg(feature = "pool")]
mod pool;
mod progress;
mod source;

pub use consumer::builder::Builder;
pub use consumer::delivery::Delivery;
pub use consumer::explain::{Explanation, RunningJob, Verdict};
pub use consumer::handler::{ConversionError, Converted, Handler, converted};
pub use consumer::manual::{Finisher, Jobs};
pub use consumer::retry::Retry;
pub use consumer::{Consumer, Stopped};
pub use error::{BoxError, Error, Irrecoverable, ProgressError, SharedError, SourceError};
pub use log::memory::MemoryLog;
pub use log::redis::{RedisLog, RedisLogs};
pub use log::{Appended, LogError};
#[cfg(feature = "pool")]
pub use pool::on_pool;
pub use progress::Progress;
#[cfg(feature = "pool")]
pub use progress::checkpoint::CheckpointProgress;
#[cfg(feature = "file")]
pub use progress::file::{FileProgress, FileStore};
pub use progress::memory::MemoryProgress;
pub use progress::redis::RedisProgress;
pub use source::{Seal, Sealed, Source};
