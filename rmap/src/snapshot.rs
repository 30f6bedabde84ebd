//! A map as it was at one revision.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::tree::{Cursor, Tree};

/// A place in the history of a map. Two maps at the same place have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The life of the map's data: it changes when the map is lost or destroyed and begun anew.
    pub incarnation: u64,
    /// The number of changes in this incarnation.
    pub revision: u64,
    /// The server's clock at that change, in µs. It distinguishes two histories that continued from the same revision,
    /// after a fail-over to a replica that lagged behind.
    pub stamp: u64,
}

impl Place {
    /// The place of that revision of that incarnation, made at `stamp`.
    pub fn new(incarnation: u64, revision: u64, stamp: u64) -> Self {
        Self { incarnation, revision, stamp }
    }
}

/// A value and its life.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// When it ends, by the server's clock in ms since the Unix epoch; `None` for a permanent entry.
    pub deadline: Option<u64>,
}

impl Entry {
    /// A permanent value, or one that ends at `deadline`.
    pub fn new(value: impl Into<Bytes>, deadline: Option<u64>) -> Self {
        Self { value: value.into(), deadline }
    }

    fn is_live(&self, now: u64) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now)
    }
}

/// The life of a map as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until this long after its last change, in ms.
    Sliding(u64),
    /// Until this time of the server's clock, in ms.
    Until(u64),
}

/// The full content of a map, including due entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) place: Option<Place>,
    /// How far each change moves the end.
    pub(crate) life: Option<Life>,
    /// When the map as a whole ends, by the server's clock in ms.
    pub(crate) end: Option<u64>,
    entries: Tree<Bytes, Entry>,
    /// The entries that end, by deadline.
    due: Tree<(u64, Bytes), ()>,
}

impl Content {
    pub(crate) fn new(
        place: Place,
        life: Option<Life>,
        end: Option<u64>,
        entries: impl IntoIterator<Item = (Bytes, Entry)>,
    ) -> Self {
        let entries: Tree<_, _> = entries.into_iter().collect();
        let due = entries.iter().filter_map(|(key, entry)| Some(((entry.deadline?, key.clone()), ())));
        let due = due.collect();
        Self { place: Some(place), life, end, entries, due }
    }

    pub(crate) fn set(&mut self, key: Bytes, entry: Entry) {
        if let Some(deadline) = entry.deadline {
            self.due.insert((deadline, key.clone()), ());
        }
        let deadline = entry.deadline;
        if let Some(Entry { deadline: Some(before), .. }) = self.entries.insert(key.clone(), entry)
            && Some(before) != deadline
        {
            self.due.remove(&(before, key));
        }
    }

    pub(crate) fn remove(&mut self, key: &Bytes) {
        if let Some(Entry { deadline: Some(deadline), .. }) = self.entries.remove(key) {
            self.due.remove(&(deadline, key.clone()));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries = Tree::default();
        self.due = Tree::default();
    }

    /// The value of a key, unless the entry is past its deadline at `now`, or the map past its own.
    pub(crate) fn get(&self, key: &[u8], now: u64) -> Option<&Bytes> {
        let entry = self.entries.get(key).filter(|entry| entry.is_live(now))?;
        (!self.has_ended(now)).then_some(&entry.value)
    }

    pub(crate) fn len(&self, now: u64) -> usize {
        if self.has_ended(now) {
            return 0;
        }
        let past = self.due.iter().take_while(|((deadline, _), ())| *deadline <= now).count();
        self.entries.len() - past
    }

    /// When the next entry ends.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.first_deadline_after(0)
    }

    /// When the next entry ends that has not ended at `now`.
    pub(crate) fn first_deadline_after(&self, now: u64) -> Option<u64> {
        let next = (now.checked_add(1)?, Bytes::new());
        self.due.at(self.due.seek(&next)).map(|((deadline, _), (), _)| *deadline)
    }

    /// Moves to the place of a change, which extends a sliding life.
    pub(crate) fn advance(&mut self, place: Place) {
        self.place = Some(place);
        match self.life {
            Some(Life::Sliding(life)) => self.end = Some((place.stamp / 1000).saturating_add(life)),
            Some(Life::Until(end)) => self.end = Some(end),
            None => {}
        }
    }

