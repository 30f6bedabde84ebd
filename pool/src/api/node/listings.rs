//! Listings of a pool's workers, jobs and payloads, read from the store on request.

use bytes::Bytes;
use futures::future::try_join_all;
use futures::stream::{self, Stream, TryStreamExt};

use super::{Node, Shard};
use crate::api::listing::{self, Cursor, JobInfo, PAGE, Page, WorkerInfo};
use crate::error::Error;
use crate::model::id::{IdError, JobKey, WorkerId};

impl Node {
    /// The workers of the pool, as this node knows them, shard by shard: each has an entry in every shard. No round
    /// trip.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        let shards = self.shards.iter().enumerate();
        shards
            .flat_map(|(at, shard)| listing::workers(at, &shard.shared.store.0.members().borrow()))
            .collect()
    }

    /// All jobs of the pool, ordered by key, without their payloads. A job that moves meanwhile is listed once, too.
    /// The listing is read in pages and returned whole: see [`jobs_page`](Self::jobs_page) and
    /// [`job_stream`](Self::job_stream).
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        let listing = self.shards.iter().map(|shard| listing::jobs(&*shard.shared.store.0));
        let mut jobs = listing::one_after_another(try_join_all(listing).await?);
        if self.shards.len() > 1 {
            jobs.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(jobs)
    }

    /// A page of the pool's jobs, in no order: about `limit` of them (1 to 4,096). It follows the page that returned
    /// `cursor`. Every job that exists during the whole listing is in some page. It may be in two if the pool changes
    /// meanwhile. Jobs whose records cannot be read are left out.
    ///
    /// A cursor is valid for one server process. After a restart or a fail-over begin again, or jobs may be missed or
    /// listed twice. Shards are listed one after the other, and no page has jobs of two shards.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let mut cursor = None;
    /// loop {
    ///     let page = node.jobs_page(cursor, 500).await?;
    ///     for job in page.items {
    ///         println!("{} {:?} {:?}", job.key, job.state, job.owner);
    ///     }
    ///     cursor = page.next;
    ///     if cursor.is_none() {
    ///         return Ok(());
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store does not answer, or the cursor names a shard that does not exist.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<JobInfo>, Error> {
        let (shard, cursor) = self.at(cursor)?;
        let (items, next) = listing::jobs_page(&*shard.shared.store.0, cursor.at, limit).await?;
        Ok(Page { items, next: self.after(cursor, next) })
    }

    /// The pool's jobs as a stream, in the order of [`jobs_page`](Self::jobs_page), with one page in memory at a
    /// time. It ends after the first error, and can be dropped at any time.
    pub fn job_stream(&self) -> impl Stream<Item = Result<JobInfo, Error>> + Send + Unpin + use<> {
        let pages = stream::try_unfold((self.clone(), Some(None)), |(node, at)| async move {
            let Some(cursor) = at else { return Ok(None) };
            let page = node.jobs_page(cursor, PAGE).await?;
            let items = stream::iter(page.items.into_iter().map(Ok));
            Ok::<_, Error>(Some((items, (node, page.next.map(Some)))))
        });
        Box::pin(pages.try_flatten())
    }

    /// The jobs that a [worker](Self::workers) owns in its shard, including those that it has not begun. Returns at
    /// least `limit` of them, if there are that many, ordered by key, beginning after `after`.
    ///
    /// # Errors
    /// The store does not answer, or the pool has no such shard.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs_of(
        &self,
        worker: &WorkerInfo,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        self.shards.get(worker.shard).ok_or(NO_SHARD)?.jobs_of(worker.id, after, limit).await
    }

    /// One job.
    ///
    /// # Errors
    /// The key is not valid, the job's record cannot be read, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn job<K>(&self, key: K) -> Result<Option<JobInfo>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        listing::job(&*self.of(&key).shared.store.0, key).await
    }

    /// The payload of a job.
    ///
    /// # Errors
    /// The key is not valid, the payload cannot be read, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn payload<K>(&self, key: K) -> Result<Option<Bytes>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        listing::payload(&*self.of(&key).shared.store.0, &key).await
    }
    /// The shard whose listing goes on, and its place there.
    pub(super) fn at(&self, cursor: Option<Cursor>) -> Result<(&Shard, Cursor), Error> {
        let cursor = cursor.unwrap_or_default();
        Ok((self.shards.get(cursor.shard).ok_or(NO_SHARD)?, cursor))
    }

    /// Where the listing goes on after a page of this shard. `next` is a place in this shard's own listing.
    pub(super) fn after(&self, cursor: Cursor, next: Option<u64>) -> Option<Cursor> {
        let of_next =
            || Some(Cursor { shard: cursor.shard + 1, at: 0 }).filter(|at| at.shard < self.shards.len());
        next.map(|at| Cursor { at, ..cursor }).or_else(of_next)
    }
}

impl Shard {
    pub(crate) async fn jobs_of(
        &self,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        listing::jobs_of(&*self.shared.store.0, worker, after, limit).await
    }
}

/// A call named a shard that does not exist.
pub(super) const NO_SHARD: Error = Error::Name(IdError::Number { what: "shard" });
