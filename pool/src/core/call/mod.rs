//! The calls that the engine makes to the store, and their answers. A call without an answer comes back with its
//! items, so that the engine can send them again unchanged.

#[cfg(any(test, feature = "sim"))]
mod failed;

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_streaming::EntryId;

use crate::core::input::{LocalSchedule, Seating};
pub(crate) use crate::core::plan_call::{PlanCall, PlanStep};
use crate::model::id::{DispatchId, Incarnation, JobKey, Revision, ScheduleId, Term, Token, WorkerId};
use crate::model::member::Member;
use crate::model::settings::ShutdownFlag;
use crate::model::ticket::Ticket;
use crate::store::{
    AskItem, AskReply, AttestItem, AttestReply, Bootstrapped, Cursors, DispatchItem, DispatchReply, Expired,
    Inspected, JoinRequest, Lookup, NodeEvents, NotifyItem, NotifyOrStartItem, NotifyOrStartReply,
    NotifyReply, Outcome, OwnedPage, PoolEvent, PoolState, Reaped, ReleaseItem, ReleaseReply, ReplyItem,
    ReplyReply, Result, RouteReply, SaveItem, SaveReply, ScheduleChange, ScheduleKey, ScheduleState, Seat,
    Seen, ServerIdentity, ShutdownMode, SteerItem, SteerReply, StopItem, StopReply, StoreError, Swept,
    TakeItem, Taken, TermItem, Terms, TickReply, UnparkReply, UpdateItem, UpdateReply, WorkerBegins,
    WorkerBegun, WorkerStarts,
};

/// A job to give up, with the entries of the worker's stream that its release finishes.
pub(crate) type ToRelease = (ReleaseItem, Vec<EntryId>);

/// A job in a worker's hands.
pub(crate) type InspectedJob = (WorkerId, JobKey, Token);

/// One step or read of the [`Store`](crate::store::Store).
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Survey,
    /// The revisions of the maps.
    Revisions,
    ServerTime,
    Bootstrap {
        seen: Seen,
        run_id: String,
    },
    Recover {
        seen: Seen,
        run_id: String,
        /// The signs of a loss that the store has shown; else empty.
        lost: String,
    },
    OpenNormal,
    Join {
        seating: Seating,
        /// It has all settings: far more than other calls.
        request: Box<JoinRequest>,
    },
    Settle {
        worker: WorkerId,
    },
    Drain {
        worker: WorkerId,
    },
    /// A worker of this node ends; nothing of it runs.
    Leave {
        worker: WorkerId,
    },
    /// Workers that are silent, each with its counter.
    Expire(Vec<(WorkerId, u64)>),
    Reap {
        worker: WorkerId,
    },
    /// `ring`: the revision that the items' workers were picked from.
    Dispatch {
        ring: Revision,
        items: Vec<DispatchItem>,
    },
    Route {
        ring: Revision,
        events: Vec<PoolEvent>,
        entries: Vec<EntryId>,
        jobs: Vec<(JobKey, Option<WorkerId>)>,
    },
    /// The jobs that a worker has, reported after a loss of data.
    Attest {
        incarnation: Incarnation,
        worker: WorkerId,
        member: Member,
        items: Vec<AttestItem>,
    },
    /// The worker has reported everything.
    Attend {
        incarnation: Incarnation,
        worker: WorkerId,
        after: Option<JobKey>,
    },
    Begin(Vec<WorkerBegins>),
    Started(Vec<WorkerStarts>),
    Release {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<ToRelease>,
    },
    Take {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<TakeItem>,
    },
    Save {
        worker: WorkerId,
        items: Vec<SaveItem>,
    },
    Reply {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<ReplyItem>,
    },
    /// Reads what follows this entry in the stream of a worker that leaves.
    ReadLast {
        worker: WorkerId,
        after: EntryId,
    },
    Owned {
        worker: WorkerId,
        after: Option<JobKey>,
    },
    OldestEvent {
        worker: WorkerId,
    },
    /// `waiting`: this node must hear when the jobs have ended.
    Stop {
        repeat: bool,
        waiting: bool,
        items: Vec<StopItem>,
    },
    Notify(Vec<NotifyItem>),
    /// Each item names the worker of a new job by the ring of this revision.
    NotifyOrStart(Revision, Vec<NotifyOrStartItem>),
    Ask(Vec<AskItem>),
    /// Looks up the owners of jobs that were asked.
    LookAtAsked(Vec<JobKey>),
    Unpark(Vec<(JobKey, DispatchId)>),
    Steer(Vec<SteerItem>),
    Update(Vec<UpdateItem>),
    /// Looks up the records of jobs that get another payload.
    LookToUpdate(Vec<JobKey>),
    /// Looks up the outcomes of dispatches.
    LookUp(Vec<Ticket>),
    /// Looks up the owners of these keys.
    FindOwners(Vec<JobKey>),
    Tell(Vec<(DispatchId, Outcome)>),
    Sweep {
        kick: Option<usize>,
    },
    Inspect {
        cursor: u64,
        held: Vec<InspectedJob>,
    },
    Heartbeats(Option<Vec<WorkerId>>),
    ReadPool,
    /// `all`: include entries that other nodes have only just read.
    ClaimPool {
        all: bool,
    },
    RestoreGroup,
    PruneConsumers,
    /// `round` tells one read from the next: a new read replaces the one in flight. It takes up to `entries` of each
    /// stream. A read that finds nothing waits for up to `block`.
    ReadNode {
        round: u64,
        cursors: Cursors,
        entries: usize,
        block: Duration,
    },
    /// `round` tells the calls of one incarnation from those of another.
    Sched {
        local: LocalSchedule,
        round: u64,
        schedule: ScheduleKey,
        change: ScheduleChange,
    },
    Term {
        locals: Vec<LocalSchedule>,
        round: u64,
        items: Vec<TermItem>,
    },
    Tick {
        local: LocalSchedule,
        round: u64,
        schedule: ScheduleKey,
        turn: (ScheduleId, Term),
        number: u64,
    },
    /// `run` tells one plan from the next.
    Plan {
        local: LocalSchedule,
        run: u64,
        step: PlanCall,
    },
    Shutdown(ShutdownMode),
    Purge,
    Cleanup,
    ForgetNode,
}

