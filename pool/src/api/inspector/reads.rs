//! All that an inspector reads. A node has methods of the same names.

use bytes::Bytes;
use futures::future::{FutureExt, try_join_all};
use futures::stream::Stream;
use tokio::time::Instant;

use super::Inspector;
use crate::api::events::{EventCursor, EventPage};
use crate::api::explain::Explanation;
use crate::api::figures::Figures;
use crate::api::listing::{Cursor, JobInfo, NodeInfo, PAGE, Page, WorkerInfo, infos, one_after_another};
use crate::api::node::{Owner, WaitingNotification};
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

/// The reads. All of them may be dropped at any time. Each tries for up to 20 s, and fails with
///
/// - [`Error::NoPool`] or [`Error::PoolClosed`] if the pool has ended meanwhile,
/// - [`Error::OtherShards`] if a pool with another number of shards has taken its place,
/// - the store's error if the store does not answer, or cannot be used.
impl Inspector {
    /// The state of the pool, shard by shard. A shard that does not exist, or was shut down, is no error here.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn pool_state(&self) -> Result<Vec<ShardState>, Error> {
        self.see(self.reader.stores(), Instant::now() + self.patience).await?;
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

    /// All jobs of the pool, ordered by key, like [`Node::jobs`](crate::Node::jobs).
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.jobs().await }.boxed()).await
    }

    /// A page of the pool's jobs, in no order, like [`Node::jobs_page`](crate::Node::jobs_page).
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

    /// The pool's jobs as a stream, with one page in memory at a time. It ends after the first error, and can be dropped
    /// at any time.
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

    /// The jobs that a worker owns in its shard, like [`Node::jobs_of`](crate::Node::jobs_of).
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

    /// Where a key's job is, and why, like [`Node::explain`](crate::Node::explain).
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

    /// Like [`explain`](Self::explain), for the key of a dispatch, which may have ended: see
    /// [`Node::explain_dispatch`](crate::Node::explain_dispatch).
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

    /// How many jobs the pool has, and where, like [`Node::figures`](crate::Node::figures).
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
    /// let page = pool.events(&tenure_pool::EventCursor::default(), 100).await?;
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

    /// The owner of a key's job, like [`Node::owner`](crate::Node::owner).
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

    /// All parked jobs of the pool, the longest parked first.
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.parked().await }.boxed()).await
    }

    /// A page of the pool's parked jobs, in no order, like [`Node::parked_page`](crate::Node::parked_page).
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

    /// All schedules and tickers of the pool, like [`Node::schedules`](crate::Node::schedules).
    ///
    /// # Errors
    /// As every read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        self.read(self.reader.stores(), |reader| async move { reader.schedules().await }.boxed()).await
    }

    /// The notifications that wait for a job, oldest first.
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

    /// The state that a job's owner has left with it. `None` if there is none, or no such job.
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
