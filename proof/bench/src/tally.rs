//! The counts of handlers in a worker's process, and their way to its parent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_pool::{Ask, BoxError, Job, JobHandler, Start, StopReason};

use crate::Error;
use crate::clock::now_us;
use crate::worker::Pool;

/// The state that a job leaves in the pool.
static STATE: [u8; 256] = [b'x'; 256];

/// The counts of all handlers of a process.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    started: AtomicU64,
    stopped: AtomicU64,
    notified: AtomicU64,
    last_us: AtomicU64,
    /// Each start and stop, if logging is on.
    log: Option<Mutex<Vec<Event>>>,
    /// The jobs that run, if they are kept.
    jobs: Option<Mutex<Vec<Job>>>,
    saves_at_stop: bool,
}

/// The number of each kind of event.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) started: u64,
    pub(crate) stopped: u64,
    pub(crate) notified: u64,
    /// When an event was last counted.
    pub(crate) last_us: u64,
}

/// A handler was started or stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) key: String,
    /// Whether the handler was started.
    pub(crate) up: bool,
    pub(crate) at_us: u64,
    pub(crate) worker: u64,
}

impl Tally {
    pub(crate) fn new(pool: &Pool) -> Arc<Self> {
        Arc::new(Self {
            log: pool.logs.then(Mutex::default),
            jobs: pool.keeps_jobs.then(Mutex::default),
            saves_at_stop: pool.saves_at_stop,
            ..Self::default()
        })
    }

    /// Each job that runs gives a checkpoint. Returns their number when all are kept.
    pub(crate) async fn checkpoint_all(&self) -> Result<u64, Error> {
        let jobs = self.jobs.as_ref().map(|jobs| jobs.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let savings: Vec<_> = jobs.into_iter().flatten().map(|job| job.checkpoint(&STATE[..])).collect();
        let count = savings.len() as u64;
        for saving in savings {
            saving.await?;
        }
        Ok(count)
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        let (started, stopped, notified) = (read(&self.started), read(&self.stopped), read(&self.notified));
        Counts { started, stopped, notified, last_us: read(&self.last_us) }
    }

    /// The events logged since the last call.
    pub(crate) fn events(&self) -> Vec<Event> {
        let log = self
            .log
            .as_ref()
            .map(|log| std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)));
        log.unwrap_or_default()
    }

    fn moved(&self, job: &Job, up: bool) {
        let at_us = now_us();
        if let Some(log) = &self.log {
            let event = Event { key: job.key().to_string(), up, at_us, worker: job.worker().0 };
            log.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
        self.count(if up { &self.started } else { &self.stopped }, at_us);
    }

    fn count(&self, what: &AtomicU64, at_us: u64) {
        self.last_us.fetch_max(at_us, Ordering::AcqRel);
        what.fetch_add(1, Ordering::AcqRel);
    }
}

/// A handler that only counts.
pub(crate) struct Counter(pub(crate) Arc<Tally>);

impl JobHandler for Counter {
    async fn start(&self, job: Job) -> Start {
        self.0.moved(&job, true);
        if let Some(jobs) = &self.0.jobs {
            jobs.lock().unwrap_or_else(PoisonError::into_inner).push(job);
        }
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        self.0.moved(job, false);
        if self.0.saves_at_stop {
            job.checkpoint(&STATE[..]).await?;
        }
        Ok(())
    }

    async fn ask(&self, _: &Job, ask: Ask) {
        let answer = ask.body().clone();
        ask.answer(answer);
    }

    async fn notify(&self, _: &Job, _: Bytes) -> Result<(), BoxError> {
        self.0.count(&self.0.notified, now_us());
        Ok(())
    }
}
