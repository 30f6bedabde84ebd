#![doc = include_str!("../README.md")]

mod api;
mod clock;
pub mod job;
mod runtime;
#[doc(hidden)]
pub mod store;

pub(crate) use tenure_protocol::{core, model, mutation};

pub use api::builder::NodeBuilder;
pub use api::health::Health;
pub use api::inspector::Inspector;
pub use api::listing::JobInfo;
pub use api::node::operator::Operator;
pub use api::node::{CloseReport, Node};
pub use api::worker::Worker;
pub use error::{AskError, BoxError, DispatchError, Error};
#[doc(inline)]
pub use job::Job;
pub use job::asking::Ask;
pub use job::guard::LeaseGuard;
pub use job::handler::{JobHandler, Start, handler_fn, run};
pub use job::plan::{Plan, Planner, Tick};
pub use job::spec::JobSpec;
pub use job::typed::Payload;
pub use job::verdict::JobEnd;
pub use model::id::{JobKey, Token, WorkerId};
pub use model::policy::RestartPolicy;
pub use model::record::JobState;
pub use model::settings::Settings;
pub use model::stop::StopReason;
pub use model::ticket::Ticket;
pub use store::MemoryStore;
pub use tenure_connection::Client;

/// The errors: one variant for each case that a caller may handle differently.
pub mod error {
    pub(crate) use tenure_protocol::error::*;
    pub use tenure_protocol::error::{
        AskError, BoxError, DispatchError, Error, FailedAttempt, NotHandled, Obstacle,
    };

    pub use crate::model::id::IdError;
    pub use crate::model::level::TooOld;
    pub use crate::model::settings::InvalidSetting;
    pub use crate::model::unsaved::NotSaved;
    pub use crate::store::{Refusal, StoreError, UnsuitableServer};
    #[doc(no_inline)]
    pub use tenure_connection::{Class, Failure};
}

/// The calls of a [`Node`], which are awaited, and the options of its builder.
pub mod node {
    pub use crate::api::builder::Backend;
    pub use crate::api::node::{
        AddWorker, AskOwner, Dispatch, DispatchMany, Ensured, Guess, NotifyJob, StopJob, Update, Wait,
    };
    pub use crate::model::policy::FencePolicy;
}

/// The health of a node: see [`Node::health`].
pub mod health {
    pub use crate::api::health::{StoreHealth, Unhealthy, WorkerHealth};
    pub use crate::runtime::polls::BlockedJob;
}

/// What an [`Inspector`] reads.
pub mod inspect {
    pub use crate::api::explain::pool::{AwaitedWorker, Opening, PoolShutdown};
    pub use crate::api::explain::{CheckpointInfo, Explanation, NamedDispatch, OwnerSeen, Verdict};
    pub use crate::api::figures::{Figures, WorkerJobs};
    pub use crate::api::listing::{Cursor, NodeInfo, Owner, Page, WaitingNotification, WorkerInfo};
    pub use crate::api::overview::Overview;
    pub use crate::api::parked::ParkedJob;
    pub use crate::api::ring_view::RingView;
    pub use crate::api::scheduled::ScheduleInfo;
    pub use crate::api::shard_state::ShardState;
    pub use crate::model::member::MemberState;
    pub use crate::model::paused::Paused;
    pub use crate::model::phase::PoolPhase;
    pub use crate::model::status::{NodeStatus, WorkerCounts};
    pub use crate::model::why::{Cause, Why};
    pub use crate::store::ScheduleKind;
}

/// What the nodes of a pool note: see [`Inspector::events`].
pub mod event {
    pub use crate::api::events::{EventCursor, EventPage};
    pub use crate::api::inspector::follow::EventFollower;
    pub use crate::model::event::{Event, EventKind};
}

/// The words of an [`Operator`], which are awaited, and its answers.
pub mod operate {
    pub use crate::api::node::operator::{Shutdown, ShutdownReport, Steer};
    pub use crate::api::parked::Unparked;
    pub use crate::model::level::Level;
}

/// The pool-wide [`Settings`], one by one.
pub mod setting {
    pub use crate::model::settings::SettingInfo;
}

/// A node's part in a schedule or a ticker: see [`Node::schedule`] and [`Node::ticker`].
pub mod schedule {
    pub use crate::api::schedule::{Schedule, Ticker};
}

/// Names and numbers.
pub mod id {
    pub use crate::model::id::{DispatchId, Incarnation, NodeName, Revision, ScheduleName, Term};
}
