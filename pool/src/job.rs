//! A job as its handler sees it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::id::{DispatchId, JobKey, Token, WorkerId};
use crate::runtime::lease::LeaseGuard;

/// A job that a worker runs. Cheap to clone.
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
}

struct Shared {
    key: JobKey,
    payload: Bytes,
    token: Token,
    id: DispatchId,
    worker: WorkerId,
    attempts: u32,
    created_ms: u64,
    cancellation: CancellationToken,
    lease: LeaseGuard,
    notes: Mutex<VecDeque<Bytes>>,
    noted: Notify,
}

/// What a job is made of.
pub(crate) struct Parts {
    pub(crate) key: JobKey,
    pub(crate) payload: Bytes,
    pub(crate) token: Token,
    pub(crate) id: DispatchId,
    pub(crate) worker: WorkerId,
    pub(crate) attempts: u32,
    pub(crate) created_ms: u64,
    pub(crate) cancellation: CancellationToken,
    pub(crate) lease: LeaseGuard,
}

impl Job {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { key, payload, token, id, worker, attempts, created_ms, cancellation, lease } = parts;
        let (notes, noted) = (Mutex::default(), Notify::new());
        let shared = Shared {
            key,
            payload,
            token,
            id,
            worker,
            attempts,
            created_ms,
            cancellation,
            lease,
            notes,
            noted,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The job's key.
    pub fn key(&self) -> &JobKey {
        &self.shared.key
    }

    /// The payload it was dispatched with.
    pub fn payload(&self) -> &Bytes {
        &self.shared.payload
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

    /// Fires when the job is to end: it was stopped, belongs to another worker, or the lease was lost.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.shared.cancellation
    }

    /// Waits until the job is to end.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn cancelled(&self) {
        self.shared.cancellation.cancelled().await;
    }

    /// The lease that the job runs under: check it before an outside effect that cannot check the token.
    pub fn lease(&self) -> &LeaseGuard {
        &self.shared.lease
    }

    /// The next notification, for a job that runs as one future ([`run`](crate::run)). Each is handed out once.
    ///
    /// # Cancel safety
    /// Yes: a notification is taken only when it is returned.
    pub async fn notified(&self) -> Bytes {
        loop {
            let noted = self.shared.noted.notified();
            if let Some(body) = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
                return body;
            }
            noted.await;
        }
    }

    pub(crate) fn note(&self, body: Bytes) {
        self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).push_back(body);
        self.shared.noted.notify_one();
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
