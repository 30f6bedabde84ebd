//! The inputs of the engine.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::call::Done;
use super::time::Time;
use crate::error::{DispatchError, Error};
use crate::model::id::{DispatchId, Incarnation, JobKey, Token, WorkerId};
use crate::model::member::Members;
use crate::model::settings::{StoredSettings, shown};
use crate::model::ticket::Ticket;
use crate::store::{DispatchItem, Refusal, Renewal, ScheduleEntry, ScheduleKey, ShutdownMode, StoreError};

/// Where the answer to a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReplyTo(pub(crate) u64);

/// A worker of this node, independent of its present id in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocalWorker(pub(crate) u32);

/// A schedule or ticker of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LocalSchedule(pub(crate) u32);

/// A schedule that a user of the node adds.
#[derive(Clone, Debug)]
pub(crate) struct NewSchedule {
    pub(crate) key: ScheduleKey,
    pub(crate) period: Duration,
    /// Tells it from every other schedule of any node.
    pub(crate) life: u64,
}

/// One join under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seating {
    pub(crate) local: LocalWorker,
    /// When the join was first sent. The lease counts from then, even if only a later sending is answered.
    pub(crate) since: Time,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// The engine's deadline has passed.
    Woke,
    /// A call was answered.
    Done(Box<Done>),
    /// The members changed.
    Members(Arc<Members>),
    /// The stored settings changed.
    Settings(Arc<StoredSettings>),
    /// A renewal of these workers in this incarnation has come back, with or without an answer.
    Renewed { incarnation: Incarnation, workers: Vec<WorkerId>, answer: Result<Renewal, StoreError> },
    /// The lease of a worker has passed its soft deadline: its handlers have been asked to end.
    LeaseLost(WorkerId),
    /// A handler reports an event.
    Handler { worker: WorkerId, key: JobKey, token: Token, event: HandlerEvent },
    /// A planner reports its result.
    Planned { local: LocalSchedule, run: u64, planned: Planned },
    /// The ticker has lost its listener.
    Unheard(LocalSchedule),
    /// A command of the node's user.
    Command(Command),
    /// A caller no longer waits for the answer about this dispatch.
    Withdrawn { id: DispatchId, reply: ReplyTo },
    /// This node's shard is the first of its pool, and the pool's other shards have ended.
    OthersEnded,
    /// Another shard of the pool was shut down in this way.
    OtherShutDown(ShutdownMode),
}

/// The events of a job's handler.
#[derive(Debug)]
pub(crate) enum HandlerEvent {
    /// The lease had passed before the start: no handler ran.
    NotRun,
    /// The start handler succeeded.
    Started,
    /// The start handler refused the job for now. No handler of it runs.
    Refused { backoff: Option<Duration> },
    /// The start handler failed or panicked. No handler of it runs.
    Failed(String),
    /// The handed notifications were delivered.
    Delivered,
    /// This many notifications were delivered, and the job's end follows.
    Took(usize),
    /// The job ended by itself. No handler of it runs.
    Ended(Result<(), String>),
    /// The stop handler has returned. No handler of it runs.
    Stopped(Result<(), String>),
    /// It was aborted and has ended.
    Aborted,
}

impl HandlerEvent {
    /// A handler has panicked.
    pub(crate) fn is_panic(&self) -> bool {
        match self {
            Self::Failed(error) | Self::Ended(Err(error)) | Self::Stopped(Err(error)) => {
                error.starts_with("panicked: ")
            }
            _ => false,
        }
    }
}

/// The result of a planner.
#[derive(Debug)]
pub(crate) enum Planned {
    Made(Wanted),
    /// An error or a panic.
    Failed(String),
    /// It was aborted and has ended.
    Aborted,
}

/// A plan, made ready for the store.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// All other jobs of the plan must end.
    pub(crate) exactly: bool,
    pub(crate) start: Vec<DispatchItem>,
    pub(crate) stop: Vec<JobKey>,
    /// Jobs that must not be stopped, although they cannot be started.
    pub(crate) kept: Vec<JobKey>,
    /// The schedule ends, on all nodes.
    pub(crate) ends: bool,
    /// Errors in the plan's jobs.
    pub(crate) errors: Vec<String>,
}

/// The commands of the node's users.
#[derive(Debug)]
pub(crate) enum Command {
    /// Answer when the pool is usable.
    Attach {
        reply: ReplyTo,
    },
    AddWorker {
        reply: ReplyTo,
        local: LocalWorker,
        meta: String,
    },
    /// Accept a job; `started`: answer only after its start.
    Submit {
        reply: ReplyTo,
        item: DispatchItem,
        started: bool,
        deadline: Time,
    },
    /// Answer when the outcome of the dispatch is known.
    Wait {
        reply: ReplyTo,
        ticket: Ticket,
        deadline: Time,
    },
    /// Stop the key's job; `id`: only if it has this dispatch.
    StopJob {
        reply: ReplyTo,
        key: JobKey,
        id: Option<DispatchId>,
        until: Until,
        deadline: Time,
    },
    Notify {
        reply: ReplyTo,
        key: JobKey,
        body: Bytes,
        deadline: Time,
    },
    Unpark {
        reply: ReplyTo,
        key: JobKey,
        deadline: Time,
    },
    /// Take part in a schedule or ticker, and answer once it exists.
    Schedule {
        reply: ReplyTo,
        local: LocalSchedule,
        new: NewSchedule,
    },
    SetPeriod {
        reply: ReplyTo,
        local: LocalSchedule,
        period: Duration,
    },
    EndSchedule {
        reply: ReplyTo,
        local: LocalSchedule,
    },
    LeaveSchedule {
        reply: ReplyTo,
        local: LocalSchedule,
    },
    DrainWorker {
        reply: ReplyTo,
        local: LocalWorker,
    },
    Close {
        reply: ReplyTo,
        deadline: Time,
    },
    Shutdown {
        reply: ReplyTo,
        mode: ShutdownMode,
        deadline: Time,
    },
}

