//! A log in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::consumer::delivery::Delivery;
use crate::error::SourceError;
use crate::log::{Appended, Below, LogError};
use crate::source::Source;

/// A log in the memory of this process, for tests, and for pipelines within one process. Clones share it.
#[derive(Debug)]
pub struct MemoryLog<J>(Arc<Shared<J>>);

#[derive(Debug)]
struct Shared<J> {
    kept: Mutex<Kept<J>>,
    head: watch::Sender<u64>,
}

#[derive(Debug)]
struct Kept<J> {
    jobs: VecDeque<J>,
    /// How many jobs were trimmed.
    trimmed: u64,
    /// The indexes that inputs above the floor have appended.
    inputs: BTreeMap<u64, Range<u64>>,
    /// The feeder is done with these for good.
    floor: u64,
}

impl<J> Clone for MemoryLog<J> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<J> Default for MemoryLog<J> {
    fn default() -> Self {
        let kept = Kept { jobs: VecDeque::new(), trimmed: 0, inputs: BTreeMap::new(), floor: 0 };
        Self(Arc::new(Shared { kept: Mutex::new(kept), head: watch::Sender::new(0) }))
    }
}

impl<J> Kept<J> {
    fn head(&self) -> u64 {
        self.trimmed + self.jobs.len() as u64
    }

    fn append(&mut self, jobs: Vec<J>) -> Range<u64> {
        let first = self.head() + 1;
        self.jobs.extend(jobs);
        first..self.head() + 1
    }
}

impl<J> MemoryLog<J> {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends jobs, and returns their indexes.
    pub fn append(&self, jobs: impl IntoIterator<Item = J>) -> Range<u64> {
        // Before the lock: the iterator is the caller's code.
        let jobs: Vec<_> = jobs.into_iter().collect();
        let indexes = self.kept().append(jobs);
        self.tell(indexes.end - 1);
        indexes
    }

    /// Appends the output of a job, once for its index. One consumer at most may feed a log so.
    ///
    /// # Errors
    /// [`LogError::Late`].
    pub fn append_for<I>(
        &self,
        input: &Delivery<I>,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Appended, LogError> {
        let (input, done) = (input.index(), input.stored());
        let jobs: Vec<_> = jobs.into_iter().collect();
        let mut kept = self.kept();
        kept.floor = kept.floor.max(done);
        let floor = kept.floor;
        if input <= floor {
            return Err(LogError::Late { input, floor });
        }
        kept.inputs = kept.inputs.split_off(&(floor + 1));
        if let Some(indexes) = kept.inputs.get(&input).cloned() {
            return Ok(Appended { indexes, repeated: true });
        }
        let indexes = kept.append(jobs);
        kept.inputs.insert(input, indexes.clone());
        drop(kept);
        self.tell(indexes.end - 1);
        Ok(Appended { indexes, repeated: false })
    }

    /// Drops the jobs up to this index. Call it with an index that all consumers of the log have stored.
    pub fn trim(&self, up_to: u64) {
        let mut kept = self.kept();
        let count = up_to.min(kept.head()).saturating_sub(kept.trimmed);
        kept.jobs.drain(..usize::try_from(count).unwrap_or(usize::MAX));
        kept.trimmed += count;
    }

    fn kept(&self) -> MutexGuard<'_, Kept<J>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, head: u64) {
        self.0.head.send_if_modified(|told| {
            let is_higher = head > *told;
            *told = head.max(*told);
            is_higher
        });
    }
}

impl<J: Clone + Send + Sync + 'static> Source for MemoryLog<J> {
    type Job = J;

    async fn at(&self, index: u64) -> Result<Option<J>, SourceError> {
        let kept = self.kept();
        match index.checked_sub(kept.trimmed + 1) {
            None => Err(SourceError::Gone { index, left: Some(kept.trimmed + 1) }),
            Some(at) => Ok(usize::try_from(at).ok().and_then(|at| kept.jobs.get(at).cloned())),
        }
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(self.kept().head())
    }

    async fn read(&self, first: u64, most: usize) -> Result<Vec<J>, SourceError> {
        let kept = self.kept();
        let Some(at) = first.checked_sub(kept.trimmed + 1) else {
            return Err(SourceError::Gone { index: first, left: Some(kept.trimmed + 1) });
        };
        let head = kept.head();
        if first - 1 > head {
            return Err(SourceError::broken(Below { head, read: first - 1 }));
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let end = at.saturating_add(most).min(kept.jobs.len());
        Ok(kept.jobs.range(at..end).cloned().collect())
    }

    async fn changed(&self, above: u64) {
        // The sender lives as long as this log.
        let _ = self.0.head.subscribe().wait_for(|head| *head > above).await;
    }
}
