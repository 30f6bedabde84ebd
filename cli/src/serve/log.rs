//! The events of the pool: read by one reader for all who look, and the last ones kept. It reads while somebody looks, and
//! for a short time after, over reads that the server holds until there is an event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tenure_pool::Inspector;
use tenure_pool::event::{Event, EventCursor, EventPage};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::problem::Problem;
use super::source::{LOOK, late};

/// How many events are kept.
const KEPT: usize = 4_096;
/// For how long they are read after the last look: others look again and again.
const LINGER: Duration = Duration::from_secs(15);
/// How long the reader may hear nothing: without events, it looks at the pool every 10 s.
const SILENCE: Duration = Duration::from_secs(10);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// The last events, each with a number. The numbers are consecutive for as long as the process lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    kept: Arc<watch::Sender<Kept>>,
    wanted: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    events: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
    after: EventCursor,
    oldest: Option<SystemTime>,
    pub(super) dropped: u64,
    /// How the reading goes. None while nobody reads, and before the first look.
    pub(super) read: Option<Result<(), Problem>>,
}

impl Kept {
    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of the first event that is kept.
    pub(super) fn first(&self) -> u64 {
        self.next - self.events.len() as u64
    }

    /// The events from this number on, with their numbers.
    pub(super) fn from(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        let first = self.first();
        let skipped = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
        (0..self.events.len()).skip(skipped).map(move |at| (first + at as u64, &self.events[at]))
    }

    /// How far back they go.
    pub(super) fn reach(&self) -> Option<SystemTime> {
        let forgotten = self.first() > 0;
        if forgotten { self.events.front().map(|event| event.at) } else { self.oldest }
    }

    /// Takes a page. Returns whether somebody would see it.
    fn take(&mut self, page: EventPage) -> bool {
        let is_news = !page.events.is_empty();
        (self.after, self.oldest) = (page.next, page.oldest);
        self.dropped += page.dropped;
        self.next += page.events.len() as u64;
        self.events.extend(page.events);
        let surplus = self.events.len().saturating_sub(KEPT);
        self.events.drain(..surplus);
        // Before the last page, they are not up to date.
        let was_read = page.is_last && !matches!(self.read.replace(Ok(())), Some(Ok(())));
        is_news || was_read
    }
}

impl Log {
    /// Looks at the events. They are read for as long as somebody does.
    pub(super) fn look(&self) -> watch::Receiver<Kept> {
        let look = self.kept.subscribe();
        self.wanted.notify_one();
        look
    }

    /// Looks at the events up to now, or up to a moment ago.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) async fn up_to_date(&self) -> Result<watch::Receiver<Kept>, Problem> {
        let mut look = self.look();
        let read = match timeout(LOOK, look.wait_for(|kept| kept.read.is_some())).await {
            Ok(Ok(kept)) => kept.read.clone(),
            // The process ends, or it takes too long.
            Ok(Err(_)) | Err(_) => None,
        };
        read.unwrap_or_else(|| Err(late()))?;
        Ok(look)
    }

    /// Reads whenever somebody looks, without an end.
    pub(super) async fn read(self, pool: Inspector) -> Infallible {
        loop {
            self.wanted.notified().await;
            tokio::select! {
                never = self.follow(&pool) => match never {},
                () = self.unwanted() => {}
            }
            self.kept.send_modify(|kept| kept.read = None);
        }
    }

    /// Returns when nobody has looked for a while.
    async fn unwanted(&self) {
        loop {
            self.kept.closed().await;
            if timeout(LINGER, self.wanted.notified()).await.is_err() {
                return;
            }
        }
    }

    async fn follow(&self, pool: &Inspector) -> Infallible {
        loop {
            let after = self.kept.borrow().after.clone();
            let (mut follower, mut within) = (pool.follower(after), LOOK);
            let problem = loop {
                match timeout(within, follower.page()).await {
                    Ok(Ok(page)) => self.kept.send_if_modified(|kept| kept.take(page)),
                    Ok(Err(error)) => break error.into(),
                    Err(_) => break late(),
                };
                within = SILENCE + LOOK;
            };
            self.kept.send_modify(|kept| kept.read = Some(Err(problem)));
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tenure_pool::{MemoryStore, Node};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn events_are_read_while_somebody_looks() {
        let store = MemoryStore::new();
        let node =
            Node::builder("feeds", store.clone()).assume_fresh(true).client_only().join().await.unwrap();
        let log = Log::default();
        tokio::spawn(log.clone().read(Inspector::open("feeds", store).await.unwrap()));
        assert!(log.kept.borrow().read.is_none(), "nobody looks");
        let mut look = log.up_to_date().await.unwrap();
        node.operate().cordon("x").await.unwrap();
        let is_there = |kept: &Kept| kept.from(0).any(|(_, event)| event.text == "cordon of x");
        look.wait_for(is_there).await.unwrap();
        node.abandon();
        node.closed().await;
        // From now on, time only passes for one who sleeps.
        tokio::time::pause();
        let began = Instant::now();
        drop(look);
        let ended = async || {
            while log.kept.borrow().read.is_some() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LINGER * 2, ended()).await.unwrap();
        assert!(began.elapsed() >= LINGER, "{:?}", began.elapsed());
        let look = log.up_to_date().await.unwrap();
        assert_eq!(look.borrow().from(0).filter(|(_, event)| event.text == "cordon of x").count(), 1);
    }
}
