//! A map as it was at one revision.

use std::collections::BTreeMap;

use bytes::Bytes;

/// The whole content of a map at one revision of one incarnation. Keys and values are any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The life of the map's data that this belongs to; `None` when there is no map, and then there are no entries.
    pub incarnation: Option<u64>,
    /// Counts the changes of the incarnation.
    pub revision: u64,
    /// The entries.
    pub entries: BTreeMap<Bytes, Bytes>,
}

impl Snapshot {
    /// The content at a revision of an incarnation.
    pub fn new(incarnation: u64, revision: u64, entries: BTreeMap<Bytes, Bytes>) -> Self {
        Self { incarnation: Some(incarnation), revision, entries }
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.entries.get(key.as_ref())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether this is that revision of that incarnation.
    pub fn is_at(&self, incarnation: Option<u64>, revision: u64) -> bool {
        self.incarnation == incarnation && self.revision == revision
    }
}
