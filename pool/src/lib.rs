#![doc = include_str!("../README.md")]

mod bounds;
#[doc(hidden)]
pub mod breakage;
mod builder;
mod core;
mod error;
mod handler;
mod health;
pub mod id;
mod job;
mod listing;
#[doc(hidden)]
pub mod member;
#[cfg(feature = "micro")]
#[doc(hidden)]
pub mod micro;
mod node;
mod notification;
mod parked;
mod plan;
mod policy;
#[doc(hidden)]
pub mod record;
mod runtime;
mod schedule;
mod serial;
mod service;
pub mod settings;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod spec;
mod stop;
pub mod store;
mod ticket;
mod trace;
mod typed;
mod wire;
mod worker;

pub use builder::{Backend, FencePolicy, NodeBuilder};
pub use error::{BoxError, DispatchError, Error};
pub use handler::{JobHandler, Start, handler_fn, run};
pub use health::{BlockedJob, Health, PoolPhase, StoreHealth, Unhealthy, WorkerHealth};
pub use id::{DispatchId, JobKey, Term, Token, WorkerId};
pub use job::Job;
pub use listing::{Cursor, JobInfo, Page, WorkerInfo};
pub use member::MemberState;
pub use node::{CloseReport, Dispatch, DispatchMany, Node, Shutdown, ShutdownReport, StopJob, Wait};
pub use notification::WaitingNotification;
pub use parked::{ParkedJob, Unparked};
pub use plan::{Plan, Planner, Tick};
pub use policy::RestartPolicy;
pub use record::JobState;
pub use runtime::guard::LeaseGuard;
pub use schedule::{Schedule, Ticker};
pub use settings::{Settings, ShardId};
pub use spec::JobSpec;
pub use stop::StopReason;
pub use store::MemoryStore;
pub use tenure_connection::Client;
pub use ticket::Ticket;
pub use trace::TraceContext;
pub use typed::{DecodeError, Payload};
pub use worker::Worker;
