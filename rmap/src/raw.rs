//! A replicated map of bytes with keys of its own.

mod conditional;
mod lane;
mod lists;
mod many;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_connection::{Call, Client, Connection, Script};
use tokio::time::timeout;

use self::lane::Lane;
use crate::builder::millis;
use crate::wire::Written;
use crate::{Builder, Error, KeyWatcher, Layout, Map, Snapshot, View, Watcher, lua};

/// A named map that everybody who joins it sees, and may change. Keys and values are any bytes. Clones share the
/// local copy.
///
/// Reads are local. Each write is one atomic step in Redis, and is told to every copy. The map begins with its first
/// write.
///
/// Sets that are made at the same time through a handle and its clones may share a step: they are one revision then,
/// and of a key that several of them set only the last value is told. Each is answered as if they had been done one
/// after the other.
///
/// # Sending a write again
/// After an error whose [`Error::may_have_executed`] is true the write may have been done. `set`, `set_many`,
/// `delete`, `delete_many`, `append_unique`, `remove_values`, `reset` and `destroy` leave the same behind when they
/// are sent again, but may undo what another wrote in between, and answer what they find then. The conditional
/// writes may be sent again, and write only over the value that they expect: also when it was the first attempt that
/// took that value away, and others have brought it back since. That `Kept` holds the new value tells that the first
/// attempt was done, or that somebody else did the same. `increment` and `append` must not simply be sent again: they
/// may count or append twice.
#[derive(Clone, Debug)]
pub struct RawMap {
    view: View,
    redis: Connection,
    layout: Arc<Layout>,
    /// The life of a map that begins with a write of this handle, as the scripts take it.
    life: Arc<str>,
    /// The life of the entries that this handle writes, in ms.
    entry_ttl: Option<u64>,
    /// The sets of this handle and its clones.
    lane: Arc<Lane>,
}

/// What a conditional write did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Exchange<V = Bytes> {
    /// The condition held: it was done.
    Written,
    /// The condition did not hold: this value was found and kept; `None` when the key was absent.
    Kept(Option<V>),
}

impl<V> Exchange<V> {
    /// Whether it was done.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Written)
    }
}

impl RawMap {
    /// Joins the map of this name and returns when it has been read once.
    ///
    /// # Errors
    /// As [`Builder::join`].
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join(client: &Client, name: &str) -> Result<Self, Error> {
        Self::builder(client, name).join().await
    }

    /// A map with settings.
    pub fn builder(client: &Client, name: &str) -> Builder<Self> {
        Builder::new(client, name)
    }

    pub(crate) fn new(
        view: View,
        redis: Connection,
        layout: Arc<Layout>,
        life: Arc<str>,
        entry_ttl: Option<u64>,
    ) -> Self {
        let head = call(&lua::SET, &layout, &life, entry_ttl);
        let lane = Lane::new(redis.clone(), head, view.tasks().clone());
        Self { view, redis, layout, life, entry_ttl, lane }
    }

    /// Another handle on the same copy, whose writes give the entries that they write this long to live, counted
    /// from the write by the server's clock. Writing an entry again moves its deadline; a write through a handle
    /// without a time to live makes it stay. At least 1 ms, at most 100 years.
    ///
    /// An entry that is past its deadline is not seen by any read any more, nor by any write's condition. All
    /// copies are told of its end as of a deletion.
    ///
    /// Keep the handle: sets share a step only with those of the same handle and its clones.
    #[must_use]
    pub fn with_entry_ttl(&self, ttl: Duration) -> Self {
        let Self { view, redis, layout, life, .. } = self.clone();
        Self::new(view, redis, layout, life, Some(millis(ttl)))
    }

    /// A handle on the same copy whose values are of the type `V`, as MessagePack.
    pub fn typed<V: Serialize + DeserializeOwned>(&self) -> Map<V> {
        Map { raw: self.clone(), value: PhantomData }
    }

