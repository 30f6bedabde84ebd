//! The consumer: `builder` makes one, [`Consumer`] is its handle. `engine` looks and runs, `scout` looks where nobody runs,
//! `keeper` saves, `life` starts and ends them. All of them share `shared`, whose core decides.

pub(crate) mod builder;
pub(crate) mod delivery;
mod engine;
pub(crate) mod explain;
pub(crate) mod handler;
mod keeper;
mod life;
pub(crate) mod manual;
mod metrics;
pub(crate) mod retry;
mod scout;
mod shared;
pub(crate) mod throttle;

use std::fmt;
use std::sync::Arc;

use self::builder::Builder;
use self::explain::Explanation;
use self::life::Runs;
use self::shared::{Life, Shared};
#[cfg(feature = "pool")]
use crate::error::ProgressError;
use crate::error::{Error, SourceError};
use crate::progress::Progress;
use crate::source::Source;

/// Runs the jobs of a source in order of their indexes, several at once, and never skips one. Cheap to clone.
///
/// Build it with [`Consumer::builder`], and start it once. It ends with [`stop`](Self::stop) or
/// [`shutdown`](Self::shutdown), when a job fails for good, or when its last clone is dropped: then its jobs are dropped,
/// too.
#[derive(Clone)]
pub struct Consumer {
    owner: Arc<Owner>,
}

pub(crate) struct Owner {
    shared: Arc<Shared>,
    engine: Arc<dyn Runs>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.kill();
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("name", &self.owner.shared.settings.name).finish_non_exhaustive()
    }
}

/// How a consumer has ended that was told to end. Both are 0 if it had not started: it has read no progress then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// All jobs up to this index are done, and that is stored.
    pub progress: u64,
    /// How many jobs had begun and were not done: the next start runs them again.
    pub unfinished: usize,
}

impl Consumer {
    /// The settings of a consumer of this source, whose progress is kept here.
    pub fn builder<S: Source, P: Progress>(source: S, progress: P) -> Builder<S, P> {
        Builder::new(source, progress)
    }

    /// Takes the progress over and begins to work behind it. Returns the stored progress, which is the default index where
    /// nothing was stored. Jobs run on the tokio runtime of this call.
    ///
    /// # Errors
    /// [`Error::AlreadyStarted`]: the consumer goes on as it was. [`Error::Ended`]. [`Error::Progress`] and
    /// [`Error::Panicked`]: it has not started, and may be started again.
    ///
    /// # Cancel safety
    /// Dropped before it returns, the consumer has not started. The progress may have been taken over.
    pub async fn start(&self) -> Result<u64, Error> {
        self.owner.engine.clone().start().await
    }

    /// Waits until the consumer has started.
    ///
    /// # Errors
    /// The consumer has ended: its error, or [`Error::Ended`] without one.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn ready(&self) -> Result<(), Error> {
        match self.reached(Life::Ready).await {
            Life::Ended => Err(self.owner.shared.lock().error.clone().unwrap_or(Error::Ended)),
            _ => Ok(()),
        }
    }

    /// Says that the source may have something new. Any number of calls make one look. It returns at once, and has no effect
    /// before the start and after the end. A source that has just failed is left alone for 50 ms.
    pub fn check(&self) {
        self.owner.shared.check();
    }

    /// Begins nothing any more, waits for the jobs that run, however long, and stores what comes of them. A job that
    /// waits for its next attempt is not waited for.
    ///
    /// # Errors
    /// As [`ended`](Self::ended).
    ///
    /// # Cancel safety
    /// The consumer stops all the same.
    pub async fn stop(&self) -> Result<Stopped, Error> {
        self.owner.shared.stop();
        self.ended().await
    }

    /// As [`stop`](Self::stop), but asks the jobs that run to end ([`Delivery::cancelled`](crate::Delivery::cancelled)).
    /// Those that have not ended after the grace are dropped, and are not done.
    ///
    /// # Errors
    /// As [`ended`](Self::ended).
    ///
    /// # Cancel safety
    /// The consumer shuts down all the same.
    pub async fn shutdown(&self) -> Result<Stopped, Error> {
        self.owner.shared.shut_down();
        self.ended().await
    }

    /// Ends at once, because somebody else may run the jobs by now: they are dropped, and nothing is stored any more.
    #[cfg(feature = "pool")]
    pub(crate) async fn lose(&self) -> Result<Stopped, Error> {
        self.owner.shared.fail(Error::Progress(ProgressError::Fenced { by: None }));
        self.ended().await
    }

    /// Ends as if its last handle were dropped: its jobs are dropped. After an end it changes nothing.
    #[cfg(feature = "pool")]
    pub(crate) fn kill(&self) {
        self.owner.shared.kill();
    }

    /// Whether both are handles of the same consumer.
    #[cfg(feature = "pool")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner)
    }

    /// Waits until the consumer has ended, for whatever reason. None of its tasks runs any more then.
    ///
    /// # Errors
    /// It was not told to end: why. Or its last progress could not be stored.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn ended(&self) -> Result<Stopped, Error> {
        self.reached(Life::Ended).await;
        let state = self.owner.shared.lock();
        match &state.error {
            Some(error) => Err(error.clone()),
            None => Ok(Stopped { progress: state.core.progress(), unfinished: state.core.running_count() }),
        }
    }

    /// Waits until there is nothing to do but to run the jobs that run: all checks have been followed, and the progress
    /// is stored. Or until the consumer has ended. For tests, mostly.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn settled(&self) {
        self.owner.shared.until(|state| state.core.is_settled()).await;
    }

    /// All jobs up to this index are done. It may not be stored yet.
    pub fn progress(&self) -> u64 {
        self.owner.shared.lock().core.progress()
    }

    /// The stored progress: a restart begins behind it.
    pub fn stored(&self) -> u64 {
        self.owner.shared.lock().core.stored()
    }

    /// The highest index that has begun.
    pub fn begun(&self) -> u64 {
        self.owner.shared.lock().core.begun()
    }

    /// The number of jobs that run.
    pub fn running(&self) -> usize {
        self.owner.shared.lock().core.running_count()
    }

    /// The highest index of the source.
    ///
    /// # Errors
    /// The source cannot say, or does not within the call deadline.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn head(&self) -> Result<u64, SourceError> {
        self.owner.engine.head().await
    }

    /// Says what the consumer does now, what it waits for, and which job holds it up.
    pub fn explain(&self) -> Explanation {
        Explanation::of(&self.owner.shared)
    }

    async fn reached(&self, wanted: Life) -> Life {
        let mut life = self.owner.shared.life.subscribe();
        // The sender lives as long as this handle.
        life.wait_for(|life| *life >= wanted).await.map_or(Life::Ended, |life| *life)
    }
}
