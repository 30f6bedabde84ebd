//! A job as users write it and see it: its payload, its checkpoint, its end.
// `spec` describes a job, `handler` runs it, `plan` makes many, and `Job` is the one that a handler is given, with its
// lease's `guard`.

pub(crate) mod asking;
pub(crate) mod by_type;
pub(crate) mod checkpoint;
pub(crate) mod guard;
pub(crate) mod handler;
pub(crate) mod handover;
#[cfg(feature = "tower")]
pub(crate) mod layers;
mod listening;
pub(crate) mod own;
pub(crate) mod payload;
pub(crate) mod plan;
pub(crate) mod serving;
pub(crate) mod span;
pub(crate) mod spec;
pub(crate) mod typed;
mod updated;
pub(crate) mod verdict;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

pub use self::asking::Answering;
pub use self::by_type::ByType;
pub use self::checkpoint::{Checkpointed, Saving};
#[cfg(feature = "tower")]
pub use self::layers::{StartService, layered};
pub use self::payload::NewPayload;
pub use self::serving::Serving;
pub use self::typed::{DecodeError, Request};
pub use self::verdict::{NotYet, Restart};
pub use crate::model::trace::TraceContext;

use self::asking::{Ask, Asks};
use self::checkpoint::{Savers, Slot};
use self::guard::LeaseGuard;
use self::handover::Handover;
use self::payload::Present;
use self::typed::Payload;
use crate::clock;
use crate::core::time::Time;
use crate::error::BoxError;
use crate::model::id::{DispatchId, JobKey, Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::model::stop::StopReason;
use crate::model::unsaved::NotSaved;
use crate::model::wire::{Opened, ProgressTimeout};
use crate::store::Checkpoint;

/// The highest count of refusals of a notification.
const REFUSALS_MAX: u32 = 65_535;

/// A job that a worker runs. Cheap to clone.
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
}

struct Shared {
    key: JobKey,
    payload: Present,
    /// That of the payload of its start.
    trace: Option<Box<TraceContext>>,
    token: Token,
    id: DispatchId,
    worker: WorkerId,
    attempts: u32,
    /// The last 16 bits of the number of the notification that it is being given. Then 16 bits: how often that was
    /// refused.
    refusals: AtomicU32,
    created_ms: u64,
    begun_ms: u64,
    lease: LeaseGuard,
    /// The pool's own token: it fires only when the pool ends the job. Created on first use, because most held jobs
    /// are idle.
    cancel: OnceLock<CancellationToken>,
    hearing: OnceLock<Box<Hearing>>,
    savers: Arc<Savers>,
    saving: OnceLock<Arc<Slot>>,
    /// The checkpoint that the former owner has left.
    checkpointed: Option<Box<Checkpointed>>,
    /// When it last made progress. 0 for a job without a progress timeout.
    progressed_at: AtomicU64,
}

/// The means by which a handler learns of events, and more that few jobs need. Created on first use.
struct Hearing {
    cancellation: CancellationToken,
    notes: Handover<Bytes>,
    asks: Asks,
    updates: Handover<NewPayload>,
    /// It has waited for another payload.
    takes_updates: AtomicBool,
    /// Until when something may run the job that its handler cannot end. 0: nothing does.
    runs_until: AtomicU64,
}

/// The data of a job.
pub(crate) struct Parts {
    pub(crate) key: JobKey,
    pub(crate) payload: Opened,
    pub(crate) token: Token,
    pub(crate) id: DispatchId,
    pub(crate) worker: WorkerId,
    pub(crate) attempts: u32,
    pub(crate) created_ms: u64,
    pub(crate) begun_ms: u64,
    pub(crate) lease: LeaseGuard,
    pub(crate) savers: Arc<Savers>,
    pub(crate) checkpoint: Option<Box<Checkpoint>>,
}

