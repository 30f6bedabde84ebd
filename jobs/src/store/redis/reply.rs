//! Reads the answers of scripts. A reply that breaks the contract is [`StoreError::Damaged`].

use std::sync::Arc;

use bytes::Bytes;
use redis::Value;
use tenure_steps::Letters;

use crate::model::id::Incarnation;
use crate::model::queue::Terms;
use crate::model::record::Record;
use crate::store::{Result, StoreError};

/// The class of a connection's error.
pub(super) fn failed(error: tenure_connection::Error) -> StoreError {
    use tenure_connection::{Class, Error};
    if let Error::OtherServer { run_id } = error {
        return StoreError::OtherServer { identity: run_id };
    }
    match error.class() {
        Class::Unanswered => StoreError::Unanswered(Arc::new(error)),
        Class::Silent | Class::Unreachable | Class::NotNow | Class::Full => {
            StoreError::NotExecuted(Arc::new(error))
        }
        Class::Raised => StoreError::Damaged(Arc::new(error)),
        _ => StoreError::Unusable(Arc::new(error)),
    }
}

/// The values of an answer, for reading in order.
pub(super) type Values = tenure_connection::Values<StoreError>;

/// The values of a script's answer behind `OK` or behind another word, and whether that one came; or what the script
/// refused the call with.
pub(super) fn answer(call: &'static str, value: Value, other: &str) -> Result<(bool, Values)> {
    let mut values = Values::of(call, value)?;
    match &*values.text()? {
        "OK" => Ok((false, values)),
        word if word == other => Ok((true, values)),
        "NOSET" => Err(StoreError::NoSet),
        "STALEINC" => Err(StoreError::Stale(Incarnation(values.number()?))),
        "LATE" => Err(StoreError::Late),
        "NOTOKENS" => Err(StoreError::NoTokens),
        word => Err(StoreError::damaged(format!("{call} answered {word:?}"))),
    }
}

/// The next value, a letter for each of so many items.
pub(super) fn letters<T: Letters>(values: &mut Values, items: usize) -> Result<Vec<T>> {
    let row = values.bytes()?;
    let read: Option<Vec<_>> = row.iter().map(|letter| T::of_letter(*letter)).collect();
    let read = read.filter(|read| read.len() == items);
    read.ok_or_else(|| values.unexpected("a letter for each item", &Value::BulkString(row.to_vec())))
}

/// A name or an id; `None` for any other text: somebody has damaged the data.
pub(super) fn name<T>(values: &mut Values, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
    Ok(std::str::from_utf8(&values.bytes()?).ok().and_then(read))
}

/// All values, each read as a name; those that are none are left out.
pub(super) fn names<T>(values: &mut Values, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let mut names = Vec::with_capacity(values.len());
    while values.len() > 0 {
        names.extend(name(values, &read)?);
    }
    Ok(names)
}

/// The data of a job and its notes. Data with notes come as a list of both.
pub(super) fn body(values: &mut Values) -> Result<(Bytes, Bytes)> {
    match values.value()? {
        Value::BulkString(body) => Ok((body.into(), Bytes::new())),
        list => {
            let mut both = Values::of(values.call(), list)?;
            Ok((both.bytes()?, both.bytes()?))
        }
    }
}

/// The lease of an execution in ms, followed by the terms of the queue if any.
pub(super) fn terms(values: &mut Values) -> Result<(u64, Terms)> {
    values.parsed("a lease with terms", |text| {
        let (lease, terms) = text.split_once(',').unwrap_or((text, ""));
        lease.parse().ok().zip(Terms::parse(terms))
    })
}

/// The next value as `parse` reads it; `None` where there is none.
pub(super) fn parsed_or_nil<T>(
    values: &mut Values,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(bytes) = values.bytes_or_nil()? else { return Ok(None) };
    let read = std::str::from_utf8(&bytes).ok().and_then(parse);
    read.map(Some).ok_or_else(|| values.unexpected(expected, &Value::BulkString(bytes.to_vec())))
}

/// A record; `None` where there is none.
pub(super) fn record(values: &mut Values) -> Result<Option<Record>> {
    parsed_or_nil(values, "a record", Record::parse)
}
