//! The interface, by concern: every atomic step of the protocol, and every read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::{
    AskItem, AskReply, AttestItem, AttestReply, Bootstrapped, Checkpoint, Counts, Cursors, DispatchItem,
    DispatchReply, EntryId, Evidence, Expired, HistoryPage, Inspected, JobsPage, JoinRequest, Lookup,
    NodeEvents, NotifyItem, NotifyOrStartItem, NotifyOrStartReply, NotifyReply, Outcome, OwnedPage,
    ParkedPage, Pause, PlannedPage, PoolEvent, PoolState, Raised, Reaped, ReleaseItem, ReleaseReply, Renewal,
    ReplyItem, ReplyReply, Result, RouteReply, SaveItem, SaveReply, ScheduleChange, ScheduleEntry,
    ScheduleKey, ScheduleState, Seat, Seen, ServerIdentity, SettingChange, ShutdownMode, SteerItem,
    SteerReply, StopItem, StopReply, StoreError, Swept, TakeItem, Taken, TermItem, Terms, TickReply, Turn,
    UnparkReply, UpdateItem, UpdateReply, Waiting, WorkerBegins, WorkerBegun, WorkerStarts,
};
use crate::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId,
};
use crate::model::level;
use crate::model::member::{Member, Members};
use crate::model::settings::{Settings, ShutdownFlag, StoredSettings};

/// The life of the pool, and its members.
#[async_trait]
pub trait Membership: Send + Sync + 'static {
    /// Creates the pool in phase R, if there is none.
    async fn bootstrap(&self, seen: Seen, run_id: &str, settings: &Settings) -> Result<Bootstrapped>;
    /// Starts a new incarnation in phase R, above all that were seen. The first caller wins. The shutdown flag stays,
    /// unless it belongs to a pool that is known to have ended. `lost` has the signs of a
    /// [`Refusal::Lost`](super::Refusal::Lost), or is empty. While the same signs last, no other recovery is asked for
    /// because of them.
    async fn recover(&self, inc: Incarnation, seen: Seen, run_id: &str, lost: &str) -> Result<Incarnation>;
    /// Leaves phase R if every member has attested. Otherwise returns one that has not.
    async fn open_normal(&self, inc: Incarnation) -> Result<Option<WorkerId>>;
    /// Changes settings that may change while the pool runs, and returns the map's revision. It changes all of them,
    /// or none if one of them has neither the value that the caller knows nor the new one.
    async fn change_settings(&self, inc: Incarnation, changes: &[SettingChange]) -> Result<Revision>;
    /// Raises the floor of the pool to this level, once every member has it. From then on the store refuses steps of a
    /// lower level with [`Refusal::Level`](super::Refusal::Level). Refused in phase R.
    async fn raise_level(&self, inc: Incarnation, level: u32) -> Result<Raised>;
    /// Cordons a node, or lifts that: the ring of the members gives no job to its workers. `seen` is the members'
    /// revision that the caller has seen; [`Refusal::StaleRing`](super::Refusal::StaleRing) names the present one.
    /// Changes nothing where it is so already.
    async fn cordon(&self, inc: Incarnation, seen: Revision, node: &NodeName, on: bool) -> Result<()>;
    /// A worker joins.
    async fn join(&self, inc: Incarnation, request: &JoinRequest) -> Result<Seat>;
    /// A standby takes a new slot.
    async fn settle(&self, inc: Incarnation, worker: WorkerId) -> Result<Seat>;
    /// The heartbeat of all workers of a node. Raises the counter of tokens and the floor to what was seen. Keeps the
    /// node's stream if `node` is given. In phase N, if a key was lost alone, the answer is
    /// [`Refusal::Lost`](super::Refusal::Lost).
    ///
    /// `status` is what the node says of itself, for people; empty: nothing. It is kept with `node` while a worker of
    /// these is a member, and until no worker of the node is.
    async fn renew_saying(
        &self,
        inc: Incarnation,
        seen: Seen,
        node: Option<&NodeName>,
        workers: &[WorkerId],
        status: &Bytes,
    ) -> Result<Renewal>;
    /// [`renew_saying`](Self::renew_saying) without a word.
    #[cfg(any(test, feature = "micro", feature = "sim"))]
    async fn renew(
        &self,
        inc: Incarnation,
        seen: Seen,
        node: Option<&NodeName>,
        workers: &[WorkerId],
    ) -> Result<Renewal> {
        self.renew_saying(inc, seen, node, workers, &Bytes::new()).await
    }
    /// The words of nodes with workers about themselves, by the nodes' names.
    async fn statuses(&self) -> Result<BTreeMap<String, Bytes>>;
    /// Takes workers out of the ring, all of them in one change. They keep their jobs. Returns the entry of each in order,
    /// none if it is no member.
    async fn drain_all(&self, inc: Incarnation, workers: &[WorkerId]) -> Result<Vec<Option<Member>>>;
    /// [`drain_all`](Self::drain_all) for one worker, which is refused as [`Refusal::Fenced`](super::Refusal::Fenced) if
    /// it is no member.
    async fn drain(&self, inc: Incarnation, worker: WorkerId) -> Result<Member> {
        let drained = self.drain_all(inc, &[worker]).await?;
        drained.into_iter().flatten().next().ok_or(StoreError::Refused(super::Refusal::Fenced))
    }
    /// Ends workers. Each was either observed (its counter did not change for its TTL), or ends itself (`None`:
    /// nothing of it runs). All of them change the members once. Returns one answer for each worker, in order.
    async fn expire_all(&self, inc: Incarnation, workers: &[(WorkerId, Option<u64>)])
    -> Result<Vec<Expired>>;
    /// [`expire_all`](Self::expire_all) for one worker.
    async fn expire(&self, inc: Incarnation, worker: WorkerId, seq: Option<u64>) -> Result<Expired> {
        let answers = self.expire_all(inc, &[(worker, seq)]).await?;
        Ok(answers.first().copied().unwrap_or(Expired::Gone))
    }
    /// Frees jobs of an expired worker.
    async fn reap(&self, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped>;
}

