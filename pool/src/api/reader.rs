//! The reads of a pool, as an inspector makes them. A read of one key goes to the shard of that key, any other one to all
//! shards.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, try_join_all, try_join3};
use futures::stream::{self, Stream, TryStreamExt};

use crate::api::events::{EventCursor, EventPage};
use crate::api::explain::{Explanation, explain};
use crate::api::figures::Figures;
use crate::api::listing::{
    self, Cursor, JobInfo, NodeInfo, Owner, Page, ServerMark, WaitingNotification, WorkerInfo,
};
use crate::api::node::shard_of;
use crate::api::overview::Overview;
use crate::api::parked::{self, ParkedJob};
use crate::api::scheduled::{self, ScheduleInfo};
use crate::api::shard_state::ShardState;
use crate::error::Error;
use crate::job::checkpoint::Checkpointed;
use crate::model::id::{DispatchId, IdError, JobKey};
use crate::model::settings::{Given, Settings};
use crate::model::status::NodeStatus;
use crate::store::{Explain, ReadCheckpoint, ReadNotifications, ReadStatuses, Store, Waiting};

/// The stores of a pool's shards, and the way to read them.
#[derive(Clone)]
pub(crate) struct Reader {
    /// Ordered by their index; never empty.
    stores: Arc<[Store]>,
    /// How long a read waits for Redis. Each read first asks the server how the pool is. `None` for the stores of a node:
    /// the engine of the node keeps their copies of the maps, and alone says which server they use.
    patience: Option<Duration>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shards, patience) = (self.stores.len(), &self.patience);
        f.debug_struct("Reader").field("shards", &shards).field("patience", patience).finish()
    }
}

impl Reader {
    /// Reads through the stores of a node.
    pub(crate) fn of_node(stores: impl IntoIterator<Item = Store>) -> Self {
        Self { stores: stores.into_iter().collect(), patience: None }
    }

    /// Reads through stores that have no other user.
    pub(crate) fn alone(stores: impl IntoIterator<Item = Store>, patience: Duration) -> Self {
        Self { stores: stores.into_iter().collect(), patience: Some(patience) }
    }

    /// How long a read waits for Redis. `None`: the read goes out as it is.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    pub(crate) fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// The store of the shard of a key.
    pub(crate) fn of(&self, key: &JobKey) -> &Store {
        &self.stores[shard_of(key.as_bytes(), self.stores.len())]
    }

    pub(crate) fn workers(&self) -> Vec<WorkerInfo> {
        let shards = self.stores.iter().enumerate();
        shards.flat_map(|(at, store)| listing::workers(at, &store.members().borrow())).collect()
    }

    pub(crate) fn nodes(&self) -> Vec<NodeInfo> {
        listing::nodes(self.workers())
    }

    pub(crate) fn cordoned(&self) -> BTreeSet<String> {
        let of = |store: &Store| store.members().borrow().cordoned.clone();
        self.stores.iter().flat_map(of).map(|node| node.to_string()).collect()
    }

    pub(crate) async fn pool_state(&self) -> Result<Vec<ShardState>, Error> {
        let shards = self.stores.iter().enumerate();
        try_join_all(shards.map(|(at, store)| ShardState::read(store, at))).await
    }

    pub(crate) async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        let listing = self.stores.iter().map(listing::jobs);
        let mut jobs = listing::one_after_another(try_join_all(listing).await?);
        if self.stores.len() > 1 {
            jobs.sort_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(jobs)
    }

    pub(crate) async fn jobs_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<JobInfo>, Error> {
        let place = self.at(cursor)?;
        let (items, next) = listing::jobs_page(place.store, place.cursor.at, limit).await?;
        Ok(Page { items, next: self.after(&place, next)? })
    }

