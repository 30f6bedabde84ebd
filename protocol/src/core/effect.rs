//! Everything that the engine may do to the world: the specification of the shell.

#![expect(missing_docs, reason = "the doc of an effect names its parts")]

use std::time::Duration;

use bytes::Bytes;

use super::call::Call;
use super::input::{Answer, LocalSchedule, LocalWorker, ReplyTo};
use super::lease::Timing;
use super::time::Time;
use crate::error::Error;
use crate::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleName, Term, Token, WorkerId,
};
use crate::model::level::TooOld;
use crate::model::settings::Settings;
use crate::model::stop::StopReason;
use crate::model::unsaved::NotSaved;
use crate::model::wire::Opened;
use crate::step::{AskId, Checkpoint, ScheduleKey, StoreError, Taken};

/// One thing to do. Effects of one step are performed in order; calls run concurrently.
#[derive(Debug)]
pub enum Effect {
    /// Call the store; the answer comes back as [`Input::Done`](super::input::Input::Done).
    Call { incarnation: Incarnation, call: Call },
    /// Give up the waiting read of the pool's stream; no answer comes.
    StopReadingPool,
    /// Send steps to the server process `run_id` from now on, and to no other.
    Bless(String),
    /// The maps must reach these revisions.
    Expect { incarnation: Incarnation, members: Revision, settings: Revision },
    /// Read the settings again, and the members where `members` says so, whatever the revisions.
    Reread { members: bool },
    /// Renew the node's stream and its leases in this incarnation from now on.
    Renew { incarnation: Incarnation },
    /// Renew this worker's lease, which counts from `from`, in this incarnation.
    Hold { incarnation: Incarnation, worker: WorkerId, from: Time },
    /// Renew this worker's lease in this incarnation from now on; it counts on from its last acknowledged renewal.
    Keep { incarnation: Incarnation, worker: WorkerId },
    /// Stop renewing it; none of its handlers runs.
    Drop { worker: WorkerId },
    /// Stop renewing it; ask all its handlers to end, and abort them at the lease's hard deadline.
    Fence { worker: WorkerId },
    /// Run the start handler.
    Start { local: LocalWorker, worker: WorkerId, job: Box<NewJob> },
    /// Fire the job's cancellation. Run the stop handler after the handler that runs now.
    Stop { worker: WorkerId, key: JobKey, token: Token, why: StopReason },
    /// Fire the job's cancellation only.
    Cancel { worker: WorkerId, key: JobKey, token: Token, why: StopReason },
    /// Hand notifications to the handler, in order.
    Deliver { worker: WorkerId, key: JobKey, token: Token, taken: Taken },
    /// Hand asks to the handler, in order.
    HandOver { worker: WorkerId, key: JobKey, token: Token, asks: Vec<HandedAsk> },
    /// Give the handler another payload of the running job.
    Update { worker: WorkerId, key: JobKey, token: Token, new: Box<HandedPayload> },
    /// Report when the job last made progress.
    Look { worker: WorkerId, key: JobKey, token: Token },
    /// A checkpoint of the job is kept: the one of this number, or a newer one.
    Saved { worker: WorkerId, key: JobKey, token: Token, number: u64 },
    /// Nobody waits any longer for the checkpoint of this number, or for an earlier one. It may be kept later all the
    /// same, if the job is still here.
    NotSaved { worker: WorkerId, key: JobKey, token: Token, number: u64, why: NotSaved },
    /// Abort the job's running handler; an input reports its end.
    Abort { worker: WorkerId, key: JobKey, token: Token },
    /// The worker has this id now; `None`: it has left for good.
    Seated { local: LocalWorker, worker: Option<WorkerId> },
    /// The pool's settings, with the map's revision. Leases that begin from now on have this timing.
    Settings { revision: Revision, settings: Box<Settings>, timing: Timing },
    /// Ask the planner; its result comes back with this number.
    Plan { local: LocalSchedule, run: u64, tick: NewTick },
    /// Abort the planner; its end comes back when it has ended.
    AbortPlan { local: LocalSchedule },
    /// Hand a ticker its tick.
    Tick { local: LocalSchedule, tick: NewTick },
    /// The schedule or ticker has ended, or this node no longer takes part in it.
    ScheduleEnded { local: LocalSchedule },
    /// Answer a command.
    Reply { to: ReplyTo, answer: Answer },
    /// Inform every observer.
    Report(Notice),
    /// The engine has ended: the node has left its pool, or the pool is gone.
    End,
}

/// A job to start.
#[derive(Clone, Debug)]
pub struct NewJob {
    pub key: JobKey,
    pub token: Token,
    pub id: DispatchId,
    pub payload: Opened,
    pub attempts: u32,
    /// No worker has had it before.
    pub is_first: bool,
    pub created_ms: u64,
    pub begun_ms: u64,
    /// The state that the job's former owner has left.
    pub checkpoint: Option<Box<Checkpoint>>,
}

