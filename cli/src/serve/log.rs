//! The events of the pool: read once for all who follow them, and the last ones kept.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use tenure_pool::{Event, EventCursor, Inspector};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::problem::Problem;
use super::source::look;

/// How many events are kept.
const KEPT: usize = 4_096;
/// How many entries a read takes.
const PAGE: usize = 256;
/// The pause from read to read.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// The last events, each with a number. The numbers are consecutive for as long as the process lives.
#[derive(Default)]
pub(super) struct Log {
    kept: Mutex<Kept>,
}

#[derive(Default)]
pub(super) struct Kept {
    events: VecDeque<Event>,
    /// The number of the next event.
    next: u64,
    after: EventCursor,
    pub(super) oldest: Option<SystemTime>,
    pub(super) dropped: u64,
    read: Option<(Instant, Result<(), Problem>)>,
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

    fn take(&mut self, events: Vec<Event>) {
        self.next += events.len() as u64;
        self.events.extend(events);
        let surplus = self.events.len().saturating_sub(KEPT);
        self.events.drain(..surplus);
    }

    /// Reads on. It keeps all that it has read, wherever it ends.
    async fn read_on(&mut self, pool: &Inspector) -> Result<(), Problem> {
        loop {
            let page = look(pool.events(&self.after, PAGE)).await?;
            (self.after, self.oldest) = (page.next, page.oldest);
            self.dropped += page.dropped;
            self.take(page.events);
            if page.is_last {
                return Ok(());
            }
        }
    }
}

impl Log {
    /// The events up to now, or up to a moment ago.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) async fn up_to_date(&self, pool: &Inspector) -> Result<MutexGuard<'_, Kept>, Problem> {
        let mut kept = self.kept.lock().await;
        match &kept.read {
            Some((at, read)) if at.elapsed() < PAUSE => read.clone()?,
            _ => {
                let read = kept.read_on(pool).await;
                kept.read = Some((Instant::now(), read.clone()));
                read?;
            }
        }
        Ok(kept)
    }
}