/// The reports of workers after a loss of data.
#[async_trait]
pub trait Attestation: Send + Sync + 'static {
    /// In phase R, a living worker reports the jobs that it runs, has ended and has handed off, in any order. A call
    /// without items at least makes it a member. A worker that the data do not know is adopted under its old id, in its
    /// old slot if that is free. Takes at most [`ATTEST_BYTES`](super::ATTEST_BYTES). In phase N the answer is
    /// [`Refusal::Normal`](super::Refusal::Normal).
    async fn attest(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        member: &Member,
        items: &[AttestItem],
    ) -> Result<Vec<AttestReply>>;
    /// The worker's final report in phase R: it does not have the jobs that it owns by the data and has not reported.
    /// Takes a page of its jobs, beginning after `after`, and returns where the next page begins. `None`: the report
    /// is complete, and the pool no longer waits for this worker.
    async fn attend(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Option<JobKey>>;
}

/// The way of a job to its owner, and the reads of jobs.
#[async_trait]
pub trait Jobs: Send + Sync + 'static {
    /// Accepts jobs. Jobs that name their worker are assigned to it at once, if the ring is still at `ring`, the
    /// revision of that choice. All others wait for a router.
    async fn dispatch(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>>;
    /// Accepts jobs of a plan, while the caller's turn lasts. They wait for a router.
    async fn dispatch_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
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
    /// The records and outcomes of open dispatches.
    async fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>>;
    /// The envelope of a job's payload.
    async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>>;
    /// All that is known of a key's job, and of a dispatch of that key, at one moment.
    async fn explain(&self, key: &JobKey, id: Option<&DispatchId>) -> Result<Evidence>;
    /// How many jobs there are, and how many each of these workers has. Looks at `look` jobs of the queue for the oldest
    /// new one: at least one, at most [`LOOK_MAX`](super::LOOK_MAX).
    async fn figures(&self, look: usize, workers: &[WorkerId]) -> Result<Counts>;
    /// A page of all jobs, about `limit` of them.
    async fn jobs_page(&self, cursor: u64, limit: usize) -> Result<JobsPage>;
}