/// An ask that a handler is given.
#[derive(Clone, Debug)]
pub struct HandedAsk {
    /// The attempt.
    pub id: AskId,
    pub name: String,
    /// The node that asks.
    pub asker: NodeName,
    pub body: Bytes,
    /// After this its asker hears no answer.
    pub deadline: Time,
}

/// Another payload that a handler is given for a running job.
#[derive(Clone, Debug)]
pub struct HandedPayload {
    pub generation: u64,
    pub payload: Opened,
}

/// A tick that was given out.
#[derive(Clone, Copy, Debug)]
pub struct NewTick {
    pub number: u64,
    pub term: Term,
    /// The server's clock, ms.
    pub at_ms: u64,
}

/// The fate of a worker's present and recent jobs after a possible loss of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attested {
    /// Jobs that run on.
    pub kept: usize,
    /// Jobs that had to stop.
    pub stopped: usize,
    /// Jobs that had gone to another worker.
    pub outranked: usize,
    /// Jobs whose records cannot be read.
    pub unreadable: usize,
    /// Jobs that had ended here, and would have come back without its report.
    pub ended: usize,
    /// Jobs handed off from here that are queued again, or parked.
    pub requeued: usize,
    /// Jobs handed off from here that have no record. They are lost, unless another worker has them.
    pub gone: usize,
}

/// The failed part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Its start failed, or took too long.
    Start,
    /// It failed after a successful start.
    Run,
    /// It made no progress for too long.
    Stalled,
    /// Others have ended it, as its handler says.
    Lost,
}

/// The news for an operator.
#[derive(Debug)]
pub enum Notice {
    /// The pool was created, or entered phase R after a sign of data loss.
    Recovering { incarnation: Incarnation, wait: Duration },
    /// Phase R has ended.
    Normal { incarnation: Incarnation },
    /// The store did not carry out a call; the engine tries again.
    Trouble(StoreError),
    /// A step fails on the stored data of this job. It is tried again after pauses, and others go on.
    SetAside { key: JobKey, error: StoreError },
    /// A worker was seen dead and expired; `of`: its node, if known.
    Expired { worker: WorkerId, of: Option<String> },
    /// A worker of this node has lost its lease, and the pool refuses to take it back. The worker asks again at
    /// intervals.
    NotTakenBack { error: Error },
    /// The pool's floor is above this node's level: the pool refuses all that the node asks.
    TooOld(TooOld),
    /// A worker of this node has lost its lease or its pool.
    Fenced { worker: WorkerId, jobs: usize },
    /// A worker of this node has reported its present and recent jobs after a loss of data.
    Attested { worker: WorkerId, count: Attested },
    /// Another worker has this job under a higher token. The run here ends at once.
    Outranked { key: JobKey, token: Token },
    /// One of the pool's keys was lost alone; the pool repairs it as far as possible.
    Lost { signs: String },
    /// The damage that remains after the repair of a loss; empty: none remains.
    Damaged { signs: String },
    /// Another living node has this node's name.
    Namesake,
    /// The server may drop keys when its memory is full, by this policy; `None`: it no longer may.
    Evicts { policy: Option<String> },
    /// The record of a job does not parse.
    BadRecord { key: JobKey },
    /// The payload of a job cannot be opened.
    Unreadable { key: JobKey, error: String },
    /// The store refuses the checkpoint of this job, and of this many others. Their next owners get the ones before.
    NotSaved { key: JobKey, why: NotSaved, others: usize },
    /// A handler's stop returned an error; the job has ended nevertheless.
    StopFailed { key: JobKey, error: String },
    /// A handler has refused a notification for now, this many times by now.
    NotificationRefused { key: JobKey, token: Token, refusals: u32, pause: Duration, why: String },
    /// A handler did not take another payload of its running job: the job starts anew with it.
    NotUpdated { key: JobKey, token: Token, why: String },
    /// A handler does not end: its worker keeps the job.
    Stuck { key: JobKey, token: Token },
    /// A planner has failed, or a part of its plan could not be carried out. The next tick comes.
    PlanFailed { plan: ScheduleName, error: String },
    /// The entry of a schedule does not parse.
    BadSchedule { schedule: ScheduleKey },
    /// A job's handler failed, or took too long, and no order to end the job had come. `again_in`: the pause before the
    /// next attempt; `None`: the job is gone.
    Failed {
        key: JobKey,
        token: Token,
        attempts: u32,
        what: Failure,
        error: String,
        again_in: Option<Duration>,
    },
    /// A job was parked.
    Parked { key: JobKey, error: String },
    /// A job was paused, with the text that is kept of it.
    Paused { key: JobKey, pause: String },
    /// A job was parked because its last worker was lost, or did not begin it. Only its dispatch is known.
    ParkedUnowned { id: DispatchId },
}
