//! The data of jobs: MessagePack with named fields.

use std::sync::Arc;

use bytes::Bytes;
use rmpv::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The most bytes of a job's data, and of its result.
pub(crate) const MOST: usize = 512 * 1024;

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, Error> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|error| Error::Encode(Arc::new(error)))?;
    if bytes.len() > MOST {
        return Err(Error::TooLarge { len: bytes.len(), max: MOST });
    }
    Ok(bytes.into())
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    rmp_serde::from_slice(bytes).map_err(|error| Error::Decode(Arc::new(error)))
}

/// The data with the fields of `more`: those of the same name take the place of the former ones. Where one of both has
/// no fields, `more` takes the place of all.
pub(crate) fn merged(bytes: &[u8], more: &[u8]) -> Result<Bytes, Error> {
    let (Value::Map(mut fields), Value::Map(new)) = (decode::<Value>(bytes)?, decode::<Value>(more)?) else {
        return Ok(Bytes::copy_from_slice(more));
    };
    for (name, value) in new {
        match fields.iter_mut().find(|(known, _)| *known == name) {
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
