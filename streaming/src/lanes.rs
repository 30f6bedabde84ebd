//! Reads in flight, one per connection. Each is made of rounds that run while the caller polls; there is no task.
//!
//! A blocking read covers streams of one cluster slot, so each slot has one lane with its own connection. Outside of a
//! cluster all streams share one lane. A running round owns its lane, and returns it together with its result. So a
//! caller that stops waiting loses nothing: the round continues with the next poll.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tenure_connection::{Backoff, Client, slot};
use tokio::time::sleep;

/// Maps streams to lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    cluster: bool,
}

impl Placement {
    pub(crate) fn of(client: &Client) -> Self {
        Self { cluster: client.is_cluster() }
    }

    pub(crate) fn slot(self, stream: &str) -> u16 {
        if self.cluster { slot(stream) } else { 0 }
    }

    /// The slots of these streams; one slot when there are no streams, so that a lane always exists.
    pub(crate) fn slots<'a>(self, streams: impl IntoIterator<Item = &'a Arc<str>>) -> BTreeSet<u16> {
        if !self.cluster {
            return BTreeSet::from([0]);
        }
        let mut slots: BTreeSet<_> = streams.into_iter().map(|stream| slot(&**stream)).collect();
        if slots.is_empty() {
            slots.insert(0);
        }
        slots
    }
}

/// Waits between failures. Without a pause it skips the sleep, which would last until the timer's next tick: long for a
/// round.
pub(crate) async fn rest(backoff: &Backoff) {
    let pause = backoff.pause();
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

/// A lane that has finished its round, and the round's result.
type Done<L, T> = (u16, L, T);

pub(crate) struct Lanes<L, T> {
    /// Never locked: the mutex makes its owner's private state `Sync`.
    parts: Mutex<Parts<L, T>>,
}

struct Parts<L, T> {
    wanted: BTreeSet<u16>,
    known: BTreeSet<u16>,
    idle: Vec<(u16, L)>,
    busy: FuturesUnordered<BoxFuture<'static, Done<L, T>>>,
}

impl<L: Send + 'static, T: 'static> Lanes<L, T> {
    pub(crate) fn new() -> Self {
        let parts = Parts {
            wanted: BTreeSet::new(),
            known: BTreeSet::new(),
            idle: Vec::new(),
            busy: FuturesUnordered::new(),
        };
        Self { parts: Mutex::new(parts) }
    }

    /// Sets the wanted lanes. Missing ones are made; the others go when their round is over.
    pub(crate) fn arrange(&mut self, wanted: BTreeSet<u16>, mut make: impl FnMut() -> L) {
        let parts = self.parts();
        for slot in &wanted {
            if parts.known.insert(*slot) {
                parts.idle.push((*slot, make()));
            }
        }
        let Parts { known, idle, .. } = parts;
        idle.retain(|(slot, _)| wanted.contains(slot) || !known.remove(slot));
        parts.wanted = wanted;
    }

    /// Starts a round on every idle lane.
    pub(crate) fn start(&mut self, round: impl Fn(u16, L) -> BoxFuture<'static, (L, T)>) {
        let parts = self.parts();
        for (slot, lane) in parts.idle.drain(..) {
            let running = round(slot, lane);
            parts.busy.push(Box::pin(async move {
                let (lane, brought) = running.await;
                (slot, lane, brought)
            }));
        }
    }

    /// The result of the next round that ends. At least one round must be running.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let parts = self.parts();
        match parts.busy.poll_next_unpin(cx) {
            Poll::Ready(Some((slot, lane, brought))) => {
                if parts.wanted.contains(&slot) {
                    parts.idle.push((slot, lane));
                } else {
                    parts.known.remove(&slot);
                }
                Poll::Ready(brought)
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Drives the running rounds to their end and drops their results. No new round begins.
    pub(crate) async fn finish(&mut self) {
        let parts = self.parts();
        while parts.busy.next().await.is_some() {}
    }

    /// Ends all rounds and closes their connections.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    fn parts(&mut self) -> &mut Parts<L, T> {
        self.parts.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L, T> fmt::Debug for Lanes<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn an_unwanted_lane_goes_when_its_round_is_over() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut lanes = Lanes::<u32, u16>::new();
        let mut made = 0;
        let mut make = || {
            made += 1;
            made
        };
        let round = |slot, lane| ready((lane, slot)).boxed();
        assert!(lanes.poll(&mut cx).is_pending());
        lanes.arrange(BTreeSet::from([1, 2]), &mut make);
        lanes.start(round);
        lanes.arrange(BTreeSet::from([2, 3]), &mut make);
        let mut brought: Vec<_> = (0..2).map(|_| lanes.poll(&mut cx)).collect();
        brought.sort();
        assert_eq!(brought, [Poll::Ready(1), Poll::Ready(2)]);
        lanes.start(round);
        let mut brought: Vec<_> = (0..2).map(|_| lanes.poll(&mut cx)).collect();
        brought.sort();
        assert_eq!(brought, [Poll::Ready(2), Poll::Ready(3)]);
        lanes.arrange(BTreeSet::from([1]), &mut make);
        lanes.start(round);
        assert_eq!([lanes.poll(&mut cx), lanes.poll(&mut cx)], [Poll::Ready(1), Poll::Pending]);
        assert_eq!(made, 4, "the first one of slot 1 was gone");
    }
}
