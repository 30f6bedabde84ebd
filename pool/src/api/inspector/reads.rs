//! All that an inspector reads.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::{FutureExt, try_join_all};
use futures::stream::Stream;
use tokio::time::Instant;

use super::{Inspector, see};
use crate::api::events::{EventCursor, EventPage};
use crate::api::explain::Explanation;
use crate::api::figures::Figures;
use crate::api::listing::{
    Cursor, JobInfo, NodeInfo, Owner, PAGE, Page, WaitingNotification, WorkerInfo, infos, one_after_another,
};
use crate::api::overview::Overview;
use crate::api::parked::ParkedJob;
use crate::api::reader::{NO_SHARD, stream_of};
use crate::api::ring_view::RingView;
use crate::api::scheduled::ScheduleInfo;
use crate::api::shard_state::ShardState;
use crate::error::Error;
use crate::job::checkpoint::Checkpointed;
use crate::model::id::{IdError, JobKey};
use crate::model::settings::Settings;
use crate::model::status::NodeStatus;
use crate::model::ticket::Ticket;
use crate::store::{LOOK_MAX, ReadDue, Store};

/// The reads. All of them may be dropped at any time. A read of an inspector that was opened by itself tries for up to 20 s.
/// Each read fails with
///
/// - [`Error::NoPool`] or [`Error::PoolClosed`] if the pool has ended meanwhile,
/// - [`Error::OtherShards`] if a pool with another number of shards has taken its place,
/// - the store's error if the store does not answer, or cannot be used.
impl Inspector {
    /// The state of the pool, shard by shard, from whichever server answers. A shard that does not exist, or was shut down,
    /// is no error here.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn pool_state(&self) -> Result<Vec<ShardState>, Error> {
        if let Some(patience) = self.reader.patience() {
            let deadline = Instant::now() + patience;
            try_join_all(self.reader.stores().iter().map(|store| see(store, deadline))).await?;
        }
        self.reader.pool_state().await
    }

    /// The pool-wide settings, of the first shard. A value that this version cannot read has its default.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn settings(&self) -> Result<Settings, Error> {
        let first = &self.reader.stores()[..1];
        self.read(first, |reader| async move { Ok(reader.settings()) }.boxed()).await
    }

    /// The workers of the pool, shard by shard: each has an entry in every shard.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { Ok(reader.workers()) }.boxed()).await
    }

    /// The names of the cordoned nodes.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn cordoned(&self) -> Result<BTreeSet<String>, Error> {
        self.read(self.reader.stores(), |reader| async move { Ok(reader.cordoned()) }.boxed()).await
    }

    /// The ring of each shard.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn rings(&self) -> Result<Vec<RingView>, Error> {
        let rings = self.read(self.reader.stores(), |reader| {
            async move {
                let shards = reader.stores().iter().enumerate();
                Ok(shards.map(|(shard, store)| RingView::of(shard, store)).collect())
            }
            .boxed()
        });
        rings.await
    }

    /// The nodes that have workers, by name. Other nodes leave no trace in the store.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { Ok(reader.nodes()) }.boxed()).await
    }

    /// The words of the nodes with workers about themselves, shard by shard: machines, processes, versions, and the jobs in
    /// their workers' hands. They are as old as the last renewals, a fifth of the worker TTL. A node of a later version may
    /// be left out.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn statuses(&self) -> Result<Vec<NodeStatus>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.statuses().await }.boxed()).await
    }

    /// A pool at a glance, for half the commands of its parts: [`pool_state`](Self::pool_state),
    /// [`settings`](Self::settings), [`workers`](Self::workers), [`figures`](Self::figures) and
    /// [`statuses`](Self::statuses). It suits one who looks again and again.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn overview(&self) -> Result<Overview, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.overview().await }.boxed()).await
    }

    /// All jobs of the pool, ordered by key, without their payloads. A job that moves meanwhile is listed once, too. The
    /// listing is read in pages and returned whole: see [`jobs_page`](Self::jobs_page) and
    /// [`job_stream`](Self::job_stream).
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.jobs().await }.boxed()).await
    }

    /// A page of the pool's jobs, in no order: about `limit` of them (1 to 4,096). The page follows the page that returned
    /// `cursor`. Every job that exists during the whole listing is in some page. A job may be in two pages if the pool
    /// changes meanwhile. Jobs whose records cannot be read are left out.
    ///
    /// A cursor is valid for one server process. After a restart or a fail-over the cursor is refused with
    /// [`Error::StaleCursor`]: begin again. Shards are listed one after the other, and no page has jobs of two shards.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// let mut cursor = None;
    /// loop {
    ///     let page = pool.jobs_page(cursor, 500).await?;
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
    /// As every read; or the cursor names a shard that does not exist, or is of a former server process.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<JobInfo>, Error> {
        let shard = self.at(cursor.unwrap_or_default().shard)?;
        self.read(shard, |reader| async move { reader.jobs_page(cursor, limit).await }.boxed()).await
    }

    /// The pool's jobs as a stream, in the order of [`jobs_page`](Self::jobs_page), with one page in memory at a time. The
    /// stream ends after the first error, and can be dropped at any time.
    pub fn job_stream(&self) -> impl Stream<Item = Result<JobInfo, Error>> + Send + Unpin + use<> {
        let inspector = self.clone();
        stream_of(move |at| {
            let inspector = inspector.clone();
            async move { inspector.jobs_page(at, PAGE).await }
        })
    }

    /// The queued jobs that are tried next, the soonest first: [`next_try`](JobInfo::next_try) says when. At most `limit`
    /// jobs, and at most the next 1,024 of each shard.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn next_tries(&self, limit: usize) -> Result<Vec<JobInfo>, Error> {
        let read = self.read(self.reader.stores(), |reader| {
            async move {
                let shards = reader.stores().iter().map(|store| async move {
                    infos(store, store.read(&ReadDue { limit: LOOK_MAX }).await?).await
                });
                Ok(one_after_another(try_join_all(shards).await?))
            }
            .boxed()
        });
        let mut jobs = read.await?;
        jobs.retain(|job| job.next_try.is_some());
        jobs.sort_by_key(|job| job.next_try);
        jobs.truncate(limit);
        Ok(jobs)
    }

    /// The jobs that a [worker](Self::workers) owns in its shard, including those that the worker has not begun. Returns
    /// at least `limit` of them, if there are that many, ordered by key, beginning after `after`.
    ///
    /// # Errors
    /// As every read; or the pool has no such shard.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs_of(
        &self,
        worker: &WorkerInfo,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        let shard = self.at(worker.shard)?;
        self.read(shard, |reader| async move { reader.jobs_of(worker, after, limit).await }.boxed()).await
    }

    /// One job.
    ///
    /// # Errors
    /// As every read; or the key is not valid, or the job's record cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn job<K>(&self, key: K) -> Result<Option<JobInfo>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.job(key.clone()).await }.boxed()).await
    }

    /// Where a key's job is, and why: its owner and its place, what the job waits for and until when, its last error. One
    /// read at one moment.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// // acme: running on worker 41 (node feeds-7, http://10.0.0.7:8080) under token 8812, for 3 h 12 min, attempt 1
    /// //   the ring gives this key to that worker
    /// //   accepted 3 h 12 min ago from node api-2
    /// println!("{}", pool.explain("acme").await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As every read; or the key is not valid.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn explain<K>(&self, key: K) -> Result<Explanation, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.explain(key.clone(), None).await }.boxed()).await
    }

    /// Like [`explain`](Self::explain), for the key of a dispatch. If the key has no job, the verdict says whether the
    /// dispatch has ended, and with what outcome, as long as the pool remembers it. If the job is of another dispatch,
    /// [`Explanation::named`] says what is known of this dispatch.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn explain_dispatch(&self, ticket: &Ticket) -> Result<Explanation, Error> {
        let Ticket { key, id } = ticket;
        self.read(self.of(key), |reader| async move { reader.explain(key.clone(), Some(id)).await }.boxed())
            .await
    }

    /// How many jobs the pool has, and where: for a dashboard or an autoscaler. A read of the counts for each shard costs
    /// Redis about 3 µs a worker and at most 1 ms more. Two other reads have the leases, and what the nodes say: some 100
    /// bytes a worker. Where the words of the nodes cannot be read, no capacity is known. The pool itself never asks.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// let figures = pool.figures().await?;
    /// let per_worker = 500;
    /// println!("{} workers are wanted", figures.jobs.div_ceil(per_worker));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn figures(&self) -> Result<Figures, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.figures().await }.boxed()).await
    }

    /// The events that the nodes of the pool have noted. They are failures, moves, losses, parked jobs, and handlers that do
    /// not end. Others are the life of the pool, and the requests of operators. A page begins after `after`, and its events are ordered
    /// by time. It has those of up to `limit` entries of each shard, 256 at most, and an entry has up to 64 events.
    ///
    /// Events are hints for people. A node writes its own within a moment, and one that dies takes those of its last moment
    /// with it. The pool keeps the last [`history_max`](Settings::history_max) entries, each of up to 64 events. A job that
    /// starts, runs and ends makes none.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// let page = pool.events(&tenure_pool::event::EventCursor::default(), 100).await?;
    /// for event in page.events {
    ///     println!("{:?} {} {:?} {}", event.at, event.kind.word(), event.keys, event.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn events(&self, after: &EventCursor, limit: usize) -> Result<EventPage, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.events(after, limit).await }.boxed())
            .await
    }

    /// The payload of a job.
    ///
    /// # Errors
    /// As every read; or the key is not valid, or the payload cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn payload<K>(&self, key: K) -> Result<Option<Bytes>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.payload(key).await }.boxed()).await
    }

    /// The owner of a key's job, from its record in the store. `None` if there is no such job, or nobody owns it: the job
    /// is queued or parked.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// if let Some(owner) = node.inspect().owner("acme").await? {
    ///     println!("{} is at {} under token {}", "acme", owner.address, owner.token);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As every read; or the key is not valid, or the job's record cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn owner<K>(&self, key: K) -> Result<Option<Owner>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.owner(key.clone()).await }.boxed()).await
    }

    /// All parked jobs of the pool, with their last errors: they failed too often. Paused jobs are among them, and
    /// [say so](ParkedJob::paused). The longest parked come first, as far as the shards' clocks agree. The listing is read
    /// in pages and returned whole: see [`parked_page`](Self::parked_page). Jobs whose records cannot be read are left out.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.parked().await }.boxed()).await
    }

    /// A page of the pool's parked jobs, in no order: about `limit` of them (1 to 4,096). The page follows the page that
    /// returned `cursor`. Every job that is parked during the whole listing is in some page. A job may be in two pages if
    /// the pool changes meanwhile. Shards are listed one after the other, and no page has jobs of two shards.
    ///
    /// # Errors
    /// As every read; or the cursor names a shard that does not exist, or is of a former server process.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn parked_page(&self, cursor: Option<Cursor>, limit: usize) -> Result<Page<ParkedJob>, Error> {
        let shard = self.at(cursor.unwrap_or_default().shard)?;
        self.read(shard, |reader| async move { reader.parked_page(cursor, limit).await }.boxed()).await
    }

    /// All schedules and tickers of the pool, whichever nodes take part in them: shard by shard, and there by kind and
    /// name. Entries that cannot be read are left out. Redis reads all of them at once.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// for schedule in pool.schedules().await? {
    ///     let late = schedule.next.elapsed().unwrap_or_default();
    ///     println!("{}: {} ticks, held by {:?}, late by {late:?}", schedule.name, schedule.ticks, schedule.holder);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.schedules().await }.boxed()).await
    }

    /// The notifications that wait for a job, oldest first. The owner may already be delivering the first of them.
    ///
    /// # Errors
    /// As every read; or the key is not valid, there is no such job, or its notifications cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn notifications<K>(&self, key: K) -> Result<Vec<WaitingNotification>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.notifications(key.clone()).await }.boxed()).await
    }

    /// The state that a job's owner has left with it ([`Job::checkpoint`](crate::Job::checkpoint)). `None` if there is
    /// none, or no such job.
    ///
    /// # Errors
    /// As every read; or the key is not valid.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn checkpoint_of<K>(&self, key: K) -> Result<Option<Checkpointed>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = &key.try_into().map_err(Into::into)?;
        self.read(self.of(key), |reader| async move { reader.checkpoint_of(key).await }.boxed()).await
    }

    /// The store of this shard, alone: the others need not answer.
    fn at(&self, shard: usize) -> Result<&[Store], Error> {
        self.reader.stores().get(shard..=shard).ok_or(NO_SHARD)
    }

    /// The store of the shard of a key, alone.
    fn of(&self, key: &JobKey) -> &[Store] {
        std::slice::from_ref(self.reader.of(key))
    }
}
