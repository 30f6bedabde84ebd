//! The events of a pool as they come. Each shard's history has a read that its server holds until there is an entry.

use std::fmt;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, FuturesUnordered, Stream, StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::{AGAIN, Inspector, may_pass};
use crate::api::events::{EventCursor, EventPage};
use crate::api::listing::PAGE;
use crate::error::Error;
use crate::model::event::Event;
use crate::store::{AwaitHistory, Store, StoreError};

/// How long a server holds a read. After that the pool is looked at again.
const HOLD: Duration = Duration::from_secs(10);

impl Inspector {
    /// The events after this one: those that are there, and those that come. The stream ends after its first error, which
    /// is one of a read.
    ///
    /// It waits for events over a connection of its own to each shard, and asks for nothing while none comes. Every 10 s it
    /// sees whether the pool is still there. It does nothing until it is polled.
    ///
    /// # Cancel safety
    /// Safe to drop at any time, and so is a wait for its next event: the next wait has that event.
    pub fn follow(
        &self,
        after: EventCursor,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + Unpin + use<> {
        let pages = stream::try_unfold(self.follower(after), |mut follower| async move {
            let events = follower.page().await?.events;
            Ok::<_, Error>(Some((stream::iter(events.into_iter().map(Ok)), follower)))
        });
        Box::pin(pages.try_flatten())
    }

    /// Like [`follow`](Self::follow), page by page: for one who shows how far back the events go and what is missing, and
    /// who goes on after an error. It does nothing until it is asked for a page.
    pub fn follower(&self, after: EventCursor) -> EventFollower {
        let watch = Watch::of(self.reader.stores());
        EventFollower { inspector: self.clone(), after, waits: false, watch }
    }
}

/// A reader of events as they come, which [`Inspector::follower`] makes.
pub struct EventFollower {
    inspector: Inspector,
    /// The last event that it has.
    after: EventCursor,
    /// All that was there is read.
    waits: bool,
    watch: Watch,
}

impl fmt::Debug for EventFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFollower").field("inspector", &self.inspector).finish_non_exhaustive()
    }
}

impl EventFollower {
    /// The next look at the events. The first one is at once. When all is read, a look waits for another event, or for 10 s.
    /// So a page may have no event: it then says that the pool is there, and that nothing has come.
    ///
    /// # Errors
    /// As every read of [`Inspector`]. The next call looks again, behind the last page.
    ///
    /// # Cancel safety
    /// Safe to drop at any time: the next call has what this one would have had.
    pub async fn page(&mut self) -> Result<EventPage, Error> {
        if self.waits {
            let changed = self.watch.change(&self.after).await;
            self.waits = false;
            match changed {
                // The look finds out how the pool is now.
                Err(error) if may_pass(&error) => tokio::time::sleep(AGAIN).await,
                other => other?,
            }
        }
        let page = self.inspector.events(&self.after, PAGE).await?;
        self.after.clone_from(&page.next);
        self.waits = page.is_last;
        Ok(page)
    }
}

/// Waits for entries in the histories of a pool's shards.
struct Watch {
    /// The shards, over connections of their own.
    stores: Vec<Store>,
    waits: FuturesUnordered<BoxFuture<'static, (usize, Result<bool, StoreError>)>>,
    /// The shards without a wait.
    resting: Vec<usize>,
    /// When the pool was last looked at because nothing came.
    looked: Instant,
}

impl Watch {
    fn of(stores: &[Store]) -> Self {
        let stores: Vec<_> = stores.iter().map(Store::apart).collect();
        let resting = (0..stores.len()).collect();
        Self { resting, stores, waits: FuturesUnordered::new(), looked: Instant::now() }
    }

    /// Waits until a shard may have an entry after these, or the pool must be looked at once more. The waits of the other
    /// shards go on; one for an entry that was read meanwhile ends a later call too early.
    async fn change(&mut self, after: &EventCursor) -> Result<(), StoreError> {
        loop {
            for shard in self.resting.drain(..) {
                let (store, after) = (self.stores[shard].clone(), after.of_shard(shard));
                self.waits.push(
                    async move { (shard, store.read(&AwaitHistory { after, block: HOLD }).await) }.boxed(),
                );
            }
            // A pool has a shard.
            let Some(mut over) = self.waits.next().await else { return std::future::pending().await };
            let mut comes = false;
            // The waits of a quiet pool are over at the same time: one look is enough for all of them.
            loop {
                let (shard, result) = over;
                self.resting.push(shard);
                comes |= result?;
                match self.waits.next().now_or_never().flatten() {
                    Some(another) => over = another,
                    None => break,
                }
            }
            if comes || self.looked.elapsed() >= HOLD {
                self.looked = Instant::now();
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_pool_is_looked_at_once_for_all_its_shards() {
        let stores: Vec<Store> = (0..20).map(|_| MemoryStore::new().into()).collect();
        for store in &stores {
            store.bless("memory0");
        }
        let (mut watch, began) = (Watch::of(&stores), Instant::now());
        for look in 1..4 {
            watch.change(&EventCursor::default()).await.unwrap();
            assert_eq!(began.elapsed(), HOLD * look);
        }
    }
}
