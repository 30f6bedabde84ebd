//! Messages and replies from Redis.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use crate::Error;
use crate::replica::Change;
use crate::snapshot::{Content, Entry, Life, Place};

/// A message on a map's channel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// A change of the map with this name.
    Change { map: Bytes, change: Change },
    /// Every map on the channel must be read again.
    ReadAgain,
}

impl Announcement {
    /// Reads `[map, inc, rev, stamp before, stamp, true?, (field, value | [value, deadline] | false)*]`, `['*', inc]`
    /// or `['closed', inc]`. `true` says that all entries before were deleted.
    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut items = rmp_serde::from_slice::<Vec<Item>>(payload).ok()?.into_iter().peekable();
        let Item::Bytes(map) = items.next()? else { return None };
        let incarnation = items.next()?.number()?;
        let Some(revision) = items.next() else {
            return matches!(&map[..], b"*" | b"closed").then_some(Self::ReadAgain);
        };
        let revision = revision.number()?;
        let after = items.next()?.number()?;
        let place = Place { incarnation, revision, stamp: items.next()?.number()? };
        let clear = items.next_if(|item| matches!(item, Item::True)).is_some();
        let mut fields = Vec::with_capacity(items.len() / 2);
        while let Some(field) = items.next() {
            let Item::Bytes(field) = field else { return None };
            let entry = match items.next()? {
                Item::Bytes(value) => Some(Entry { value, deadline: None }),
                Item::Dated(value, deadline) => Some(Entry { value, deadline: Some(deadline) }),
                Item::Absent => None,
                Item::True => return None,
            };
            fields.push((field, entry));
        }
        Some(Self::Change { map, change: Change { place, after, clear, fields } })
    }
}

/// A member of a message. Numbers count as their decimal text, as in a Redis hash.
enum Item {
    Bytes(Bytes),
    Dated(Bytes, u64),
    Absent,
    True,
}

impl Item {
    fn number(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => decimal(bytes),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor { may_be_dated: true })
    }
}

/// A member of a member: no message, whoever sent it, may nest deeper.
struct Inner(Item);

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor { may_be_dated: false }).map(Self)
    }
}

struct ItemVisitor {
    may_be_dated: bool,
}

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a whole number, nil, a boolean, or a string with its deadline")
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

    fn visit_bool<E>(self, value: bool) -> Result<Item, E> {
        Ok(if value { Item::True } else { Item::Absent })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
        let refused = serde::de::Error::custom("an array that is not a value with its deadline");
        if !self.may_be_dated {
            return Err(refused);
        }
        let value = seq.next_element::<Inner>()?;
        let deadline = seq.next_element::<Inner>()?.and_then(|Inner(deadline)| deadline.number());
        match (value, deadline, seq.next_element::<Inner>()?) {
            (Some(Inner(Item::Bytes(value))), Some(deadline), None) => Ok(Item::Dated(value, deadline)),
            _ => Err(refused),
        }
    }
}

/// The items of a list, which is a MessagePack array of strings only. For the scripts, byte strings are no strings.
pub(crate) fn list(value: &Bytes) -> Option<Vec<Bytes>> {
    let mut rest = Rest { value, at: 0 };
    let count = match rest.byte()? {
        short @ 0x90..=0x9f => usize::from(short - 0x90),
        0xdc => rest.number(2)?,
        0xdd => rest.number(4)?,
        _ => return None,
    };
    let mut items = Vec::new();
    for _ in 0..count {
        let length = match rest.byte()? {
            short @ 0xa0..=0xbf => usize::from(short - 0xa0),
            0xd9 => rest.number(1)?,
            0xda => rest.number(2)?,
            0xdb => rest.number(4)?,
            _ => return None,
        };
        items.push(rest.take(length)?);
    }
    (rest.at == value.len()).then_some(items)
}

/// The rest of a value.
struct Rest<'a> {
    value: &'a Bytes,
    at: usize,
}

