//! What is read from streams.

use std::sync::Arc;

use bytes::Bytes;

use crate::EntryId;

/// One entry of a stream. Its fields keep their order, and a name may come more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Names with their values.
    pub fields: Vec<(Bytes, Bytes)>,
}

impl Entry {
    /// An entry of these parts.
    pub fn new(id: EntryId, fields: Vec<(Bytes, Bytes)>) -> Self {
        Self { id, fields }
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Bytes> {
        let name = name.as_ref();
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

/// Entries of one stream, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Batch {
    /// The stream.
    pub stream: Arc<str>,
    /// Its entries; never none.
    pub entries: Vec<Entry>,
}
