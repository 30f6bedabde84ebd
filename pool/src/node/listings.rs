//! What a node can say about its pool: workers, jobs and payloads, read from the store when asked.

use bytes::Bytes;
use futures::stream::{self, Stream, TryStreamExt};

use super::Node;
use crate::error::Error;
use crate::id::{IdError, JobKey, WorkerId};
use crate::listing::{self, Cursor, JobInfo, PAGE, Page, WorkerInfo};

impl Node {
    /// The workers of the pool, as this node knows them. No round trip.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        listing::workers(&self.shared.store.0.members().borrow())
    }

    /// All jobs of the pool, ordered by key, without their payloads; each once, also when it moves meanwhile. It is
    /// read in pages, but returned whole: see [`jobs_page`](Self::jobs_page) and [`job_stream`](Self::job_stream).
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        listing::jobs(&*self.shared.store.0).await
    }

    /// A page of the pool's jobs, in no order: about `limit` of them (1 to 4,096), after the page that named `cursor`.
    /// Every job that lives all the while is in some page; one may be in two of them when the pool changes. Jobs
    /// whose record cannot be read are left out. A cursor holds for one server process: after a restart or a fail-over
    /// begin anew, or jobs may be passed over or listed twice.
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
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<JobInfo>, Error> {
        listing::jobs_page(&*self.shared.store.0, cursor, limit).await
    }

    /// The pool's jobs as a stream, one page in memory at a time; as [`jobs_page`](Self::jobs_page) lists them. It
    /// ends after the first error, and can be dropped at any time.
    pub fn job_stream(&self) -> impl Stream<Item = Result<JobInfo, Error>> + Send + Unpin + use<> {
        let pages = stream::try_unfold((self.clone(), Some(None)), |(node, at)| async move {
            let Some(cursor) = at else { return Ok(None) };
            let page = node.jobs_page(cursor, PAGE).await?;
            let items = stream::iter(page.items.into_iter().map(Ok));
            Ok::<_, Error>(Some((items, (node, page.next.map(Some)))))
        });
        Box::pin(pages.try_flatten())
    }

    /// The jobs that a worker owns, also those that it has not begun: at least `limit` of them if there are so many,
    /// ordered by key, beginning after `after`.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs_of(
        &self,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        listing::jobs_of(&*self.shared.store.0, worker, after, limit).await
    }

    /// One job.
    ///
    /// # Errors
    /// The key is not valid; its record cannot be read; the store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn job<K>(&self, key: K) -> Result<Option<JobInfo>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        listing::job(&*self.shared.store.0, key.try_into().map_err(Into::into)?).await
    }

    /// The payload that a job was dispatched with.
    ///
    /// # Errors
    /// The key is not valid; the payload cannot be read; the store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn payload<K>(&self, key: K) -> Result<Option<Bytes>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        listing::payload(&*self.shared.store.0, &key.try_into().map_err(Into::into)?).await
    }
}
