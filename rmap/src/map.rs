//! A replicated map whose values are of one type.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tenure_connection::Client;

use crate::raw::{Exchange, RawMap};
use crate::{Builder, Error, KeyWatcher, Snapshot, Watcher};

/// A [`RawMap`] whose values are of the type `V`. They are stored as MessagePack with the names of a struct's fields,
/// so that fields can be added later (`#[serde(default)]`). A value may nest 64 levels.
///
/// Clones share the local copy. The conditional writes compare the encoded bytes. `V` must therefore encode to the same
/// bytes each time, which a `HashMap` does not.
pub struct Map<V> {
    pub(crate) raw: RawMap,
    pub(crate) value: PhantomData<fn() -> V>,
}

impl<V> Clone for Map<V> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), value: PhantomData }
    }
}

impl<V> fmt::Debug for Map<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Map").field(&self.raw).finish()
    }
}

impl<V: Serialize + DeserializeOwned> From<RawMap> for Map<V> {
    fn from(raw: RawMap) -> Self {
        raw.typed()
    }
}

impl<V: Serialize + DeserializeOwned> Map<V> {
    /// Joins the map of this name; see [`RawMap::join`].
    ///
    /// # Errors
    /// As [`RawMap::join`].
    ///
    /// # Cancel safety
    /// As [`RawMap::join`].
    pub async fn join(client: &Client, name: &str) -> Result<Self, Error> {
        Self::builder(client, name).join().await
    }

    /// Settings for joining a map.
    pub fn builder(client: &Client, name: &str) -> Builder<Self> {
        Builder::new(client, name)
    }

    /// The map of bytes under this one, on the same copy, for operations that do not decode values.
    pub fn raw(&self) -> &RawMap {
        &self.raw
    }

    /// Another handle on the same copy, whose entries live this long; see [`RawMap::with_entry_ttl`].
    #[must_use]
    pub fn with_entry_ttl(&self, ttl: Duration) -> Self {
        self.raw.with_entry_ttl(ttl).typed()
    }

    /// The value of a key in the local copy.
    ///
    /// # Errors
    /// [`Error::Decode`] when the value is of another type.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<V>, Error> {
        let key = key.as_ref();
        self.raw.get(key).map(|value| decode(key, &value)).transpose()
    }

    /// Whether the local copy has the key.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.raw.contains(key)
    }

    /// The number of entries in the local copy.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether the local copy has no entries.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The keys of the local copy, in their order.
    pub fn keys(&self) -> Vec<Bytes> {
        self.raw.keys()
    }

    /// The entries of the local copy as it is now, in the order of their keys. A value of another type yields an
    /// [`Error::Decode`] in its place.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Bytes, V), Error>> {
        decoded(self.raw.snapshot())
    }

    /// The entries of a snapshot, such as one from a [`Watcher`]; see [`Map::iter`].
    pub fn decoded(&self, snapshot: Snapshot) -> impl Iterator<Item = Result<(Bytes, V), Error>> {
        decoded(snapshot)
    }

    /// Watches every change from now on.
    pub fn watch(&self) -> Watcher {
        self.raw.watch()
    }

    /// Watches every change of a key's value from now on.
    pub fn watch_key(&self, key: impl AsRef<[u8]>) -> ValueWatcher<V> {
        ValueWatcher { raw: self.raw.watch_key(key), value: PhantomData }
    }

    /// Sets a key. The previous value is not decoded: it may be of another type.
    ///
    /// # Errors
    /// As [`RawMap::set`]; [`Error::Encode`] before anything is sent.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set(&self, key: impl AsRef<[u8]>, value: &V) -> Result<(), Error> {
        self.raw.set(key, encode(value)?).await.map(|_| ())
    }

    /// Sets a key like [`Map::set`], and returns when the local copy has the value, or something newer.
    ///
    /// # Errors
    /// As [`RawMap::set_and_wait`]; [`Error::Encode`] before anything is sent.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_and_wait(&self, key: impl AsRef<[u8]>, value: &V) -> Result<(), Error> {
        self.raw.set_and_wait(key, encode(value)?).await.map(|_| ())
    }

    /// Sets several keys as one change; see [`RawMap::set_many`].
    ///
    /// # Errors
    /// As [`RawMap::set_many`]; [`Error::Encode`] before anything is sent.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_many<'a, K: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, &'a V)>,
    ) -> Result<(), Error>
    where
        V: 'a,
    {
        let entries: Result<Vec<_>, Error> =
            entries.into_iter().map(|(key, value)| Ok((key, encode(value)?))).collect();
        self.raw.set_many(entries?).await
    }

    /// Sets a key that is absent.
    ///
    /// # Errors
    /// As [`Map::set`]; [`Error::Decode`] when the existing value is of another type: nothing was written.
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn set_if_absent(&self, key: impl AsRef<[u8]>, value: &V) -> Result<Exchange<V>, Error> {
        let key = key.as_ref();
        exchange(key, self.raw.set_if_absent(key, encode(value)?).await?)
    }

    /// Sets a key that has the value `expected`.
    ///
    /// # Errors
    /// As [`Map::set_if_absent`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: &V,
        value: &V,
    ) -> Result<Exchange<V>, Error> {
        let key = key.as_ref();
        exchange(key, self.raw.test_and_set(key, encode(expected)?, encode(value)?).await?)
    }

    /// Deletes a key that has the value `expected`.
    ///
    /// # Errors
    /// As [`Map::set_if_absent`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn test_and_delete(&self, key: impl AsRef<[u8]>, expected: &V) -> Result<Exchange<V>, Error> {
        let key = key.as_ref();
        exchange(key, self.raw.test_and_delete(key, encode(expected)?).await?)
    }

    /// Deletes a key. Returns whether it was there.
    ///
    /// # Errors
    /// As [`RawMap::delete`].
    ///
    /// # Cancel safety
    /// The write may be done all the same.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.raw.delete(key).await.map(|before| before.is_some())
    }

    /// Closes the map; see [`RawMap::close`].
    ///
    /// # Cancel safety
    /// As [`RawMap::close`].
    pub async fn close(&self) {
        self.raw.close().await;
    }
}