impl Job {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            key,
            payload,
            token,
            id,
            worker,
            attempts,
            created_ms,
            begun_ms,
            lease,
            savers,
            checkpoint,
        } = parts;
        let checkpointed = checkpoint.map(|kept| Box::new(Checkpointed::new(*kept)));
        let (cancel, hearing) = (OnceLock::new(), OnceLock::new());
        let timeout = payload.progress.map(ProgressTimeout::get);
        let progressed_at = AtomicU64::new(progress_from_now(timeout));
        let (payload, trace) = Present::new(payload);
        let shared = Shared {
            key,
            payload,
            trace,
            token,
            id,
            worker,
            attempts,
            refusals: AtomicU32::new(0),
            created_ms,
            begun_ms,
            lease,
            cancel,
            hearing,
            savers,
            saving: OnceLock::new(),
            checkpointed,
            progressed_at,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The job's key.
    pub fn key(&self) -> &JobKey {
        &self.shared.key
    }

    /// Its payload: that of its dispatch, or the last one that it was given ([`Node::update`](crate::Node::update)) and has
    /// taken. A job takes another one when it starts again, when [`JobHandler::update`](crate::JobHandler::update) has
    /// returned `Ok`, or when [`updated`](Self::updated) returns it. All clones of a job show the same. The bytes are shared, not copied.
    pub fn payload(&self) -> Bytes {
        self.shared.payload.has().body.clone()
    }

    /// The payload as a value, for a job from [`JobSpec::typed`](crate::JobSpec::typed).
    ///
    /// # Errors
    /// The payload is of another type, or cannot be read as this one.
    pub fn decode<T: Payload>(&self) -> Result<T, DecodeError> {
        let (kind, body) = {
            let has = self.shared.payload.has();
            (has.kind.clone(), has.body.clone())
        };
        typed::decode(kind.as_deref(), &body)
    }

    /// The name of the payload's type; `None` for plain bytes.
    pub fn payload_type(&self) -> Option<String> {
        self.shared.payload.has().kind.as_deref().map(str::to_owned)
    }

    /// Whether the job is restarted when its handler ends or fails.
    pub fn restart_policy(&self) -> RestartPolicy {
        self.shared.payload.has().policy
    }

    /// How long it may make no [progress](Self::progress); `None`: for ever.
    pub fn progress_timeout(&self) -> Option<Duration> {
        self.shared.payload.has().progress.map(ProgressTimeout::get)
    }

    /// The job makes progress. A job with a [`progress_timeout`](crate::JobSpec::progress_timeout) must call this more
    /// often than that, from anywhere. For other jobs it has no effect. It costs some nanoseconds.
    pub fn progress(&self) {
        let at = &self.shared.progressed_at;
        if at.load(Ordering::Relaxed) != 0 {
            at.store(clock::now().0.max(1), Ordering::Relaxed);
        }
    }

    /// The trace that came with the payload of its start, if there was one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.shared.trace.as_deref()
    }

    /// The fencing token of this ownership. Pass it to the resource that the job uses, and let the resource refuse a
    /// token below the highest that it has seen for the key. A pool cannot stop a paused process from acting late.
    /// The resource can.
    pub fn token(&self) -> Token {
        self.shared.token
    }

    /// The dispatch that made the job.
    pub fn dispatch_id(&self) -> &DispatchId {
        &self.shared.id
    }

    /// The worker that runs it.
    pub fn worker(&self) -> WorkerId {
        self.shared.worker
    }

    /// The number of begins since the job was last healthy, including this one.
    pub fn attempts(&self) -> u32 {
        self.shared.attempts
    }

    /// How often the handler has refused the notification that it is being given ([`NotYet`]), since the
    /// job was begun here. It counts to 65,535.
    pub fn refusals(&self) -> u32 {
        self.shared.refusals.load(Ordering::Relaxed) & REFUSALS_MAX
    }

    /// When the job was accepted, by the store's clock.
    pub fn created_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.shared.created_ms)
    }

    /// When the job was begun under this token, by the store's clock. A stop that is recorded later ends this run.
    /// After a stop that is recorded earlier, nothing begins.
    pub fn begun_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.shared.begun_ms)
    }

    /// Leaves a small state with the job, at most [`checkpoint_max`](crate::Settings::checkpoint_max) bytes (64 KiB).
    /// The next owner gets it at its start: [`checkpointed`](Self::checkpointed). The newest one counts, and
    /// takes the place of one that is still on its way. Await the result to know that it is kept.
    ///
    /// The pool hands the job on only after the last checkpoint is kept, so call it in `stop` as well. A worker that has
    /// lost its lease keeps nothing. The state goes with the job when the job ends. It is no transaction with the world
    /// outside: an effect may have happened without its checkpoint.
    ///
    /// Save where you would not like to begin again, not where you are: each call costs the pool's server a write. It
    /// counts as [progress](Self::progress).
    ///
    /// # Errors
    /// The result of the returned [`Saving`]: the checkpoint is not kept, or may not be.
    pub fn checkpoint(&self, bytes: impl Into<Bytes>) -> Saving {
        self.progress();
        let Shared { worker, key, token, savers, saving, .. } = &*self.shared;
        let slot = saving.get_or_init(|| Arc::new(Slot::new(*worker, key.clone(), *token)));
        slot.give(savers, bytes.into())
    }

    /// Like [`checkpoint`](Self::checkpoint), for a value. Read it with
    /// [`checkpointed_as`](Self::checkpointed_as).
    ///
    /// # Errors
    /// As there. A value that cannot be encoded is not sent.
    pub fn checkpoint_as<T: Payload>(&self, value: &T) -> Saving {
        match typed::encode(value) {
            Ok(bytes) => self.checkpoint(bytes),
            Err(error) => {
                let why = NotSaved::Encoding(error.to_string());
                self.shared.savers.refuse(&self.shared.key, why)
            }
        }
    }

    /// The state that the job had in the pool when it was begun here. `None` if no owner of it has left one.
    pub fn checkpointed(&self) -> Option<&Checkpointed> {
        self.shared.checkpointed.as_deref()
    }

    /// That state as a value. `None` if no owner of the job has left one.
    ///
    /// # Errors
    /// It cannot be read as this type.
    pub fn checkpointed_as<T: Payload>(&self) -> Result<Option<T>, DecodeError> {
        self.checkpointed().map(Checkpointed::decode).transpose()
    }

    /// Fires when the job must end: it was stopped, it belongs to another worker, or the lease was lost.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.hearing().cancellation
    }

    /// Waits until the job must end.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// Why the job must end: known before its cancellation fires, and the same from then on. `None` while it need not end.
    /// A future that ends as the cancellation fires learns it here. The stop handler, which comes after it, is told the
    /// same, or a graver reason that has come meanwhile.
    pub fn stop_reason(&self) -> Option<StopReason> {
        let of_the_lease = || self.shared.lease.is_ending().then_some(StopReason::LeaseLost);
        self.shared.payload.has().ends.or_else(of_the_lease)
    }

    /// The lease under which the job runs. Check it before an effect on an outside resource that cannot check the
    /// token.
    pub fn lease(&self) -> &LeaseGuard {
        &self.shared.lease
    }

    /// Ends the job by its own word, with this result: for a job that runs without a future
    /// ([`Start::Started`](crate::Start::Started)). The result counts like that of a future, and the restart policy decides.
    ///
    /// Nothing of the job may run any more when this is called: another worker may begin the job at once. The stop handler is
    /// not called, unless the pool has begun to end the job, or does so first. Then the job has a stop handler's call
    /// nevertheless, and a reason.
    ///
    /// The end comes after the start, and after the handler's calls in progress. The first call counts. It has no effect on a
    /// job that runs as a future, or that has ended.
    pub fn end(&self, result: Result<(), BoxError>) {
        self.shared.savers.end(self, result);
    }

    /// The job may still run for this long: a process that its handler cannot end may have it. From the end of the handler on
    /// the node keeps the key back until then, and holds no thread for that. Call it before the handler has ended, or in the
    /// drop of its future. The longest time counts. A call after the job's end does nothing.
    ///
    /// A node keeps a key as long as it lives and has the lease. So the process must know how long that lasts
    /// ([`LeaseGuard::remaining`](crate::LeaseGuard::remaining)), and end by itself.
    ///
    /// A job that is kept back for longer than 5 s after an abort is stuck, like one whose handler does not end. Then its
    /// worker hands its other jobs on and joins anew.
    pub fn may_run_on(&self, time: Duration) {
        self.hearing().runs_until.fetch_max((clock::now() + time).0, Ordering::Relaxed);
    }

    /// How long it may still run. It is told once.
    pub(crate) fn runs_on(&self) -> Duration {
        let until = self.shared.hearing.get().map_or(0, |it| it.runs_until.swap(0, Ordering::Relaxed));
        Time(until).since(clock::now())
    }

    /// The next notification, for a job that runs as one future ([`run`](crate::run)). Each notification is returned
    /// once, and then counts as delivered. The next owner gets those that this job never takes.
    ///
    /// # Cancel safety
    /// Safe to drop: a notification is taken only when it is returned.
    pub async fn notified(&self) -> Bytes {
        self.hearing().notes.take().await
    }

    /// The next ask, for a job that runs as one future ([`run`](crate::run)). A job that does not call this for an ask
    /// leaves its caller without an answer. When the job ends, those that it has not taken are not handled.
    ///
    /// # Cancel safety
    /// Safe to drop: an ask is taken only when it is returned.
    pub async fn asked(&self) -> Ask {
        self.hearing().asks.take().await
    }

    /// Distinguishes this job from all others, while it is held.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// When it last made progress, if it has a progress timeout.
    pub(crate) fn progressed_at(&self) -> Option<Time> {
        let at = self.shared.progressed_at.load(Ordering::Relaxed);
        (at != 0).then_some(Time(at))
    }

    /// It runs with this payload from now on.
    pub(crate) fn takes(&self, new: NewPayload) {
        if new.progress_timeout() != self.progress_timeout() {
            let at = progress_from_now(new.progress_timeout());
            self.shared.progressed_at.store(at, Ordering::Relaxed);
        }
        self.shared.payload.replace(new.into_opened());
    }

    fn hearing(&self) -> &Hearing {
        self.shared.hearing.get_or_init(|| {
            // A handler may cancel its own token. That has no effect here.
            let (cancellation, notes) = (self.cancel_token().child_token(), Handover::default());
            let (updates, takes_updates) = (Handover::default(), AtomicBool::new(false));
            let (asks, runs_until) = (Asks::default(), AtomicU64::new(0));
            Box::new(Hearing { cancellation, notes, asks, updates, takes_updates, runs_until })
        })
    }

    fn cancel_token(&self) -> &CancellationToken {
        self.shared.cancel.get_or_init(|| self.shared.lease.cancellation())
    }

    /// Ends the job for the pool, for this reason: its cancellation fires.
    pub(crate) fn cancel(&self, why: StopReason) {
        self.shared.payload.end(why);
        self.cancel_token().cancel();
    }

    /// Whether the pool is ending this job, or all jobs of its worker.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared
            .cancel
            .get()
            .map_or_else(|| self.shared.lease.is_ending(), CancellationToken::is_cancelled)
    }

    /// Waits until [`is_ending`](Self::is_ending), whatever a handler does with its own token.
    pub(crate) async fn ending(&self) {
        self.cancel_token().cancelled().await;
    }

    /// The handler refuses the notification in hand. Returns how often it has done so.
    pub(crate) fn refuses(&self) -> u32 {
        let refusals = self.refusals();
        if refusals < REFUSALS_MAX {
            self.shared.refusals.fetch_add(1, Ordering::Relaxed);
        }
        (refusals + 1).min(REFUSALS_MAX)
    }

    /// The handler is given the notification of this number.
    pub(crate) fn is_given(&self, number: u64) {
        let note = u32::try_from(number % 65_536).unwrap_or_default();
        if self.shared.refusals.load(Ordering::Relaxed) >> 16 != note {
            self.shared.refusals.store(note << 16, Ordering::Relaxed);
        }
    }

    /// Offers a notification to [`notified`](Self::notified), and waits until it is taken or the job has ended.
    pub(crate) async fn hand_over(&self, body: Bytes) {
        let notes = &self.hearing().notes;
        tokio::select! {
            biased;
            () = self.ending() => notes.close(),
            () = notes.give(body) => {}
        }
    }

    /// Keeps an ask for [`asked`](Self::asked).
    pub(crate) fn give_ask(&self, ask: Ask) {
        self.hearing().asks.give(ask);
    }

    /// Whether a notification was offered to [`notified`](Self::notified) and nobody will take it.
    pub(crate) fn has_withdrawn(&self) -> bool {
        self.shared.hearing.get().is_some_and(|hearing| hearing.notes.has_withdrawn())
    }
}

/// When a job with this progress timeout last made progress, if its time begins now. 0 for a job without one.
fn progress_from_now(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, |_| clock::now().0.max(1))
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { key, token, attempts, worker, .. } = &*self.shared;
        f.debug_struct("Job")
            .field("key", key)
            .field("token", &token.0)
            .field("worker", &worker.0)
            .field("attempts", attempts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node has one of these for each job that it holds.
    #[test]
    fn a_job_is_small() {
        assert!(size_of::<Shared>() <= 240, "{}", size_of::<Shared>());
    }
}
