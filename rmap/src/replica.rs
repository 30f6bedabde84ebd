//! The rule by which a copy of a map follows its original. Pure: no I/O, no clock.
//!
//! Invariant: the content is always one that the map really had at the copy's incarnation and revision. A change is
//! taken only when it is the very next one of the same incarnation; whatever else may have been missed is a gap,
//! and a gap is closed only by a snapshot.

use std::sync::Arc;

use bytes::Bytes;

use crate::Snapshot;

/// One revision of a map: the fields it set and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The incarnation that was changed.
    pub incarnation: u64,
    /// The revision that this change made.
    pub revision: u64,
    /// Keys with their new values; `None` deletes.
    pub fields: Vec<(Bytes, Option<Bytes>)>,
}

/// What a change meant to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Applied {
    /// It was the next one: the copy has it now.
    Applied,
    /// The copy had it already. Nothing changed.
    Stale,
    /// Something is missing in between, or the map began anew. Nothing changed: take a snapshot.
    Gap,
}

/// A copy of a map.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    snapshot: Arc<Snapshot>,
}

impl Replica {
    /// Takes a change, if it is the next one.
    pub fn apply(&mut self, change: &Change) -> Applied {
        let Snapshot { incarnation, revision, .. } = *self.snapshot;
        if incarnation != Some(change.incarnation) {
            return Applied::Gap;
        }
        if change.revision <= revision {
            return Applied::Stale;
        }
        if change.revision - 1 != revision {
            return Applied::Gap;
        }
        let snapshot = Arc::make_mut(&mut self.snapshot);
        snapshot.revision = change.revision;
        for (key, value) in &change.fields {
            match value {
                Some(value) => snapshot.entries.insert(key.clone(), value.clone()),
                None => snapshot.entries.remove(key),
            };
        }
        Applied::Applied
    }

    /// Takes the place of whatever the copy had. Returns whether that was something else.
    pub fn install(&mut self, snapshot: Snapshot) -> bool {
        let differs = *self.snapshot != snapshot;
        if differs {
            self.snapshot = Arc::new(snapshot);
        }
        differs
    }

    /// The content.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn change(incarnation: u64, revision: u64, value: Option<&'static str>) -> Change {
        let fields = vec![("k".into(), value.map(Bytes::from)), ("l".into(), Some("same".into()))];
        Change { incarnation, revision, fields }
    }

    #[test]
    fn only_the_next_revision_of_the_same_incarnation_is_applied() {
        let mut replica = Replica::default();
        assert_eq!(replica.apply(&change(7, 1, Some("v"))), Applied::Gap, "no map yet");
        assert!(replica.install(Snapshot::new(7, 3, BTreeMap::new())));
        assert_eq!(replica.apply(&change(7, 3, Some("v"))), Applied::Stale);
        assert_eq!(replica.apply(&change(7, 5, Some("v"))), Applied::Gap);
        assert_eq!(replica.apply(&change(6, 4, Some("v"))), Applied::Gap);
        assert_eq!(replica.apply(&change(8, 4, Some("v"))), Applied::Gap);
        assert_eq!(replica.snapshot().revision, 3);
        assert_eq!(replica.apply(&change(7, 4, Some("v"))), Applied::Applied);
        assert_eq!(replica.snapshot().get("k"), Some(&"v".into()));
        assert_eq!(replica.apply(&change(7, 5, None)), Applied::Applied);
        assert_eq!((replica.snapshot().get("k"), replica.snapshot().len()), (None, 1));
    }

    #[test]
    fn a_snapshot_held_by_a_reader_does_not_change() {
        let mut replica = Replica::default();
        replica.install(Snapshot::new(7, 0, BTreeMap::new()));
        let before = replica.snapshot().clone();
        assert_eq!(replica.apply(&change(7, 1, Some("v"))), Applied::Applied);
        assert!(before.is_empty() && before.revision == 0);
        assert!(!replica.install((**replica.snapshot()).clone()), "the same again is no news");
    }
}