/// The steps of a job's owner.
#[async_trait]
pub trait Ownership: Send + Sync + 'static {
    /// Owners take their assigned jobs. Each owner gets its own answer, but for
    /// [`BeginReply::Full`](super::BeginReply::Full) the payloads of all owners are counted together.
    async fn begin_all(&self, inc: Incarnation, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>>;
    /// [`begin_all`](Self::begin_all) for one owner.
    #[cfg(any(feature = "micro", feature = "sim"))]
    async fn begin(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        jobs: &[(JobKey, Token)],
    ) -> Result<Vec<super::BeginReply>> {
        let begins = [WorkerBegins { worker, finished: finished.to_vec(), jobs: jobs.to_vec() }];
        let mut answers = self.begin_all(inc, &begins).await?;
        answers.pop().unwrap_or_else(|| Ok(Vec::new())).map_err(StoreError::Refused)
    }
    /// Records that start handlers have succeeded. The answers are in order: true, or false for a stale item.
    async fn started_all(&self, inc: Incarnation, starts: &[WorkerStarts]) -> Result<Vec<bool>>;
    /// [`started_all`](Self::started_all) for one owner.
    #[cfg(any(feature = "micro", feature = "sim"))]
    async fn started(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        items: &[super::StartedItem],
    ) -> Result<Vec<bool>> {
        self.started_all(inc, &[WorkerStarts { worker, items: items.to_vec() }]).await
    }
    /// The owner gives jobs up. Their handlers have ended.
    async fn release(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReleaseItem],
    ) -> Result<Vec<ReleaseReply>>;
    /// A page of the worker's jobs, beginning after `after`.
    async fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage>;
}

/// The messages to owners: stops and notifications.
#[async_trait]
pub trait Messages: Send + Sync + 'static {
    /// Requests the end of jobs. `repeat`: the sweeper repeats the request. `waiting`: the node that waits for the
    /// end.
    async fn stop(
        &self,
        inc: Incarnation,
        repeat: bool,
        waiting: Option<&NodeName>,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>>;
    /// Requests the end of jobs of a plan, while the caller's turn lasts. The answer for other jobs is that they are
    /// absent.
    async fn stop_planned(&self, inc: Incarnation, turn: &Turn, items: &[StopItem])
    -> Result<Vec<StopReply>>;
    /// Keeps notifications, at least once: one that is sent again after a lost answer may be kept twice.
    async fn notify(&self, inc: Incarnation, items: &[NotifyItem]) -> Result<Vec<NotifyReply>>;
    /// Keeps notifications, as [`notify`](Self::notify) does. A job that is not there is accepted with its first one. It is
    /// placed if `ring` is still the revision of the members.
    async fn notify_or_start(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[NotifyOrStartItem],
    ) -> Result<Vec<NotifyOrStartReply>>;
    /// The owner acknowledges and fetches notifications. For each item, `None` if the caller is not the owner.
    async fn take(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>>;
    /// A page of the waiting notifications of a job, beginning with the number `from`.
    async fn notifications(&self, key: &JobKey, from: u64) -> Result<Waiting>;
    /// Drops the notifications of a job with numbers up to `through`, and returns how many still wait. `None` if
    /// there is no such job.
    async fn drop_notifications(&self, inc: Incarnation, key: &JobKey, through: u64) -> Result<Option<u64>>;
}

/// Other payloads for jobs that are there.
#[async_trait]
pub trait Updates: Send + Sync + 'static {
    /// Gives jobs another payload. Nothing else of them changes but the generation; the owners of running jobs are told.
    async fn update(&self, inc: Incarnation, items: &[UpdateItem]) -> Result<Vec<UpdateReply>>;
    /// Gives jobs of a plan another payload, while the caller's turn lasts. The answer for other jobs is that they are
    /// absent.
    async fn update_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[UpdateItem],
    ) -> Result<Vec<UpdateReply>>;
}

/// The states that owners leave with their jobs.
#[async_trait]
pub trait Checkpoints: Send + Sync + 'static {
    /// Keeps checkpoints of a worker's jobs, each in place of the one before.
    async fn save(&self, inc: Incarnation, worker: WorkerId, items: &[SaveItem]) -> Result<Vec<SaveReply>>;
    /// A job's checkpoint.
    async fn checkpoint(&self, key: &JobKey) -> Result<Option<Checkpoint>>;
}

/// Asks of jobs' owners, and what is said to them. The pool keeps neither.
#[async_trait]
pub trait Asks: Send + Sync + 'static {
    /// Hands asks of a node to the owners of jobs, each under the token that it names.
    async fn ask(&self, inc: Incarnation, asker: &NodeName, items: &[AskItem]) -> Result<Vec<AskReply>>;
    /// A worker tells nodes what became of their asks, and deletes finished entries of its stream.
    async fn reply(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReplyItem],
    ) -> Result<Vec<ReplyReply>>;
}

