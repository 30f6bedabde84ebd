//! An inspector: it looks at a pool, by itself or through a node.

pub(crate) mod follow;
mod reads;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};

use tokio::time::Instant;

use crate::api::builder::Backend;
use crate::api::listing::WorkerInfo;
use tenure_connection::Class;

use crate::api::node::shards::{Probe, SOON, Seen, is_silence, no_answer};
use crate::api::node::{PATIENCE, shard_of};
use crate::api::reader::Reader;
use crate::error::Error;
use crate::model::id::{IdError, JobKey, PoolName};
use crate::model::settings::bounds::check;
use crate::model::settings::{ShardId, StoredSettings};
use crate::store::{ReadIdentity, Refusal, Store, StoreError};

/// Nobody waits for longer, and every clock can show the end.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
/// The pause before the store is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// Looks at a pool, for tools and pages of operators. It never writes: it makes no pool of a mistyped name, no member and
/// no stream.
///
/// An inspector that is [opened](Self::open) by itself takes over the number of shards from the pool. A Redis user who may
/// only read is enough. Every read first asks the server how the pool is, so a result is as new as the call. The inspector
/// follows the pool to another server, and into another incarnation. It has no engine and no thread. Its connections close
/// when the last clone is dropped.
///
/// [`Node::inspect`](crate::Node::inspect) gives the inspector of a node. It reads over the connections of the node, and
/// goes by the members and settings that the node knows: [`workers`](Self::workers), [`nodes`](Self::nodes),
/// [`rings`](Self::rings), [`cordoned`](Self::cordoned) and [`settings`](Self::settings) then make no round trip. Each
/// read is one attempt, and fails with the store's error if the store does not answer.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure_pool::{Client, Inspector};
///
/// let pool = Inspector::open("feeds", Client::open("redis://127.0.0.1")?).await?;
/// for job in pool.jobs().await? {
///     println!("{} {:?} {:?}", job.key, job.state, job.node);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Inspector {
    pool: Arc<str>,
    reader: Reader,
}

