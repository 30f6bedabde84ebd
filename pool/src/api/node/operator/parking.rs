//! Parked jobs: those that failed too often.

use futures::stream::{self, StreamExt};

use super::Operator;
use crate::api::listing::PAGE;
use crate::api::node::Shard;
use crate::api::node::calls::PATIENCE;
use crate::api::parked::{ParkedJob, Unparked};
use crate::clock;
use crate::core::input::Command;
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::{IdError, JobKey};

/// A call that unparks many jobs ends after this many.
const MOST: usize = 4_096;
/// How many of them are under way at a time: as many as one step takes.
const WINDOW: usize = 128;

impl Operator {
    /// Retries a parked job as if it had never failed, with its payload, its notifications and its dispatch. Its
    /// attempts count from zero. Returns when this is recorded; the job begins as soon as there is a worker. It works
    /// while accepted jobs may still begin during a shutdown, and not later.
    ///
    /// # Errors
    /// There is no such job, it is not parked, it is [paused](Self::pause), or the pool is shutting down: nothing was changed. After 20 s without
    /// an answer the job may be retried or not.
    ///
    /// # Cancel safety
    /// After a dropped call the job may be retried or not.
    pub async fn unpark<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node().await?.of(&key).unpark(key).await
    }

    /// Retries all parked jobs of the pool, like [`unpark`](Self::unpark): use it when the cause of their failures is
    /// mended. Paused jobs stay as they are. A call unparks at most about 4,096 jobs, and says whether there are more.
    ///
    /// # Errors
    /// The pool is shutting down, or the store does not answer in time. Some of the jobs may then be retried.
    ///
    /// # Cancel safety
    /// After a dropped call some of the jobs may be retried.
    pub async fn unpark_all(&self) -> Result<Unparked, Error> {
        self.unpark_where(|_| true).await
    }

    /// Like [`unpark_all`](Self::unpark_all), for the parked jobs for which `which` returns true.
    ///
    /// # Errors
    /// As `unpark_all`.
    ///
    /// # Cancel safety
    /// After a dropped call some of the jobs may be retried.
    pub async fn unpark_where(
        &self,
        mut which: impl FnMut(&ParkedJob) -> bool + Send,
    ) -> Result<Unparked, Error> {
        let node = self.node().await?;
        let (mut unparked, mut cursor) = (Unparked::default(), None);
        loop {
            let page = match node.inspect().parked_page(cursor.take(), PAGE).await {
                Err(Error::StaleCursor) => continue,
                page => page?,
            };
            let keys: Vec<_> = page
                .items
                .into_iter()
                .filter(|job| job.paused.is_none() && which(job))
                .map(|job| job.key)
                .collect();
            let answers = keys.into_iter().map(|key| async move { node.of(&key).unpark(key).await });
            let mut answers = stream::iter(answers).buffer_unordered(WINDOW);
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok(()) => unparked.jobs += 1,
                    // Another call was faster.
                    Err(Error::JobNotFound(_) | Error::NotParked(_) | Error::Paused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            cursor = page.next;
            unparked.more = cursor.is_some();
            if !unparked.more || unparked.jobs >= MOST {
                return Ok(unparked);
            }
        }
    }
}

impl Shard {
    async fn unpark(&self, key: JobKey) -> Result<(), Error> {
        let deadline = clock::now() + PATIENCE;
        let result =
            self.request(PATIENCE, |reply| Command::Unpark { reply, key: key.clone(), deadline }).await;
        if result.is_ok() {
            self.note(News::of_job(EventKind::Asked, key.clone()).saying("unpark"));
        }
        self.named(&key, None, result).await
    }
}
