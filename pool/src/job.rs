//! A job as its handler sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::id::{DispatchId, JobKey, Token, WorkerId};
use crate::policy::RestartPolicy;
use crate::runtime::guard::LeaseGuard;
use crate::runtime::handover::Handover;
use crate::trace::TraceContext;
use crate::typed::{self, DecodeError, Payload};
use crate::wire::Opened;

/// A job that a worker runs. Cheap to clone.
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
}

struct Shared {
    key: JobKey,
    payload: Opened,
    token: Token,
    id: DispatchId,
    worker: WorkerId,
    attempts: u32,
    created_ms: u64,
    begun_ms: u64,
    lease: LeaseGuard,
    /// The pool's own: fires only when the pool ends the job. Made when somebody first asks, as most jobs held are idle.
    cancel: OnceLock<CancellationToken>,
    hearing: OnceLock<Box<Hearing>>,
}

/// What a handler hears by, if it asks.
struct Hearing {
    cancellation: CancellationToken,
    notes: Handover,
}

/// What a job is made of.
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
}

impl Job {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { key, payload, token, id, worker, attempts, created_ms, begun_ms, lease } = parts;
        let (cancel, hearing) = (OnceLock::new(), OnceLock::new());
        let shared = Shared {
            key,
            payload,
            token,
            id,
            worker,
            attempts,
            created_ms,
            begun_ms,
            lease,
            cancel,
            hearing,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The job's key.
    pub fn key(&self) -> &JobKey {
        &self.shared.key
    }

    /// The payload it was dispatched with.
    pub fn payload(&self) -> &Bytes {
        &self.shared.payload.body
    }

    /// The payload as the value that it was dispatched with, by [`Node::dispatch_as`](crate::Node::dispatch_as) or
    /// [`JobSpec::typed`](crate::JobSpec::typed).
    ///
    /// # Errors
    /// It is of another type, or cannot be read as this one.
    pub fn decode<T: Payload>(&self) -> Result<T, DecodeError> {
        typed::decode(self.payload_type(), self.payload())
    }

    /// The name of the payload's type; `None` for plain bytes.
    pub fn payload_type(&self) -> Option<&str> {
        self.shared.payload.kind.as_deref()
    }

    /// What becomes of the job when it ends or fails by itself.
    pub fn restart_policy(&self) -> RestartPolicy {
        self.shared.payload.policy
    }

    /// The trace that its dispatch belongs to.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.shared.payload.trace.as_deref()
    }

    /// The fencing token of this ownership. Hand it to whatever the job acts on, and let that refuse a token below
    /// the highest it has seen for the key: no pool can keep a paused process from acting late, the resource can.
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

    /// Begins since the job was last healthy, this one included.
    pub fn attempts(&self) -> u32 {
        self.shared.attempts
    }

    /// When the job was accepted, by the store's clock.
    pub fn created_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.shared.created_ms)
    }

    /// When the job was begun under this token, by the store's clock: a stop that was recorded later ends it, and
    /// after one that was recorded earlier nothing begins.
    pub fn begun_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.shared.begun_ms)
    }

    /// Fires when the job is to end: it was stopped, belongs to another worker, or the lease was lost.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.hearing().cancellation
    }

    /// Waits until the job is to end.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// The lease that the job runs under: check it before an outside effect that cannot check the token.
    pub fn lease(&self) -> &LeaseGuard {
        &self.shared.lease
    }

    /// The next notification, for a job that runs as one future ([`run`](crate::run)). Each is handed out once, and
    /// counts as delivered when this has returned it; what the job never takes, the next owner gets.
    ///
    /// # Cancel safety
    /// Yes: a notification is taken only when it is returned.
    pub async fn notified(&self) -> Bytes {
        self.hearing().notes.take().await
    }

    /// What tells it from every other job while it is held.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn hearing(&self) -> &Hearing {
        self.shared.hearing.get_or_init(|| {
            // A handler may cancel its own token: that asks for nothing here.
            let (cancellation, notes) = (self.cancel_token().child_token(), Handover::default());
            Box::new(Hearing { cancellation, notes })
        })
    }

    fn cancel_token(&self) -> &CancellationToken {
        self.shared.cancel.get_or_init(|| self.shared.lease.cancellation())
    }

    /// The pool ends the job: its cancellation fires.
    pub(crate) fn cancel(&self) {
        self.cancel_token().cancel();
    }

    /// Whether the pool ends the job, or all of its worker's.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared
            .cancel
            .get()
            .map_or_else(|| self.shared.lease.is_ending(), CancellationToken::is_cancelled)
    }

    /// Waits until [`is_ending`](Self::is_ending), whatever a handler does with its own cancellation.
    pub(crate) async fn ending(&self) {
        self.cancel_token().cancelled().await;
    }

    /// Hands a notification to [`notified`](Self::notified), and waits until it is taken or the job is at its end.
    pub(crate) async fn hand_over(&self, body: Bytes) {
        let notes = &self.hearing().notes;
        tokio::select! {
            biased;
            () = self.ending() => notes.close(),
            () = notes.give(body) => {}
        }
    }

    /// Whether a notification was handed to [`notified`](Self::notified) and comes to nobody.
    pub(crate) fn has_withdrawn(&self) -> bool {
        self.shared.hearing.get().is_some_and(|hearing| hearing.notes.has_withdrawn())
    }

    /// Until this is dropped somebody may take notifications.
    pub(crate) fn listening(&self) -> Listening {
        Listening(self.clone())
    }
}

/// Withdraws what nobody took when the job's future has ended.
pub(crate) struct Listening(Job);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.hearing().notes.close();
    }
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

    /// There is one for each job that a node holds.
    #[test]
    fn a_job_is_small() {
        assert!(size_of::<Shared>() <= 192, "{}", size_of::<Shared>());
    }
}
