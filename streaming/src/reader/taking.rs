//! Entries that were read and not yet handed out. Pure.
//!
//! Each item knows the cursor behind which it was read. It is handed out only if the stream's cursor is still there,
//! and then moves the cursor.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Cursors, Entry, EntryId, Filter, filter};

/// A part of a stream without a gap, from `from` (exclusive) to `to` (inclusive). It ends with a wanted entry, or holds
/// none.
#[derive(Debug)]
pub(super) struct Item {
    stream: Arc<str>,
    from: EntryId,
    to: EntryId,
    entry: Option<Entry>,
}

/// Splits entries that were read behind `from` into items.
pub(super) fn items(
    stream: &Arc<str>,
    from: EntryId,
    entries: Vec<Entry>,
    filters: &[Filter],
    items: &mut Vec<Item>,
) {
    let (mut from, mut to) = (from, from);
    for entry in entries {
        to = entry.id;
        if filter::wanted(filters, entry.topic()) {
            items.push(Item { stream: stream.clone(), from, to, entry: Some(entry) });
            from = to;
        }
    }
    if from != to {
        items.push(Item { stream: stream.clone(), from, to, entry: None });
    }
}

/// The items in the order of the reads.
#[derive(Debug, Default)]
pub(super) struct Taking {
    items: VecDeque<Item>,
}

impl Taking {
    pub(super) fn put(&mut self, items: Vec<Item>) {
        self.items.extend(items);
    }

    /// The next entry that still fits.
    pub(super) fn take(&mut self, cursors: &mut Cursors) -> Option<Entry> {
        while let Some(item) = self.items.pop_front() {
            if cursors.advance(&item.stream, item.from, item.to) && item.entry.is_some() {
                self.pass(cursors);
                return item.entry;
            }
        }
        None
    }

    /// All entries that still fit.
    pub(super) fn take_all(&mut self, cursors: &mut Cursors) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.items.len());
        for Item { stream, from, to, entry } in self.items.drain(..) {
            if cursors.advance(&stream, from, to) {
                entries.extend(entry);
            }
        }
        entries
    }

    /// Moves the cursors over unwanted entries that come next.
    fn pass(&mut self, cursors: &mut Cursors) {
        while self.items.front().is_some_and(|item| item.entry.is_none()) {
            if let Some(Item { stream, from, to, .. }) = self.items.pop_front() {
                // An item that no longer fits has nothing to lose.
                let _ = cursors.advance(&stream, from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(ms: u64) -> EntryId {
        EntryId::new(ms, 0)
    }

    fn entry(ms: u64) -> Entry {
        let topic = if ms.is_multiple_of(3) { "fizz" } else { "other" };
        Entry::new("s", id(ms), Vec::new()).with_topic(topic)
    }

    /// An event in the life of a reader of a stream that holds 1, 2, 3 …
    #[derive(Clone, Debug)]
    enum Step {
        /// Reads this many entries behind its cursor; the reply may be lost.
        Read {
            count: u64,
            lost: bool,
        },
        Take,
        TakeAll,
        /// Somebody moves the cursor.
        Put(u64),
        /// The process dies, and another one continues at the cursor.
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..5_u64, any::<bool>()).prop_map(|(count, lost)| Step::Read { count, lost }),
            5 => Just(Step::Take),
            1 => Just(Step::TakeAll),
            1 => (0..20_u64).prop_map(Step::Put),
            1 => Just(Step::Restart),
        ]
    }

    proptest! {
        /// The entries handed out are those behind the cursor, without a gap, whatever is lost or killed.
        #[test]
        fn a_reader_skips_nothing(steps in prop::collection::vec(step(), 0..80), filtered: bool) {
            let filters = if filtered { vec![Filter::topic("fizz")] } else { Vec::new() };
            let wanted = |ms: u64| !filtered || ms.is_multiple_of(3);
            let stream: Arc<str> = "s".into();
            let (mut cursors, mut taking) = (Cursors::default(), Taking::default());
            cursors.put("s", EntryId::MIN);
            // All wanted entries up to here have been seen, or the cursor was put behind them.
            let mut seen = 0;
            for step in steps {
                let mut taken = Vec::new();
                match step {
                    Step::Read { count, lost } => {
                        let from = cursors.get("s").unwrap_or_default();
                        let mut read = Vec::new();
                        let entries = (from.ms + 1..=from.ms + count).map(entry).collect();
                        items(&stream, from, entries, &filters, &mut read);
                        if !lost {
                            taking.put(read);
                        }
                    }
                    Step::Take => taken.extend(taking.take(&mut cursors)),
                    Step::TakeAll => taken = taking.take_all(&mut cursors),
                    Step::Put(after) => {
                        cursors.put("s", id(after));
                        seen = after;
                    }
                    Step::Restart => taking = Taking::default(),
                }
                for entry in taken {
                    let next = (seen + 1..seen + 4).find(|ms| wanted(*ms));
                    prop_assert_eq!(Some(entry.id.ms), next);
                    seen = entry.id.ms;
                }
                let cursor = cursors.get("s").unwrap_or_default().ms;
                prop_assert!(cursor >= seen && (seen + 1..=cursor).all(|ms| !wanted(ms)), "{cursor} {seen}");
            }
        }
    }

    #[test]
    fn the_cursor_passes_unwanted_entries() {
        let (mut cursors, mut taking) = (Cursors::default(), Taking::default());
        cursors.put("s", EntryId::MIN);
        let mut read = Vec::new();
        let entries = (1..=5).map(entry).collect();
        items(&"s".into(), EntryId::MIN, entries, &[Filter::topic("fizz")], &mut read);
        taking.put(read);
        assert_eq!(taking.take(&mut cursors).map(|entry| entry.id), Some(id(3)));
        assert_eq!(cursors.get("s"), Some(id(5)), "also behind the last one that is");
        assert!(taking.items.is_empty());
    }
}