/// The answer to a [`Call`].
#[derive(Debug)]
pub(crate) enum Done {
    Survey(Result<(PoolState, ServerIdentity)>),
    Revisions(Result<PoolState>),
    ServerTime(Result<u64>),
    Bootstrap {
        run_id: String,
        answer: Result<Bootstrapped>,
    },
    Recover {
        run_id: String,
        answer: Result<Incarnation>,
    },
    OpenNormal(Result<Option<WorkerId>>),
    Join {
        seating: Seating,
        answer: Result<Seat>,
    },
    Settle {
        worker: WorkerId,
        answer: Result<Seat>,
    },
    Drain {
        worker: WorkerId,
        answer: Result<Member>,
    },
    Leave {
        worker: WorkerId,
        answer: Result<Expired>,
    },
    /// Results for each worker that the call named.
    Expire {
        workers: Vec<(WorkerId, u64)>,
        answer: Result<Vec<Expired>>,
    },
    Reap {
        worker: WorkerId,
        answer: Result<Reaped>,
    },
    Dispatch {
        items: Vec<DispatchItem>,
        answer: Result<Vec<DispatchReply>>,
    },
    Route {
        events: Vec<PoolEvent>,
        answer: Result<Vec<RouteReply>>,
    },
    /// `incarnation`: the one that the report was made in.
    Attest {
        incarnation: Incarnation,
        worker: WorkerId,
        items: Vec<AttestItem>,
        answer: Result<Vec<AttestReply>>,
    },
    Attend {
        incarnation: Incarnation,
        worker: WorkerId,
        answer: Result<Option<JobKey>>,
    },
    Begin {
        begins: Vec<WorkerBegins>,
        answer: Result<Vec<WorkerBegun>>,
    },
    Started {
        starts: Vec<WorkerStarts>,
        answer: Result<Vec<bool>>,
    },
    Release {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<ToRelease>,
        answer: Result<Vec<ReleaseReply>>,
    },
    Take {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<TakeItem>,
        answer: Result<Vec<Option<Taken>>>,
    },
    Save {
        worker: WorkerId,
        items: Vec<SaveItem>,
        answer: Result<Vec<SaveReply>>,
    },
    Reply {
        worker: WorkerId,
        finished: Vec<EntryId>,
        items: Vec<ReplyItem>,
        answer: Result<Vec<ReplyReply>>,
    },
    ReadLast {
        worker: WorkerId,
        answer: Result<NodeEvents>,
    },
    Owned {
        worker: WorkerId,
        answer: Result<OwnedPage>,
    },
    OldestEvent {
        worker: WorkerId,
        answer: Result<Option<EntryId>>,
    },
    Stop {
        repeat: bool,
        items: Vec<StopItem>,
        answer: Result<Vec<StopReply>>,
    },
    Notify(Result<Vec<NotifyReply>>),
    NotifyOrStart(Result<Vec<NotifyOrStartReply>>),
    Ask(Result<Vec<AskReply>>),
    LookAtAsked(Result<Vec<Lookup>>),
    Unpark(Result<Vec<UnparkReply>>),
    Steer(Result<Vec<SteerReply>>),
    Update(Result<Vec<UpdateReply>>),
    LookToUpdate(Result<Vec<Lookup>>),
    LookUp {
        tickets: Vec<Ticket>,
        answer: Result<Vec<Lookup>>,
    },
    FindOwners(Result<Vec<Lookup>>),
    Tell {
        outcomes: Vec<(DispatchId, Outcome)>,
        answer: Result<()>,
    },
    Sweep {
        kick: Option<usize>,
        answer: Result<Swept>,
    },
    Inspect {
        held: Vec<InspectedJob>,
        answer: Result<Inspected>,
    },
    Heartbeats(Result<BTreeMap<WorkerId, u64>>),
    ReadPool(Result<Option<Vec<PoolEvent>>>),
    ClaimPool(Result<Option<Vec<PoolEvent>>>),
    RestoreGroup(Result<()>),
    PruneConsumers(Result<()>),
    ReadNode {
        round: u64,
        answer: Result<NodeEvents>,
    },
    Sched {
        local: LocalSchedule,
        round: u64,
        answer: Result<ScheduleState>,
    },
    Term {
        locals: Vec<LocalSchedule>,
        round: u64,
        answer: Result<Terms>,
    },
    Tick {
        local: LocalSchedule,
        round: u64,
        number: u64,
        answer: Result<TickReply>,
    },
    Plan {
        local: LocalSchedule,
        run: u64,
        step: PlanStep,
    },
    Shutdown {
        mode: ShutdownMode,
        answer: Result<Option<ShutdownFlag>>,
    },
    Purge(Result<Vec<(DispatchId, Outcome)>>),
    Cleanup(Result<u64>),
    ForgetNode,
}

