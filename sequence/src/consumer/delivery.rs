//! A job as its handler gets it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::consumer::shared::Shared;

/// A job with its index. Cheap to clone.
pub struct Delivery<J> {
    index: u64,
    attempt: u32,
    job: Arc<J>,
    shared: Arc<Shared>,
}

impl<J> Clone for Delivery<J> {
    fn clone(&self) -> Self {
        self.with(self.job.clone())
    }
}

impl<J: fmt::Debug> fmt::Debug for Delivery<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Delivery");
        shown.field("index", &self.index).field("attempt", &self.attempt).field("job", &self.job);
        shown.finish_non_exhaustive()
    }
}

impl<J> Delivery<J> {
    pub(crate) fn new(index: u64, attempt: u32, job: Arc<J>, shared: Arc<Shared>) -> Self {
        Self { index, attempt, job, shared }
    }

    /// The same delivery of another form of the job.
    pub(crate) fn with<T>(&self, job: Arc<T>) -> Delivery<T> {
        Delivery { index: self.index, attempt: self.attempt, job, shared: self.shared.clone() }
    }

    /// Where the word that the job is done will come, for a consumer without a handler.
    pub(crate) fn word(&self) -> Option<watch::Receiver<bool>> {
        self.shared.word(self.index)
    }

    /// The job's index.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The number of this attempt since the consumer was started, from 1. Earlier lives may have tried it, too.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The job.
    pub fn job(&self) -> &J {
        &self.job
    }

    /// The job, to keep.
    pub fn shared_job(&self) -> Arc<J> {
        self.job.clone()
    }

    /// The index up to which the progress is stored by now. No owner runs a job up to it any more.
    pub fn stored(&self) -> u64 {
        self.shared.lock().core.stored()
    }

    /// Whether the consumer shuts down.
    pub fn is_cancelled(&self) -> bool {
        self.shared.asked.is_cancelled()
    }

    /// Waits until the consumer shuts down. A handler may end then, with an error if the job is not done. One that goes
    /// on is dropped after the consumer's grace.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn cancelled(&self) {
        self.shared.asked.cancelled().await;
    }
}
