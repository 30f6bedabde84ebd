#![doc = include_str!("../README.md")]

mod api;
mod clock;
mod job;
mod runtime;
#[doc(hidden)]
pub mod store;

pub(crate) use tenure_protocol::{core, error, model, mutation};

pub use api::builder::{Backend, NodeBuilder};
pub use api::events::{EventCursor, EventPage};
pub use api::explain::pool::{AwaitedWorker, Opening, PoolShutdown};
pub use api::explain::{CheckpointInfo, Explanation, NamedDispatch, OwnerSeen, Verdict};
pub use api::figures::{Figures, WorkerJobs};
pub use api::health::{Health, StoreHealth, Unhealthy, WorkerHealth};
pub use api::inspector::Inspector;
pub use api::inspector::follow::EventFollower;
pub use api::listing::{Cursor, JobInfo, NodeInfo, Owner, Page, WaitingNotification, WorkerInfo};
pub use api::node::operator::{Operator, Shutdown, ShutdownReport, Steer};
pub use api::node::{
    AddWorker, AskOwner, CloseReport, Dispatch, DispatchMany, Guess, Node, NotifyJob, StopJob, Update, Wait,
};
pub use api::overview::Overview;
pub use api::parked::{ParkedJob, Unparked};
pub use api::ring_view::RingView;
pub use api::schedule::{Schedule, Ticker};
pub use api::scheduled::ScheduleInfo;
pub use api::shard_state::ShardState;
pub use api::worker::Worker;
pub use error::{AskError, BoxError, DispatchError, Error, NotHandled, Obstacle};
pub use job::Job;
pub use job::asking::Ask;
pub use job::checkpoint::{Checkpointed, Saving};
pub use job::guard::LeaseGuard;
pub use job::handler::{JobHandler, Start, handler_fn, run};
pub use job::payload::NewPayload;
pub use job::plan::{Plan, Planner, Tick};
pub use job::serving::Serving;
pub use job::spec::JobSpec;
pub use job::typed::{DecodeError, Payload};
pub use job::verdict::{JobEnd, NotYet, Restart};
pub use model::event::{Event, EventKind};
pub use model::id::{
    DispatchId, IdError, Incarnation, JobKey, NodeName, Revision, ScheduleName, Term, Token, WorkerId,
};
pub use model::level::{Level, TooOld};
pub use model::member::MemberState;
pub use model::paused::Paused;
pub use model::phase::PoolPhase;
pub use model::policy::{FencePolicy, RestartPolicy};
pub use model::record::JobState;
pub use model::settings::{InvalidSetting, SettingInfo, Settings};
pub use model::status::{NodeStatus, WorkerCounts};
pub use model::stop::StopReason;
pub use model::ticket::Ticket;
pub use model::trace::TraceContext;
pub use model::unsaved::NotSaved;
pub use model::why::{Cause, Why};
pub use runtime::polls::BlockedJob;
pub use store::{MemoryStore, Refusal, ScheduleKind, StoreError, UnsuitableServer};
pub use tenure_connection::Client;
