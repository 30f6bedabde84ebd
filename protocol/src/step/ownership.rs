//! The arguments and answers of the steps that concern a job's life, and of the reads of jobs.

use std::time::Duration;

use bytes::Bytes;
use tenure_steps::letters;

use super::performing::step;
use super::{Checkpoint, EntryId, Outcome, Refusal};
use crate::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use crate::model::record::Record;
use crate::model::why::Cause;

/// One job to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchItem {
    /// The job's key.
    pub key: JobKey,
    /// Identifies the dispatch.
    pub id: DispatchId,
    /// Server time, ms, after which the dispatch is refused.
    pub not_after: u64,
    /// The digest of the request, for a caller's own id; otherwise empty.
    pub hash: String,
    /// The payload's envelope.
    pub payload: Bytes,
    /// The worker that the ring gives the job. `None` leaves the choice to a router.
    pub worker: Option<WorkerId>,
    /// Somebody may wait for the job's start.
    pub awaited: bool,
}

letters! {
    /// dispatch's answer for one job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum DispatchReply {
        /// Accepted, now or by an earlier call with the same id.
        b'A': Accepted,
        /// The key has a live job of another dispatch.
        b'E': Exists,
        /// The key has a live job of another dispatch, and that job is parked.
        b'P': Parked,
        /// The key has a live job of another dispatch, and that job is paused.
        b'Y': Paused,
        /// The pool has its limit of queued jobs.
        b'B': Full,
        /// The dispatch has already ended.
        b'T': Ended,
        /// The id was used for another key or other bytes.
        b'C': Conflict,
        /// The outcome of an earlier dispatch with the caller's id.
        b'O': Outcome(Outcome),
        /// The deadline has passed, or is too far in the future.
        b'L': Late,
        /// The pool is recovering, and the job may be running unseen. Ask again.
        b'R': Recovering,
        /// The pool is shutting down.
        b'Z': ShuttingDown,
        /// The pool's counter of tokens is used up or damaged, so no job can be assigned.
        b'N': OutOfTokens,
        /// An argument is bad, or the key's record does not parse.
        b'X': Bad,
    }
}

/// A start event of the pool's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// The id of its entry.
    pub entry: EntryId,
    /// The jobs that need a worker, with the strikes against their placement.
    pub jobs: Vec<(JobKey, u32)>,
}

letters! {
    /// route's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RouteReply {
        /// Assigned.
        b'R': Routed,
        /// The job no longer needs a worker.
        b'D': Done,
        /// There is no live worker, so the job waits.
        b'W': Waiting,
        /// Its record does not parse.
        b'X': Bad,
    }
}

/// The jobs that one worker begins, and the finished entries of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBegins {
    /// The worker.
    pub worker: WorkerId,
    /// Entries of its stream to delete.
    pub finished: Vec<EntryId>,
    /// The jobs that it was assigned, with its tokens.
    pub jobs: Vec<(JobKey, Token)>,
}

/// begin's answer for one worker: one reply for each of its jobs, or the reason why there is none
/// ([`Refusal::Fenced`], [`Refusal::ShuttingDown`]).
pub type WorkerBegun = std::result::Result<Vec<BeginReply>, Refusal>;

/// A job that a worker has begun, or may begin, and all that belongs to the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunJob {
    /// Its record.
    pub record: Record,
    /// Notifications wait.
    pub waiting: bool,
    /// The payload's envelope.
    pub payload: Bytes,
    /// The state that a former owner has left.
    pub checkpoint: Option<Box<Checkpoint>>,
}

impl BegunJob {
    /// The bytes of its payload and its checkpoint.
    pub fn bytes(&self) -> usize {
        self.payload.len() + self.checkpoint.as_ref().map_or(0, |kept| kept.bytes.len())
    }
}

/// begin's answer for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeginReply {
    /// The worker now runs it.
    Begun(BegunJob),
    /// The answer is full. The job is unchanged: ask again.
    Full,
    /// The worker does not own it under this token.
    Refused,
}

/// The starts of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStarts {
    /// The worker.
    pub worker: WorkerId,
    /// Handled entries of its stream, for the call to delete.
    pub finished: Vec<EntryId>,
    /// Its jobs.
    pub items: Vec<StartedItem>,
}

/// A job whose start handler has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedItem {
    /// The job's key.
    pub key: JobKey,
    /// The worker's token.
    pub token: Token,
    /// The node that waits for the outcome.
    pub tell: Option<NodeName>,
}

/// The way in which a job is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReleaseMode {
    /// `d`: it has ended.
    Delete,
    /// `h`: handed off, or restarted as planned. Its attempts count from zero.
    HandOff,
    /// `b`: given back: begun, and never started here. The attempt does not count.
    GiveBack,
    /// `r`: refused by the worker. The attempt does not count, and the placement gets a strike.
    Refuse,
    /// `e`: this worker does not take it. The attempt does not count, and the next worker of its chain is asked at once.
    /// A job that all have turned away pauses.
    Elsewhere {
        /// How many workers may get it.
        workers: u32,
    },
    /// `q`: failed. The attempts stay.
    Fail,
    /// `p`: parked at once. The attempt does not count.
    Park,
}

