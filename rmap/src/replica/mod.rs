//! The rule by which a copy of a map follows its original. Pure: no I/O, no clock.
//!
//! Invariant: the content is always one that the map really had at the copy's place. A change is applied only if it
//! follows that exact place: same incarnation, next revision, and the stamp of the revision before it. Anything missed
//! is therefore a gap, even another history with the same numbers. Only a snapshot closes a gap.

#[cfg(test)]
mod properties;

use std::sync::Arc;

use bytes::Bytes;

#[cfg(test)]
use crate::snapshot::Snapshot;
use crate::snapshot::{Content, Entry, Place};

/// One revision of a map: what it set and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The place that this change made.
    pub(crate) place: Place,
    /// The stamp of the preceding place.
    pub(crate) after: u64,
    /// Whether all entries were deleted before `fields` were set.
    pub(crate) clear: bool,
    /// Keys with their new entries; `None` deletes.
    pub(crate) fields: Vec<(Bytes, Option<Entry>)>,
}

#[cfg(test)]
impl Change {
    /// The change that led to `place` from the preceding revision, whose stamp was `after`.
    pub(crate) fn new(place: Place, after: u64, clear: bool, fields: Vec<(Bytes, Option<Entry>)>) -> Self {
        Self { place, after, clear, fields }
    }
}

/// The effect of a change on a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Applied {
    /// The change was the next one: the copy has it now.
    Done,
    /// The copy already had it. Nothing changed.
    Stale,
    /// Changes are missing in between, or the map began anew, or its history is another one. Nothing changed: take a
    /// snapshot.
    Gap,
}

/// A copy of a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    content: Arc<Content>,
}

impl Replica {
    /// Applies a change if it is the next one.
    pub(crate) fn apply(&mut self, change: Change) -> Applied {
        let Change { place: next, after, clear, fields } = change;
        let Some(place) = self.content.place else { return Applied::Gap };
        if place.incarnation != next.incarnation {
            return Applied::Gap;
        }
        if next.revision <= place.revision {
            // Everything in the copy was written before its stamp. A later stamp belongs to another history, and so
            // does another stamp of the same revision.
            let is_contained = next.stamp <= place.stamp;
            let is_another = next.revision == place.revision && next.stamp != place.stamp;
            return if is_contained && !is_another { Applied::Stale } else { Applied::Gap };
        }
        if next.revision - 1 != place.revision || after != place.stamp {
            return Applied::Gap;
        }
        let content = Arc::make_mut(&mut self.content);
        content.advance(next);
        if clear {
            content.clear();
        }
        for (key, entry) in fields {
            match entry {
                Some(entry) => content.set(key, entry),
                None => content.remove(&key),
            }
        }
        Applied::Done
    }

    /// Applies a change by its revision alone, as a broken copy does.
    pub(crate) fn apply_if_newer(&mut self, change: Change) -> Applied {
        let Some(place) = self.content.place else { return Applied::Gap };
        if change.place.revision <= place.revision {
            return Applied::Stale;
        }
        let place = Place::new(change.place.incarnation, change.place.revision - 1, change.after);
        Arc::make_mut(&mut self.content).advance(place);
        self.apply(change)
    }

    /// Whether this content has a higher revision, or the copy has none.
    pub(crate) fn is_older(&self, content: &Content) -> bool {
        let revision = |content: &Content| content.place.map(|place| place.revision);
        revision(&self.content) < revision(content)
    }

    /// Replaces the content of the copy. Returns whether the new content differs.
    #[cfg(test)]
    pub(crate) fn install(&mut self, snapshot: Snapshot) -> bool {
        self.replace(snapshot.into_content()).0
    }

    /// Replaces the content. Returns whether the new one differs, and the old one.
    pub(crate) fn replace(&mut self, content: Arc<Content>) -> (bool, Arc<Content>) {
        let differs = self.content.place != content.place || *self.content != *content;
        (differs, std::mem::replace(&mut self.content, content))
    }