    pub(crate) async fn jobs_of(
        &self,
        worker: &WorkerInfo,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Vec<JobInfo>, Error> {
        let store = self.stores.get(worker.shard).ok_or(NO_SHARD)?;
        listing::jobs_of(store, worker.id, after, limit).await
    }

    pub(crate) async fn job(&self, key: JobKey) -> Result<Option<JobInfo>, Error> {
        listing::job(self.of(&key), key).await
    }

    pub(crate) async fn explain(&self, key: JobKey, id: Option<&DispatchId>) -> Result<Explanation, Error> {
        let store = self.of(&key);
        let seen = store.read(&Explain { key: key.clone(), id: id.cloned() }).await?;
        let (members, stored) = (store.members().borrow().clone(), store.settings().borrow().clone());
        let settings = Settings::default().joining(&stored.fields, &Given::default());
        Ok(explain(key, id, seen, &members, &settings))
    }

    pub(crate) async fn figures(&self) -> Result<Figures, Error> {
        // The words of the nodes are a part: the counts do not fail with them.
        let (figures, said) = join(Figures::read(&self.stores), self.statuses()).await;
        let mut figures = figures?;
        figures.hear(&said.unwrap_or_default());
        Ok(figures)
    }

    pub(crate) async fn statuses(&self) -> Result<Vec<NodeStatus>, Error> {
        let shards = self.stores.iter().enumerate().map(|(shard, store)| async move {
            let said = store.read(&ReadStatuses).await?.into_iter();
            Ok::<_, Error>(said.filter_map(|(node, said)| NodeStatus::decode(shard, node, &said)).collect())
        });
        Ok(listing::one_after_another(try_join_all(shards).await?))
    }

    pub(crate) fn settings(&self) -> Settings {
        let stored = self.stores[0].settings().borrow().clone();
        Settings::default().joining(&stored.fields, &Given::default())
    }

    pub(crate) async fn overview(&self) -> Result<Overview, Error> {
        let read = try_join3(self.pool_state(), Figures::read(&self.stores), self.statuses()).await?;
        let (shards, mut figures, statuses) = read;
        figures.hear(&statuses);
        Ok(Overview { shards, settings: self.settings(), workers: self.workers(), figures, statuses })
    }

    pub(crate) async fn events(&self, after: &EventCursor, limit: usize) -> Result<EventPage, Error> {
        EventPage::read(&self.stores, after, limit).await
    }

    pub(crate) async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>, Error> {
        listing::payload(self.of(key), key).await
    }

    pub(crate) async fn owner(&self, key: JobKey) -> Result<Option<Owner>, Error> {
        let store = self.of(&key);
        Ok(listing::job(store, key).await?.and_then(|job| Owner::of(job, &store.members().borrow())))
    }

    pub(crate) async fn parked(&self) -> Result<Vec<ParkedJob>, Error> {
        let listing = self.stores.iter().map(parked::all);
        let mut jobs = listing::one_after_another(try_join_all(listing).await?);
        jobs.sort_by_key(|job| job.since);
        Ok(jobs)
    }

    pub(crate) async fn parked_page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<ParkedJob>, Error> {
        let place = self.at(cursor)?;
        let (items, next) = parked::page(place.store, place.cursor.at, limit).await?;
        Ok(Page { items, next: self.after(&place, next)? })
    }

    pub(crate) async fn checkpoint_of(&self, key: &JobKey) -> Result<Option<Checkpointed>, Error> {
        Ok(self.of(key).read(&ReadCheckpoint { key: key.clone() }).await?.map(Checkpointed::new))
    }

    pub(crate) async fn notifications(&self, key: JobKey) -> Result<Vec<WaitingNotification>, Error> {
        let store = self.of(&key);
        // Read this before the numbers: if they belong to another incarnation, nothing must be dropped.
        let incarnation = listing::known_incarnation(store).await?;
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            match store.read(&ReadNotifications { key: key.clone(), from }).await? {
                Waiting::Absent => return Err(Error::JobNotFound(key)),
                Waiting::Bad => return Err(Error::BadRecord { of: format!("the job {key}") }),
                Waiting::Page { first, bodies, more } => {
                    from = first + bodies.len() as u64;
                    let waiting = |(number, body)| WaitingNotification { number, body, incarnation };
                    all.extend((first..).zip(bodies).map(waiting));
                    if !more {
                        return Ok(all);
                    }
                }
            }
        }
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleInfo>, Error> {
        let shards = self.stores.iter().enumerate();
        let listing = shards.map(|(at, store)| scheduled::of_shard(store, at));
        Ok(listing::one_after_another(try_join_all(listing).await?))
    }

    /// Where a listing goes on.
    fn at(&self, cursor: Option<Cursor>) -> Result<Place<'_>, Error> {
        let cursor = cursor.unwrap_or_default();
        let store = self.stores.get(cursor.shard).ok_or(NO_SHARD)?;
        let server = ServerMark::of(store);
        if cursor.at != 0 && cursor.server.is_some() && cursor.server != server {
            return Err(Error::StaleCursor);
        }
        Ok(Place { store, cursor, server })
    }

    /// Where the listing goes on after a page. `next` is a place in this shard's own listing.
    fn after(&self, page: &Place<'_>, next: Option<u64>) -> Result<Option<Cursor>, Error> {
        let Place { store, cursor, server } = *page;
        if cursor.at != 0 && ServerMark::of(store) != server {
            return Err(Error::StaleCursor);
        }
        Ok(match next {
            Some(at) => Some(Cursor { at, server, ..cursor }),
            None if cursor.shard + 1 < self.stores.len() => {
                Some(Cursor { shard: cursor.shard + 1, ..Cursor::default() })
            }
            None => None,
        })
    }
}

/// A place in a listing.
struct Place<'r> {
    store: &'r Store,
    cursor: Cursor,
    /// The server process that lists.
    server: Option<ServerMark>,
}

/// A call named a shard that does not exist.
pub(crate) const NO_SHARD: Error = Error::Name(IdError::Number { what: "shard" });

/// A listing as a stream, with one page in memory at a time.
pub(crate) fn stream_of<T, Read>(
    page: impl Fn(Option<Cursor>) -> Read + Send + 'static,
) -> impl Stream<Item = Result<T, Error>> + Send + Unpin
where
    T: Send + 'static,
    Read: Future<Output = Result<Page<T>, Error>> + Send + 'static,
{
    let pages = stream::try_unfold((page, Some(None)), |(page, at)| async move {
        let Some(cursor) = at else { return Ok(None) };
        let read = page(cursor).await?;
        let items = stream::iter(read.items.into_iter().map(Ok));
        Ok::<_, Error>(Some((items, (page, read.next.map(Some)))))
    });
    Box::pin(pages.try_flatten())
}
