#![doc = include_str!("../README.md")]

mod api;
mod clock;
mod core;
mod error;
mod job;
mod model;
#[doc(hidden)]
pub mod mutation;
mod proof;
mod runtime;
pub mod store;

pub use api::builder::{Backend, NodeBuilder};
pub use api::health::{Health, StoreHealth, Unhealthy, WorkerHealth};
pub use api::listing::{Cursor, JobInfo, Page, WorkerInfo};
pub use api::node::{
    CloseReport, Dispatch, DispatchMany, Node, Shutdown, ShutdownReport, StopJob, Wait, WaitingNotification,
};
pub use api::parked::{ParkedJob, Unparked};
pub use api::schedule::{Schedule, Ticker};
pub use api::worker::Worker;
pub use error::{BoxError, DispatchError, Error};
pub use job::Job;
pub use job::guard::LeaseGuard;
pub use job::handler::{JobHandler, Start, handler_fn, run};
pub use job::plan::{Plan, Planner, Tick};
pub use job::spec::JobSpec;
pub use job::typed::{DecodeError, Payload};
pub use model::id::{DispatchId, JobKey, Term, Token, WorkerId};
pub use model::member::MemberState;
pub use model::phase::PoolPhase;
pub use model::policy::{FencePolicy, RestartPolicy};
pub use model::record::JobState;
pub use model::settings::{Settings, ShardId};
pub use model::stop::StopReason;
pub use model::ticket::Ticket;
pub use model::trace::TraceContext;
pub use model::{id, settings};
#[doc(hidden)]
pub use model::{member, record};
#[cfg(feature = "micro")]
#[doc(hidden)]
pub use proof::micro;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use proof::sim;
pub use runtime::polls::BlockedJob;
pub use store::MemoryStore;
pub use tenure_connection::Client;