    /// Takes the server's statement of the map's end. Returns whether it is new.
    pub(crate) fn set_end(&mut self, end: Option<u64>) -> bool {
        let differs = self.content.end != end;
        if differs {
            Arc::make_mut(&mut self.content).end = end;
        }
        differs
    }

    /// The content, with all entries that are past their deadlines and not yet deleted.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::taken(self.content.clone(), 0)
    }

    pub(crate) fn content(&self) -> &Arc<Content> {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Revision `n` is written at 10 n.
    fn change(incarnation: u64, revision: u64, value: Option<&'static str>) -> Change {
        let entry = |value| Entry::new(value, None);
        let fields = vec![("k".into(), value.map(entry)), ("l".into(), Some(entry("same")))];
        Change::new(
            Place::new(incarnation, revision, revision * 10),
            revision.saturating_sub(1) * 10,
            false,
            fields,
        )
    }

    fn at(incarnation: u64, revision: u64) -> Snapshot {
        Snapshot::at(Place::new(incarnation, revision, revision * 10), [])
    }

    #[test]
    fn only_the_next_revision_of_the_same_incarnation_is_applied() {
        let mut replica = Replica::default();
        assert_eq!(replica.apply(change(7, 1, Some("v"))), Applied::Gap, "no map yet");
        assert!(replica.install(at(7, 3)));
        assert_eq!(replica.apply(change(7, 3, Some("v"))), Applied::Stale);
        assert_eq!(replica.apply(change(7, 2, Some("v"))), Applied::Stale);
        assert_eq!(replica.apply(change(7, 5, Some("v"))), Applied::Gap);
        assert_eq!(replica.apply(change(6, 4, Some("v"))), Applied::Gap);
        assert_eq!(replica.apply(change(8, 4, Some("v"))), Applied::Gap);
        assert_eq!(replica.snapshot().revision(), 3);
        assert_eq!(replica.apply(change(7, 4, Some("v"))), Applied::Done);
        assert_eq!(replica.snapshot().get("k"), Some(&"v".into()));
        assert_eq!(replica.apply(change(7, 5, None)), Applied::Done);
        assert_eq!((replica.snapshot().get("k"), replica.snapshot().len()), (None, 1));
    }

    #[test]
    fn a_history_that_forked_is_a_gap_whatever_its_numbers() {
        let mut replica = Replica::default();
        replica.install(at(7, 3));
        let fork = |revision, after, stamp| Change::new(Place::new(7, revision, stamp), after, false, vec![]);
        assert_eq!(replica.apply(fork(4, 31, 41)), Applied::Gap, "made from another revision 3");
        assert_eq!(replica.apply(fork(3, 20, 31)), Applied::Gap, "another revision 3");
        assert_eq!(replica.apply(fork(3, 20, 29)), Applied::Gap, "another, earlier revision 3");
        assert_eq!(replica.apply(fork(2, 10, 31)), Applied::Gap, "written after what is here");
        assert_eq!(replica.apply(fork(2, 10, 20)), Applied::Stale);
    }

    #[test]
    fn a_reset_takes_all_that_was_there_before() {
        let mut replica = Replica::default();
        replica.install(at(7, 0));
        assert_eq!(replica.apply(change(7, 1, Some("v"))), Applied::Done);
        let fields = vec![("new".into(), Some(Entry::new("v", None)))];
        assert_eq!(replica.apply(Change::new(Place::new(7, 2, 20), 10, true, fields)), Applied::Done);
        assert!(replica.snapshot().keys().eq(["new"]));
    }

    #[test]
    fn a_snapshot_held_by_a_reader_does_not_change() {
        let mut replica = Replica::default();
        replica.install(Snapshot::new(7, 0, BTreeMap::new()));
        let before = replica.snapshot();
        assert_eq!(replica.apply(change(7, 1, Some("v"))), Applied::Done);
        assert!(before.is_empty() && before.revision() == 0);
        assert!(!replica.install(replica.snapshot()), "the same again is no news");
    }
}
