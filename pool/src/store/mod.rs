//! The seam: every atomic step of the protocol, the reads, and nothing else. `docs/protocol` is the contract;
//! [`RedisStore`] runs it as Lua, [`MemoryStore`] as Rust over ordered maps, and one conformance suite and one
//! refinement test hold the two equal.
//!
//! Every step is atomic, checks the incarnation it is called with, and is idempotent for the identity it carries
//! (nonce, dispatch id, token, counter). A call whose answer was lost is simply sent again, unchanged. The exceptions:
//! [`bootstrap`](Store::bootstrap) and [`lookup`](Store::lookup) take no incarnation, and a [`notify`](Store::notify)
//! that is sent again may keep its notification twice.

mod attesting;
mod dump;
mod error;
mod events;
mod membership;
mod memory;
mod ownership;
mod parking;
mod redis;
mod requests;
mod schedules;

pub use attesting::*;
#[doc(hidden)]
pub use dump::{Content, Dump, Text};
pub use error::*;
pub use events::*;
pub use membership::*;
pub use memory::MemoryStore;
#[doc(hidden)]
pub use memory::Snapshot;
pub use ownership::*;
pub use parking::*;
#[cfg(feature = "micro")]
pub(crate) use redis::decode_begin;
pub use redis::{RedisStore, UnsuitableServer};
pub use requests::*;
pub use schedules::*;
pub use tenure_streaming::EntryId;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId,
};
use crate::member::{Member, Members};
use crate::settings::{Settings, ShutdownFlag, StoredSettings};

/// The most items that one step takes.
pub const BATCH_MAX: usize = 128;
/// The most bytes of keys and payloads that one step takes or returns.
pub const BATCH_BYTES: usize = 1 << 20;
/// After this many notifications, a call deletes no other job: more would hold up the server for all.
pub const NOTES_PAGE: usize = 4_096;
/// Entries that a node's stream keeps, about: a node that is slower asks for the outcomes instead.
pub(crate) const NODE_STREAM_MAX: usize = 1_024;

/// Refuses a step of more items than it takes.
pub(crate) fn check_batch(items: usize) -> Result<()> {
    if items > BATCH_MAX { Err(StoreError::Refused(Refusal::BadArgument)) } else { Ok(()) }
}

/// A duration in ms, a day at most: beyond every use, and far below what Lua and Redis count exactly.
pub(crate) fn millis_of_a_day(duration: Duration) -> u64 {
    const DAY: u64 = 86_400_000;
    u64::try_from(duration.as_millis()).map_or(DAY, |ms| ms.min(DAY))
}

/// The outcome of a dispatch: `ok`, `stopped`, `parked`, `shutdown`, `ended`, or `e:<error>` from the start handler.
/// Text, because it stands in the store.
pub type Outcome = String;

