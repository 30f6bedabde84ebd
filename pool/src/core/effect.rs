//! Everything that the engine may do to the world: the specification of the shell.

use std::time::Duration;

use bytes::Bytes;

use super::call::Call;
use super::input::{Answer, LocalSchedule, LocalWorker, ReplyTo};
use super::lease::Timing;
use super::time::Time;
use crate::id::{DispatchId, Incarnation, JobKey, Revision, ScheduleName, Term, Token, WorkerId};
use crate::settings::Settings;
use crate::stop::StopReason;
use crate::store::{ScheduleKey, StoreError};
use crate::wire::Opened;

/// One thing to do. Effects of one step are performed in order; calls run concurrently.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Call the store; the answer comes back as [`Input::Done`](super::input::Input::Done).
    Call { incarnation: Incarnation, call: Call },
    /// Give up the read of the pool's stream that waits; no answer comes.
    StopReadingPool,
    /// Steps go to the server process `run_id` from now on, and to no other.
    Bless(String),
    /// The maps should be at these revisions by now.
    Expect { incarnation: Incarnation, members: Revision, settings: Revision },
    /// Read the settings again, and the members where `members` says so, whatever the revisions.
    Reread { members: bool },
    /// Renew in this incarnation from now on: the node's stream, and the leases that are held in it.
    Renew { incarnation: Incarnation },
    /// Renew this worker's lease, which counts from `from`, in this incarnation.
    Hold { incarnation: Incarnation, worker: WorkerId, from: Time },
    /// Renew this worker's lease in this incarnation from now on; it counts on from its last acknowledged renewal.
    Keep { incarnation: Incarnation, worker: WorkerId },
    /// Stop renewing it; nothing of it runs.
    Drop { worker: WorkerId },
    /// Stop renewing it; ask all its handlers to end, and abort them at the lease's hard deadline.
    Fence { worker: WorkerId },
    /// Run the start handler.
    Start { local: LocalWorker, worker: WorkerId, job: Box<NewJob> },
    /// Fire the job's cancellation, then run the stop handler, after whatever handler runs now.
    Stop { worker: WorkerId, key: JobKey, token: Token, why: StopReason },
    /// Fire the job's cancellation only.
    Cancel { worker: WorkerId, key: JobKey, token: Token },
    /// Hand notifications to the handler, in order.
    Deliver { worker: WorkerId, key: JobKey, token: Token, bodies: Vec<Bytes> },
    /// Abort whatever handler of the job runs; the end comes back when it has ended.
    Abort { worker: WorkerId, key: JobKey, token: Token },
    /// The worker has this id now; `None`: it has left for good.
    Seated { local: LocalWorker, worker: Option<WorkerId> },
    /// The pool's settings are these now, by the map's revision. Leases that are held from now on have this timing.
    Settings { revision: Revision, settings: Box<Settings>, timing: Timing },
    /// Ask the planner; what it comes to comes back with this number.
    Plan { local: LocalSchedule, run: u64, tick: NewTick },
    /// Abort the planner; its end comes back when it has ended.
    AbortPlan { local: LocalSchedule },
    /// Hand a ticker its tick.
    Tick { local: LocalSchedule, tick: NewTick },
    /// The schedule or ticker has ended, or this node takes part in it no more.
    ScheduleEnded { local: LocalSchedule },
    /// Answer a command.
    Reply { to: ReplyTo, answer: Answer },
    /// Tell whoever watches.
    Report(Notice),
    /// The engine has ended: the node has left its pool, or the pool is gone.
    End,
}

/// A job to start.
#[derive(Clone, Debug)]
pub(crate) struct NewJob {
    pub(crate) key: JobKey,
    pub(crate) token: Token,
    pub(crate) id: DispatchId,
    pub(crate) payload: Opened,
    pub(crate) attempts: u32,
    pub(crate) created_ms: u64,
    pub(crate) begun_ms: u64,
}

/// A tick that was given out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTick {
    pub(crate) number: u64,
    pub(crate) term: Term,
    /// The server's clock, ms.
    pub(crate) at_ms: u64,
}

/// What became of the jobs that a worker had, or had had lately, when data were lost, or may have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attested {
    /// They run on.
    pub(crate) kept: usize,
    /// They were to stop.
    pub(crate) stopped: usize,
    /// They had gone to another worker.
    pub(crate) outranked: usize,
    /// Their records cannot be read.
    pub(crate) unreadable: usize,
    /// They had ended here, and would have come back without its word.
    pub(crate) ended: usize,
    /// They had been handed on from here; they are queued again, or parked.
    pub(crate) requeued: usize,
    /// They had been handed on from here, and have no record: they are lost, unless another worker has them.
    pub(crate) gone: usize,
}

/// What an operator should hear of.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A pool was created, or entered phase R after a sign of data loss.
    Recovering { incarnation: Incarnation, wait: Duration },
    /// Phase R has ended.
    Normal { incarnation: Incarnation },
    /// The store did not do something; it is tried again.
    Trouble(StoreError),
    /// A step fails on what is stored of this job, or beside it: it is tried again after pauses, and others go on.
    SetAside { key: JobKey, error: StoreError },
    /// A worker was seen dead and expired; `of`: its node, if that is known.
    Expired { worker: WorkerId, of: Option<String> },
    /// A worker of this node has lost its lease, and the pool refuses to have it back. It asks again now and then.
    NotTakenBack { error: crate::Error },
    /// A worker of this node has lost its lease or its pool.
    Fenced { worker: WorkerId, jobs: usize },
    /// After a loss of data a worker of this node has said what it has and had.
    Attested { worker: WorkerId, count: Attested },
    /// A job runs here that has a higher token by now. This run of it is ended at once.
    Outranked { key: JobKey, token: Token },
    /// One of the pool's keys was lost alone; what can be is made good.
    Lost { signs: String },
    /// A loss has left this, though it was repaired as far as can be; empty: nothing any more.
    Damaged { signs: String },
    /// Another node that lives has this node's name.
    Namesake,
    /// The server may drop keys when its memory is full, by this policy; `None`: it may no more.
    Evicts { policy: Option<String> },
    /// The record of a job does not parse.
    BadRecord { key: JobKey },
    /// The payload of a job cannot be opened.
    Unreadable { key: JobKey, error: String },
    /// A handler's stop returned an error; the job has ended all the same.
    StopFailed { key: JobKey, error: String },
    /// A handler does not end: its job is kept.
    Stuck { key: JobKey, token: Token },
    /// A planner has failed, or something of what it wants could not be done. The next tick comes.
    PlanFailed { plan: ScheduleName, error: String },
    /// The entry of a schedule does not parse.
    BadSchedule { schedule: ScheduleKey },
    /// A job's handler failed, or its start took too long, and nobody had asked it to end for good. `again_in`: the
    /// pause before it is tried again; `None`: it is gone. `ran`: it failed after its start had succeeded.
    Failed { key: JobKey, token: Token, attempts: u32, ran: bool, error: String, again_in: Option<Duration> },
    /// A job was parked.
    Parked { key: JobKey, error: String },
    /// A job was parked because its last worker was lost, or did not begin it; it is known by its dispatch.
    ParkedUnowned { id: DispatchId },
}
