//! A replicated map of bytes in its own keys.

mod batcher;
mod conditional;
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

use self::batcher::Batcher;
use crate::builder::millis;
use crate::wire::Written;
use crate::{Builder, Error, KeyWatcher, Layout, Map, Snapshot, View, Watcher, lua};

/// A named map, shared by all who join it. Keys and values are any bytes. Clones share the local copy.
///
/// Reads are local. Each write is one atomic step in Redis and is published to every copy. The map begins with its
/// first write.
///
/// Concurrent sets through a handle and its clones may share a step. They are one revision then, and of several sets of
/// one key only the last value is published. Each is answered as if they had been done one after the other.
///
/// # Sending a write again
/// After an error whose [`Error::may_have_executed`] is true, the write may have been done.
///
/// - `set`, `set_many`, `delete`, `delete_many`, `append_unique`, `remove_values`, `reset` and `destroy` have the same
///   result when they are sent again. They may undo another's write in between, and they answer what they find then.
/// - The conditional writes may be sent again, and replace only the value that they expect. That may happen twice, if
///   others have restored that value after the first attempt. If `Kept` holds the new value, the first attempt was
///   done, or somebody else did the same.
/// - `increment` and `append` must not simply be sent again: they may count or append twice.
#[derive(Clone, Debug)]
pub struct RawMap {
    view: View,
    redis: Connection,
    layout: Arc<Layout>,
    /// The life of a map that begins with a write of this handle, as an argument of the scripts.
    life: Arc<str>,
    /// The life of entries that this handle writes, in ms.
    entry_ttl: Option<u64>,
    /// The sets of this handle and its clones.
    batcher: Arc<Batcher>,
}

/// The outcome of a conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Exchange<V = Bytes> {
    /// The condition held, and the write was done.
    Written,
    /// The condition did not hold: this value was found and kept; `None` when the key was absent.
    Kept(Option<V>),
}

impl<V> Exchange<V> {
    /// Whether the write was done.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Written)
    }
}

impl RawMap {
    /// Joins the map of this name, and returns after the first read.
    ///
    /// # Errors
    /// As [`Builder::join`].
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join(client: &Client, name: &str) -> Result<Self, Error> {
        Self::builder(client, name).join().await
    }

    /// Settings for joining a map.
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
        let batcher = Batcher::new(redis.clone(), head, view.tasks().clone());
        Self { view, redis, layout, life, entry_ttl, batcher }
    }

    /// Another handle on the same copy. Entries that it writes live this long, counted from the write by the server's
    /// clock. Writing an entry again moves its deadline; a write through a handle without a time to live makes it
    /// permanent. At least 1 ms, at most 100 years.
    ///
    /// No read and no condition of a write sees an entry that is past its deadline. All copies are told of its end as
    /// of a deletion.
    ///
    /// Keep the handle: only sets of the same handle and its clones share a step.
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

    /// Where the map lies in Redis, for scripts of your own that change it with [`lua::CHANGE`].
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The value of a key in the local copy.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.view.get(key)
    }

    /// Whether the local copy has the key.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.view.contains(key)
    }

    /// The number of entries in the local copy.
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

    /// The whole local copy; see [`View::snapshot`]. Its iterators go over all entries, or over those with a prefix.
    pub fn snapshot(&self) -> Snapshot {
        self.view.snapshot()
    }

    /// How outdated the local copy may be at most; see [`View::staleness`].
    pub fn staleness(&self) -> Duration {
        self.view.staleness()
    }

    /// Watches every change from now on.
    pub fn watch(&self) -> Watcher {
        self.view.watch()
    }

    /// Watches every change of a key's value from now on.
    pub fn watch_key(&self, key: impl AsRef<[u8]>) -> KeyWatcher {
        self.view.watch_key(key)
    }

    /// Brings the local copy up to date; see [`View::refresh`].
    ///
    /// # Errors
    /// As [`View::refresh`].
    ///
    /// # Cancel safety
    /// As [`View::refresh`].
    pub async fn refresh(&self) -> Result<(), Error> {
        self.view.refresh().await
    }

    /// Closes the map; see [`View::close`]. Later writes through this handle, its clones and its typed handles are
    /// refused, and so are sets that wait for the end of an earlier call. This returns after the answers to sets in
    /// shared calls, or after the time for a call. A set that its caller sends alone may still be done afterwards. The
    /// map itself stays.
    ///
    /// # Cancel safety
    /// Safe: the task ends all the same.
    pub async fn close(&self) {
        self.view.close().await;
    }

    /// Sets a key and returns its previous value. The local copy follows.
    ///
    /// While other sets are in flight, this one may wait for one of their calls and then share a call with all that
    /// wait. The answer comes within twice the response timeout.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Value`], [`Error::Closed`] before anything is sent; [`Error::Redis`] or
    /// [`Error::Malformed`] afterwards: [`Error::may_have_executed`] tells whether the write may have been done.
    ///
    /// # Cancel safety
    /// The write may be done all the same, up to a response timeout later while Redis is out of reach. It may then even
    /// come after a later set of the same caller.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Bytes>, Error> {
        Ok(self.write_entry(key.as_ref(), value.as_ref()).await?.found)
    }

    /// Sets a key like [`RawMap::set`], and returns when the local copy has the value, or something newer. A lost
    /// message does not prevent this: the map is then read.
    ///
    /// # Errors
    /// As [`RawMap::set`]; [`Error::NotSeen`] when the write was done, but the copy could not be brought up to date.
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
            // A read that begins now is not older than the write.
            Ok(Ok(false)) | Err(_) => timeout(allowed, self.view.refresh()).await.unwrap_or_else(late),
        };
        seen.map_err(|error| Error::NotSeen(error.into()))?;
        Ok(written.found)
    }

    /// Deletes a key and returns its previous value.
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

    /// Adds to the number in a key and returns the sum. The number is decimal text of at most 64 bits; an absent key
    /// counts as 0.
    ///
    /// This call must not simply be repeated when it may have been done.
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
        sum.ok_or(Error::Malformed { what: "a sum that is not a number" })
    }

    /// Deletes every key. The map and its life as a whole remain.
    ///
    /// # Errors
    /// As [`RawMap::set`].
    ///
    /// # Cancel safety
    /// It may be done all the same.
    pub async fn reset(&self) -> Result<(), Error> {
        self.write(&self.call(&lua::RESET), b"").await.map(|_| ())
    }

    /// Deletes the map with all its keys in Redis. All copies become empty; the next write, by any client, begins a new
    /// map. Returns whether there was one.
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
        self.batcher.set(key, value).await
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

    /// Sends a write, and turns the errors that a script answers into their types.
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

/// A call with the arguments that all changes begin with.
fn call(script: &Script, layout: &Layout, life: &str, entry_ttl: Option<u64>) -> Call {
    let mut call = script.call(&redis_keys(layout));
    call.arg(&layout.name).arg(&layout.channel).arg(life);
    match entry_ttl {
        Some(ttl) => call.arg(ttl),
        None => call.arg(""),
    };
    call
}

/// The number at the beginning of a script's error.
fn count(detail: &str) -> usize {
    detail.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(usize::MAX)
}