/// The jobs that wait for a retry, and what operators want of single jobs.
#[async_trait]
pub trait Parking: Send + Sync + 'static {
    /// Retries parked jobs, each named with its dispatch. Their attempts and strikes count from zero.
    async fn unpark(&self, inc: Incarnation, jobs: &[(JobKey, DispatchId)]) -> Result<Vec<UnparkReply>>;
    /// Has single jobs begin now, end here and begin anew, or parked: what an operator wants of them. The owners of
    /// running jobs are told.
    async fn steer(&self, inc: Incarnation, items: &[SteerItem]) -> Result<Vec<SteerReply>>;
    /// A page of the parked jobs, about `limit` of them.
    async fn parked_page(&self, cursor: u64, limit: usize) -> Result<ParkedPage>;
    /// For each of these jobs that is queued, assigned or parked: why it waits, and until when.
    async fn pauses(&self, keys: &[JobKey]) -> Result<Vec<Pause>>;
}

/// Schedules, tickers, and the jobs of a plan.
#[async_trait]
pub trait Schedules: Send + Sync + 'static {
    /// All schedules and tickers. Entries that do not parse are left out.
    async fn schedules(&self) -> Result<Vec<(ScheduleKey, ScheduleEntry)>>;
    /// Creates a schedule, changes its period, or ends it.
    async fn sched(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        change: &ScheduleChange,
    ) -> Result<ScheduleState>;
    /// Holds, takes over or leaves turns to plan.
    async fn term(&self, inc: Incarnation, node: &NodeName, items: &[TermItem]) -> Result<Terms>;
    /// Asks for the tick of this number, in the caller's turn. Ask for the same number again if the answer was lost.
    async fn tick(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        turn: (ScheduleId, Term),
        number: u64,
    ) -> Result<TickReply>;
    /// A page of a plan's jobs, beginning after `after`.
    async fn planned(
        &self,
        inc: Incarnation,
        plan: &ScheduleName,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<PlannedPage>;
}

/// The streams of nodes and workers.
#[async_trait]
pub trait Events: Send + Sync + 'static {
    /// New start events for this consumer. Waits up to `block`. `None` if the consumer group is gone.
    async fn pool_events(
        &self,
        consumer: &NodeName,
        max: usize,
        block: Duration,
    ) -> Result<Option<Vec<PoolEvent>>>;
    /// Start events that other consumers have kept for `min_idle`. `None` if the consumer group is gone.
    async fn claim_events(
        &self,
        consumer: &NodeName,
        min_idle: Duration,
        max: usize,
    ) -> Result<Option<Vec<PoolEvent>>>;
    /// New entries of a node's streams after its positions. Waits up to `block`.
    async fn node_events(
        &self,
        node: &NodeName,
        cursors: &Cursors,
        max: usize,
        block: Duration,
    ) -> Result<NodeEvents>;
    /// The oldest entry of a worker's stream.
    async fn oldest_worker_event(&self, worker: WorkerId) -> Result<Option<EntryId>>;
    /// The heartbeat counters of the given workers, or of all.
    async fn heartbeats(&self, workers: Option<&[WorkerId]>) -> Result<BTreeMap<WorkerId, u64>>;
    /// Tells nodes about outcomes. This is only a hint.
    async fn tell(&self, outcomes: &[(DispatchId, Outcome)]) -> Result<()>;
    /// Deletes the node's own stream. It is the last step of a leaving node.
    async fn forget_node(&self, node: &NodeName) -> Result<()>;
}

/// The events of the pool, for people: no step relies on them.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Appends an entry, and keeps at most `most` of them, from 1 to [`HISTORY_MAX`](super::HISTORY_MAX). One that is sent
    /// again is there twice: it carries a number.
    async fn note(&self, inc: Incarnation, most: u64, entry: &Bytes) -> Result<()>;
    /// A page of the entries after this one.
    async fn history(&self, after: EntryId, limit: usize) -> Result<HistoryPage>;
    /// Waits up to `block` for an entry after this one. False: there is none, and neither is there without a pool. A wait
    /// that is dropped leaves nothing behind. Waits of one store wait for each other: take one [`apart`](Store::apart).
    async fn await_history(&self, after: EntryId, block: Duration) -> Result<bool>;
}

