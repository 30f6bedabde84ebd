//! Progress as the checkpoint of a pool's job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_pool::Job;
use tenure_pool::error::NotSaved;

use crate::error::ProgressError;
use crate::progress::Progress;

/// The bytes of a progress begin with this.
const MARK: &str = "sequence 1 ";

/// Progress that a pool keeps as its job's checkpoint: it goes with the job from owner to owner, and only the owner can
/// save it. It ends with the job. Use [`RedisProgress`](crate::RedisProgress) for a progress that outlives it.
#[derive(Clone, Debug)]
pub struct CheckpointProgress {
    job: Job,
    /// The highest index that was given to the pool.
    given: Arc<AtomicU64>,
}

impl CheckpointProgress {
    /// The job's checkpoint. The job must leave no other one.
    pub fn of(job: &Job) -> Self {
        Self { job: job.clone(), given: Arc::default() }
    }

    /// The progress that the former owner has left.
    fn left(&self) -> Result<Option<u64>, ProgressError> {
        let Some(left) = self.job.checkpointed() else { return Ok(None) };
        let text = std::str::from_utf8(left.bytes()).ok();
        let index = text.and_then(|text| text.strip_prefix(MARK)?.parse().ok());
        index.map(Some).ok_or_else(|| ProgressError::broken("the job's checkpoint is no progress"))
    }
}

impl Progress for CheckpointProgress {
    /// Returns the progress that the former owner has left: a save of this owner is not seen.
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        self.left()
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        match self.left()? {
            Some(index) => {
                self.given.fetch_max(index, Ordering::Relaxed);
                Ok(index)
            }
            None => self.save(default).await.map(|()| default),
        }
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        // The newest checkpoint wins: a lower index must not become it.
        let index = self.given.fetch_max(index, Ordering::Relaxed).max(index);
        self.job.checkpoint(format!("{MARK}{index}")).await.map_err(|error| match error {
            NotSaved::JobGone => ProgressError::Fenced { by: None },
            NotSaved::Refused(_) => ProgressError::unavailable(error),
            _ => ProgressError::broken(error),
        })
    }
}
