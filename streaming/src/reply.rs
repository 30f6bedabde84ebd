//! Replies about streams, decoded by hand: the order of fields and repeated names matter, and this path is hot.

use bytes::Bytes;
use redis::Value;

use crate::{Entry, EntryId, Error};

/// `XREAD` and `XREADGROUP`: the streams that had something, with their entries.
pub(crate) fn streams(reply: Value) -> Result<Vec<(Bytes, Vec<Entry>)>, Error> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(streams) => streams.into_iter().map(stream).collect(),
        _ => Err(malformed("list of streams")),
    }
}

/// `XRANGE`: entries.
pub(crate) fn entries(reply: Value) -> Result<Vec<Entry>, Error> {
    let Value::Array(items) = reply else { return Err(malformed("list of entries")) };
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        entries.extend(entry(item)?);
    }
    Ok(entries)
}

/// `XAUTOCLAIM`: where to go on, and what was claimed.
pub(crate) fn claimed(reply: Value) -> Result<(EntryId, Vec<Entry>), Error> {
    let Value::Array(items) = reply else { return Err(malformed("claim")) };
    let mut items = items.into_iter();
    let (Some(next), Some(claimed)) = (items.next(), items.next()) else { return Err(malformed("claim")) };
    Ok((id(&next)?, entries(claimed)?))
}

/// The id of an entry, or none for nil.
pub(crate) fn optional_id(reply: &Value) -> Result<Option<EntryId>, Error> {
    match reply {
        Value::Nil => Ok(None),
        reply => id(reply).map(Some),
    }
}

/// A count.
pub(crate) fn count(reply: &Value) -> Result<u64, Error> {
    match reply {
        Value::Int(count) => u64::try_from(*count).map_err(|_| malformed("count")),
        _ => Err(malformed("count")),
    }
}

/// A value by name in a flat list of names and values.
pub(crate) fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(items) = reply else { return None };
    items.chunks_exact(2).find_map(|pair| match pair {
        [Value::BulkString(found), value] if *found == name.as_bytes() => Some(value),
        [Value::SimpleString(found), value] if found == name => Some(value),
        _ => None,
    })
}

fn stream(item: Value) -> Result<(Bytes, Vec<Entry>), Error> {
    let Value::Array(pair) = item else { return Err(malformed("stream with entries")) };
    let mut pair = pair.into_iter();
    match (pair.next(), pair.next()) {
        (Some(Value::BulkString(name)), Some(list)) => Ok((name.into(), entries(list)?)),
        _ => Err(malformed("stream with entries")),
    }
}

/// An entry; none for one that was deleted while it was pending.
fn entry(item: Value) -> Result<Option<Entry>, Error> {
    let pair = match item {
        Value::Nil => return Ok(None),
        Value::Array(pair) => pair,
        _ => return Err(malformed("entry")),
    };
    let mut pair = pair.into_iter();
    let (Some(entry_id), Some(content)) = (pair.next(), pair.next()) else { return Err(malformed("entry")) };
    let content = match content {
        Value::Nil => return Ok(None),
        Value::Array(content) => content,
        _ => return Err(malformed("list of fields")),
    };
    let mut fields = Vec::with_capacity(content.len() / 2);
    let mut content = content.into_iter();
    while let Some(name) = content.next() {
        match (name, content.next()) {
            (Value::BulkString(name), Some(Value::BulkString(value))) => {
                fields.push((name.into(), value.into()));
            }
            _ => return Err(malformed("list of fields")),
        }
    }
    Ok(Some(Entry::new(id(&entry_id)?, fields)))
}

fn id(value: &Value) -> Result<EntryId, Error> {
    let text = match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        Value::SimpleString(text) => Some(text.as_str()),
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("entry id"))
}

fn malformed(expected: &'static str) -> Error {
    Error::Malformed { expected }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    #[test]
    fn repeated_fields_keep_their_order() {
        let fields = list(["t", "7", "s", "b", "s", "a"].map(text));
        let reply = list([list([text("st"), list([list([text("5-1"), fields])])])]);
        let streams = streams(reply).unwrap();
        assert_eq!(streams[0].0, "st");
        let entry = &streams[0].1[0];
        assert_eq!(entry.id, EntryId::new(5, 1));
        let fields: Vec<_> = entry.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        assert_eq!(fields, [(&b"t"[..], &b"7"[..]), (b"s", b"b"), (b"s", b"a")]);
        assert_eq!(entry.get("s"), Some(&"b".into()));
    }

    #[test]
    fn nothing_deleted_and_claimed() {
        assert_eq!(streams(Value::Nil).unwrap(), []);
        let deleted = [Value::Nil, list([text("5-2"), Value::Nil])];
        let reply = list([text("0-0"), list(deleted), list([text("5-2")])]);
        assert_eq!(claimed(reply).unwrap(), (EntryId::MIN, vec![]));
        assert_eq!(optional_id(&Value::Nil).unwrap(), None);
    }

    #[test]
    fn other_shapes_are_typed_errors() {
        for bad in [Value::Int(1), text("x"), list([Value::Int(1)]), list([list([text("s"), Value::Int(3)])])]
        {
            assert!(matches!(streams(bad), Err(Error::Malformed { .. })));
        }
        for bad in [text("x"), list([list([text("5")])]), list([list([text("5"), list([text("odd")])])])] {
            assert!(matches!(entries(bad), Err(Error::Malformed { .. })));
        }
        assert!(matches!(count(&Value::Int(-1)), Err(Error::Malformed { .. })));
        assert!(matches!(claimed(list([text("0-0")])), Err(Error::Malformed { .. })));
        let info = list([text("length"), Value::Int(3)]);
        assert_eq!((field(&info, "length"), field(&info, "x")), (Some(&Value::Int(3)), None));
    }
}