/// The atomic steps, the reads and the maps of one pool.
///
/// Steps that dispatch, route, begin, note, release, stop, notify, take or unpark jobs take at most [`BATCH_MAX`] of
/// them. Where workers speak together, the limit is for all. A step that expires workers takes as many of these. More
/// are refused with [`Refusal::BadArgument`].
///
/// # Cancel safety
/// Dropping the future of a step leaves open whether it was executed. The reads change nothing, with two exceptions.
/// [`pool_events`](Store::pool_events) and [`claim_events`](Store::claim_events) may leave their entries with the
/// consumer until they are claimed.
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
    async fn bootstrap(&self, seen: Seen, run_id: &str, settings: &Settings) -> Result<Bootstrapped>;
    /// Starts another incarnation, above all that were seen, in phase R; the first caller wins. The shutdown flag stays,
    /// but that of a pool which is known to have ended. `lost`: the signs of a [`Refusal::Lost`], for which no other
    /// recovery is asked for while they last, or empty.
    async fn recover(&self, inc: Incarnation, seen: Seen, run_id: &str, lost: &str) -> Result<Incarnation>;
    /// In phase R, a living worker names the jobs that it runs, has ended and has handed on, in any order. Without
    /// items it is a member of the pool at least. One that the data do not know is adopted under its old id, in its old
    /// slot when that is free. At most [`ATTEST_BYTES`]. Refused in phase N: with [`Refusal::Normal`].
    async fn attest(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        member: &Member,
        items: &[AttestItem],
    ) -> Result<Vec<AttestReply>>;
    /// The worker's last word in phase R: what the data say that it owns and what it has not attested is not in its
    /// hands. Takes a page of its jobs, beginning after `after`, and returns where the next one begins; `None`: all
    /// are done, and the pool waits for this worker no longer.
    async fn attend(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Option<JobKey>>;
    /// Leaves phase R, once every member has attested. Returns one that has not, if any.
    async fn open_normal(&self, inc: Incarnation) -> Result<Option<WorkerId>>;

    /// Changes settings that may change while the pool runs: all of them, or, when one has neither the value that the
    /// caller knows nor the new one, none. Returns the map's revision.
    async fn change_settings(&self, inc: Incarnation, changes: &[SettingChange]) -> Result<Revision>;
    /// A worker joins.
    async fn join(&self, inc: Incarnation, request: &JoinRequest) -> Result<Seat>;
    /// A standby takes a slot of its own.
    async fn settle(&self, inc: Incarnation, worker: WorkerId) -> Result<Seat>;
    /// Heartbeat of all workers of a node; keeps the node's stream when `node` is given. Refused in phase N when a key was
    /// lost alone: with [`Refusal::Lost`].
    async fn renew(
        &self,
        inc: Incarnation,
        high_water: Token,
        node: Option<&NodeName>,
        workers: &[WorkerId],
    ) -> Result<Renewal>;
    /// Leaves the ring, keeps the jobs.
    async fn drain(&self, inc: Incarnation, worker: WorkerId) -> Result<Member>;
    /// The end of workers, each observed (its counter is unchanged for its TTL) or its own (`None`: nothing of it runs).
    /// All of them change the members once. Per worker, in their order.
    async fn expire_all(&self, inc: Incarnation, workers: &[(WorkerId, Option<u64>)])
    -> Result<Vec<Expired>>;
    /// [`expire_all`](Self::expire_all) for one worker.
    async fn expire(&self, inc: Incarnation, worker: WorkerId, seq: Option<u64>) -> Result<Expired> {
        let answers = self.expire_all(inc, &[(worker, seq)]).await?;
        Ok(answers.first().copied().unwrap_or(Expired::Gone))
    }
    /// Frees jobs of an expired worker.
    async fn reap(&self, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped>;

    /// Accepts jobs. Jobs that name their worker are assigned to it at once, if the ring is still at `ring`, the
    /// revision of that choice. All others wait for a router.
    async fn dispatch(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>>;
    /// Assigns jobs to workers picked from the ring at this revision. Whole entries only.
    async fn route(
        &self,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>>;
    /// Owners take assigned jobs into their hands. Answers each of them for itself, but for [`BeginReply::Full`]: the
    /// payloads of all of them count.
    async fn begin_all(&self, inc: Incarnation, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>>;
    /// [`begin_all`](Self::begin_all) for one owner.
    async fn begin(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        jobs: &[(JobKey, Token)],
    ) -> Result<Vec<BeginReply>> {
        let begins = [WorkerBegins { worker, finished: finished.to_vec(), jobs: jobs.to_vec() }];
        let mut answers = self.begin_all(inc, &begins).await?;
        answers.pop().unwrap_or_else(|| Ok(Vec::new())).map_err(StoreError::Refused)
    }
    /// Notes that start handlers succeeded. Per item, in their order: true, or false when stale.
    async fn started_all(&self, inc: Incarnation, starts: &[WorkerStarts]) -> Result<Vec<bool>>;
    /// [`started_all`](Self::started_all) for one owner.
    async fn started(&self, inc: Incarnation, worker: WorkerId, items: &[StartedItem]) -> Result<Vec<bool>> {
        self.started_all(inc, &[WorkerStarts { worker, items: items.to_vec() }]).await
    }
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
    /// Keeps notifications, at least once: one whose answer was lost may be kept again when it is sent again.
    async fn notify(&self, inc: Incarnation, items: &[NotifyItem]) -> Result<Vec<NotifyReply>>;
    /// The owner acknowledges and fetches notifications. Per item: `None` when it is not the owner.
    async fn take(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>>;
    /// A page of the notifications that wait for a job, from the one with this number on.
    async fn notifications(&self, key: &JobKey, from: u64) -> Result<Waiting>;
    /// Drops the notifications of a job that are numbered up to `through`. Returns how many still wait; `None`: no such
    /// job.
    async fn drop_notifications(&self, inc: Incarnation, key: &JobKey, through: u64) -> Result<Option<u64>>;
    /// Repairs what is due, at most `limit` jobs; `kick`: also those that wait for a worker.
    async fn sweep(&self, inc: Incarnation, limit: usize, kick: bool) -> Result<Swept>;
    /// Looks slowly at a page of the records, about `limit` of them from `cursor` on. It puts each job into the indexes
    /// of its state. An owner that nobody knows gets a counter, so that it is expired. `held`, at most [`BATCH_MAX`]
    /// jobs in the hands of workers, is compared with the records.
    async fn inspect(
        &self,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected>;
    /// A page of the worker's jobs, beginning after `after`.
    async fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage>;

    /// Makes a schedule, changes its period, or ends it.
    async fn sched(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        change: &ScheduleChange,
    ) -> Result<ScheduleState>;
    /// Holds, takes over or leaves turns to plan.
    async fn term(&self, inc: Incarnation, node: &NodeName, items: &[TermItem]) -> Result<Terms>;
    /// Asks for the tick of this number, in a turn of the caller's; the same one again when its answer was lost.
    async fn tick(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        turn: (ScheduleId, Term),
        number: u64,
    ) -> Result<TickReply>;
    /// Accepts jobs of a plan, while the caller's turn lasts; they wait for a router.
    async fn dispatch_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>>;
    /// Requests the end of jobs of a plan, while the caller's turn lasts; jobs that are not the plan's are absent.
    async fn stop_planned(&self, inc: Incarnation, turn: &Turn, items: &[StopItem])
    -> Result<Vec<StopReply>>;
    /// A page of a plan's jobs, beginning after `after`.
    async fn planned(
        &self,
        inc: Incarnation,
        plan: &ScheduleName,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<PlannedPage>;

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
    /// Parked jobs, each named with its dispatch, are tried again: attempts and strikes start anew.
    async fn unpark(&self, inc: Incarnation, jobs: &[(JobKey, DispatchId)]) -> Result<Vec<UnparkReply>>;
    /// A page of the parked jobs; about `limit` of them.
    async fn parked_page(&self, cursor: u64, limit: usize) -> Result<ParkedPage>;
    /// Why these jobs wait, and until when: of each that is queued, assigned or parked.
    async fn pauses(&self, keys: &[JobKey]) -> Result<Vec<Pause>>;
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
    /// Reads the settings again, and the members where `members` says so, even if the replica is at their revisions. A
    /// repair by hand changes them without a revision.
    fn reread(&self, members: bool);

    /// Why the maps cannot be followed, while they cannot.
    fn unfollowed(&self) -> Option<StoreError> {
        None
    }

    /// The same store over connections of its own, for use on another runtime. The replicas are those of this one, which
    /// follows them.
    fn apart(&self) -> Arc<dyn Store>;
    /// Ends the store's background work; nothing of it is left when this returns.
    async fn close(&self);
}