/// Repair, and the end of a pool.
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// Repairs due jobs, at most `limit`. A kick includes those that wait for a worker, after as many of the waiting jobs as
    /// it says.
    async fn sweep(&self, inc: Incarnation, limit: usize, kick: Option<usize>) -> Result<Swept>;
    /// Inspects a page of the records: about `limit` of them, beginning at `cursor`. Puts each job into the indexes of
    /// its state. Gives an unknown owner a counter, so that it is expired. Compares `held`, at most
    /// [`BATCH_MAX`](super::BATCH_MAX) jobs that workers hold, with the records.
    async fn inspect(
        &self,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected>;
    /// Sets or advances the shutdown flag, and returns it.
    async fn shutdown(
        &self,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>>;
    /// While stopping: deletes jobs that nobody runs. An empty answer says that none is left.
    async fn purge(&self, inc: Incarnation, limit: usize) -> Result<Vec<(DispatchId, Outcome)>>;
    /// The last step of a shutdown: deletes every key, and leaves a tombstone for `tombstone`. Returns the number of
    /// dropped jobs.
    async fn cleanup(&self, inc: Incarnation, tombstone: Duration) -> Result<u64>;
    /// Creates the consumer group again, from the stream's beginning, if it is missing.
    async fn restore_group(&self, inc: Incarnation) -> Result<()>;
    /// Forgets consumers that were idle for this long and hold nothing.
    async fn prune_consumers(&self, inc: Incarnation, idle: Duration) -> Result<()>;
}

/// The atomic steps, the reads and the maps of one pool.
///
/// Steps that dispatch, route, begin, note, release, stop, update, notify, ask, reply, take, unpark or steer take at most
/// [`BATCH_MAX`](super::BATCH_MAX) of them. A call for several workers takes that many in all. A step that expires
/// workers takes at most that many workers. Calls with more are refused with
/// [`Refusal::BadArgument`](super::Refusal::BadArgument).
///
/// # Cancel safety
/// After a dropped step it is not known whether it was executed. The reads change nothing, with two exceptions.
/// [`pool_events`](Events::pool_events) and [`claim_events`](Events::claim_events) may leave their entries with the
/// consumer until they are claimed.
#[async_trait]
pub trait Store:
    Membership
    + Attestation
    + Jobs
    + Ownership
    + Checkpoints
    + Messages
    + Updates
    + Asks
    + Parking
    + Schedules
    + Events
    + History
    + Upkeep
{
    /// The level of the protocol that its steps have.
    fn level(&self) -> u32 {
        level::OWN
    }
    /// The state of the pool, from any server that answers, even one that is not blessed.
    async fn pool_state(&self) -> Result<PoolState>;
    /// The identity of the server that answers.
    async fn server_identity(&self) -> Result<ServerIdentity>;
    /// Refuses a server that is unsuitable for a pool (older than 7.0, eviction), and logs unwise settings.
    async fn server_checks(&self) -> Result<()>;
    /// From now on, steps are sent to the server process `run_id`, and to no other.
    fn bless(&self, run_id: &str);
    /// The server process to which steps are sent. `None` before the first is blessed.
    fn blessed(&self) -> Option<Box<str>>;
    /// The server's clock, ms.
    async fn server_time(&self) -> Result<u64>;
    /// The members, from the replica.
    fn members(&self) -> watch::Receiver<Arc<Members>>;
    /// The stored settings, from the replica.
    fn settings(&self) -> watch::Receiver<Arc<StoredSettings>>;
    /// A hint that the maps have these revisions. A replica with lower ones reads again.
    fn expect(&self, inc: Incarnation, members: Revision, settings: Revision);
    /// Reads the settings again, and the members if `members` is true, even if the replica has their revisions. A
    /// repair by hand changes them without a new revision.
    fn reread(&self, members: bool);
    /// The error that keeps the replica from following the maps, if there is one.
    fn unfollowed(&self) -> Option<StoreError> {
        None
    }
    /// The same store with its own connections, for another runtime. It shares the replicas of this store, which
    /// follows the maps.
    fn apart(&self) -> Arc<dyn Store>;
    /// Ends the store's background work. Nothing of it remains when this returns.
    async fn close(&self);
}