    pub(crate) fn has_ended(&self, now: u64) -> bool {
        self.end.is_some_and(|end| end < now)
    }
}

/// The whole content of a map at one revision of one incarnation. Keys and values are any bytes, in the order of the
/// keys.
///
/// Cheap to clone and to keep: it shares all unchanged parts with the map and with its other snapshots. Entries that
/// were past their deadline when it was taken are left out.
#[derive(Clone, Default)]
pub struct Snapshot {
    content: Arc<Content>,
    /// The server's clock in ms when it was taken.
    now: u64,
}

impl Snapshot {
    /// A content whose entries are all permanent.
    pub fn new(incarnation: u64, revision: u64, entries: BTreeMap<Bytes, Bytes>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key, Entry::new(value, None)));
        Self::at(Place::new(incarnation, revision, 0), entries)
    }

    /// The content at a place, with all its entries.
    pub fn at(place: Place, entries: impl IntoIterator<Item = (Bytes, Entry)>) -> Self {
        Self::taken(Arc::new(Content::new(place, None, None, entries)), 0)
    }

    pub(crate) fn taken(content: Arc<Content>, now: u64) -> Self {
        if content.has_ended(now) {
            return Self::default();
        }
        Self { content, now }
    }

    #[cfg(test)]
    pub(crate) fn into_content(self) -> Arc<Content> {
        self.content
    }

    /// The map's place in its history; `None` when there was no map, and then there are no entries.
    pub fn place(&self) -> Option<Place> {
        self.content.place
    }

    /// The life of the map's data; `None` when there was no map.
    pub fn incarnation(&self) -> Option<u64> {
        self.content.place.map(|place| place.incarnation)
    }

    /// The number of changes in this incarnation.
    pub fn revision(&self) -> u64 {
        self.content.place.map_or(0, |place| place.revision)
    }

    /// Whether this is that revision of that incarnation.
    pub fn is_at(&self, incarnation: Option<u64>, revision: u64) -> bool {
        self.incarnation() == incarnation && self.revision() == revision
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.content.get(key.as_ref(), self.now)
    }

    /// Whether there is such a key.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.get(key).is_some()
    }

    /// When the key's entry ends, by the server's clock in ms since the Unix epoch; `None` for a permanent or absent
    /// entry.
    pub fn deadline(&self, key: impl AsRef<[u8]>) -> Option<u64> {
        let entry = self.content.entries.get(key.as_ref())?;
        entry.deadline.filter(|deadline| *deadline > self.now)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.content.len(self.now)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.live(self.content.entries.iter())
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.iter().map(|(key, _)| key)
    }

    /// The entries whose keys begin with `prefix`, in their order. The cost grows only with their number.
    pub fn prefix<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
        let begin = self.content.entries.seek(prefix);
        self.live(self.content.entries.iter_from(begin)).take_while(move |(key, _)| key.starts_with(prefix))
    }

    fn live<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Bytes, &'a Entry)>,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Bytes)> {
        let now = self.now;
        entries.filter(move |(_, entry)| entry.is_live(now)).map(|(key, entry)| (key, &entry.value))
    }
}

impl IntoIterator for Snapshot {
    type Item = (Bytes, Bytes);
    type IntoIter = Entries;

    /// The entries in the order of their keys.
    fn into_iter(self) -> Entries {
        Entries { snapshot: self, next: Cursor::default() }
    }
}

/// The entries of a [`Snapshot`], which it owns.
#[derive(Clone, Debug)]
pub struct Entries {
    snapshot: Snapshot,
    next: Cursor,
}

impl Iterator for Entries {
    type Item = (Bytes, Bytes);

    fn next(&mut self) -> Option<(Bytes, Bytes)> {
        loop {
            let (key, entry, next) = self.snapshot.content.entries.at(self.next)?;
            self.next = next;
            if entry.is_live(self.snapshot.now) {
                return Some((key.clone(), entry.value.clone()));
            }
        }
    }
}

/// Equal when the place and the entries are.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.content.place == other.content.place && self.iter().eq(other.iter())
    }
}

impl Eq for Snapshot {}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: BTreeMap<_, _> = self.iter().collect();
        f.debug_struct("Snapshot")
            .field("place", &self.content.place)
            .field("entries", &entries)
            .finish_non_exhaustive()
    }
}
