//! The seam: every atomic step of the protocol, the reads, and nothing else. `docs/protocol.md` is the contract;
//! [`RedisStore`] runs it as Lua, [`MemoryStore`] as Rust over ordered maps, and one conformance suite and one
//! refinement test hold the two equal.
//!
//! Every step is atomic, checks the incarnation it is called with, and is idempotent for the identity it carries
//! (nonce, dispatch id, token, counter): a call whose answer was lost is simply sent again, unchanged.

mod dump;
mod memory;
mod redis;

#[doc(hidden)]
pub use dump::{Content, Dump, Text};
pub use memory::MemoryStore;
pub use redis::{RedisStore, UnsuitableServer};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_streaming::EntryId;
use tokio::sync::watch;

use crate::id::{DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId};
use crate::member::{Member, MemberState, Members};
use crate::record::Record;
use crate::settings::{Settings, ShutdownFlag, StoredSettings};

/// The most items that one step takes.
pub const BATCH_MAX: usize = 128;
/// The most bytes of keys and payloads that one step takes or returns.
pub const BATCH_BYTES: usize = 1 << 20;

/// A step was answered with a refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no pool of this name.
    #[error("there is no such pool")]
    NoPool,
    /// The pool was shut down a short time ago.
    #[error("the pool was shut down")]
    Closed,
    /// The pool lives in another incarnation than the caller.
    #[error("the pool is in incarnation {0}")]
    StaleIncarnation(Incarnation),
    /// The pool is recovering from a loss of data.
    #[error("the pool is recovering")]
    Recovering,
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    ShuttingDown,
    /// The ring has changed since the caller looked.
    #[error("the ring is at revision {0}")]
    StaleRing(Revision),
    /// The worker is no member any more.
    #[error("the worker is no member any more")]
    Fenced,
    /// Another node holds the planner's term.
    #[error("another node holds the planner's term")]
    StaleTerm,
    /// The pool runs with another value of a setting.
    #[error("the pool runs with {name} = {theirs}, not {ours}")]
    Setting {
        /// The setting's name.
        name: String,
        /// The pool's value.
        theirs: String,
        /// The caller's value.
        ours: String,
    },
    /// An argument is out of its range.
    #[error("an argument is out of its range")]
    BadArgument,
    /// The step belongs to a shutdown's second half, which has not begun.
    #[error("the pool is not stopping")]
    NotStopping,
    /// Workers or their remains are left.
    #[error("{0} members are left")]
    Members(u64),
}

/// Why a step has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The step was answered with a refusal: nothing was changed.
    #[error("refused, nothing was changed")]
    Refused(#[source] Refusal),
    /// The server process behind the connection is not the one that the pool last blessed: a sign of data loss.
    /// Nothing was sent.
    #[error("another server process answers (run id {run_id}), nothing was sent")]
    OtherServer {
        /// The process that answers.
        run_id: String,
    },
    /// The step was not executed; it may be sent again.
    #[error("not executed")]
    NotExecuted(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The step may or may not have been executed; it is to be sent again, unchanged.
    #[error("no answer, the step may have been executed")]
    Unanswered(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The store will not do it, now or later: wrong password, missing right, unsuitable server, answer that
    /// cannot be read.
    #[error("the store cannot be used")]
    Unusable(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// The answer to a step.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What a dispatch came to: `ok`, `stopped`, `parked`, `shutdown`, `exists`, `ended`, or `e:<error>` from the
/// start handler. Text, because it stands in the store.
pub type Outcome = String;

/// The pool as it stands, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Nothing is there.
    Absent,
    /// The tombstone of a shutdown is there.
    Closed,
    /// A pool is there.
    Present {
        /// Its incarnation.
        incarnation: Incarnation,
        /// True in phase R.
        recovering: bool,
        /// Revision of the members.
        members: Revision,
        /// Revision of the settings.
        settings: Revision,
        /// The server process last blessed.
        run_id: String,
    },
}

/// The server behind the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The process.
    pub run_id: String,
    /// How long it has run.
    pub uptime: Duration,
    /// It was promoted from a replica at some time.
    pub promoted: bool,
    /// A `flushall`, `flushdb` or `swapdb` was run since it started.
    pub flushed: bool,
}

/// bootstrap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrapped {
    /// The pool's incarnation.
    pub incarnation: Incarnation,
    /// False: there was one already.
    pub created: bool,
}

/// What a worker joins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// Identity of this join.
    pub nonce: Nonce,
    /// The worker's node.
    pub node: NodeName,
    /// Free text: `[A-Za-z0-9_:.-]{0,64}`.
    pub meta: String,
    /// The slot it would like: its own before a fence.
    pub preferred: Option<u32>,
    /// The settings it runs with.
    pub settings: Settings,
}