    /// The local copy.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The map's name.
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// Where the map lies in Redis: for scripts of one's own that change it with [`lua::CHANGE`].
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The value of a key, as the local copy has it.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.view.get(key)
    }

    /// Whether the local copy has the key.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.view.contains(key)
    }

    /// How many entries the local copy has.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Whether the local copy has no entries.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The keys of the local copy, in their order.
    pub fn keys(&self) -> Vec<Bytes> {
        self.snapshot().keys().cloned().collect()
    }

    /// The whole local copy: as [`View::snapshot`]. Its iterators go over all entries, or over those with a prefix.
    pub fn snapshot(&self) -> Snapshot {
        self.view.snapshot()
    }

    /// How outdated the local copy may be at most: as [`View::staleness`].
    pub fn staleness(&self) -> Duration {
        self.view.staleness()
    }

    /// Tells of every change from now on.
    pub fn watch(&self) -> Watcher {
        self.view.watch()
    }

    /// Tells of every other value of a key from now on.
    pub fn watch_key(&self, key: impl AsRef<[u8]>) -> KeyWatcher {
        self.view.watch_key(key)
    }

    /// As [`View::refresh`].
    ///
    /// # Errors
    /// As [`View::refresh`].
    ///
    /// # Cancel safety
    /// As [`View::refresh`].
    pub async fn refresh(&self) -> Result<(), Error> {
        self.view.refresh().await
    }

    /// As [`View::close`]; writes through this handle, its clones and its typed handles are refused afterwards, and
    /// those that wait for their turn when a call before them ends. Sets that share calls in flight are answered first, or
    /// the time for a call is over; one that its caller sends alone may be done afterwards. The map itself stays.
    ///
    /// # Cancel safety
    /// Safe: the task ends all the same.
    pub async fn close(&self) {
        self.view.close().await;
    }

    /// Sets a key and returns the value that it had. The local copy follows.
    ///
    /// When others are on their way it may wait for one of their calls, and is sent together with all that wait; it is
    /// answered within twice the response timeout.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Value`], [`Error::Closed`] before anything is sent; [`Error::Redis`] or
    /// [`Error::Malformed`] afterwards: [`Error::may_have_executed`] tells whether the write may have been done.
    ///
    /// # Cancel safety
    /// The write may be done all the same, up to a response timeout later while Redis is out of reach: then it may also
    /// come after a later set of the same caller.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        Ok(self.write_entry(key.as_ref(), value.as_ref()).await?.found)
    }

    /// As [`RawMap::set`], and returns when the local copy has it, or something newer. A message that is lost on the
    /// way does not hinder it: then the map is read.
    ///
    /// # Errors
    /// As [`RawMap::set`]; [`Error::NotSeen`] when the write was done, and the copy could not be brought up to date.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_and_wait(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>, Error> {
        let written = self.write_entry(key.as_ref(), value.as_ref()).await?;
        let place = written.at.ok_or(Error::Malformed { what: "a write without a place" })?;
        let allowed = self.redis.response_timeout();
        let late = |_| Err(tenure_connection::Error::TimedOut(allowed).into());
        let seen = match timeout(allowed, self.view.reach(place)).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(error),
            // What is read now is not older than the write.
            Ok(Ok(false)) | Err(_) => timeout(allowed, self.view.refresh()).await.unwrap_or_else(late),
        };
        seen.map_err(|error| Error::NotSeen(error.into()))?;
        Ok(written.found)
    }

    /// Deletes a key and returns the value that it had.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        let key = key.as_ref();
        let call = self.key_call(&lua::DELETE, key)?;
        Ok(self.write(&call, key).await?.found)
    }

    /// Adds to the number that a key holds and returns the sum. The number is decimal text of at most 64 bits; an
    /// absent key counts as 0.
    ///
    /// Must not simply be sent again when it may have been done.
    ///
    /// # Errors
    /// As [`RawMap::set`]; [`Error::NotANumber`] and [`Error::Overflow`] when nothing was written.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        let key = key.as_ref();
        let mut call = self.key_call(&lua::INCREMENT, key)?;
        call.arg(by);
        let sum = self.write(&call, key).await?.found;
        let sum = sum.and_then(|sum| std::str::from_utf8(&sum).ok()?.parse().ok());
        sum.ok_or(Error::Malformed { what: "a sum that is no number" })
    }

    /// Deletes every key. The map stays, and with it its life as a whole.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// It may be done all the same.
    pub async fn reset(&self) -> Result<(), Error> {
        self.write(&self.call(&lua::RESET), b"").await.map(|_| ())
    }

    /// Deletes the map with all its keys in Redis. All copies become empty; the next write, by whom ever, begins a
    /// new map. Returns whether there was one.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// It may be done all the same.
    pub async fn destroy(&self) -> Result<bool, Error> {
        let mut call = lua::DESTROY.call(&redis_keys(&self.layout));
        call.arg(&self.layout.channel);
        self.check_open()?;
        match self.redis.call(&call).await? {
            redis::Value::Int(there) => Ok(there == 1),
            _ => Err(Error::Malformed { what: "another reply to a deletion" }),
        }
    }

    async fn write_entry(&self, key: &[u8], value: &[u8]) -> Result<Written, Error> {
        Layout::check_key(key)?;
        Layout::check_value(value)?;
        self.check_open()?;
        self.lane.set(key, value).await
    }

    fn call(&self, script: &Script) -> Call {
        call(script, &self.layout, &self.life, self.entry_ttl)
    }

    fn key_call(&self, script: &Script, key: &[u8]) -> Result<Call, Error> {
        Layout::check_key(key)?;
        let mut call = self.call(script);
        call.arg(key);
        Ok(call)
    }

    fn entry_call(&self, script: &Script, key: &[u8], value: &[u8]) -> Result<Call, Error> {
        Layout::check_value(value)?;
        let mut call = self.key_call(script, key)?;
        call.arg(value);
        Ok(call)
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.view.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Sends a write and gives the errors that a script answers their types.
    async fn write(&self, call: &Call, key: &[u8]) -> Result<Written, Error> {
        self.check_open()?;
        let key = || Bytes::copy_from_slice(key);
        match self.redis.call(call).await {
            Ok(reply) => Written::decode(reply),
            Err(tenure_connection::Error::Server { code, detail }) => Err(match &*code {
                "NOTANUMBER" => Error::NotANumber { key: key() },
                "OVERFLOW" => Error::Overflow { key: key() },
                "NOTALIST" => Error::NotAList { key: key() },
                "TOOLONG" => Error::Value { len: count(&detail), max: Layout::MAX_VALUE },
                "TOOMANY" => Error::ManyItems { key: key(), count: count(&detail) },
                _ => tenure_connection::Error::Server { code, detail }.into(),
            }),
            Err(error) => Err(error.into()),
        }
    }
}

fn redis_keys(layout: &Layout) -> Vec<&String> {
    let Layout { meta, hash, deadlines, .. } = layout;
    [meta, hash].into_iter().chain(deadlines).collect()
}

/// A call with what all changes begin with.
fn call(script: &Script, layout: &Layout, life: &str, entry_ttl: Option<u64>) -> Call {
    let mut call = script.call(&redis_keys(layout));
    call.arg(&layout.name).arg(&layout.channel).arg(life);
    match entry_ttl {
        Some(ttl) => call.arg(ttl),
        None => call.arg(""),
    };
    call
}

/// The number that an error of a script begins with.
fn count(detail: &str) -> usize {
    detail.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(usize::MAX)
}
