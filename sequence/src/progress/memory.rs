//! Progress in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ProgressError;
use crate::progress::Progress;

/// Progress in the memory of this process, for tests and for sources that begin anew with it. Clones share it, and so it
/// outlives a consumer.
#[derive(Clone, Debug, Default)]
pub struct MemoryProgress(Arc<Mutex<Option<u64>>>);

impl MemoryProgress {
    /// Nothing is stored yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The stored progress.
    pub fn get(&self) -> Option<u64> {
        *self.stored()
    }

    fn stored(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for MemoryProgress {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        Ok(self.get())
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        Ok(*self.stored().get_or_insert(default))
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        let mut stored = self.stored();
        *stored = (*stored).max(Some(index));
        Ok(())
    }
}