/// A worker's place, from join or settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The worker.
    pub worker: WorkerId,
    /// Its entry.
    pub member: Member,
    /// It is the pool's first live slot: whoever got this answer kicks the sweeper.
    pub first: bool,
}

/// renew's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Revision of the members.
    pub members: Revision,
    /// Revision of the settings.
    pub settings: Revision,
    /// The shutdown flag.
    pub flag: Option<ShutdownFlag>,
    /// True in phase R.
    pub recovering: bool,
    /// The server process that answered.
    pub run_id: String,
    /// Per worker asked for, in order: its state, or `None` when it is fenced.
    pub states: Vec<Option<MemberState>>,
}

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
}

/// dispatch's answer for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DispatchReply {
    /// `A`: accepted, now or by an earlier call with the same id.
    Accepted,
    /// `E`: the key lives under another dispatch.
    Exists,
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
}

/// A job to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopItem {
    /// The job's key.
    pub key: JobKey,
    /// The dispatch that is to end: a stop never ends a successor.
    pub id: DispatchId,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
}

/// stop's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReply {
    /// `D`: deleted, nobody ran it.
    Deleted,
    /// `S`: its owner has been told, now or before.
    Stopping,
    /// `N`: no such job.
    Absent,
    /// `T`: that dispatch ended before.
    Ended,
    /// `R`: the pool is recovering; ask again.
    Recovering,
    /// `M`: another worker owns it; nothing was done.
    Owner(Option<WorkerId>),
    /// `X`: its record does not parse.
    Bad,
}

/// A notification to keep for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyItem {
    /// The job's key.
    pub key: JobKey,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// The notification.
    pub body: Bytes,
}

/// notify's answer for one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotifyReply {
    /// `K`: kept; the owner will take it.
    Kept,
    /// `B`: the job's bound is reached.
    Full,
    /// `N`: no such job, or it is being stopped.
    Absent,
    /// `R`: the pool is recovering; ask again.
    Recovering,
    /// `M`: another worker owns it; nothing was done.
    Owner(Option<WorkerId>),
    /// `X`: its record does not parse.
    Bad,
}

/// A job whose notifications the owner fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeItem {
    /// The job's key.
    pub key: JobKey,
    /// The owner's token.
    pub token: Token,
    /// Notifications numbered below this have been delivered.
    pub ack: u64,
}

/// Notifications of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of the first one.
    pub first: u64,
    /// The notifications, in order; empty: nothing waits.
    pub bodies: Vec<Bytes>,
}

/// sweep's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs acted upon; at the limit there may be more.
    pub count: usize,
    /// The pool's stream is too long: nothing was re-sent.
    pub backlog: bool,
    /// Server time, ms, of the next job that is due.
    pub next_due: Option<u64>,
    /// How long until then, by the server's clock.
    pub next_in: Option<Duration>,
    /// Stops to send again: key, dispatch, owner.
    pub stops: Vec<(JobKey, DispatchId, WorkerId)>,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
    /// Jobs whose record does not parse.
    pub bad: Vec<JobKey>,
    /// Expired workers that are not reaped yet.
    pub dead: Vec<WorkerId>,
}

/// expire's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Expired, now or before.
    Done,
    /// No such worker any more.
    Gone,
    /// It has renewed meanwhile.
    Renewed,
}

/// reap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// No job of the worker is left.
    pub done: bool,
    /// Jobs freed by this call.
    pub count: usize,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
}

/// A page of a worker's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedPage {
    /// Where the next page begins; `None` after the last.
    pub next: Option<JobKey>,
    /// Jobs and their records; `None` where it is missing or does not parse.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

/// How a shutdown is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Begin what was accepted, for at most this long.
    Closing(Duration),
    /// Drop what nobody runs.
    DropQueued,
    /// From closing to stopping, if its time has come.
    Advance,
}

