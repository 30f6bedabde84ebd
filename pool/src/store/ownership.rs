//! The arguments and answers of the steps of a job's life: dispatch, route, begin, started, release, and looks at jobs.

use std::time::Duration;

use bytes::Bytes;

use super::{EntryId, Outcome, Refusal};
use crate::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use crate::record::Record;

/// One job to accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchItem {
    /// The job's key.
    pub key: JobKey,
    /// Identity of the dispatch.
    pub id: DispatchId,
    /// Server time, ms, after which it is refused.
    pub not_after: u64,
    /// Digest of the bytes, for a caller's own id; else empty.
    pub hash: String,
    /// The payload's envelope.
    pub payload: Bytes,
    /// Where the ring places it; `None`: a router finds its worker.
    pub worker: Option<WorkerId>,
}

/// dispatch's answer for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DispatchReply {
    /// `A`: accepted, now or by an earlier call with the same id.
    Accepted,
    /// `E`: the key lives under another dispatch.
    Exists,
    /// `P`: the same, and that one is parked.
    Parked,
    /// `B`: the bound of queued jobs is reached.
    Full,
    /// `T`: the dispatch ended before.
    Ended,
    /// `C`: the id was used for another key or other bytes.
    Conflict,
    /// `O`: the outcome of the caller's id.
    Outcome(Outcome),
    /// `L`: past its deadline, or with one too far ahead.
    Late,
    /// `R`: the pool is recovering and the job may be running unseen; ask again.
    Recovering,
    /// `Z`: the pool is shutting down.
    ShuttingDown,
    /// `N`: the pool's counter of tokens is used up or damaged: no job can be assigned any more.
    OutOfTokens,
    /// `X`: bad argument, or the key's record does not parse.
    Bad,
}

/// A start event of the pool's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// Its entry.
    pub entry: EntryId,
    /// The jobs that want a worker, with the strikes against their placement.
    pub jobs: Vec<(JobKey, u32)>,
}

/// route's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteReply {
    /// `R`: assigned.
    Routed,
    /// `D`: it does not want a worker any more.
    Done,
    /// `W`: no live worker; it waits.
    Waiting,
    /// `X`: its record does not parse.
    Bad,
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

/// begin's answer for one worker: one for each of its jobs, or why there is none ([`Refusal::Fenced`],
/// [`Refusal::ShuttingDown`]).
pub type WorkerBegun = std::result::Result<Vec<BeginReply>, Refusal>;

/// begin's answer for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeginReply {
    /// It is the worker's.
    Begun {
        /// Its record.
        record: Record,
        /// Notifications wait.
        waiting: bool,
        /// The payload's envelope.
        payload: Bytes,
    },
    /// `L`: the answer is full; untouched, ask again.
    Full,
    /// It is not this worker's under this token.
    Refused,
}

/// The starts of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerStarts {
    /// The worker.
    pub worker: WorkerId,
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

/// How a job is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReleaseMode {
    /// `d`: it has ended.
    Delete,
    /// `h`: handed on, or restarted as planned; attempts start anew.
    HandOff,
    /// `b`: given back, begun and never started here; takes its attempt back.
    GiveBack,
    /// `r`: refused by the worker; takes its attempt back and is a strike against the placement.
    Refuse,
    /// `q`: failed; attempts kept.
    Fail,
}

/// A job to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseItem {
    /// The job's key.
    pub key: JobKey,
    /// The worker's token.
    pub token: Token,
    /// How.
    pub mode: ReleaseMode,
    /// When it may be routed again; zero: at once. At most 240 s.
    pub delay: Duration,
    /// The node that waits for the outcome of the dispatch.
    pub tell: Option<NodeName>,
    /// The node that waits for the stop.
    pub tell_stopper: Option<NodeName>,
    /// The outcome when it ends here (empty: `ended`, or `stopped` for a stopping job), the error when it failed.
    pub result: String,
}

/// release's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReply {
    /// `D`: deleted.
    Deleted,
    /// `Q`: queued.
    Queued,
    /// `P`: parked.
    Parked,
    /// `S`: stale, nothing done.
    Stale,
    /// `X`: its record does not parse.
    Bad,
    /// `L`: nothing was done, because the call had deleted a page of notifications. Ask again.
    Later,
}

/// A page of a worker's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedPage {
    /// Where the next page begins; `None` after the last.
    pub next: Option<JobKey>,
    /// Jobs and their records; `None` where it is missing or does not parse.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

/// The word on a job that a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldState {
    /// `K`: nothing is wrong.
    Kept,
    /// `O`: its record has a higher token.
    Outranked,
    /// `M`: it has no record, though its worker is a member.
    Missing,
}

/// inspect's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Where the next page of the records begins; 0 after the last.
    pub next: u64,
    /// Owners in this page that are neither members nor to be reaped.
    pub strangers: usize,
    /// Per job held, in order.
    pub held: Vec<HeldState>,
}

/// One dispatch, looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The key's record, if there is one that parses.
    pub record: Option<Record>,
    /// There is a record that does not parse.
    pub bad: bool,
    /// It does not parse because a newer version of this crate wrote it: that version.
    pub newer: Option<u64>,
    /// The dispatch is remembered as ended.
    pub ended: bool,
    /// The outcome of a caller's own id.
    pub outcome: Option<Outcome>,
    /// There is an entry of the caller's own id that cannot be read.
    pub bad_id: bool,
    /// It cannot be read because a newer version of this crate wrote it: that version.
    pub newer_id: Option<u64>,
}

impl Lookup {
    /// The version of the entries of callers' own ids that this crate writes, and the newest that it reads.
    pub(crate) const ID_VERSION: u64 = 1;
}

/// A page of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// Where the next page begins; `None` after the last.
    pub next: Option<u64>,
    /// Jobs and their records; `None` where it does not parse. A job may come twice while the pool changes.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}
