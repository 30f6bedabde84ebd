//! The data of jobs: MessagePack with named fields.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use rmpv::Value;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The most bytes of a job's data, and of its result.
pub(crate) const MOST: usize = 512 * 1024;

/// The most levels of a job's data, and of its result. Each level takes more of the stack to read.
const LEVELS: usize = 64;

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, Error> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|error| Error::Encode(Arc::new(error)))?;
    if bytes.len() > MOST {
        return Err(Error::TooLarge { len: bytes.len(), max: MOST });
    }
    match read::<IgnoredAny>(&bytes) {
        Err(rmp_serde::decode::Error::DepthLimitExceeded) => {
            Err(Error::Encode(Arc::new(rmp_serde::encode::Error::DepthLimitExceeded)))
        }
        _ => Ok(bytes.into()),
    }
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    // The decoder counts no levels of enums, so that a first pass counts the levels of all values alike.
    let depth = if bytes.len() > LEVELS { read::<IgnoredAny>(bytes).err() } else { None };
    match depth.filter(|error| matches!(error, rmp_serde::decode::Error::DepthLimitExceeded)) {
        Some(error) => Err(error),
        None => read(bytes),
    }
    .map_err(|error| Error::Decode(Arc::new(error)))
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(LEVELS + 1);
    T::deserialize(&mut deserializer)
}

/// The data with the fields of `more`: those of the same name take the place of the former ones. Where one of both has
/// no fields, `more` takes the place of all.
pub(crate) fn merged(bytes: &[u8], more: &[u8]) -> Result<Bytes, Error> {
    let (Value::Map(mut fields), Value::Map(new)) = (decode::<Value>(bytes)?, decode::<Value>(more)?) else {
        return Ok(Bytes::copy_from_slice(more));
    };
    // A name may be a number, too. The bytes of a name find the place of the field, however many fields there are.
    let mut places = HashMap::with_capacity(fields.len());
    for (place, (name, _)) in fields.iter().enumerate() {
        places.entry(encode(name)?).or_insert(place);
    }
    for (name, value) in new {
        let place = *places.entry(encode(&name)?).or_insert(fields.len());
        match fields.get_mut(place) {
            Some((_, former)) => *former = value,
            None => fields.push((name, value)),
        }
    }
    encode(&Value::Map(fields))
}