impl Inspector {
    /// Looks for the pool of this name, on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::store::MemoryStore). If there is none, it looks for a pool with
    /// [several shards](crate::NodeBuilder::shards). A Redis user may have rights to one of the two forms only.
    ///
    /// # Errors
    /// - [`Error::NoPool`]: there is no such pool.
    /// - [`Error::PoolClosed`]: it was shut down a short time ago.
    /// - [`Error::BadRecord`]: its number of shards cannot be read.
    /// - The name is not valid.
    /// - The store cannot be used, or does not answer within 20 s. If the cause is known, the call fails at once: nobody
    ///   listens at the address, its name has no address, only one side speaks TLS, or the server has no room for another
    ///   client.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open(pool: &str, backend: impl Into<Backend>) -> Result<Self, Error> {
        Self::open_within(PATIENCE, pool, backend).await
    }

    /// As [`open`](Self::open), but this call and all later calls wait up to `patience` for Redis, in place of 20 s.
    ///
    /// # Errors
    /// As `open`.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open_within(
        patience: Duration,
        pool: &str,
        backend: impl Into<Backend>,
    ) -> Result<Self, Error> {
        let (pool, backend, patience) = (PoolName::new(pool)?, backend.into(), patience.min(LONGEST));
        let opened = |stores| Self { pool: pool.as_str().into(), reader: Reader::alone(stores, patience) };
        let deadline = Instant::now() + patience;
        let whole = backend.store(&pool, None, USER)?;
        reach(&whole, deadline).await?;
        let missing = match see(&whole, deadline).await {
            Ok(Seen::Present(..)) => {
                return Ok(opened(vec![whole]));
            }
            Ok(Seen::Absent) => Error::NoPool { pool: pool.to_string() },
            Ok(Seen::Closed) => Error::PoolClosed,
            // The user may be one who looks at the shards only.
            Err(Error::Store(error)) if error.is_forbidden() => error.into(),
            Err(error) => return Err(error),
        };
        let shard = |index, count| backend.store(&pool, Some(ShardId { index, count }), USER);
        let Ok(first) = shard(0, 1) else { return Err(missing) };
        let count = match see(&first, deadline).await {
            Ok(Seen::Present(_, settings)) => count(&settings).ok_or_else(|| {
                let of = format!("the number of shards of the pool {pool}");
                Error::BadRecord { of }
            })?,
            Ok(Seen::Absent) => return Err(missing),
            Ok(Seen::Closed) => return Err(Error::PoolClosed),
            // The user looks at a pool without shards.
            Err(Error::Store(error)) if error.is_forbidden() => return Err(missing),
            Err(error) => return Err(error),
        };
        let others: Result<Vec<_>, _> = (1..count).map(|index| shard(index, count)).collect();
        Ok(opened(std::iter::once(first).chain(others?).collect()))
    }

    /// Looks through the stores of a node's shards.
    pub(crate) fn of_node(pool: &str, stores: impl IntoIterator<Item = Store>) -> Self {
        Self { pool: pool.into(), reader: Reader::of_node(stores) }
    }

    /// The pool's name.
    pub fn pool_name(&self) -> &str {
        &self.pool
    }

    /// How many shards the pool has.
    pub fn shards(&self) -> usize {
        self.reader.stores().len()
    }

    /// The index of the shard that a key belongs to, from 0.
    ///
    /// # Errors
    /// The key is not valid.
    pub fn shard_of<K>(&self, key: K) -> Result<usize, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Ok(shard_of(key.try_into().map_err(Into::into)?.as_bytes(), self.shards()))
    }

    /// The workers of the pool, as the copies of the maps have them.
    pub(crate) fn known_workers(&self) -> Vec<WorkerInfo> {
        self.reader.workers()
    }

    /// Reads from these stores. Over the stores of a node, that is all. Otherwise the copies of the maps must be as new as
    /// this call first, and a read that meets another server process or another incarnation, or has no answer, begins again
    /// until its time is up.
    async fn read<'r, T>(
        &self,
        stores: &[Store],
        read: impl Fn(Reader) -> BoxFuture<'r, Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(patience) = self.reader.patience() else {
            return read(self.reader.clone()).await.map_err(closed);
        };
        let deadline = Instant::now() + patience;
        loop {
            for seen in try_join_all(stores.iter().map(|store| see(store, deadline))).await? {
                match seen {
                    Seen::Present(..) => seen.check_count(self.shards() as u32)?,
                    Seen::Absent => return Err(Error::NoPool { pool: self.pool.to_string() }),
                    Seen::Closed => return Err(Error::PoolClosed),
                }
            }
            match read(self.reader.clone()).await {
                Err(Error::Store(error)) if may_pass(&error) && Instant::now() < deadline => {}
                done => return done,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// A pool that was shut down is named as such.
fn closed(error: Error) -> Error {
    match error {
        Error::Store(StoreError::Refused(Refusal::Closed)) => Error::PoolClosed,
        error => error,
    }
}

/// Names the connections to Redis.
const USER: &str = "inspector";

/// Waits until the server says who it is. If it cannot be reached and the error names the cause, nobody waits: most often
/// the address is wrong.
async fn reach(store: &Store, deadline: Instant) -> Result<(), StoreError> {
    let mut last = no_answer(SOON);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, store.read(&ReadIdentity)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if error.class() == Some(Class::Unreachable) || !is_silence(&error) => {
                return Err(error);
            }
            Ok(Err(error)) => last = error,
            Err(_) => return Err(last),
        }
        if Instant::now() >= deadline {
            return Err(last);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn see(store: &Store, deadline: Instant) -> Result<Seen, Error> {
    Ok(Probe::inspecting(store.clone(), deadline).see().await?)
}

/// The number of shards that the first shard names. `None` if no pool has that number: each shard gets a connection.
fn count(settings: &StoredSettings) -> Option<u32> {
    let ShardId { index, count } = ShardId::parse(settings.fields.get(ShardId::SETTING)?)?;
    (index == 0 && count > 1 && check("shards", count.into()).is_ok()).then_some(count)
}

/// Whether a read may succeed after another look at the pool.
fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::OtherServer { .. } => true,
        StoreError::Refused(refusal) => {
            matches!(refusal, Refusal::StaleIncarnation(_) | Refusal::NoPool | Refusal::Closed)
        }
        error => is_silence(error),
    }
}

#[cfg(test)]
mod tests;
