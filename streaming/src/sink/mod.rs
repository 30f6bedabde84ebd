//! A consumer group: several consumers share one cursor, and each entry stays pending with one of them until it is
//! acknowledged.
//!
//! - `plan`: what a consumer does next, and `held`: what it has. Both pure.
//! - `lane`: does what the plan says, with `calls`.
//! - `handle`: what the sink shares with its handles.
//! - `builder`: settings, and `terms`: those of them that all sinks of a group share.

mod builder;
mod calls;
mod handle;
mod held;
mod lane;
#[cfg(test)]
mod model;
#[cfg(test)]
mod mutants;
mod plan;
mod terms;

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

/// What is waiting is renewed when a third of the grace has passed, so that two thirds are left when it is handed out.
const RENEWALS_PER_GRACE: u32 = 3;

/// One consumer of a group. Sinks with the same group share the cursor, and must have the same settings; other groups
/// get copies.
///
/// It is a [`futures::Stream`] of entries; an error is an item, and the stream goes on after it. An entry is pending
/// until it is acknowledged, and given to a consumer again when it was not for the grace: **at least once**. Redis is
/// read again only when what was read has been taken.
///
/// It has no task: it reads, claims and renews while it is polled. Dropping it closes its connection, and what it had
/// not acknowledged goes to others after the grace; [`Sink::close`] hands it over at once.
pub struct Sink {
    client: Client,
    handle: SinkHandle,
    settings: Settings,
    lanes: Lanes<Lane, Result<Brought, Error>>,
    waiting: VecDeque<Entry>,
    /// When the first of those that wait was delivered, at the earliest, or renewed.
    waiting_since: Duration,
    /// Never locked: it makes what only its owner touches shareable.
    renewing: Mutex<Option<BoxFuture<'static, Renewed>>>,
    renewals: Backoff,
}

struct Renewed {
    /// What is to be handed out still, by stream.
    ours: BTreeMap<Arc<str>, BTreeSet<EntryId>>,
    since: Duration,
    /// Of some it is not known, and they are to be renewed again.
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
    /// A consumer of this group, with these settings.
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

    /// What acknowledges entries, and changes the streams, from other tasks.
    pub fn handle(&self) -> SinkHandle {
        self.handle.clone()
    }

    /// Up to `max` entries, and never more than 10,000; none when there were none for the time to wait.
    ///
    /// One read asks each stream for as many. With several streams more may have been read than are returned: they are
    /// with this consumer too, and the next calls bring them first.
    ///
    /// # Errors
    /// [`Error::Redis`]; the next call goes on, after a pause that grows while it fails. [`Error::Malformed`] for a
    /// reply that is no reply to a read. A lost group is no error: it is created anew.
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

    /// As [`SinkHandle::ack`].
    ///
    /// # Errors
    /// As [`SinkHandle::ack`].
    ///
    /// # Cancel safety
    /// As [`SinkHandle::ack`].
    pub async fn ack<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Result<u64, Error> {
        self.handle.ack(entries).await
    }

    /// As [`SinkHandle::ack_and_remove`].
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

    /// Stops reading, gives back all that is pending with this consumer in the streams that it reads, so that
    /// whichever looks first gets it without waiting for the grace, and deletes the consumer when nothing is.
    /// Acknowledge first what is done.
    ///
    /// A read that waits is let end first, within a second: what it brings is given back too. However Redis behaves,
    /// this ends within that and three response timeouts for one page of 256 entries; a page more, one more. Without
    /// acknowledgements nothing can be given back, and a read is ended at once.
    ///
    /// # Errors
    /// The first [`Error::Redis`]; the other streams are left all the same. What was not given back goes to others
    /// after the grace.
    ///
    /// # Cancel safety
    /// Some may be given back; the connection is closed.
    pub async fn close(self) -> Result<(), Error> {
        let Self { client, handle: SinkHandle { shared }, settings, mut lanes, .. } = self;
        shared.close();
        if !shared.no_ack {
            // A read whose connection is closed may still deliver after the consumer has left.
            let allowed = settings.pace.claim_every + client.response_timeout() * 2;
            // Should it not end, what it delivers comes after the grace.
            let _ = timeout(allowed, lanes.finish()).await;
        }
        drop(lanes);
        let streams = shared.all_streams();
        let left = join_all(streams.iter().map(|stream| shared.consumer.leave(stream))).await;
        left.into_iter().collect()
    }

    /// Drives the reads until one of them has ended. Nothing may be waiting.
    fn poll_round(&mut self, cx: &mut Context<'_>, count: u64, block: Duration) -> Poll<Result<(), Error>> {
        let Self { client, handle: SinkHandle { shared }, settings, lanes, .. } = self;
        lanes.arrange(shared.slots(), || Lane::new(client.blocking(), shared, settings));
        lanes.start(|slot, lane| lane.round(slot, count, block).boxed());
        let (entries, asked) = ready!(lanes.poll(cx))?;
        self.waiting_since = asked;
        self.waiting.extend(entries);
        Poll::Ready(Ok(()))
    }

    /// Sees to it that what waits to be handed out is this consumer's for a good while yet.
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

/// Renews what waits, and says what is to be handed out still; the rest was claimed or acknowledged by others. Where a
/// stream fails for good, what waits of it is given up: it stays pending, and holds up nothing else.
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
                // Whatever becomes of the group, these have been read and are not lost.
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