impl Rest<'_> {
    fn take(&mut self, length: usize) -> Option<Bytes> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.value.len())?;
        let taken = self.value.slice(self.at..end);
        self.at = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// A number of `length` bytes, the highest first.
    fn number(&mut self, length: usize) -> Option<usize> {
        let bytes = self.take(length)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

/// The reply of the script that reads a map.
#[derive(Debug)]
pub(crate) struct Read {
    /// The server's clock, in µs.
    pub(crate) time: u64,
    /// When the map as a whole ends, in ms, if it does.
    pub(crate) end: Option<u64>,
    pub(crate) found: Found,
}

/// The answer to a comparison with the caller's copy.
#[derive(Debug)]
pub(crate) enum Found {
    /// The copy is up to date.
    Same,
    /// The content of the map.
    Content(Arc<Content>),
    /// The map was not read, because it has this many entries.
    Many(u64),
}

impl Read {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let mut items = array(reply)?.into_iter();
        let time = time(items.next(), items.next())?;
        let end = match items.next() {
            Some(Value::Int(end)) => u64::try_from(end).ok(),
            _ => return Err(malformed("an end of the map that is not a number")),
        };
        let found = match items.next() {
            None => Found::Same,
            Some(Value::Int(count)) => Found::Many(u64::try_from(count).unwrap_or(0)),
            Some(content) => Found::Content(content_of(array(content)?, end)?),
        };
        Ok(Self { time, end, found })
    }
}

fn content_of(items: Vec<Value>, end: Option<u64>) -> Result<Arc<Content>, Error> {
    let mut items = items.into_iter();
    let Some(incarnation) = items.next() else { return Ok(Arc::default()) };
    let mut next = || items.next().unwrap_or_default();
    let place =
        Place { incarnation: number(incarnation)?, revision: number(next())?, stamp: number(next())? };
    let life = match bytes(next()) {
        Some(text) => Some(life(&text).ok_or_else(|| malformed("a malformed life of the map"))?),
        None => None,
    };
    let entries = pairs(next())?;
    let mut deadlines = BTreeMap::new();
    for (key, deadline) in pairs(next())? {
        let deadline = decimal(&deadline).ok_or_else(|| malformed("a deadline that is not a number"))?;
        deadlines.insert(key, deadline);
    }
    let entries = entries.into_iter().map(|(key, value)| {
        let deadline = if deadlines.is_empty() { None } else { deadlines.get(&key).copied() };
        (key, Entry { value, deadline })
    });
    Ok(Arc::new(Content::new(place, life, end, entries)))
}

fn life(text: &[u8]) -> Option<Life> {
    match text.strip_prefix(b"@") {
        Some(end) => decimal(end).map(Life::Until),
        None => decimal(text).map(Life::Sliding),
    }
}

fn pairs(items: Value) -> Result<Vec<(Bytes, Bytes)>, Error> {
    let items = array(items)?;
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter().map(bytes);
    while let Some(first) = items.next() {
        let (Some(first), Some(second)) = (first, items.next().flatten()) else {
            return Err(malformed("half an entry"));
        };
        pairs.push((first, second));
    }
    Ok(pairs)
}

/// The reply of a script that writes: the place of the write, if it wrote, and the value that it found or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) at: Option<Place>,
    pub(crate) found: Option<Bytes>,
}

impl Written {
    pub(crate) fn decode(reply: Value) -> Result<Self, Error> {
        let (at, found) = Self::decode_all(reply)?;
        Ok(Self { at, found: found.into_iter().next().flatten() })
    }

    /// Decodes the reply of a script that writes several keys and answers a value for each.
    pub(crate) fn decode_all(reply: Value) -> Result<(Option<Place>, Vec<Option<Bytes>>), Error> {
        let mut items = array(reply)?.into_iter();
        let mut next = || items.next().unwrap_or_default();
        let at = match (next(), next(), next()) {
            (Value::Nil, ..) => None,
            (incarnation, revision, stamp) => Some(Place {
                incarnation: number(incarnation)?,
                revision: number(revision)?,
                stamp: number(stamp)?,
            }),
        };
        Ok((at, items.map(bytes).collect()))
    }

    /// The number that the script answered, or 0 when it had nothing to do.
    pub(crate) fn count(&self) -> Result<usize, Error> {
        match &self.found {
            None => Ok(0),
            Some(text) => decimal(text).map(|n| n as usize).ok_or_else(|| malformed("a malformed count")),
        }
    }
}

