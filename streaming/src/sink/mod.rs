//! A consumer group: several consumers share one cursor, and each entry stays pending with one of them until it is
//! acknowledged.
//!
//! - `plan`: a consumer's next step; `held`: the entries it has. Both pure.
//! - `lane`: executes the plan, with `calls`.
//! - `handle`: the state shared by the sink and its handles.
//! - `builder`: settings; `terms`: those that all sinks of a group share.

mod builder;
mod calls;
mod handle;
mod held;
mod lane;
mod plan;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tenure_connection::{Backoff, Client};
use tokio::time::{Instant, timeout};

use crate::lanes::Lanes;
use crate::{Entry, EntryId, Error, Filter, Start};

pub use builder::SinkBuilder;
pub use handle::SinkHandle;

use calls::{Consumer, Hold};
use handle::Shared;
use lane::{Brought, Lane};
use plan::Pace;

/// Waiting entries are renewed after a third of the grace, so that two thirds are left when they are handed out.
const RENEWALS_PER_GRACE: u32 = 3;

/// One consumer of a group. Sinks of the same group share the cursor, and must have the same settings; other groups get
/// copies.
///
/// It is a [`futures::Stream`] of entries; an error is an item, after which the stream continues. An entry is pending
/// until it is acknowledged, and after the grace it is delivered again: **at least once**. The sink reads Redis again
/// only when all entries of the last read have been taken.
///
/// It has no task: it reads, claims and renews while it is polled. Dropping it closes its connection, and its
/// unacknowledged entries go to others after the grace; [`Sink::close`] hands them over at once.
pub struct Sink {
    client: Client,
    handle: SinkHandle,
    settings: Settings,
    lanes: Lanes<Lane, Result<Brought, Error>>,
    waiting: VecDeque<Entry>,
    /// The earliest time at which a waiting entry was delivered or renewed.
    waiting_since: Duration,
    /// Never locked: the mutex makes its owner's private state `Sync`.
    renewing: Mutex<Option<BoxFuture<'static, Renewed>>>,
    renewals: Backoff,
}

struct Renewed {
    /// The entries that are still this consumer's, by stream.
    ours: BTreeMap<Arc<str>, BTreeSet<EntryId>>,
    since: Duration,
    /// Whether the state of some is unknown, so that they need another renewal.
    again: bool,
    failed: Option<Error>,
}

#[derive(Clone, Debug)]
struct Settings {
    filters: Arc<[Filter]>,
    count: u64,
    block: Duration,
    grace: Duration,
    dead_after: Duration,
    recreate_at: Start,
    pace: Pace,
}

impl Sink {
    /// Settings of a consumer of this group.
    pub fn builder(client: &Client, group: impl Into<Arc<str>>) -> SinkBuilder {
        SinkBuilder::new(client, group.into())
    }

    fn new(client: Client, shared: Arc<Shared>, settings: Settings) -> Self {
        Self {
            client,
            handle: SinkHandle { shared },
            settings,
            lanes: Lanes::new(),
            waiting: VecDeque::new(),
            waiting_since: Duration::ZERO,
            renewing: Mutex::new(None),
            renewals: Backoff::new(lane::FIRST_PAUSE, lane::LONGEST_PAUSE),
        }
    }

    /// The name of this consumer.
    pub fn consumer(&self) -> &str {
        &self.handle.shared.consumer.name
    }

    /// The name of its group.
    pub fn group(&self) -> &str {
        &self.handle.shared.consumer.group
    }

    /// A handle that acknowledges entries and changes the streams, from other tasks.
    pub fn handle(&self) -> SinkHandle {
        self.handle.clone()
    }

    /// Up to `max` entries, and never more than 10,000; an empty batch when none came within the wait.
    ///
    /// One read asks each stream for up to `max`. With several streams it may read more than it returns: these entries
    /// are with this consumer too, and the next calls return them first.
    ///
    /// # Errors
    /// [`Error::Redis`]: the next call continues, after a pause that grows while it fails. [`Error::Malformed`] for a
    /// reply that does not fit the read. A lost group is not an error: it is created anew.
    ///
    /// # Cancel safety
    /// Safe: the read goes on with the next call, and entries that were not returned come with it.
    pub async fn next_batch(&mut self, max: usize) -> Result<Vec<Entry>, Error> {
        let block = self.settings.block;
        let count = u64::try_from(max).unwrap_or(u64::MAX).clamp(1, builder::MOST);
        let max = count as usize;
        let until = Instant::now() + block;
        loop {
            poll_fn(|cx| self.poll_renewed(cx)).await?;
            if !self.waiting.is_empty() {
                let taken = self.waiting.len().min(max);
                return Ok(self.waiting.drain(..taken).collect());
            }
            let left = until.saturating_duration_since(Instant::now());
            poll_fn(|cx| self.poll_round(cx, count, left)).await?;
            if self.waiting.is_empty() && Instant::now() >= until {
                return Ok(Vec::new());
            }
        }
    }

    /// Acknowledges entries; see [`SinkHandle::ack`].
    ///
    /// # Errors
    /// As [`SinkHandle::ack`].
    ///
    /// # Cancel safety
    /// As [`SinkHandle::ack`].
    pub async fn ack<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, Error> {
        self.handle.ack(entries).await
    }

    /// Acknowledges entries and deletes them from their stream; see [`SinkHandle::ack_and_remove`].
    ///
    /// # Errors
    /// As [`SinkHandle::ack_and_remove`].
    ///
    /// # Cancel safety
    /// As [`SinkHandle::ack_and_remove`].
    pub async fn ack_and_remove<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<u64, Error> {
        self.handle.ack_and_remove(entries).await
    }

