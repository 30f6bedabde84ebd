//! Listings of a pool's workers, jobs and payloads, read from the store on request.

use bytes::Bytes;
use futures::stream::Stream;

use super::{Node, Shard};
use crate::api::explain::Explanation;
use crate::api::figures::Figures;
use crate::api::listing::{self, Cursor, JobInfo, NodeInfo, PAGE, Page, WorkerInfo};
use crate::api::reader::stream_of;
use crate::api::scheduled::ScheduleInfo;
use crate::api::shard_state::ShardState;
use crate::error::Error;
use crate::model::id::{IdError, JobKey, WorkerId};
use crate::model::ticket::Ticket;
use crate::store::{Refusal, StoreError};

impl Node {
    /// The workers of the pool, as this node knows them, shard by shard: each has an entry in every shard. No round
    /// trip.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.reader.workers()
    }

    /// The nodes that have workers, by name, as this node knows them. No round trip.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        self.reader.nodes()
    }

    /// The state of the pool, shard by shard, from its store. It is read from whichever server answers.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn pool_state(&self) -> Result<Vec<ShardState>, Error> {
        self.reader.pool_state().await
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
        self.reader.jobs().await
    }

    /// A page of the pool's jobs, in no order: about `limit` of them (1 to 4,096). It follows the page that returned
    /// `cursor`. Every job that exists during the whole listing is in some page. It may be in two if the pool changes
    /// meanwhile. Jobs whose records cannot be read are left out.
    ///
    /// A cursor is valid for one server process. After a restart or a fail-over it is refused with
    /// [`Error::StaleCursor`]: begin again. Shards are listed one after the other, and no page has jobs of two shards.
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
    /// The store does not answer, the cursor names a shard that does not exist, or it is of a former server process.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<JobInfo>, Error> {
        self.reader.jobs_page(cursor, limit).await
    }

    /// The pool's jobs as a stream, in the order of [`jobs_page`](Self::jobs_page), with one page in memory at a
    /// time. It ends after the first error, and can be dropped at any time.
    pub fn job_stream(&self) -> impl Stream<Item = Result<JobInfo, Error>> + Send + Unpin + use<> {
        let reader = self.reader.clone();
        stream_of(move |at| {
            let reader = reader.clone();
            async move { reader.jobs_page(at, PAGE).await }
        })
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
        self.reader.jobs_of(worker, after, limit).await
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
        self.reader.job(key).await
    }

    /// Where a key's job is, and why: its owner and its place, what it waits for and until when, its last error. One read
    /// at one moment, for operators; the members and the settings are those that this node knows.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// // acme: running on worker 41 (node feeds-7, http://10.0.0.7:8080) under token 8812, for 3 h 12 min, attempt 1
    /// //   the ring gives this key to that worker
    /// //   accepted 3 h 12 min ago from node api-2
    /// println!("{}", node.explain("acme").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The key is not valid, the pool was shut down, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn explain<K>(&self, key: K) -> Result<Explanation, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.reader.explain(key, None).await.map_err(closed)
    }

    /// Like [`explain`](Self::explain), for the key of a dispatch. If the key has no job, the verdict says whether the
    /// dispatch has ended, and with what outcome, as long as the pool remembers it. If the job is of another dispatch,
    /// [`Explanation::named`] says what is known of this one.
    ///
    /// # Errors
    /// As `explain`.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn explain_dispatch(&self, ticket: &Ticket) -> Result<Explanation, Error> {
        self.reader.explain(ticket.key.clone(), Some(&ticket.id)).await.map_err(closed)
    }

    /// How many jobs the pool has, and where: for a dashboard or an autoscaler. A read of the counts for each shard costs
    /// Redis about 3 µs a worker and at most 1 ms more. Two others have the leases, and what the nodes say: some 100 bytes
    /// a worker. Where that cannot be read, no capacity is known. The pool itself never asks.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let figures = node.figures().await?;
    /// let per_worker = 500;
    /// println!("{} workers are wanted", figures.jobs.div_ceil(per_worker));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The pool was shut down, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn figures(&self) -> Result<Figures, Error> {
        self.reader.figures().await.map_err(closed)
    }

    /// All schedules and tickers of the pool, whichever nodes take part in them: shard by shard, and there by kind and
    /// name. Entries that cannot be read are left out. Redis reads all of them at once.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// for schedule in node.schedules().await? {
    ///     let late = schedule.next.elapsed().unwrap_or_default();
    ///     println!("{}: {} ticks, held by {:?}, late by {late:?}", schedule.name, schedule.ticks, schedule.holder);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        self.reader.schedules().await
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
        self.reader.payload(&key).await
    }
}

/// A pool that was shut down is named as such.
fn closed(error: Error) -> Error {
    match error {
        Error::Store(StoreError::Refused(Refusal::Closed)) => Error::PoolClosed,
        error => error,
    }
}

impl Shard {
    pub(crate) async fn jobs_of(
        &self,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        listing::jobs_of(&self.shared.store.0, worker, after, limit).await
    }
}
