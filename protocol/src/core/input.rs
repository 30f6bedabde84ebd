//! The inputs of the engine.

#![expect(missing_docs, reason = "the doc of an input names its parts")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::call::Done;
use super::time::Time;
use crate::error::{AskError, DispatchError, Error};
use crate::model::id::{DispatchId, Incarnation, JobKey, Token, WorkerId};
use crate::model::member::Members;
use crate::model::settings::StoredSettings;
use crate::model::ticket::Ticket;
use crate::step::{AskId, DispatchItem, Renewal, Said, ScheduleKey, ShutdownMode, StoreError, Way};

/// Where the answer to a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// A worker of this node, independent of its present id in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalWorker(pub u32);

/// A schedule or ticker of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalSchedule(pub u32);

/// A schedule that a user of the node adds.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    pub key: ScheduleKey,
    pub period: Duration,
    /// Tells it from every other schedule of any node.
    pub life: u64,
}

/// An ask of a node's user.
#[derive(Clone, Debug)]
pub struct NewAsk {
    pub key: JobKey,
    pub body: Bytes,
    /// The id that the caller gave it.
    pub name: Option<String>,
    /// It may be handled more than once.
    pub idempotent: bool,
    pub deadline: Time,
}

/// Another payload that a node's user gives a job.
#[derive(Clone, Debug)]
pub struct NewUpdate {
    pub key: JobKey,
    /// The payload's envelope.
    pub payload: Bytes,
    /// The dispatch that the job must be.
    pub of: Option<DispatchId>,
    /// The generation that the job must have.
    pub expected: Option<u64>,
    pub deadline: Time,
}

/// One join under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seating {
    pub(crate) local: LocalWorker,
    /// When the join was first sent. The lease counts from then, even if only a later sending is answered.
    pub since: Time,
}

/// Something that happened.
#[derive(Debug)]
pub enum Input {
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
    /// A caller no longer waits for the answer to this ask.
    Unasked(ReplyTo),
    /// This node's shard is the first of its pool, and the pool's other shards have ended.
    OthersEnded,
    /// Another shard of the pool was shut down in this way.
    OtherShutDown(ShutdownMode),
}

/// The events of a job's handler.
#[derive(Debug)]
pub enum HandlerEvent {
    /// The lease had passed before the start: no handler ran.
    NotRun,
    /// The start handler succeeded.
    Started,
    /// The start handler refused the job for now, for this reason or none. No handler of it runs.
    Refused { backoff: Option<Duration>, why: String },
    /// The start handler sends the job to another worker, for this reason or none. No handler of it runs.
    Elsewhere { why: String },
    /// The start handler failed or panicked. No handler of it runs.
    Failed(String),
    /// The handed notifications were delivered.
    Delivered,
    /// This many notifications were delivered, and the job's end follows.
    Took(usize),
    /// This many notifications were delivered, and the handler refuses the next one for now.
    NotYet { taken: usize, pause: Duration, refusals: u32, why: String },
    /// It runs with the payload of this generation from now on, or says why it does not.
    Updated { generation: u64, result: Result<(), NotTaken> },
    /// The job ended by itself. No handler of it runs.
    Ended(Result<(), String>),
    /// It was ended by others, for this reason. No handler of it runs.
    Lost(String),
    /// It must be parked, for this reason. No handler of it runs.
    Park(String),
    /// The stop handler has returned. No handler of it runs.
    Stopped(Result<(), String>),
    /// It was aborted and has ended.
    Aborted,
    /// It gives a checkpoint: the one of this number under its token.
    Checkpoint { number: u64, bytes: Bytes },
    /// It has said this to an ask, or never will say anything.
    Answered(AskId, Said),
    /// It last made progress at this time.
    Progressed(Time),
}

/// Why a handler has not taken another payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It takes none, whatever it is.
    Never,
    /// It wants to start anew with this one.
    Restart,
    /// It failed or panicked.
    Failed(String),
}

impl HandlerEvent {
    /// A handler has panicked.
    pub fn is_panic(&self) -> bool {
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
pub enum Planned {
    Made(Wanted),
    /// An error or a panic.
    Failed(String),
    /// It was aborted and has ended.
    Aborted,
}

/// A plan, made ready for the store.
#[derive(Debug, Default)]
pub struct Wanted {
    /// All other jobs of the plan must end.
    pub exactly: bool,
    /// Its jobs that have another payload get this one.
    pub replaces: bool,
    pub start: Vec<DispatchItem>,
    pub stop: Vec<JobKey>,
    /// Jobs that must not be stopped, although they cannot be started.
    pub kept: Vec<JobKey>,
    /// The schedule ends, on all nodes.
    pub ends: bool,
    /// Errors in the plan's jobs.
    pub errors: Vec<String>,
}

/// The commands of the node's users.
#[derive(Debug)]
pub enum Command {
    /// Answer when the pool is usable.
    Attach {
        reply: ReplyTo,
    },
    AddWorker {
        reply: ReplyTo,
        local: LocalWorker,
        meta: String,
        /// How many jobs it takes. `None`: all.
        capacity: Option<NonZeroU32>,
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
    /// Keep a notification; `start`: for this job if there is none.
    Notify {
        reply: ReplyTo,
        key: JobKey,
        body: Bytes,
        start: Option<Box<DispatchItem>>,
        deadline: Time,
    },
    Ask {
        reply: ReplyTo,
        ask: NewAsk,
    },
    Unpark {
        reply: ReplyTo,
        key: JobKey,
        deadline: Time,
    },
    /// The wish of an operator for a job; and the reason for which it is parked.
    Steer {
        reply: ReplyTo,
        key: JobKey,
        way: Way,
        reason: String,
        deadline: Time,
    },
    Update {
        reply: ReplyTo,
        new: NewUpdate,
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
pub enum Until {
    /// It is recorded.
    Recorded,
    /// The job is gone.
    Gone,
    /// It is recorded, or the dispatch can never be accepted.
    Cancelled,
}

/// The answer to a command.
#[derive(Debug)]
pub enum Answer {
    Attached(Result<(), Error>),
    WorkerAdded(Result<(), Error>),
    Submitted(Result<Ticket, DispatchError>),
    Stopped(Result<(), Error>),
    Notified(Result<(), Error>),
    Asked(Result<Bytes, AskError>),
    Unparked(Result<(), Error>),
    Steered(Result<(), Error>),
    /// The generation of the job.
    Updated(Result<u64, Error>),
    Scheduled(Result<(), Error>),
    Drained(Result<(), Error>),
    /// The request's deadline has passed. `stopping`: this job's stop is recorded, but the job has not ended.
    Late {
        stopping: Option<JobKey>,
    },
    /// `complete`: the node has left the pool. `left`: the jobs that it still holds.
    Closed {
        complete: bool,
        left: Vec<JobKey>,
    },
    /// `complete`: the pool is gone. `left`: its remaining members. `dropped`: the jobs that the pool dropped.
    ShutDown {
        result: Result<(), Error>,
        complete: bool,
        left: Vec<WorkerId>,
        dropped: u64,
    },
}

impl Command {
    /// The destination of the answer.
    pub fn reply_to(&self) -> ReplyTo {
        match self {
            Self::Attach { reply }
            | Self::AddWorker { reply, .. }
            | Self::Submit { reply, .. }
            | Self::Wait { reply, .. }
            | Self::StopJob { reply, .. }
            | Self::Notify { reply, .. }
            | Self::Ask { reply, .. }
            | Self::Unpark { reply, .. }
            | Self::Steer { reply, .. }
            | Self::Update { reply, .. }
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
