//! A source whose jobs appear, and fail, as a test says. It tells of nothing by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tenure_sequence::{Source, SourceError};

/// Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Shelf(Arc<Shared>);

#[derive(Default)]
struct Shared {
    there: Mutex<BTreeSet<u64>>,
    failing: Mutex<BTreeSet<u64>>,
    reads: AtomicUsize,
    /// Holds reads back while it is taken.
    gate: tokio::sync::Mutex<()>,
}

impl Shelf {
    pub(crate) fn with(indexes: impl IntoIterator<Item = u64>) -> Self {
        let shelf = Self::default();
        indexes.into_iter().for_each(|index| shelf.add(index));
        shelf
    }

    pub(crate) fn add(&self, index: u64) {
        self.0.there.lock().unwrap().insert(index);
    }

    /// This index cannot be read, or can again.
    pub(crate) fn fail(&self, index: u64, fails: bool) {
        let mut failing = self.0.failing.lock().unwrap();
        if fails {
            failing.insert(index)
        } else {
            failing.remove(&index)
        };
    }

    /// How often it was read.
    pub(crate) fn reads(&self) -> usize {
        self.0.reads.load(Ordering::SeqCst)
    }

    /// No read ends while this is kept.
    pub(crate) async fn hold(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.gate.lock().await
    }
}

impl Source for Shelf {
    type Job = u64;

    async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
        if self.0.failing.lock().unwrap().contains(&index) {
            return Err(SourceError::unavailable(format!("{index} cannot be read")));
        }
        Ok(self.0.there.lock().unwrap().contains(&index).then_some(index))
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(self.0.there.lock().unwrap().last().copied().unwrap_or(0))
    }

    async fn read(&self, first: u64, most: usize) -> Result<Vec<u64>, SourceError> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        let _open = self.0.gate.lock().await;
        let mut jobs = Vec::new();
        for index in (first..=u64::MAX).take(most) {
            match self.at(index).await? {
                Some(job) => jobs.push(job),
                None => break,
            }
        }
        Ok(jobs)
    }
}