/// The values of some fields by which a job is found: that of a text or a number, each of a list; others are ignored.
pub(crate) fn lookups(bytes: &[u8], fields: &[String]) -> Vec<(String, String)> {
    fn texts(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) => text.as_str().map(str::to_owned).into_iter().collect(),
            Value::Integer(number) => vec![number.to_string()],
            Value::F32(number) => vec![number.to_string()],
            Value::F64(number) => vec![number.to_string()],
            _ => Vec::new(),
        }
    }
    let Ok(Value::Map(all)) = decode::<Value>(bytes) else { return Vec::new() };
    let mut found = Vec::new();
    for field in fields {
        let value = all.iter().find(|(name, _)| name.as_str() == Some(field)).map(|(_, value)| value);
        let values = match value {
            Some(Value::Array(items)) => items.iter().flat_map(texts).collect(),
            Some(value) => texts(value),
            None => Vec::new(),
        };
        found.extend(values.into_iter().filter(|text| !text.is_empty()).map(|text| (field.clone(), text)));
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Who {
        user: u32,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        user: u32,
        ok: bool,
    }

    #[derive(Serialize)]
    struct Ok {
        ok: bool,
    }

    #[test]
    fn the_fields_of_stages_are_merged_and_the_last_one_wins() {
        let first = encode(&Both { user: 1, ok: false }).unwrap();
        let second = merged(&first, &encode(&Ok { ok: true }).unwrap()).unwrap();
        assert_eq!(decode::<Both>(&second).unwrap(), Both { user: 1, ok: true });
        assert_eq!(
            decode::<Who>(&second).unwrap(),
            Who { user: 1 },
            "a type sees the fields that it declares"
        );
        assert_eq!(decode::<u8>(&merged(&second, &encode(&7u8).unwrap()).unwrap()).unwrap(), 7);
    }

    #[test]
    fn many_fields_are_merged_each_in_its_place() {
        let fields = |from: u32, till: u32, of: u8| {
            let fields = (from..till).map(|n| (Value::from(n), Value::from(of)));
            encode(&Value::Map(fields.collect())).unwrap()
        };
        let all = merged(&fields(0, 60_000, 1), &fields(30_000, 90_000, 2)).unwrap();
        let Value::Map(all) = decode(&all).unwrap() else { panic!() };
        let expected = (0..90_000u32).map(|n| (Value::from(n), Value::from(if n < 30_000 { 1 } else { 2 })));
        assert!(all.into_iter().eq(expected));
    }

    /// Bytes of this many levels, which begin with `opening`.
    fn nested(opening: &[u8], levels: usize) -> Vec<u8> {
        [&opening.repeat(levels), &b"\xc0"[..]].concat()
    }

    #[test]
    fn data_that_nest_too_deep_are_refused_by_both_ends() {
        let value = |levels| (0..levels).fold(Value::Nil, |inner, _| Value::Array(vec![inner]));
        let bytes = encode(&value(LEVELS)).unwrap();
        assert_eq!(decode::<Value>(&bytes).unwrap(), value(LEVELS));
        let too_deep = |error| matches!(error, rmp_serde::encode::Error::DepthLimitExceeded);
        for levels in [LEVELS + 1, 600] {
            let refused = encode(&value(levels)).map_err(|error| match error {
                Error::Encode(error) => Arc::into_inner(error).is_some_and(too_deep),
                _ => false,
            });
            assert_eq!(refused, Err(true));
        }
    }

    #[test]
    fn deep_data_are_no_end_of_a_small_stack() {
        let shallow = encode(&Who { user: 1 }).unwrap();
        for opening in [&b"\x91"[..], b"\x81\xa4user"] {
            for levels in [LEVELS + 1, 600, 100_000] {
                let (deep, shallow) = (nested(opening, levels), shallow.clone());
                let reads = move || {
                    let refused = [
                        decode::<Value>(&deep).map(drop),
                        merged(&shallow, &deep).map(drop),
                        merged(&deep, &shallow).map(drop),
                    ];
                    (
                        refused.map(|read| matches!(read, Err(Error::Decode(_)))),
                        lookups(&deep, &["user".into()]),
                    )
                };
                let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(reads).unwrap();
                assert_eq!(thread.join().unwrap(), ([true; 3], Vec::new()));
            }
        }
    }

    #[derive(Debug, Serialize, Deserialize)]
    enum Expr {
        Not(Box<Expr>),
        Lit,
    }

    #[test]
    fn a_deep_enum_is_no_end_of_a_small_stack() {
        let shallow = encode(&Expr::Not(Box::new(Expr::Lit))).unwrap();
        assert!(matches!(decode(&shallow).unwrap(), Expr::Not(inner) if matches!(*inner, Expr::Lit)));
        let deep = [&b"\x81\xa3Not".repeat(100_000), &b"\xa3Lit"[..]].concat();
        let reads = move || decode::<Expr>(&deep).map(std::mem::forget);
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(reads).unwrap();
        assert!(matches!(thread.join().unwrap(), Err(Error::Decode(_))));
    }

    #[test]
    fn a_job_is_found_by_texts_numbers_and_the_items_of_lists() {
        let body = rmp_serde::to_vec_named(&serde_json::json!({
            "user": 62, "name": "ann", "roles": ["a", 7, null], "on": true, "more": {"x": 1}, "none": null
        }));
        let fields = ["user", "name", "roles", "on", "more", "none", "missing"].map(str::to_owned);
        let found = lookups(&body.unwrap(), &fields);
        let found: Vec<_> = found.iter().map(|(field, value)| format!("{field}={value}")).collect();
        assert_eq!(found, ["user=62", "name=ann", "roles=a", "roles=7"]);
    }

    #[test]
    fn data_that_are_too_large_are_refused() {
        assert!(matches!(encode(&vec![0u64; MOST]), Err(Error::TooLarge { max: MOST, .. })));
    }
}