/// What a worker's stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// `s`: jobs were assigned under this token.
    Start {
        /// The token of all of them.
        token: Token,
        /// Their keys.
        keys: Vec<JobKey>,
    },
    /// `x`: jobs are to stop.
    Stop {
        /// The node that waits for it.
        waiting: Option<NodeName>,
        /// Keys and tokens.
        jobs: Vec<(JobKey, Token)>,
    },
    /// `n`: notifications wait.
    Notify {
        /// Keys and tokens.
        jobs: Vec<(JobKey, Token)>,
    },
    /// An entry that cannot be read: passed over and deleted.
    Unknown,
}

/// What one read of a node's streams brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEvents {
    /// Events of its workers, each worker's in order.
    pub workers: Vec<(WorkerId, EntryId, WorkerEvent)>,
    /// Outcomes for the node, in order.
    pub outcomes: Vec<(EntryId, Vec<(DispatchId, Outcome)>)>,
}

/// What a node asks for in one blocking read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Its workers, each with the last entry it has.
    pub workers: BTreeMap<WorkerId, EntryId>,
    /// The last entry of the node's own stream that it has.
    pub node: EntryId,
}

/// One dispatch, looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The key's record, if there is one that parses.
    pub record: Option<Record>,
    /// There is a record that does not parse.
    pub bad: bool,
    /// The dispatch is remembered as ended.
    pub ended: bool,
    /// The outcome of a caller's own id.
    pub outcome: Option<Outcome>,
}

/// A page of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsPage {
    /// Where the next page begins; `None` after the last.
    pub next: Option<u64>,
    /// Jobs and their records; `None` where it does not parse. A job may come twice while the pool changes.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

