//! The events of a pool, read from the histories of its shards.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::future::try_join_all;

use crate::error::Error;
use crate::model::event::{Entry, Event};
use crate::store::{EntryId, HistoryPage, ReadHistory, Store};

/// The most entries that one read takes from a shard.
const ENTRIES_MAX: usize = 256;

/// A place in a pool's history: what comes after it is not read yet. The default is the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// The last entry that was read of each shard; of the others, all are read from `since` on.
    read: Vec<EntryId>,
    since: EntryId,
    /// The last entry of each node in each shard.
    said: BTreeMap<(usize, String), Said>,
}

/// The last entry of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    /// The process that wrote it, and its number there: one that was written twice is read once.
    life: u64,
    n: u64,
    /// The time of its last event, ms. Those that the node notes later are not before it.
    at: u64,
}

impl EventCursor {
    /// The place before the first event of this time, by the store's clock. Events that a node noted a moment before may
    /// follow it.
    #[must_use]
    pub fn since(time: SystemTime) -> Self {
        let ms = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let since = u64::try_from(ms).unwrap_or(u64::MAX).checked_sub(1);
        let since = since.map_or_else(EntryId::default, |ms| EntryId { ms, seq: u64::MAX });
        Self { since, ..Self::default() }
    }

    pub(crate) fn of_shard(&self, shard: usize) -> EntryId {
        self.read.get(shard).copied().unwrap_or_default().max(self.since)
    }
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, ordered by time. Those of one node in one shard are in its order.
    pub events: Vec<Event>,
    /// Where the next page begins.
    pub next: EventCursor,
    /// Nothing followed this page when it was read.
    pub is_last: bool,
    /// How far back the history goes. `None` if there is none.
    pub oldest: Option<SystemTime>,
    /// How many events nodes had to forget before these, because they could not write them in time.
    pub dropped: u64,
    /// How many entries cannot be read: a later version wrote them, or they are damaged.
    pub unread: u64,
}

impl EventPage {
    /// Reads a page of about `limit` events.
    pub(crate) async fn read(stores: &[Store], after: &EventCursor, limit: usize) -> Result<Self, Error> {
        let entries = limit.clamp(1, ENTRIES_MAX);
        let pages = stores.iter().enumerate().map(|(shard, store)| async move {
            store.read(&ReadHistory { after: after.of_shard(shard), limit: entries }).await
        });
        let pages = try_join_all(pages).await?;
        Ok(Self::of(pages, after, entries))
    }

    fn of(pages: Vec<HistoryPage>, after: &EventCursor, entries: usize) -> Self {
        let mut next = after.clone();
        next.read = (0..pages.len()).map(|shard| after.of_shard(shard)).collect();
        let oldest = pages.iter().filter_map(|page| page.oldest).map(|id| time(id.ms)).min();
        let is_last = pages.iter().all(|page| page.entries.len() < entries);
        let mut page = Self { events: Vec::new(), next, is_last, oldest, dropped: 0, unread: 0 };
        // The next entries of a shard with a full page may be older than those that other shards have.
        let full = pages.iter().filter(|page| page.entries.len() >= entries);
        let until = full.filter_map(|page| page.entries.last()).map(|(id, _)| id.ms).min();
        for (shard, HistoryPage { entries, .. }) in pages.into_iter().enumerate() {
            for (id, bytes) in entries {
                if until.is_some_and(|until| id.ms > until) {
                    break;
                }
                page.take(shard, id, &bytes);
            }
        }
        page.events.sort_by_key(|event| event.at);
        page
    }

    fn take(&mut self, shard: usize, id: EntryId, bytes: &[u8]) {
        if let Some(read) = self.next.read.get_mut(shard) {
            *read = id;
        }
        let Some(Entry { node, life, n, dropped, events, .. }) = Entry::decode(bytes) else {
            self.unread += 1;
            return;
        };
        let said = self.next.said.entry((shard, node.clone())).or_default();
        if said.life == life && said.n >= n {
            return;
        }
        (said.life, said.n) = (life, n);
        self.dropped += dropped;
        for line in events {
            // Messages take times that differ, so an entry that was written later may seem to begin earlier.
            said.at = said.at.max(line.at(id.ms));
            self.events.push(line.event(shard, &node, said.at));
        }
    }
}