/// Decodes the reply of the script that deletes due entries: their number, and the server's clock in µs.
pub(crate) fn expired(reply: Value) -> Result<(u64, u64), Error> {
    let mut items = array(reply)?.into_iter();
    let count = number(items.next().unwrap_or_default())?;
    Ok((count, time(items.next(), items.next())?))
}

fn time(seconds: Option<Value>, micros: Option<Value>) -> Result<u64, Error> {
    let seconds = number(seconds.unwrap_or_default())?;
    Ok(seconds.saturating_mul(1_000_000).saturating_add(number(micros.unwrap_or_default())?))
}

fn array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(malformed("a reply that is not a list")),
    }
}

/// The bytes of a value, in no more memory than they need.
fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into_boxed_slice().into()),
        Value::SimpleString(text) => Some(text.into()),
        Value::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}

fn number(value: Value) -> Result<u64, Error> {
    bytes(value)
        .and_then(|text| decimal(&text))
        .ok_or_else(|| malformed("an incarnation, a revision or a time that is not a number"))
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { what }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_change_with_any_bytes_is_read() {
        let mut payload = b"\x9b\xa1w\xad1700000000000\xa17\xa18\xa19\xa1k".to_vec();
        payload.extend_from_slice(b"\xa2\xff\x00\xa1d\xc2\xa1t\x92\xa1v\xcd\x03\xe8");
        let fields = vec![
            ("k".into(), Some(Entry::new(&b"\xff\x00"[..], None))),
            ("d".into(), None),
            ("t".into(), Some(Entry::new("v", Some(1000)))),
        ];
        let change = Change::new(Place::new(1_700_000_000_000, 7, 9), 8, false, fields);
        assert_eq!(Announcement::decode(&payload), Some(Announcement::Change { map: "w".into(), change }));
        let cleared = Announcement::decode(b"\x96\xa1w\x05\x06\x07\x08\xc3");
        let change = Change::new(Place::new(5, 6, 8), 7, true, vec![]);
        assert_eq!(cleared, Some(Announcement::Change { map: "w".into(), change }));
    }

    #[test]
    fn a_message_to_all_maps_is_read_and_anything_else_is_refused() {
        assert_eq!(Announcement::decode(b"\x92\xa1*\xa15"), Some(Announcement::ReadAgain));
        assert_eq!(Announcement::decode(b"\x92\xa6closed\x05"), Some(Announcement::ReadAgain));
        let head = |rest: &[u8]| [b"\x97\xa1w\x05\x06\x07\x08", rest].concat();
        let bad = [
            b"".to_vec(),
            b"\x90".to_vec(),
            b"\x91\xa1*".to_vec(),
            b"\x92\xa1w\xa15".to_vec(),
            b"\x93\xa1w\xa15\xa1x".to_vec(),
            b"\x94\xa1w\xa15\xa16\xa17".to_vec(),
            b"\xc1".to_vec(),
            b"\xa1w".to_vec(),
            head(b"\xa1k\xc3"),
            head(b"\xa1k\x91\xa1v"),
            head(b"\xa1k\x92\xa1v\xa1x"),
            head(b"\xa1k\x92\x91\xa1v\x05"),
            head(b"\xc2\xa1v"),
        ];
        for bad in bad {
            assert_eq!(Announcement::decode(&bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!(Announcement::decode(&vec![0x91; 1_000_000]), None, "however deep it nests");
        let half = b"\x96\xa1w\xa15\xa16\xa17\xa18\xa1k";
        assert_eq!(Announcement::decode(half), None, "a field without a value");
    }

    #[test]
    fn a_list_has_strings_and_nothing_else() {
        let list = |value: &'static [u8]| list(&Bytes::from_static(value));
        assert_eq!(list(b"\x92\xa2\xff\x00\xd9\x01,"), Some(vec![b"\xff\x00"[..].into(), ",".into()]));
        let all = b"\xdd\x00\x00\x00\x03\xda\x00\x01a\xdb\x00\x00\x00\x01b\xa0";
        assert_eq!(list(all), Some(vec!["a".into(), "b".into(), "".into()]));
        assert_eq!((list(b"\x90"), list(b"\xdc\x00\x01\xa1a")), (Some(vec![]), Some(vec!["a".into()])));
        for bad in [
            &b""[..],
            b"text",
            b"\x92\xa1a",
            b"\x91\xc0",
            b"\x91\x05",
            b"\x90\x90",
            b"\x91\x92\xa1a\x05",
            b"\x91\xc4\x01a",
            b"\x91\xc5\x00\x01a",
            b"\x91\xc6\x00\x00\x00\x01a",
            b"\x91\xa2a",
            b"\x91\xd9",
            b"\x91\xda\x00",
            b"\x91\xdb\xff\xff\xff\xffa",
            b"\xdc\x00",
            b"\xdd\xff\xff\xff\xff\xa1a",
        ] {
            assert_eq!(list(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn replies_are_read_or_refused() {
        let text = |text: &str| Value::BulkString(text.into());
        let texts = |texts: &[&str]| Value::Array(texts.iter().map(|t| text(t)).collect());
        let read = |rest: Vec<Value>| {
            Read::decode(Value::Array([vec![text("7"), text("8"), Value::Int(99)], rest].concat()))
        };
        let same = read(vec![]).unwrap();
        assert!((same.time, same.end) == (7_000_008, Some(99)) && matches!(same.found, Found::Same));
        let many = read(vec![Value::Int(5)]).unwrap();
        assert!(matches!(many.found, Found::Many(5)));
        let content = |read: Result<Read, Error>| match read?.found {
            Found::Content(content) => Ok(content),
            other => panic!("{other:?}"),
        };
        assert_eq!(*content(read(vec![Value::Array(vec![])])).unwrap(), Content::default());
        let lasting = vec![text("7"), text("8"), Value::Int(-1)];
        assert_eq!(Read::decode(Value::Array(lasting)).unwrap().end, None);
        assert!(Read::decode(Value::Array(vec![text("7"), text("8")])).is_err());

        let content = |life: Value, entries: &[&str], deadlines: &[&str]| {
            let items = vec![text("5"), text("2"), text("3"), life, texts(entries), texts(deadlines)];
            content(read(vec![Value::Array(items)]))
        };
        let whole = content(text("60"), &["k", "v", "t", "w"], &["t", "9"]).unwrap();
        assert_eq!((whole.place, whole.life), (Some(Place::new(5, 2, 3)), Some(Life::Sliding(60))));
        assert_eq!((whole.len(8), whole.first_deadline(), whole.get(b"t", 9)), (2, Some(9), None));
        let until = content(text("@60"), &[], &[]).unwrap();
        assert_eq!(until.life, Some(Life::Until(60)));
        for bad in [
            Read::decode(Value::Nil).map(|_| ()),
            read(vec![texts(&["x"])]).map(|_| ()),
            read(vec![texts(&["5", "1", "1"])]).map(|_| ()),
            content(text("soon"), &[], &[]).map(|_| ()),
            content(Value::Nil, &["k"], &[]).map(|_| ()),
            content(Value::Nil, &[], &["k", "inf"]).map(|_| ()),
        ] {
            assert!(matches!(bad, Err(Error::Malformed { .. })), "{bad:?}");
        }
        let kept = Written::decode(Value::Array(vec![Value::Nil, Value::Nil, Value::Nil, text("v")]));
        assert!(matches!(kept, Ok(Written { at: None, found: Some(v) }) if v == "v"));
        let counted = Written::decode(Value::Array(vec![text("1"), text("2"), text("3"), Value::Int(4)]));
        assert!(matches!(counted.unwrap().count(), Ok(4)));
        assert!(matches!(expired(texts(&["3", "1", "5"])), Ok((3, 1_000_005))));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = Announcement::decode(&bytes);
            let _ = list(&bytes.clone().into());
            // Like a message, with its head.
            let _ = Announcement::decode(&[b"\xdc\x00\x08\xa1w\x05\x06\x07\x08", &bytes[..]].concat());
        }
    }
}
