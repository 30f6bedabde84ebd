//! The entries of streams: new ones, and those that were read.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::{EntryId, Error, keys};

/// The name of the field that carries a topic. It is always the first field, and no other field may have the name.
pub const TOPIC_FIELD: &str = "tenure:topic";
/// The most fields of an entry.
pub const MAX_FIELDS: usize = 1024;
/// The most bytes of an entry's names and values, its topic included: 1 MiB.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;
/// The most entries in one batch.
pub const MAX_BATCH: usize = 4096;
/// The most bytes in one batch: 8 MiB. Each field counts 32 bytes more than it has, for its cost when empty.
pub const MAX_BATCH_BYTES: usize = 8 << 20;
/// The extra bytes that each field counts in a batch.
pub(crate) const FIELD_BYTES: usize = 32;

/// One entry of a stream. Its fields keep their order, and a name may occur more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The stream that the entry was read from.
    pub stream: Arc<str>,
    /// The entry's id.
    pub id: EntryId,
    /// Names with their values, without the topic.
    pub fields: Vec<(Bytes, Bytes)>,
    topic: Option<String>,
    deliveries: u64,
}

impl Entry {
    /// An entry with these fields.
    pub fn new(stream: impl Into<Arc<str>>, id: EntryId, fields: Vec<(Bytes, Bytes)>) -> Self {
        Self { stream: stream.into(), id, fields, topic: None, deliveries: 1 }
    }

    /// The same entry under a topic.
    #[must_use]
    pub fn with_topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    pub(crate) fn with_deliveries(mut self, deliveries: u64) -> Self {
        self.deliveries = deliveries;
        self
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Bytes> {
        let name = name.as_ref();
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The entry's topic, if its publisher gave one.
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    /// The time when it was added, by the server's clock.
    pub fn time(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.id.ms)).unwrap_or(UNIX_EPOCH)
    }

    /// The number of deliveries to consumers of the sink's group, this one included: 1 unless it was delivered before
    /// and not acknowledged. Readers always see 1.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }
}

/// A new entry, for a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct NewEntry {
    topic: Option<String>,
    fields: Vec<(Bytes, Bytes)>,
}

impl NewEntry {
    /// An entry without fields; it needs at least one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field.
    pub fn field(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Sets the topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    pub(crate) fn parts(&self) -> (Option<&str>, &[(Bytes, Bytes)]) {
        (self.topic.as_deref(), &self.fields)
    }
}

/// Refuses entries that must not be sent, and returns the entry's size in bytes.
pub(crate) fn check<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    topic: Option<&str>,
    fields: &[(N, V)],
) -> Result<usize, Error> {
    if fields.is_empty() {
        return Err(Error::NoFields);
    }
    at_most("fields in an entry", fields.len(), MAX_FIELDS)?;
    let mut bytes = 0;
    if let Some(topic) = topic {
        keys::check("topic", topic)?;
        bytes = TOPIC_FIELD.len() + topic.len();
    }
    for (name, value) in fields {
        let (name, value) = (name.as_ref(), value.as_ref());
        if name == TOPIC_FIELD.as_bytes() {
            return Err(Error::ReservedField);
        }
        bytes += name.len() + value.len();
    }
    at_most("bytes in an entry", bytes, MAX_ENTRY_BYTES)?;
    Ok(bytes)
}

pub(crate) fn at_most(what: &'static str, is: usize, limit: usize) -> Result<(), Error> {
    if is <= limit { Ok(()) } else { Err(Error::TooLarge { what, is, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_must_not_be_sent_are_refused() {
        let none: &[(&str, &str)] = &[];
        assert!(matches!(check(None, none), Err(Error::NoFields)));
        assert!(matches!(check(None, &[("a", "b"), (TOPIC_FIELD, "x")]), Err(Error::ReservedField)));
        assert!(matches!(check(Some(""), &[("a", "b")]), Err(Error::Name { what: "topic", .. })));
        let (most, more) = ("x".repeat(MAX_ENTRY_BYTES - 1), "x".repeat(MAX_ENTRY_BYTES));
        assert_eq!(check(None, &[("a", &most)]).ok(), Some(MAX_ENTRY_BYTES));
        assert!(matches!(check(None, &[("a", &more)]), Err(Error::TooLarge { .. })));
        assert!(matches!(check(None, &vec![("a", "b"); MAX_FIELDS + 1]), Err(Error::TooLarge { .. })));
        assert_eq!(check(Some("t"), &[("a", "bc")]).ok(), Some(TOPIC_FIELD.len() + 4));
    }

    #[test]
    fn an_entry_knows_its_time() {
        let entry = Entry::new("s", EntryId::new(1500, 3), vec![]).with_topic("t");
        assert_eq!(entry.time(), UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(Entry::new("s", EntryId::MAX, vec![]).topic(), None);
        let _ = Entry::new("s", EntryId::MAX, vec![]).time();
        assert_eq!((entry.topic(), entry.deliveries()), (Some("t"), 1));
    }
}
