//! Where jobs come from: an index leads to a job.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::SourceError;

/// How long a sealed source waits for the answer whether a job is there. Then a look finds out.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Jobs by their index, 1, 2, 3 and so on. A job of an index never changes, and jobs appear in order.
///
/// A source need not tell of new jobs: whoever adds some calls [`Consumer::check`](crate::Consumer::check). One that can
/// tell implements [`changed`](Source::changed).
///
/// ```
/// use tenure_sequence::{Source, SourceError};
///
/// /// The squares of the first hundred numbers.
/// struct Squares;
///
/// impl Source for Squares {
///     type Job = u64;
///     async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
///         Ok((index <= 100).then(|| index * index))
///     }
///     async fn head(&self) -> Result<u64, SourceError> {
///         Ok(100)
///     }
/// }
/// ```
pub trait Source: Send + Sync + 'static {
    /// A job.
    type Job: Send + Sync + 'static;

    /// The job at this index. `None`: it is not there yet, which ends a look quietly.
    ///
    /// # Errors
    /// The whole look is given up, and nothing of it begins.
    ///
    /// # Cancel safety
    /// The consumer drops a call that takes too long.
    fn at(&self, index: u64) -> impl Future<Output = Result<Option<Self::Job>, SourceError>> + Send;

    /// The highest index that has a job; 0 without any.
    ///
    /// # Errors
    /// It cannot be read.
    ///
    /// # Cancel safety
    /// As [`at`](Self::at).
    fn head(&self) -> impl Future<Output = Result<u64, SourceError>> + Send;

    /// The jobs from `first` on, at most `most`, up to the first index that is not there. One call per job unless it is
    /// overridden: override it where a batch is cheaper.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    ///
    /// # Cancel safety
    /// As [`at`](Self::at).
    fn read(
        &self,
        first: u64,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Self::Job>, SourceError>> + Send {
        async move {
            let mut jobs = Vec::with_capacity(most.min(64));
            for index in (first..=u64::MAX).take(most) {
                match self.at(index).await? {
                    Some(job) => jobs.push(job),
                    None => break,
                }
            }
            Ok(jobs)
        }
    }

    /// Returns when there may be a job above this index, at once if there is one. Never, unless it is overridden.
    ///
    /// # Cancel safety
    /// The consumer drops it and calls it again at any time.
    fn changed(&self, above: u64) -> impl Future<Output = ()> + Send {
        let _ = above;
        std::future::pending()
    }
}

impl<S: Source> Source for Arc<S> {
    type Job = S::Job;

    fn at(&self, index: u64) -> impl Future<Output = Result<Option<S::Job>, SourceError>> + Send {
        S::at(self, index)
    }

    fn head(&self) -> impl Future<Output = Result<u64, SourceError>> + Send {
        S::head(self)
    }

    fn read(&self, first: u64, most: usize) -> impl Future<Output = Result<Vec<S::Job>, SourceError>> + Send {
        S::read(self, first, most)
    }

    fn changed(&self, above: u64) -> impl Future<Output = ()> + Send {
        S::changed(self, above)
    }
}

/// A source of which only the jobs up to a seal are there yet: what is above it is "not found". The seal moves up as
/// something else confirms jobs, such as another consumer's progress. A seal that moves wakes the consumer, whether or not
/// the source can tell of new jobs.
#[derive(Debug)]
pub struct Sealed<S> {
    source: S,
    seal: watch::Receiver<u64>,
}

/// Moves the seal of a [`Sealed`] source. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Seal(Arc<watch::Sender<u64>>);

impl Seal {
    /// All jobs up to this index may be consumed. A lower index than before changes nothing.
    pub fn up_to(&self, index: u64) {
        self.0.send_if_modified(|seal| {
            let is_higher = index > *seal;
            *seal = index.max(*seal);
            is_higher
        });
    }

    /// The seal.
    pub fn index(&self) -> u64 {
        *self.0.borrow()
    }
}

impl<S: Source> Sealed<S> {
    /// The source with its seal at this index.
    pub fn new(source: S, index: u64) -> (Self, Seal) {
        let (seal, receiver) = watch::channel(index);
        (Self { source, seal: receiver }, Seal(Arc::new(seal)))
    }

    fn seal(&self) -> u64 {
        *self.seal.borrow()
    }
}

impl<S: Source> Source for Sealed<S> {
    type Job = S::Job;

    async fn at(&self, index: u64) -> Result<Option<S::Job>, SourceError> {
        if index > self.seal() { Ok(None) } else { self.source.at(index).await }
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(self.source.head().await?.min(self.seal()))
    }

    async fn read(&self, first: u64, most: usize) -> Result<Vec<S::Job>, SourceError> {
        match self.seal().checked_sub(first) {
            None => Ok(Vec::new()),
            Some(above) => {
                let below = usize::try_from(above).unwrap_or(usize::MAX).saturating_add(1);
                self.source.read(first, most.min(below)).await
            }
        }
    }

    async fn changed(&self, above: u64) {
        // An error says that nobody can move the seal any more.
        let mut seal = self.seal.clone();
        if seal.wait_for(|seal| *seal > above).await.is_err() && self.seal() <= above {
            std::future::pending::<()>().await;
        }
        // A job that was there before the seal moved is news, and the source does not tell of it again.
        let next = timeout(ANSWER_MAX, self.source.at(above.saturating_add(1))).await;
        if matches!(next, Ok(Ok(None))) {
            self.source.changed(above).await;
        }
    }
}
