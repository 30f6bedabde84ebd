//! Reads the answers of scripts. A reply that breaks the contract is [`StoreError::Damaged`].

use std::ops::{Deref, DerefMut};
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
pub(super) struct Values(tenure_connection::Values<StoreError>);

impl Deref for Values {
    type Target = tenure_connection::Values<StoreError>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Values {
    /// The values of a list.
    pub(super) fn of(call: &'static str, value: Value) -> Result<Self> {
        tenure_connection::Values::of(call, value).map(Self)
    }

    /// The values of a script's answer behind `OK`, or what it refused the call with.
    pub(super) fn answer(call: &'static str, value: Value) -> Result<Self> {
        let mut values = Self::of(call, value)?;
        let word = values.text()?;
        match &*word {
            "OK" => Ok(values),
            "NOSET" => Err(StoreError::NoSet),
            "STALEINC" => Err(StoreError::Stale(Incarnation(values.number()?))),
            "LATE" => Err(StoreError::Late),
            "NOTOKENS" => Err(StoreError::NoTokens),
            other => Err(StoreError::damaged(format!("{call} answered {other:?}"))),
        }
    }

    /// The next value, a letter for each of so many items.
    pub(super) fn letters<T: Letters>(&mut self, items: usize) -> Result<Vec<T>> {
        let row = self.bytes()?;
        let read: Option<Vec<_>> = row.iter().map(|letter| T::of_letter(*letter)).collect();
        let read = read.filter(|read| read.len() == items);
        read.ok_or_else(|| self.unexpected("a letter for each item", &Value::BulkString(row.to_vec())))
    }

    pub(super) fn list(&mut self) -> Result<Self> {
        let value = self.value()?;
        Self::of(self.call(), value)
    }

    pub(super) fn text_or_nil(&mut self) -> Result<Option<String>> {
        let Some(bytes) = self.bytes_or_nil()? else { return Ok(None) };
        let text = std::str::from_utf8(&bytes).map(str::to_owned);
        text.map(Some).map_err(|_| self.unexpected("text", &Value::BulkString(bytes.to_vec())))
    }

    /// A name or an id; `None` for any other text: somebody has damaged the data.
    pub(super) fn name<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        Ok(std::str::from_utf8(&self.bytes()?).ok().and_then(read))
    }

    /// The data of a job and its notes. Data with notes come as a list of both.
    pub(super) fn body(&mut self) -> Result<(Bytes, Bytes)> {
        match self.value()? {
            Value::BulkString(body) => Ok((body.into(), Bytes::new())),
            list => {
                let mut both = Self::of(self.call(), list)?;
                Ok((both.bytes()?, both.bytes()?))
            }
        }
    }

    /// The lease of an execution in ms, followed by the terms of the queue if any.
    pub(super) fn terms(&mut self) -> Result<(u64, Terms)> {
        let text = self.text()?;
        let (lease, terms) = text.split_once(',').unwrap_or((&text, ""));
        let read = lease.parse().ok().zip(Terms::parse(terms));
        read.ok_or_else(|| self.unexpected("a lease with terms", &Value::SimpleString(text.clone())))
    }

    /// A record; `None` where there is none.
    pub(super) fn record(&mut self) -> Result<Option<Record>> {
        let Some(bytes) = self.bytes_or_nil()? else { return Ok(None) };
        let record = std::str::from_utf8(&bytes).ok().and_then(Record::parse);
        record.map(Some).ok_or_else(|| self.unexpected("a record", &Value::BulkString(bytes.to_vec())))
    }
}
