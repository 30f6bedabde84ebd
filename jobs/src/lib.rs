#![doc = include_str!("../README.md")]

mod api;
mod core;
#[cfg(feature = "cron")]
mod cron;
mod data;
mod error;
#[cfg(feature = "tower")]
mod layers;
mod model;
#[cfg(feature = "pool")]
mod on_pool;
mod runtime;
#[cfg(feature = "sim")]
pub mod store;
#[cfg(not(feature = "sim"))]
#[allow(unreachable_pub, dead_code, unused_imports, unnameable_types)]
mod store;

pub use api::accept::{Accept, Accepted};
pub use api::add::{Add, Added, How, Unique};
pub use api::builder::JobsBuilder;
pub use api::ctx::{Alive, Ctx};
pub use api::flow::Flow;
pub use api::handle::{GroupHandle, QueueHandle};
pub use api::inspector::Inspector;
pub use api::jobs::Jobs;
pub use api::outcome::{IntoOutcome, Outcome};
pub use api::queue::{Groups, Queue};
pub use api::view::{ChildEnd, Ended, JobView};
pub use api::watch::{Change, Watch};
pub use api::worker::{CloseReport, Worker, WorkerBuilder};
#[cfg(feature = "cron")]
pub use cron::{CatchUp, Cron, CronInfo, Planner};
pub use error::{BoxError, Error, Fatal};
#[cfg(feature = "tower")]
pub use layers::HandlerService;
pub use model::backoff::Backoff;
pub use model::id::{GroupName, Incarnation, InvalidName, JobId, NodeName, QueueName, SetName, Token};
pub use model::queue::{Settings, Terms};
pub use model::record::{Record, State};
#[cfg(feature = "pool")]
pub use on_pool::on_pool;
pub use store::{Figures, MemoryStore, StoreError};
pub use tenure_connection::Client;