/// A [`KeyWatcher`] of a map whose values are of the type `V`. As a stream, it ends when the map is closed.
pub struct ValueWatcher<V> {
    raw: KeyWatcher,
    value: PhantomData<fn() -> V>,
}

impl<V: DeserializeOwned> ValueWatcher<V> {
    /// The value that was reported last; at first, the value at the time of creation.
    ///
    /// # Errors
    /// [`Error::Decode`] when the value is of another type.
    pub fn value(&self) -> Result<Option<V>, Error> {
        self.raw.value().map(|value| decode(self.raw.key(), value)).transpose()
    }

    /// Returns the value when it differs from the last one; see [`KeyWatcher::changed`].
    ///
    /// # Errors
    /// As [`KeyWatcher::changed`]; [`Error::Decode`] when the value is of another type. Later values are still
    /// reported.
    ///
    /// # Cancel safety
    /// As [`KeyWatcher::changed`].
    pub async fn changed(&mut self) -> Result<Option<V>, Error> {
        let value = self.raw.changed().await?;
        value.map(|value| decode(self.raw.key(), &value)).transpose()
    }
}

impl<V: DeserializeOwned> Stream for ValueWatcher<V> {
    type Item = Result<Option<V>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.raw.poll_next_unpin(context);
        polled.map(|next| next.map(|value| value.map(|value| decode(self.raw.key(), &value)).transpose()))
    }
}

impl<V> fmt::Debug for ValueWatcher<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ValueWatcher").field(&self.raw).finish()
    }
}

/// The most levels of a value: each further level takes more of the stack.
const LEVELS: usize = 64;

fn encode<V: Serialize>(value: &V) -> Result<Vec<u8>, Error> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|source| Error::Encode(Arc::new(source)))?;
    match read::<IgnoredAny>(&mut &*bytes) {
        Err(rmp_serde::decode::Error::DepthLimitExceeded) => {
            Err(Error::Encode(Arc::new(rmp_serde::encode::Error::DepthLimitExceeded)))
        }
        _ => Ok(bytes),
    }
}

fn decode<V: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<V, Error> {
    let mut rest = value;
    let decoded = read(&mut rest);
    let whole = decoded.and_then(|value| match rest.len() {
        0 => Ok(value),
        more => Err(serde::de::Error::custom(format_args!("{more} bytes follow the value"))),
    });
    whole.map_err(|source| Error::Decode { key: Bytes::copy_from_slice(key), source: Arc::new(source) })
}

fn read<V: DeserializeOwned>(bytes: &mut &[u8]) -> Result<V, rmp_serde::decode::Error> {
    let mut deserializer = rmp_serde::Deserializer::new(bytes);
    deserializer.set_max_depth(LEVELS + 1);
    V::deserialize(&mut deserializer)
}

fn decoded<V: DeserializeOwned>(snapshot: Snapshot) -> impl Iterator<Item = Result<(Bytes, V), Error>> {
    snapshot.into_iter().map(|(key, value)| decode(&key, &value).map(|value| (key, value)))
}

fn exchange<V: DeserializeOwned>(key: &[u8], exchange: Exchange) -> Result<Exchange<V>, Error> {
    Ok(match exchange {
        Exchange::Written => Exchange::Written,
        Exchange::Kept(found) => Exchange::Kept(found.map(|value| decode(key, &value)).transpose()?),
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct Chain {
        next: Option<Box<Chain>>,
    }

    fn chain(links: usize) -> Chain {
        (1..links).fold(Chain { next: None }, |next, _| Chain { next: Some(Box::new(next)) })
    }

    fn length(chain: &Chain) -> usize {
        std::iter::successors(Some(chain), |link| link.next.as_deref()).count()
    }

    #[test]
    fn a_value_that_nests_too_deeply_is_refused_both_ways() {
        let bytes = encode(&chain(LEVELS)).unwrap_or_default();
        assert_eq!(decode::<Chain>(b"k", &bytes).ok().as_ref().map(length), Some(LEVELS));
        assert!(matches!(encode(&chain(LEVELS + 1)), Err(Error::Encode(_))));
    }

    #[test]
    fn a_deep_value_does_not_overflow_a_small_stack() {
        for opening in [&b"\x81\xa4next"[..], b"\x91"] {
            let bytes = [&opening.repeat(100_000), &b"\xc0"[..]].concat();
            let decoded = move || decode::<Chain>(b"k", &bytes).map(|chain| length(&chain));
            let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(decoded);
            let decoded = thread.ok().and_then(|thread| thread.join().ok());
            assert!(matches!(decoded, Some(Err(Error::Decode { .. }))), "{decoded:?}");
        }
    }
}
