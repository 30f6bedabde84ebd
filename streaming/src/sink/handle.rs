//! The state that a sink shares with its handles: the streams, and the entries it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::calls::{Consumer, Entrance, Hold, SILENCE, is_group_lost};
use super::held::Held;
use crate::lanes::Placement;
use crate::{Entry, EntryId, Error, Start, keys};

pub(super) struct Shared {
    pub(super) consumer: Consumer,
    pub(super) start: Start,
    /// Whether entries are never pending.
    pub(super) no_ack: bool,
    placement: Placement,
    opened: Instant,
    closed: AtomicBool,
    held: Mutex<Held>,
    /// The streams by slot.
    streams: Mutex<BTreeMap<u16, BTreeSet<Arc<str>>>>,
}

impl Shared {
    pub(super) fn new(consumer: Consumer, placement: Placement, start: Start, no_ack: bool) -> Self {
        let (held, streams) = (Mutex::default(), Mutex::default());
        let closed = AtomicBool::new(false);
        Self { consumer, start, no_ack, placement, opened: Instant::now(), closed, held, streams }
    }

    /// The present time on the sink's own scale.
    pub(super) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Ends each round after its present step.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The held entries. The lock is not held across an await.
    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots of the streams; one slot when there are no streams, so that a lane always exists.
    pub(super) fn slots(&self) -> BTreeSet<u16> {
        let streams = self.streams();
        if streams.is_empty() { BTreeSet::from([0]) } else { streams.keys().copied().collect() }
    }

    /// The streams of a slot.
    pub(super) fn streams_in(&self, slot: u16) -> BTreeSet<Arc<str>> {
        self.streams().get(&slot).cloned().unwrap_or_default()
    }

    /// All streams.
    pub(super) fn all_streams(&self) -> Vec<Arc<str>> {
        self.streams().values().flatten().cloned().collect()
    }

    pub(super) async fn add_stream(&self, stream: &str) -> Result<(), Error> {
        keys::check("stream name", stream)?;
        self.consumer.agree(stream, self.start, SILENCE, Entrance::Use).await?;
        self.streams().entry(self.placement.slot(stream)).or_default().insert(stream.into());
        Ok(())
    }

    fn remove_stream(&self, stream: &str) -> bool {
        let (mut streams, slot) = (self.streams(), self.placement.slot(stream));
        let Some(in_slot) = streams.get_mut(&slot) else { return false };
        let removed = in_slot.remove(stream);
        if in_slot.is_empty() {
            streams.remove(&slot);
        }
        removed
    }

    fn streams(&self) -> MutexGuard<'_, BTreeMap<u16, BTreeSet<Arc<str>>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Acknowledges entries that a [`Sink`](crate::Sink) has handed out, and changes its streams, from any task. Cheap to
/// clone.
#[derive(Clone)]
pub struct SinkHandle {
    pub(super) shared: Arc<Shared>,
}

impl SinkHandle {
    /// Acknowledges entries: the group is done with them. Returns how many were pending. An entry that was acknowledged
    /// before does not count again, and neither does one of a group that was lost meanwhile.
    ///
    /// # Errors
    /// [`Error::Redis`]: some may be acknowledged; call it again.
    ///
    /// # Cancel safety
    /// They may be acknowledged all the same; call it again.
    pub async fn ack<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, Error> {
        self.ack_all(by_stream(entries), false).await
    }

    /// Acknowledges entries and deletes them from their stream, in one step for each 1,000 entries of a stream. Returns
    /// how many were pending. Only for a stream that a single group reads.
    ///
    /// # Errors
    /// As [`SinkHandle::ack`].
    ///
    /// # Cancel safety
    /// As [`SinkHandle::ack`].
    pub async fn ack_and_remove<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<u64, Error> {
        self.ack_all(by_stream(entries), true).await
    }