impl Done {
    /// The error of a call that was not carried out; a refusal is an answer.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        let error = match self {
            Self::Survey(Err(error))
            | Self::Revisions(Err(error))
            | Self::ServerTime(Err(error))
            | Self::Bootstrap { answer: Err(error), .. }
            | Self::Recover { answer: Err(error), .. }
            | Self::OpenNormal(Err(error))
            | Self::Join { answer: Err(error), .. }
            | Self::Settle { answer: Err(error), .. }
            | Self::Drain { answer: Err(error), .. }
            | Self::Leave { answer: Err(error), .. }
            | Self::Expire { answer: Err(error), .. }
            | Self::Reap { answer: Err(error), .. }
            | Self::Dispatch { answer: Err(error), .. }
            | Self::Route { answer: Err(error), .. }
            | Self::Attest { answer: Err(error), .. }
            | Self::Attend { answer: Err(error), .. }
            | Self::Begin { answer: Err(error), .. }
            | Self::Started { answer: Err(error), .. }
            | Self::Release { answer: Err(error), .. }
            | Self::Take { answer: Err(error), .. }
            | Self::Save { answer: Err(error), .. }
            | Self::Reply { answer: Err(error), .. }
            | Self::ReadLast { answer: Err(error), .. }
            | Self::Owned { answer: Err(error), .. }
            | Self::OldestEvent { answer: Err(error), .. }
            | Self::Stop { answer: Err(error), .. }
            | Self::Notify(Err(error))
            | Self::NotifyOrStart(Err(error))
            | Self::Ask(Err(error))
            | Self::LookAtAsked(Err(error))
            | Self::Unpark(Err(error))
            | Self::Steer(Err(error))
            | Self::Update(Err(error))
            | Self::LookToUpdate(Err(error))
            | Self::LookUp { answer: Err(error), .. }
            | Self::FindOwners(Err(error))
            | Self::Tell { answer: Err(error), .. }
            | Self::Sweep { answer: Err(error), .. }
            | Self::Inspect { answer: Err(error), .. }
            | Self::Heartbeats(Err(error))
            | Self::ReadPool(Err(error))
            | Self::ClaimPool(Err(error))
            | Self::RestoreGroup(Err(error))
            | Self::PruneConsumers(Err(error))
            | Self::ReadNode { answer: Err(error), .. }
            | Self::Sched { answer: Err(error), .. }
            | Self::Term { answer: Err(error), .. }
            | Self::Tick { answer: Err(error), .. }
            | Self::Shutdown { answer: Err(error), .. }
            | Self::Purge(Err(error))
            | Self::Cleanup(Err(error)) => error,
            Self::Plan { step, .. } => step.failure()?,
            _ => return None,
        };
        (!matches!(error, StoreError::Refused(_))).then_some(error)
    }
}

/// How many entries one read of a stream takes; an entry has up to 128 jobs.
pub(crate) const READ_ENTRIES: usize = 8;
/// The same for a node that finds more in its streams, if there is little in them.
pub(crate) const READ_ENTRIES_MAX: usize = 128;
/// How long a read of a stream waits for the first entry.
pub(crate) const READ_BLOCK: Duration = Duration::from_secs(5);
/// Records per page of the slow look at all of them.
pub(crate) const INSPECT: usize = 512;
/// Jobs per page of a sweep, a reap, a purge or a scan.
pub(crate) const PAGE: usize = 256;