/// A job to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseItem {
    /// The job's key.
    pub key: JobKey,
    /// The worker's token.
    pub token: Token,
    /// The way in which it is given up.
    pub mode: ReleaseMode,
    /// The generation of the payload that it ran with. If its record has a higher one, and nobody stops the job, then the
    /// job is queued as by `h`, whatever the mode. It is parked as by `p` where the cause is [`Cause::Parked`] or
    /// [`Cause::Paused`]. `None` for a job that goes on anyway, or that somebody has stopped, parked or paused.
    pub ran: Option<u64>,
    /// Why an operator wanted the job to rest, which has ended before it did. Only of a job that ends and names a generation.
    pub rests: String,
    /// Why it is given up, for the record of a job that goes on.
    pub cause: Cause,
    /// How long it waits before it may be routed again, at most 240 s. A job that goes elsewhere waits as the step says.
    pub delay: Duration,
    /// The node that waits for the outcome of the dispatch.
    pub tell: Option<NodeName>,
    /// The node that waits for the stop.
    pub tell_stopper: Option<NodeName>,
    /// The outcome if the job ends here, or the error if it failed. Empty: `ended`, or `stopped` for a stopping job.
    /// [`STOP_FAILED`](super::STOP_FAILED) and an error: the same, and the node that waits for the stop is told the
    /// error.
    pub result: String,
}

impl ReleaseItem {
    /// A job that is given up at once, whatever its payload. Nobody waits for it.
    pub fn new(key: JobKey, token: Token, mode: ReleaseMode, cause: Cause) -> Self {
        Self {
            key,
            token,
            mode,
            ran: None,
            rests: String::new(),
            cause,
            delay: Duration::ZERO,
            tell: None,
            tell_stopper: None,
            result: String::new(),
        }
    }

    /// Why an operator wants the job to rest, if one does: a later payload does not start it.
    pub fn rest(&self) -> Option<&str> {
        let reason = if self.mode == ReleaseMode::Delete { &self.rests } else { &self.result };
        matches!(self.cause, Cause::Parked | Cause::Paused).then_some(reason)
    }
}

letters! {
    /// release's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReleaseReply {
        /// Deleted.
        b'D': Deleted,
        /// Queued.
        b'Q': Queued,
        /// Parked.
        b'P': Parked,
        /// Stale; nothing was done.
        b'S': Stale,
        /// Its record does not parse.
        b'X': Bad,
        /// Nothing was done, because the call had deleted a page of notifications. Ask again.
        b'L': Later,
    }
}

/// A page of a worker's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedPage {
    /// Where the next page begins. `None` after the last.
    pub next: Option<JobKey>,
    /// The jobs and their records. `None` for a record that is missing or does not parse.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

letters! {
    /// The result of an inspection, for a job that a worker holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HeldState {
        /// Nothing is wrong.
        b'K': Kept,
        /// Its record has a higher token.
        b'O': Outranked,
        /// It has no record, though its worker is a member.
        b'M': Missing,
    }
}

/// inspect's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Where the next page of the records begins. 0 after the last.
    pub next: u64,
    /// The number of owners in this page that are neither members nor waiting to be reaped.
    pub strangers: usize,
    /// One result for each held job, in order.
    pub held: Vec<HeldState>,
}

/// The result of a look-up of one dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The key's record, if there is one and it parses.
    pub record: Option<Record>,
    /// There is a record that does not parse.
    pub bad: bool,
    /// The version of the record, if it does not parse because a newer version of this crate wrote it.
    pub newer: Option<u64>,
    /// The store remembers that the dispatch has ended.
    pub ended: bool,
    /// The outcome of a caller's own id.
    pub outcome: Option<Outcome>,
    /// There is an entry of the caller's own id that cannot be read.
    pub bad_id: bool,
    /// The version of that entry, if it cannot be read because a newer version of this crate wrote it.
    pub newer_id: Option<u64>,
}

impl Lookup {
    /// The version of entries of callers' own ids that this crate writes, and the newest that it reads.
    pub const ID_VERSION: u64 = 1;
}

/// A page of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// Where the next page begins. `None` after the last.
    pub next: Option<u64>,
    /// The jobs and their records. `None` for a record that does not parse. A job may come twice if the pool changes
    /// meanwhile.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

/// Owners take their assigned jobs. The answers are by owner, but a single bound counts the payloads of all owners:
/// [`BeginReply::Full`](super::BeginReply::Full).
#[derive(Clone, Debug)]
pub struct Begin {
    /// The jobs by worker.
    pub begins: Vec<WorkerBegins>,
}

step!(Begin: "begin" -> Vec<WorkerBegun>, |step| step.begins.iter().map(|of| of.jobs.len()).sum());

/// Records the success of start handlers. The answers are in order: true, or false for a stale item.
#[derive(Clone, Debug)]
pub struct Started {
    /// The jobs by worker.
    pub starts: Vec<WorkerStarts>,
}

step!(Started: "started" -> Vec<bool>, |step| step.starts.iter().map(|of| of.items.len()).sum());

/// The owner gives jobs up. Their handlers have ended.
#[derive(Clone, Debug)]
pub struct Release {
    /// The owner.
    pub worker: WorkerId,
    /// Handled entries of the owner's stream, for the call to delete.
    pub finished: Vec<EntryId>,
    /// The jobs.
    pub items: Vec<ReleaseItem>,
}

step!(Release: "release" -> Vec<ReleaseReply>, |step| step.items.len());

/// A page of a worker's jobs.
#[derive(Clone, Debug)]
pub struct ListOwned {
    /// The owner.
    pub worker: WorkerId,
    /// Where the page begins; `None`: with the first job.
    pub after: Option<JobKey>,
    /// The most jobs of the page.
    pub limit: usize,
}

step!(ListOwned: "owned" -> OwnedPage);
