//! Messages and replies as they come from Redis.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use redis::Value;
use serde::de::{Deserialize, Deserializer, Visitor};

use crate::replica::Change;
use crate::{Error, Snapshot};

/// What a message on a map's channel says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// A change of the map with this name.
    Change { map: Bytes, change: Change },
    /// Every map on the channel is to be read again.
    ReadAgain,
}

impl Announcement {
    /// Reads `[map, inc, rev, (field, value or nil)*]`, `['*', inc]` or `['closed', inc]`.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut items = rmp_serde::from_slice::<Vec<Item>>(payload).ok()?.into_iter();
        let Item::Bytes(map) = items.next()? else { return None };
        let incarnation = items.next()?.number()?;
        let Some(revision) = items.next() else {
            return matches!(&map[..], b"*" | b"closed").then_some(Self::ReadAgain);
        };
        let revision = revision.number()?;
        let mut fields = Vec::with_capacity(items.len() / 2);
        while let Some(field) = items.next() {
            let Item::Bytes(field) = field else { return None };
            let value = match items.next()? {
                Item::Bytes(value) => Some(value),
                Item::Absent => None,
            };
            fields.push((field, value));
        }
        Some(Self::Change { map, change: Change { incarnation, revision, fields } })
    }
}

/// A member of a message. Numbers count as their decimal text, as they do in a Redis hash.
enum Item {
    Bytes(Bytes),
    Absent,
}

impl Item {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => decimal(bytes),
            Self::Absent => None,
        }
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;

        impl Visitor<'_> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a whole number, nil or false")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Item, E> {
                Ok(Item::Bytes(Bytes::copy_from_slice(bytes)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Bytes(Bytes::copy_from_slice(text.as_bytes())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Item, E> {
                Ok(Item::Bytes(number.to_string().into()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Item, E> {
                Ok(Item::Bytes(number.to_string().into()))
            }

            fn visit_unit<E>(self) -> Result<Item, E> {
                Ok(Item::Absent)
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Item, E> {
                if value { Err(E::custom("true is no value")) } else { Ok(Item::Absent) }
            }
        }

        deserializer.deserialize_any(ItemVisitor)
    }
}

/// The reply of the script that reads a map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The caller has the present revision.
    Same,
    /// The content.
    Content(Snapshot),
}

impl Read {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let Value::Array(items) = reply else { return Err(malformed("another reply to a read")) };
        let mut items = items.into_iter();
        let Some(incarnation) = items.next() else { return Ok(Self::Content(Snapshot::default())) };
        let incarnation = number(incarnation)?;
        let revision = number(items.next().unwrap_or_default())?;
        let entries = match items.next() {
            None => return Ok(Self::Same),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(malformed("entries that are no list")),
        };
        let mut entries = entries.into_iter().map(bytes);
        let mut map = BTreeMap::new();
        while let Some(key) = entries.next() {
            let value = entries.next().flatten();
            let (Some(key), Some(value)) = (key, value) else { return Err(malformed("half an entry")) };
            map.insert(key, value);
        }
        Ok(Self::Content(Snapshot::new(incarnation, revision, map)))
    }
}

/// The reply of a script that writes: where it was written, if it was, and the value it found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) at: Option<(u64, u64)>,
    pub(crate) found: Option<Bytes>,
}

impl Written {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let Value::Array(items) = reply else { return Err(malformed("another reply to a write")) };
        let mut items = items.into_iter();
        let at = match (items.next(), items.next()) {
            (None | Some(Value::Nil), _) => None,
            (Some(incarnation), revision) => {
                Some((number(incarnation)?, number(revision.unwrap_or_default())?))
            }
        };
        Ok(Self { at, found: items.next().and_then(bytes) })
    }
}

fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into()),
        Value::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}

fn number(value: Value) -> Result<u64, Error> {
    bytes(value)
        .and_then(|text| decimal(&text))
        .ok_or_else(|| malformed("an incarnation or revision that is no number"))
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_with_any_bytes_is_read() {
        let mut payload = b"\x97\xa1w\xad1700000000000\xa17\xa1k".to_vec();
        payload.extend_from_slice(b"\xa2\xff\x00\xa1d\xc2");
        let fields = vec![("k".into(), Some(Bytes::from_static(b"\xff\x00"))), ("d".into(), None)];
        let change = Change { incarnation: 1_700_000_000_000, revision: 7, fields };
        assert_eq!(Announcement::decode(&payload), Some(Announcement::Change { map: "w".into(), change }));
    }

    #[test]
    fn a_word_to_all_maps_is_read_and_anything_else_is_none() {
        assert_eq!(Announcement::decode(b"\x92\xa1*\xa15"), Some(Announcement::ReadAgain));
        assert_eq!(Announcement::decode(b"\x92\xa6closed\x05"), Some(Announcement::ReadAgain));
        for bad in
            [&b""[..], b"\x90", b"\x91\xa1*", b"\x92\xa1w\xa15", b"\x93\xa1w\xa15\xa1x", b"\xc1", b"\xa1w"]
        {
            assert_eq!(Announcement::decode(bad), None, "{}", bad.escape_ascii());
        }
        let half = b"\x94\xa1w\xa15\xa16\xa1k";
        assert_eq!(Announcement::decode(half), None, "a field without a value");
    }

    #[test]
    fn replies_are_read_or_refused() {
        let text = |text: &str| Value::BulkString(text.into());
        assert!(
            matches!(Read::decode(Value::Array(vec![])), Ok(Read::Content(s)) if s == Snapshot::default())
        );
        assert!(matches!(Read::decode(Value::Array(vec![text("5"), text("2")])), Ok(Read::Same)));
        let entries = Value::Array(vec![text("k"), text("v")]);
        let read = Read::decode(Value::Array(vec![text("5"), text("2"), entries]));
        assert!(matches!(read, Ok(Read::Content(s)) if s.is_at(Some(5), 2) && s.len() == 1));
        for bad in [Value::Nil, Value::Array(vec![text("x")]), Value::Array(vec![text("5"), text("")])] {
            assert!(matches!(Read::decode(bad), Err(Error::Malformed { .. })));
        }
        let kept = Written::decode(Value::Array(vec![Value::Nil, Value::Nil, text("v")]));
        assert!(matches!(kept, Ok(Written { at: None, found: Some(v) }) if v == "v"));
    }
}
