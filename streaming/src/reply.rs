//! Replies about streams, decoded by hand: field order and repeated names matter, and this path is hot.

use std::sync::Arc;

use redis::Value;

use crate::{Entry, EntryId, Error, TOPIC_FIELD};

/// Streams with their entries.
pub(crate) type Read = Vec<(Arc<str>, Vec<Entry>)>;

/// `XREAD` and `XREADGROUP`: the streams that had entries. `find` maps a name to its stream.
pub(crate) fn streams(reply: Value, find: impl Fn(&[u8]) -> Option<Arc<str>>) -> Result<Read, Error> {
    let named = |name: &Value, list: Value| {
        let Value::BulkString(name) = name else { return Err(malformed("stream with entries")) };
        let stream = find(name).ok_or_else(|| malformed("stream that was asked for"))?;
        let entries = entries(list, &stream)?;
        Ok((stream, entries))
    };
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(streams) => {
            let pair = |item| match <[Value; 2]>::try_from(items(item, "stream with entries")?) {
                Ok([name, list]) => named(&name, list),
                Err(_) => Err(malformed("stream with entries")),
            };
            streams.into_iter().map(pair).collect()
        }
        Value::Map(streams) => streams.into_iter().map(|(name, list)| named(&name, list)).collect(),
        _ => Err(malformed("list of streams")),
    }
}

/// `XRANGE`: entries.
pub(crate) fn entries(reply: Value, stream: &Arc<str>) -> Result<Vec<Entry>, Error> {
    let items = items(reply, "list of entries")?;
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        entries.extend(entry(item, stream)?);
    }
    Ok(entries)
}

/// `claim.lua`: the id to continue at, and the claimed entries.
pub(crate) fn claimed(reply: Value, stream: &Arc<str>) -> Result<(EntryId, Vec<Entry>), Error> {
    match <[Value; 3]>::try_from(items(reply, "claim")?) {
        Ok([next, entries, deliveries]) => Ok((id(&next)?, counted(entries, deliveries, stream)?)),
        Err(_) => Err(malformed("claim")),
    }
}

/// `take.lua`: the entries that were delivered again.
pub(crate) fn taken(reply: Value, stream: &Arc<str>) -> Result<Vec<Entry>, Error> {
    match <[Value; 2]>::try_from(items(reply, "claim")?) {
        Ok([entries, deliveries]) => counted(entries, deliveries, stream),
        Err(_) => Err(malformed("claim")),
    }
}

/// `XPENDING` with a range: the ids.
pub(crate) fn pending(reply: Value) -> Result<Vec<EntryId>, Error> {
    let first = |item| match items(item, "pending entry")?.first() {
        Some(first) => id(first),
        None => Err(malformed("pending entry")),
    };
    items(reply, "list of pending entries")?.into_iter().map(first).collect()
}

/// Ids.
pub(crate) fn ids(reply: Value) -> Result<Vec<EntryId>, Error> {
    items(reply, "list of ids")?.iter().map(id).collect()
}

/// The id of an entry; `None` for nil.
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

/// `agree.lua`: whether the group was missing, and the consumer that represents other settings.
pub(crate) fn agreed(reply: Value) -> Result<(bool, Option<String>), Error> {
    let Ok([missing, others]) = <[Value; 2]>::try_from(items(reply, "settings")?) else {
        return Err(malformed("settings"));
    };
    let others = match others {
        Value::Nil => None,
        Value::BulkString(name) => Some(String::from_utf8_lossy(&name).into_owned()),
        _ => return Err(malformed("settings")),
    };
    Ok((count(&missing)? == 1, others))
}

/// `add_once.lua`: the entry, and whether it was added before.
pub(crate) fn once(reply: Value) -> Result<Option<(EntryId, bool)>, Error> {
    if reply == Value::Nil {
        return Ok(None);
    }
    match items(reply, "entry id")?.as_slice() {
        [entry, repeated] => Ok(Some((id(entry)?, count(repeated)? == 1))),
        _ => Err(malformed("entry id")),
    }
}