/// The atomic steps, the reads and the maps of one pool.
///
/// # Cancel safety
/// Dropping the future of a step leaves open whether it was executed; the reads change nothing, but for
/// [`pool_events`](Store::pool_events) and [`claim_events`](Store::claim_events), whose entries a dropped call
/// may leave with the consumer until they are claimed.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The pool as it stands; asked of whatever server answers, also one that is not blessed.
    async fn pool_state(&self) -> Result<PoolState>;
    /// The server that answers.
    async fn server_identity(&self) -> Result<ServerIdentity>;
    /// Refuses a server that a pool cannot live on (older than 7.0, eviction), logs what is unwise.
    async fn server_checks(&self) -> Result<()>;
    /// From now on, steps are sent to the server process `run_id`, and to no other.
    fn bless(&self, run_id: &str);

    /// Creates the pool in phase R, if there is none.
    async fn bootstrap(&self, high_water: Token, run_id: &str, settings: &Settings) -> Result<Bootstrapped>;
    /// Starts another incarnation, in phase R; the first caller wins.
    async fn recover(&self, inc: Incarnation, high_water: Token, run_id: &str) -> Result<Incarnation>;
    /// Leaves phase R. Returns the member it still waits for, if any.
    async fn open_normal(&self, inc: Incarnation) -> Result<Option<WorkerId>>;

    /// A worker joins.
    async fn join(&self, inc: Incarnation, request: &JoinRequest) -> Result<Seat>;
    /// A standby takes a slot of its own.
    async fn settle(&self, inc: Incarnation, worker: WorkerId) -> Result<Seat>;
    /// Heartbeat of all workers of a node; keeps the node's stream when `node` is given.
    async fn renew(
        &self,
        inc: Incarnation,
        high_water: Token,
        node: Option<&NodeName>,
        workers: &[WorkerId],
    ) -> Result<Renewal>;
    /// Leaves the ring, keeps the jobs.
    async fn drain(&self, inc: Incarnation, worker: WorkerId) -> Result<Member>;
    /// A worker's end: observed (`seq` unchanged for its TTL), or its own (`None`: nothing of it runs).
    async fn expire(&self, inc: Incarnation, worker: WorkerId, seq: Option<u64>) -> Result<Expired>;
    /// Frees jobs of an expired worker.
    async fn reap(&self, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped>;

    /// Accepts jobs.
    async fn dispatch(&self, inc: Incarnation, items: &[DispatchItem]) -> Result<Vec<DispatchReply>>;
    /// Assigns jobs; the only step that mints tokens. Whole entries only.
    async fn route(
        &self,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>>;
    /// The owner takes assigned jobs into its hands; `finished` entries of its stream are deleted.
    async fn begin(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        jobs: &[(JobKey, Token)],
    ) -> Result<Vec<BeginReply>>;
    /// Notes that start handlers succeeded. Per item: true, or false when stale.
    async fn started(&self, inc: Incarnation, worker: WorkerId, items: &[StartedItem]) -> Result<Vec<bool>>;
    /// The owner gives jobs up; their handlers have ended.
    async fn release(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReleaseItem],
    ) -> Result<Vec<ReleaseReply>>;
    /// Requests the end of jobs. `repeat`: the sweeper says it again; `waiting`: the node to tell.
    async fn stop(
        &self,
        inc: Incarnation,
        repeat: bool,
        waiting: Option<&NodeName>,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>>;
    /// Keeps notifications.
    async fn notify(&self, inc: Incarnation, items: &[NotifyItem]) -> Result<Vec<NotifyReply>>;
    /// The owner acknowledges and fetches notifications. Per item: `None` when it is not the owner.
    async fn take(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>>;
    /// Repairs what is due, at most `limit` jobs; `kick`: also those that wait for a worker.
    async fn sweep(&self, inc: Incarnation, limit: usize, kick: bool) -> Result<Swept>;
    /// A page of the worker's jobs, beginning after `after`.
    async fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage>;

    /// Sets or advances the shutdown flag; returns it.
    async fn shutdown(
        &self,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>>;
    /// While stopping: deletes jobs that nobody runs. An empty answer: nothing is left.
    async fn purge(&self, inc: Incarnation, limit: usize) -> Result<Vec<(DispatchId, Outcome)>>;
    /// The last one out: deletes every key, leaves a tombstone for `tombstone`. Returns the jobs dropped.
    async fn cleanup(&self, inc: Incarnation, tombstone: Duration) -> Result<u64>;

    /// New start events for this consumer; waits up to `block`. `None`: the consumer group is gone.
    async fn pool_events(
        &self,
        consumer: &NodeName,
        max: usize,
        block: Duration,
    ) -> Result<Option<Vec<PoolEvent>>>;
    /// Start events that other consumers have left for `min_idle`. `None`: the consumer group is gone.
    async fn claim_events(
        &self,
        consumer: &NodeName,
        min_idle: Duration,
        max: usize,
    ) -> Result<Option<Vec<PoolEvent>>>;
    /// Creates the consumer group again, from the stream's beginning, if it is missing.
    async fn restore_group(&self, inc: Incarnation) -> Result<()>;
    /// Forgets consumers that were idle this long and hold nothing.
    async fn prune_consumers(&self, inc: Incarnation, idle: Duration) -> Result<()>;
    /// New entries of a node's streams after its cursors; waits up to `block`.
    async fn node_events(
        &self,
        node: &NodeName,
        cursors: &Cursors,
        max: usize,
        block: Duration,
    ) -> Result<NodeEvents>;
    /// The oldest entry of a worker's stream.
    async fn oldest_worker_event(&self, worker: WorkerId) -> Result<Option<EntryId>>;
    /// Heartbeat counters: of the given workers, or of all.
    async fn heartbeats(&self, workers: Option<&[WorkerId]>) -> Result<BTreeMap<WorkerId, u64>>;
    /// Records and outcomes of open dispatches.
    async fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>>;
    /// The payload's envelope of a job.
    async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>>;
    /// A page of all jobs; about `limit` of them.
    async fn jobs_page(&self, cursor: u64, limit: usize) -> Result<JobsPage>;
    /// Tells nodes about outcomes: a hint, never the truth.
    async fn tell(&self, outcomes: &[(DispatchId, Outcome)]) -> Result<()>;
    /// Deletes the node's own stream: a leaving node's last act.
    async fn forget_node(&self, node: &NodeName) -> Result<()>;
    /// The server's clock, ms.
    async fn server_time(&self) -> Result<u64>;

    /// The members, replicated.
    fn members(&self) -> watch::Receiver<Arc<Members>>;
    /// The stored settings, replicated.
    fn settings(&self) -> watch::Receiver<Arc<StoredSettings>>;
    /// A hint that the maps are at these revisions: a replica that is not reads again.
    fn expect(&self, inc: Incarnation, members: Revision, settings: Revision);

    /// The same steps over a connection of the lease's own, for use on another thread's runtime.
    async fn lease_store(&self) -> Result<Arc<dyn Store>>;
    /// Ends the store's background work; nothing of it is left when this returns.
    async fn close(&self);
}