    /// Stops reading, gives back all entries that are pending with this consumer in its streams, and deletes the
    /// consumer when nothing is pending. The next consumer that looks gets the entries without waiting for the grace.
    /// Acknowledge handled entries first.
    ///
    /// A waiting read ends first, within a second, and its entries are given back too. However Redis behaves, this ends
    /// within that second and three response timeouts for one page of 256 entries; each further page adds one. Without
    /// acknowledgements nothing can be given back, and a read is ended at once.
    ///
    /// # Errors
    /// The first [`Error::Redis`]; the other streams are left all the same. Entries that were not given back go to
    /// others after the grace.
    ///
    /// # Cancel safety
    /// Some may be given back; the connection is closed.
    pub async fn close(self) -> Result<(), Error> {
        let Self { client, handle: SinkHandle { shared }, settings, mut lanes, .. } = self;
        shared.close();
        if !shared.no_ack {
            // A read whose connection is closed may still deliver after the consumer has left.
            let allowed = settings.pace.claim_every + client.response_timeout() * 2;
            // If it does not end, its entries come after the grace.
            let _ = timeout(allowed, lanes.finish()).await;
        }
        drop(lanes);
        let streams = shared.all_streams();
        let left = join_all(streams.iter().map(|stream| shared.consumer.leave(stream))).await;
        left.into_iter().collect()
    }

    /// Drives the reads until one of them ends. No entry may be waiting.
    fn poll_round(&mut self, cx: &mut Context<'_>, count: u64, block: Duration) -> Poll<Result<(), Error>> {
        let Self { client, handle: SinkHandle { shared }, settings, lanes, .. } = self;
        lanes.arrange(shared.slots(), || Lane::new(client.blocking(), shared, settings));
        lanes.start(|slot, lane| lane.round(slot, count, block).boxed());
        let (entries, asked) = ready!(lanes.poll(cx))?;
        self.waiting_since = asked;
        self.waiting.extend(entries);
        Poll::Ready(Ok(()))
    }

    /// Ensures that waiting entries stay this consumer's for a good while.
    fn poll_renewed(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let shared = &self.handle.shared;
        let renewing = self.renewing.get_mut().unwrap_or_else(PoisonError::into_inner);
        let running = if let Some(running) = renewing {
            running
        } else {
            let due = self.waiting_since + self.settings.grace / RENEWALS_PER_GRACE;
            if shared.no_ack || self.waiting.is_empty() || shared.now() < due {
                return Poll::Ready(Ok(()));
            }
            renewing.insert(renew(shared.clone(), &self.waiting, self.renewals.clone()).boxed())
        };
        let Renewed { ours, since, again, failed } = ready!(running.poll_unpin(cx));
        *renewing = None;
        self.waiting.retain(|entry| ours.get(&entry.stream).is_some_and(|ids| ids.contains(&entry.id)));
        if again {
            self.renewals.fail();
        } else {
            self.renewals.reset();
            self.waiting_since = since;
        }
        Poll::Ready(failed.map_or(Ok(()), Err))
    }
}

/// Renews waiting entries. Returns those to hand out: others have claimed or acknowledged the rest. If a stream fails
/// for good, its waiting entries are given up: they stay pending, and hold up nothing else.
fn renew(
    shared: Arc<Shared>,
    waiting: &VecDeque<Entry>,
    pause: Backoff,
) -> impl Future<Output = Renewed> + use<> {
    let mut streams = BTreeMap::<Arc<str>, Vec<EntryId>>::new();
    for entry in waiting {
        streams.entry(entry.stream.clone()).or_default().push(entry.id);
    }
    async move {
        pause.wait().await;
        let since = shared.now();
        let mut renewed = Renewed { ours: BTreeMap::new(), since, again: false, failed: None };
        let one = async |(stream, ids): (Arc<str>, Vec<EntryId>)| {
            let held = shared.consumer.hold(&stream, &ids, Hold::Keep).await;
            (stream, ids, held)
        };
        for (stream, ids, held) in join_all(streams.into_iter().map(one)).await {
            let all = || ids.iter().copied().collect::<BTreeSet<_>>();
            let held = match held {
                Ok(held) => held.into_iter().collect(),
                // These entries have been read and are not lost, whatever becomes of the group.
                Err(error) if calls::is_group_lost(&error) => all(),
                Err(error) if error.is_transient() => {
                    renewed.again = true;
                    renewed.failed.get_or_insert(error);
                    renewed.ours.insert(stream, all());
                    continue;
                }
                Err(error) => {
                    if renewed.failed.as_ref().is_none_or(Error::is_transient) {
                        renewed.failed = Some(error);
                    }
                    BTreeSet::new()
                }
            };
            shared.held().remove(&stream, ids.into_iter().filter(|id| !held.contains(id)));
            shared.held().add(&stream, held.iter().copied(), since);
            renewed.ours.insert(stream, held);
        }
        renewed
    }
}

impl futures::Stream for Sink {
    type Item = Result<Entry, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let sink = self.get_mut();
        loop {
            if let Err(error) = ready!(sink.poll_renewed(cx)) {
                return Poll::Ready(Some(Err(error)));
            }
            if let Some(entry) = sink.waiting.pop_front() {
                return Poll::Ready(Some(Ok(entry)));
            }
            let (count, block) = (sink.settings.count, sink.settings.pace.claim_every);
            if let Err(error) = ready!(sink.poll_round(cx, count, block)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Consumer { group, name, .. } = &self.handle.shared.consumer;
        f.debug_struct("Sink").field("group", group).field("consumer", name).finish_non_exhaustive()
    }
}