/// A value by name in a list of names and values.
pub(crate) fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a Value> {
    let named = |found: &Value| match found {
        Value::BulkString(found) => *found == name.as_bytes(),
        Value::SimpleString(found) => found == name,
        _ => false,
    };
    match reply {
        Value::Array(items) => items.chunks_exact(2).find(|pair| named(&pair[0])).map(|pair| &pair[1]),
        Value::Map(pairs) => pairs.iter().find(|(found, _)| named(found)).map(|(_, value)| value),
        _ => None,
    }
}

fn items(reply: Value, expected: &'static str) -> Result<Vec<Value>, Error> {
    match reply {
        Value::Array(items) => Ok(items),
        _ => Err(malformed(expected)),
    }
}

fn counted(list: Value, deliveries: Value, stream: &Arc<str>) -> Result<Vec<Entry>, Error> {
    let deliveries = items(deliveries, "list of counts")?;
    let counted = entries(list, stream)?.into_iter().zip(deliveries);
    counted.map(|(entry, deliveries)| Ok(entry.with_deliveries(count(&deliveries)?))).collect()
}

/// An entry; `None` for one that was deleted while pending.
fn entry(item: Value, stream: &Arc<str>) -> Result<Option<Entry>, Error> {
    if item == Value::Nil {
        return Ok(None);
    }
    let Ok([entry_id, content]) = <[Value; 2]>::try_from(items(item, "entry")?) else {
        return Err(malformed("entry"));
    };
    if content == Value::Nil {
        return Ok(None);
    }
    let content = items(content, "list of fields")?;
    let mut fields = Vec::with_capacity(content.len() / 2);
    let mut topic = None;
    let mut content = content.into_iter();
    while let Some(name) = content.next() {
        let (Value::BulkString(name), Some(Value::BulkString(value))) = (name, content.next()) else {
            return Err(malformed("list of fields"));
        };
        if fields.is_empty() && topic.is_none() && name == TOPIC_FIELD.as_bytes() {
            match String::from_utf8(value) {
                Ok(text) => topic = Some(text),
                // Not added by this crate: an ordinary field.
                Err(bytes) => fields.push((name.into(), bytes.into_bytes().into())),
            }
        } else {
            fields.push((name.into(), value.into()));
        }
    }
    let entry = Entry::new(stream.clone(), id(&entry_id)?, fields);
    Ok(Some(match topic {
        Some(topic) => entry.with_topic(topic),
        None => entry,
    }))
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
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(items.into_iter().collect())
    }

    fn stream() -> Arc<str> {
        "st".into()
    }

    fn read(reply: Value) -> Result<Read, Error> {
        streams(reply, |name| (name == b"st").then(stream))
    }

    #[test]
    fn repeated_fields_keep_their_order() {
        let fields = list(["t", "7", "s", "b", "s", "a"].map(text));
        let entries = list([list([text("5-1"), fields])]);
        for reply in
            [list([list([text("st"), entries.clone()])]), Value::Map(vec![(text("st"), entries.clone())])]
        {
            let streams = read(reply).unwrap();
            assert_eq!(&*streams[0].0, "st");
            let entry = &streams[0].1[0];
            assert_eq!((entry.id, &*entry.stream, entry.topic()), (EntryId::new(5, 1), "st", None));
            let fields: Vec<_> = entry.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
            assert_eq!(fields, [(&b"t"[..], &b"7"[..]), (b"s", b"b"), (b"s", b"a")]);
            assert_eq!(entry.get("s"), Some(&"b".into()));
        }
    }

    #[test]
    fn the_first_field_may_be_a_topic() {
        let decode = |words: Vec<Value>| {
            let reply = list([list([text("5-1"), list(words)])]);
            entries(reply, &stream()).unwrap().remove(0)
        };
        let entry = decode([TOPIC_FIELD, "a.b", "n", "1"].map(text).into());
        assert_eq!((entry.topic(), entry.fields.len()), (Some("a.b"), 1));
        let entry = decode(["n", "1", TOPIC_FIELD, "a.b"].map(text).into());
        assert_eq!((entry.topic(), entry.fields.len()), (None, 2));
        let entry = decode(vec![text(TOPIC_FIELD), Value::BulkString(vec![0xff])]);
        assert_eq!((entry.topic(), entry.fields.len()), (None, 1));
    }

    #[test]
    fn nothing_deleted_and_claimed() {
        assert_eq!(read(Value::Nil).unwrap(), []);
        let deleted = [Value::Nil, list([text("5-2"), Value::Nil])];
        assert_eq!(entries(list(deleted), &stream()).unwrap(), []);
        let entry = list([list([text("5-1"), list([text("n"), text("1")])])]);
        let reply = list([text("0-0"), entry.clone(), list([Value::Int(3)])]);
        let (next, entries) = claimed(reply, &stream()).unwrap();
        assert_eq!((next, entries[0].deliveries()), (EntryId::MIN, 3));
        assert_eq!(taken(list([entry, list([Value::Int(2)])]), &stream()).unwrap()[0].deliveries(), 2);
        let details = list([text("7-0"), text("c"), Value::Int(1), Value::Int(1)]);
        assert_eq!(pending(list([details])).unwrap(), [EntryId::new(7, 0)]);
        assert_eq!(optional_id(&Value::Nil).unwrap(), None);
        assert_eq!(once(Value::Nil).unwrap(), None);
        let again = list([text("7-0"), Value::Int(1)]);
        assert_eq!(once(again).unwrap(), Some((EntryId::new(7, 0), true)));
    }

    #[test]
    fn other_shapes_are_typed_errors() {
        let other = list([list([text("other"), list([])])]);
        for bad in [
            Value::Int(1),
            text("x"),
            list([Value::Int(1)]),
            list([list([text("st"), Value::Int(3)])]),
            other,
        ] {
            assert!(matches!(read(bad), Err(Error::Malformed { .. })));
        }
        for bad in [text("x"), list([list([text("5")])]), list([list([text("5-1"), list([text("odd")])])])] {
            assert!(matches!(entries(bad.clone(), &stream()), Err(Error::Malformed { .. })));
            assert!(claimed(list([text("0-0"), bad.clone(), list([])]), &stream()).is_err());
            assert!(ids(bad.clone()).is_err() && agreed(bad.clone()).is_err() && once(bad).is_err());
        }
        for bad in [text("x"), list([list([])]), list([list([Value::Int(1)])])] {
            assert!(matches!(pending(bad), Err(Error::Malformed { .. })));
        }
        assert!(matches!(count(&Value::Int(-1)), Err(Error::Malformed { .. })));
        let info = list([text("length"), Value::Int(3)]);
        assert_eq!((field(&info, "length"), field(&info, "x")), (Some(&Value::Int(3)), None));
        let info = Value::Map(vec![(text("length"), Value::Int(3))]);
        assert_eq!((field(&info, "length"), field(&info, "x")), (Some(&Value::Int(3)), None));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            "[0-9-]{0,5}".prop_map(|id| text(&id)),
            "(st|tenure:topic)".prop_map(|known| text(&known)),
            prop::collection::vec(any::<u8>(), 0..3).prop_map(Value::BulkString),
        ];
        let leaf = prop_oneof![Just(Value::Nil), any::<i64>().prop_map(Value::Int), word];
        leaf.prop_recursive(5, 40, 4, |inner| {
            let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..3);
            prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::Array), pairs.prop_map(Value::Map)]
        })
    }

    proptest! {
        #[test]
        fn any_malformed_reply_is_a_typed_error(reply in any_value()) {
            let _ = read(reply.clone());
            let _ = entries(reply.clone(), &stream());
            let _ = claimed(reply.clone(), &stream());
            let _ = taken(reply.clone(), &stream());
            let _ = (pending(reply.clone()), ids(reply.clone()), agreed(reply.clone()), once(reply.clone()));
            let _ = (optional_id(&reply), count(&reply), field(&reply, "st"));
        }
    }
}
