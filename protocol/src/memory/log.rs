//! A stream: entries under rising ids.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use tenure_steps::EntryId;

/// Entries in the order of their ids.
#[derive(Clone, Debug)]
pub(super) struct Log<E> {
    entries: BTreeMap<EntryId, E>,
    last: EntryId,
    added: u64,
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), last: EntryId { ms: 0, seq: 0 }, added: 0 }
    }
}

impl<E> Log<E> {
    /// Appends an entry. Its id is above all earlier ids, even if the clock went back.
    pub(super) fn append(&mut self, now: u64, entry: E) {
        self.last = if now > self.last.ms {
            EntryId { ms: now, seq: 0 }
        } else {
            EntryId { ms: self.last.ms, seq: self.last.seq + 1 }
        };
        self.entries.insert(self.last, entry);
        self.added += 1;
    }

    /// Drops the oldest entries beyond `max`.
    pub(super) fn trim(&mut self, max: usize) {
        while self.entries.len() > max {
            self.entries.pop_first();
        }
    }

    /// Deletes entries.
    pub(super) fn delete(&mut self, ids: &[EntryId]) {
        for id in ids {
            self.entries.remove(id);
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The id of the oldest entry.
    pub(super) fn oldest(&self) -> Option<EntryId> {
        self.entries.first_key_value().map(|(id, _)| *id)
    }

    /// How many entries were ever added.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// One entry.
    pub(super) fn get(&self, id: EntryId) -> Option<&E> {
        self.entries.get(&id)
    }

    /// All entries in order.
    #[cfg(any(test, feature = "proof"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.values()
    }

    /// Entries after `id`, in order.
    pub(super) fn after(&self, id: EntryId) -> impl Iterator<Item = (EntryId, &E)> {
        self.entries.range((Excluded(id), Unbounded)).map(|(id, entry)| (*id, entry))
    }
}
