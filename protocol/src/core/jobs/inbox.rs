//! Tracks the entries of a worker's stream: which were read, and which may be deleted.
//!
//! An entry names many jobs. The call that answers the last of them deletes the whole entry. Until that call is
//! answered the entry stays known here, so that a second reading of it changes nothing.

use std::collections::BTreeMap;

use tenure_steps::EntryId;

use crate::step::BATCH_MAX;

/// The entries of one worker's stream that are not yet deleted.
#[derive(Debug, Default)]
pub(in crate::core) struct Inbox {
    cursor: EntryId,
    /// For each entry, the number of its unanswered jobs; at 0 the entry is being deleted.
    open: BTreeMap<EntryId, usize>,
    /// Finished entries that the next call of any kind names.
    handled: Vec<EntryId>,
    /// The number of entries that were ever added to the stream, by the last renewal.
    added: u64,
}

impl Inbox {
    /// The last entry read.
    pub(super) fn cursor(&self) -> EntryId {
        self.cursor
    }

    /// Takes in an entry with this many jobs; false if it is already known.
    pub(super) fn admit(&mut self, entry: EntryId, jobs: usize) -> bool {
        self.cursor = self.cursor.max(entry);
        if self.open.contains_key(&entry) {
            return false;
        }
        self.open.insert(entry, jobs);
        if jobs == 0 {
            self.handled.push(entry);
        }
        true
    }

    /// An entry that concerns nobody any more.
    pub(super) fn pass_over(&mut self, entry: EntryId) {
        self.cursor = self.cursor.max(entry);
    }

    /// One job of the entry is answered.
    pub(super) fn answered(&mut self, entry: EntryId) {
        if let Some(left) = self.open.get_mut(&entry)
            && *left > 0
        {
            *left -= 1;
            if *left == 0 {
                self.handled.push(entry);
            }
        }
    }

    /// The finished entries for the next call, up to the limit of a step.
    pub(super) fn take_handled(&mut self) -> Vec<EntryId> {
        let rest = self.handled.split_off(self.handled.len().min(BATCH_MAX));
        std::mem::replace(&mut self.handled, rest)
    }

    pub(super) fn has_handled(&self) -> bool {
        !self.handled.is_empty()
    }

    /// A call that named these entries was answered: they are deleted.
    pub(super) fn deleted(&mut self, entries: &[EntryId]) {
        for entry in entries {
            self.open.remove(entry);
        }
    }

    /// A call that named these entries has no answer: the next one names them again.
    pub(super) fn not_deleted(&mut self, entries: Vec<EntryId>) {
        self.handled.extend(entries);
    }

    /// Takes the oldest entry in the stream. If the worker has passed over it, the cursor goes back. Returns whether
    /// it moved.
    pub(super) fn oldest(&mut self, entry: Option<EntryId>) -> bool {
        match entry {
            Some(entry) if entry <= self.cursor && !self.open.contains_key(&entry) => {
                self.cursor = EntryId::default();
                true
            }
            _ => false,
        }
    }

    /// Takes the number of entries that were ever added to the stream. If it has fallen, the stream was deleted, with
    /// entries that the worker may not have read. Returns whether it has.
    pub(super) fn was_lost(&mut self, added: u64) -> bool {
        std::mem::replace(&mut self.added, added) > added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64) -> EntryId {
        EntryId { ms, seq: 0 }
    }

    #[test]
    fn an_entry_is_named_with_its_last_job_and_again_until_answered() {
        let mut inbox = Inbox::default();
        assert!(inbox.admit(id(1), 2));
        inbox.answered(id(1));
        assert!(!inbox.has_handled());
        inbox.answered(id(1));
        assert_eq!(inbox.take_handled(), [id(1)]);
        assert!(!inbox.admit(id(1), 2), "known until the deletion is answered");
        inbox.not_deleted(vec![id(1)]);
        assert_eq!(inbox.take_handled(), [id(1)]);
        inbox.deleted(&[id(1)]);
        assert!(inbox.admit(id(1), 2));
    }

    #[test]
    fn an_entry_that_was_passed_over_is_read_again() {
        let mut inbox = Inbox::default();
        inbox.admit(id(5), 1);
        assert!(!inbox.oldest(Some(id(5))), "in hand");
        assert!(!inbox.oldest(Some(id(6))), "not read yet");
        assert!(inbox.oldest(Some(id(4))));
        assert_eq!(inbox.cursor(), EntryId::default());
    }

    #[test]
    fn a_stream_that_has_fewer_entries_than_before_was_lost() {
        let mut inbox = Inbox::default();
        assert_eq!(
            [0, 3, 3, 5, 2, 2, 0].map(|added| inbox.was_lost(added)),
            [false, false, false, false, true, false, true]
        );
    }
}