/// The condition that completes a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// It is recorded.
    Recorded,
    /// The job is gone.
    Gone,
    /// It is recorded, or the dispatch can never be accepted.
    Cancelled,
}

/// Why a command other than a dispatch was not carried out.
#[derive(Clone, Debug)]
pub(crate) enum Refused {
    /// There is no pool, and the node may only join an existing one.
    NoPool,
    /// The pool was shut down.
    PoolClosed,
    /// The node is closing or closed.
    NodeClosed,
    /// The pool is shutting down.
    ShuttingDown,
    /// The pool runs with another value of a setting.
    Setting { name: String, theirs: String, ours: String },
    /// No such job.
    JobNotFound(JobKey),
    /// The job is not parked.
    NotParked(JobKey),
    /// The job has reached its limit of waiting notifications.
    NotifyFull(JobKey),
    /// The record of this job or schedule does not parse.
    BadRecord(String),
    /// The schedule's entry has this newer version.
    NewerSchedule(u64),
    /// The schedule has ended.
    ScheduleEnded,
    /// Not answered in time.
    Deadline,
    /// The stop of this job is recorded, but the job did not end in time.
    StillStopping(JobKey),
    /// The store refuses or fails.
    Store(StoreError),
}

impl Refused {
    /// The error as the user sees it; `patience` is how long the caller has waited.
    pub(crate) fn into_error(self, patience: Duration) -> Error {
        match self {
            // Only a join gets this refusal, and a join knows the name.
            Self::NoPool => Error::Store(StoreError::Refused(crate::store::Refusal::NoPool)),
            Self::PoolClosed => Error::PoolClosed,
            Self::NodeClosed => Error::NodeClosed,
            Self::ShuttingDown => Error::ShuttingDown,
            Self::Setting { name, theirs, ours } => {
                Error::SettingMismatch { theirs: shown(&name, &theirs), ours: shown(&name, &ours), name }
            }
            Self::JobNotFound(key) => Error::JobNotFound(key),
            Self::NotParked(key) => Error::NotParked(key),
            Self::NotifyFull(key) => Error::NotifyFull(key),
            Self::BadRecord(of) => Error::BadRecord { of },
            Self::NewerSchedule(version) => {
                let what = "the schedule's entry";
                Error::NewerVersion { what, version, known: ScheduleEntry::VERSION }
            }
            Self::ScheduleEnded => Error::ScheduleEnded,
            Self::Deadline => Error::Deadline(patience),
            Self::Store(StoreError::Refused(Refusal::OutOfTokens)) => Error::OutOfTokens,
            Self::StillStopping(key) => Error::StillStopping { key, within: patience },
            Self::Store(error) => Error::Store(error),
        }
    }
}

/// The answer to a command.
#[derive(Debug)]
pub(crate) enum Answer {
    Attached(Result<(), Refused>),
    WorkerAdded(Result<(), Refused>),
    Submitted(Result<Ticket, DispatchError>),
    Stopped(Result<(), Refused>),
    Notified(Result<(), Refused>),
    Unparked(Result<(), Refused>),
    Scheduled(Result<(), Refused>),
    Drained(Result<(), Refused>),
    /// `complete`: the node has left the pool. `left`: the jobs that it still holds.
    Closed {
        complete: bool,
        left: Vec<JobKey>,
    },
    /// `complete`: the pool is gone. `left`: its remaining members. `dropped`: the jobs that the pool dropped.
    ShutDown {
        result: Result<(), Refused>,
        complete: bool,
        left: Vec<WorkerId>,
        dropped: u64,
    },
}

impl Command {
    /// The destination of the answer.
    pub(crate) fn reply_to(&self) -> ReplyTo {
        match self {
            Self::Attach { reply }
            | Self::AddWorker { reply, .. }
            | Self::Submit { reply, .. }
            | Self::Wait { reply, .. }
            | Self::StopJob { reply, .. }
            | Self::Notify { reply, .. }
            | Self::Unpark { reply, .. }
            | Self::Schedule { reply, .. }
            | Self::SetPeriod { reply, .. }
            | Self::EndSchedule { reply, .. }
            | Self::LeaveSchedule { reply, .. }
            | Self::DrainWorker { reply, .. }
            | Self::Close { reply, .. }
            | Self::Shutdown { reply, .. } => *reply,
        }
    }
}