fn time(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;
    use crate::model::event::{EventKind, Line, News, VERSION};

    fn entry(node: &str, n: u64, text: &str) -> Bytes {
        let line = Line::of(&News::new(EventKind::Asked).saying(text), Duration::ZERO);
        Entry { v: VERSION, node: node.to_owned(), life: 7, n, dropped: n % 2, events: vec![line] }.encode()
    }

    fn shard(entries: &[(u64, Bytes)]) -> HistoryPage {
        let entries: Vec<_> =
            entries.iter().map(|(ms, entry)| (EntryId { ms: *ms, seq: 0 }, entry.clone())).collect();
        HistoryPage { oldest: entries.first().map(|(id, _)| *id), entries }
    }

    fn texts(page: &EventPage) -> Vec<&str> {
        page.events.iter().map(|event| event.text.as_str()).collect()
    }

    #[test]
    fn the_events_of_all_shards_are_ordered_by_time() {
        let pages = vec![
            shard(&[(10, entry("a", 1, "first")), (30, entry("a", 2, "third"))]),
            shard(&[(20, entry("b", 1, "second"))]),
        ];
        let page = EventPage::of(pages, &EventCursor::default(), 10);
        assert_eq!(texts(&page), ["first", "second", "third"]);
        assert_eq!((page.is_last, page.dropped, page.unread, page.oldest), (true, 2, 0, Some(time(10))));
        assert_eq!(page.next.read.iter().map(|id| id.ms).collect::<Vec<_>>(), [30, 20]);
    }

    #[test]
    fn a_page_ends_where_the_first_full_shard_does() {
        let pages = vec![
            shard(&[(10, entry("a", 1, "one")), (20, entry("a", 2, "two"))]),
            shard(&[(15, entry("b", 1, "between")), (30, entry("b", 2, "later"))]),
        ];
        let page = EventPage::of(pages, &EventCursor::default(), 2);
        assert_eq!((texts(&page), page.is_last), (vec!["one", "between", "two"], false));
        assert_eq!(page.next.read.iter().map(|id| id.ms).collect::<Vec<_>>(), [20, 15]);
    }

    #[test]
    fn an_entry_that_was_written_twice_is_read_once() {
        let first = EventPage::of(
            vec![shard(&[(10, entry("a", 1, "one")), (11, entry("a", 1, "one")), (12, entry("b", 1, "b"))])],
            &EventCursor::default(),
            10,
        );
        assert_eq!(texts(&first), ["one", "b"]);
        let next = EventPage::of(
            vec![shard(&[(13, entry("a", 1, "one")), (14, entry("a", 2, "two"))])],
            &first.next,
            10,
        );
        assert_eq!(texts(&next), ["two"]);
    }

    #[test]
    fn the_events_of_one_node_keep_their_order() {
        let at = |n, age| {
            let line =
                Line::of(&News::new(EventKind::Asked).saying(&format!("{n}")), Duration::from_millis(age));
            Entry { v: VERSION, node: "a".to_owned(), life: 7, n, dropped: 0, events: vec![line] }.encode()
        };
        let first = EventPage::of(
            vec![shard(&[(1_000, at(1, 0)), (1_001, at(2, 200))])],
            &EventCursor::default(),
            10,
        );
        assert_eq!(texts(&first), ["1", "2"]);
        let next = EventPage::of(vec![shard(&[(1_002, at(3, 300))])], &first.next, 10);
        assert!(first.events[1].at <= next.events[0].at);
    }

    #[test]
    fn what_cannot_be_read_is_counted() {
        let page = EventPage::of(
            vec![shard(&[(10, Bytes::new()), (20, entry("a", 1, "x"))])],
            &EventCursor::default(),
            10,
        );
        assert_eq!((texts(&page), page.unread), (vec!["x"], 1));
    }

    #[test]
    fn a_cursor_begins_at_its_time() {
        let cursor = EventCursor::since(time(1_000));
        assert_eq!(cursor.of_shard(3), EntryId { ms: 999, seq: u64::MAX });
        assert_eq!(EventCursor::since(SystemTime::UNIX_EPOCH), EventCursor::default());
    }
}
