//! What a node can do about jobs that failed too often.

use futures::future::try_join_all;
use futures::stream::{self, StreamExt};

use super::calls::PATIENCE;
use super::{Node, Shard};
use crate::core::input::Command;
use crate::error::Error;
use crate::id::{IdError, JobKey};
use crate::listing::{Cursor, PAGE, Page};
use crate::parked::{self, ParkedJob, Unparked};
use crate::runtime::clock;

/// After how many jobs a call that un-parks many ends.
const MOST: usize = 4_096;
/// How many of them are under way at a time: what one step takes.
const WINDOW: usize = 128;

impl Node {
    /// All jobs of the pool that failed too often and are parked, with their last error; the longest parked first, as far as
    /// the shards' clocks agree. It is
    /// read in pages, but returned whole: see [`parked_page`](Self::parked_page). Jobs whose record cannot be read are
    /// left out.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        let listing = self.shards.iter().map(|shard| parked::all(&*shard.shared.store.0));
        let mut jobs = try_join_all(listing).await?.concat();
        jobs.sort_by_key(|job| job.since);
        Ok(jobs)
    }

    /// A page of the pool's parked jobs, in no order: about `limit` of them (1 to 4,096), after the page that named
    /// `cursor`. Every job that is parked all the while is in some page; one may be in two of them when the pool changes. Shards are
    /// listed one after the other, and no page has jobs of two.
    ///
    /// # Errors
    /// The store does not answer; the cursor names a shard that is none.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn parked_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<ParkedJob>, Error> {
        let (shard, cursor) = self.at(cursor)?;
        let (items, next) = parked::page(&*shard.shared.store.0, cursor.at, limit).await?;
        Ok(Page { items, next: self.after(cursor, next) })
    }

    /// Has a parked job tried again, with its payload, its notifications and its dispatch, as if it had never failed:
    /// its attempts start anew. Returns when that is recorded; a worker begins it as soon as there is one. Also while
    /// the pool closes, but not when it is past that.
    ///
    /// # Errors
    /// No such job; it is not parked; the pool is shutting down; no answer within 20 s. Nothing was changed then, but
    /// for the last, which leaves open whether the job is tried again.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job is tried again.
    pub async fn unpark<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.of(&key).unpark(key).await
    }

    /// Has all parked jobs of the pool tried again, as [`unpark`](Self::unpark) does with one: as after the repair of
    /// what made them fail. A call un-parks about 4,096 jobs at most, and says whether there are more.
    ///
    /// # Errors
    /// The pool is shutting down; the store does not answer, or not in time. Some of the jobs may be tried again then.
    ///
    /// # Cancel safety
    /// A dropped call leaves open which jobs are tried again.
    pub async fn unpark_all(&self) -> Result<Unparked, Error> {
        self.unpark_where(|_| true).await
    }

    /// As [`unpark_all`](Self::unpark_all), of those parked jobs for which `which` says so.
    ///
    /// # Errors
    /// As of `unpark_all`.
    ///
    /// # Cancel safety
    /// A dropped call leaves open which jobs are tried again.
    pub async fn unpark_where(
        &self,
        mut which: impl FnMut(&ParkedJob) -> bool + Send,
    ) -> Result<Unparked, Error> {
        let (mut unparked, mut cursor) = (Unparked::default(), None);
        loop {
            let page = self.parked_page(cursor, PAGE).await?;
            let keys: Vec<_> = page.items.into_iter().filter(&mut which).map(|job| job.key).collect();
            let answers = keys.into_iter().map(|key| async move { self.unpark(key).await });
            let mut answers = stream::iter(answers).buffer_unordered(WINDOW);
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok(()) => unparked.jobs += 1,
                    // Somebody else was faster.
                    Err(Error::JobNotFound(_) | Error::NotParked(_)) => {}
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
        self.named(&key, None, result).await
    }
}