    /// Acknowledges entries by their ids.
    ///
    /// # Errors
    /// As [`SinkHandle::ack`].
    ///
    /// # Cancel safety
    /// As [`SinkHandle::ack`].
    pub async fn ack_ids(&self, stream: &str, ids: &[EntryId]) -> Result<u64, Error> {
        self.ack_all([(stream, ids.to_vec())], false).await
    }

    /// Keeps entries for another grace, because their work takes longer. Returns how many are kept: the others were
    /// acknowledged, or are with another consumer by now.
    ///
    /// # Errors
    /// The first [`Error::Redis`]; entries of other streams are kept all the same.
    ///
    /// # Cancel safety
    /// They may be kept all the same.
    pub async fn keep<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, Error> {
        let now = self.shared.now();
        let one = async |(stream, ids): (&'a str, Vec<EntryId>)| {
            let kept = self.hold(stream, &ids, Hold::Keep).await?;
            let count = kept.len() as u64;
            self.shared.held().add(&stream.into(), kept, now);
            Ok(count)
        };
        let counts = join_all(by_stream(entries).into_iter().map(one)).await;
        counts.into_iter().sum()
    }

    /// Gives entries back without waiting for the grace: the consumer that looks first gets them, possibly this one.
    /// Returns how many were with this consumer.
    ///
    /// # Errors
    /// The first [`Error::Redis`]; entries of other streams are given back all the same.
    ///
    /// # Cancel safety
    /// They may be given back all the same.
    pub async fn release<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, Error> {
        let one = async |(stream, ids): (&'a str, Vec<EntryId>)| {
            let released = self.hold(stream, &ids, Hold::Release).await?;
            self.shared.held().remove(stream, ids);
            Ok(released.len() as u64)
        };
        let counts = join_all(by_stream(entries).into_iter().map(one)).await;
        counts.into_iter().sum()
    }

    /// Adds a stream, and creates the group there if it is missing. Reading begins within a second.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::SettingMismatch`], [`Error::Redis`]: the stream is not read then.
    ///
    /// # Cancel safety
    /// The group may be created all the same; the stream is read when this returns, or not at all.
    pub async fn add_stream(&self, stream: &str) -> Result<(), Error> {
        self.shared.add_stream(stream).await
    }

    /// Stops reading a stream; returns whether it was read. Entries that were read from it before are still handed out.
    /// Its pending entries go to other consumers after the grace.
    pub fn remove_stream(&self, stream: &str) -> bool {
        self.shared.remove_stream(stream)
    }

    /// The streams that are read.
    pub fn streams(&self) -> Vec<Arc<str>> {
        self.shared.all_streams()
    }

    async fn hold(&self, stream: &str, ids: &[EntryId], hold: Hold) -> Result<Vec<EntryId>, Error> {
        match self.shared.consumer.hold(stream, ids, hold).await {
            // Nothing is pending there.
            Err(error) if is_group_lost(&error) => Ok(Vec::new()),
            result => result,
        }
    }

    async fn ack_all<'a>(
        &self,
        streams: impl IntoIterator<Item = (&'a str, Vec<EntryId>)>,
        remove: bool,
    ) -> Result<u64, Error> {
        let shared = &self.shared;
        let one = async |(stream, ids): (&'a str, Vec<EntryId>)| {
            let acknowledged = shared.consumer.ack(stream, &ids, remove).await?;
            shared.held().remove(stream, ids);
            Ok::<_, Error>(acknowledged)
        };
        let counts = join_all(streams.into_iter().map(one)).await;
        counts.into_iter().sum()
    }
}

fn by_stream<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<&'a str, Vec<EntryId>> {
    let mut streams = BTreeMap::<_, Vec<_>>::new();
    for entry in entries {
        streams.entry(&*entry.stream).or_default().push(entry.id);
    }
    streams
}

impl fmt::Debug for SinkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Consumer { group, name, .. } = &self.shared.consumer;
        f.debug_struct("SinkHandle").field("group", group).field("consumer", name).finish_non_exhaustive()
    }
}
