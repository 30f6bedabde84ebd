//! Reads the answers of scripts. A reply that breaks the contract is [`StoreError::Damaged`].

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use redis::Value;

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
pub(super) struct Values {
    call: &'static str,
    items: IntoIter<Value>,
}

impl Values {
    /// The values of a list.
    pub(super) fn of(call: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Array(items) => Ok(Self { call, items: items.into_iter() }),
            other => Err(Self { call, items: Vec::new().into_iter() }.strange("a list", &other)),
        }
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

    fn strange(&self, expected: &str, answer: &Value) -> StoreError {
        let answer: String = format!("{answer:?}").chars().take(200).collect();
        StoreError::damaged(format!("{} answered {answer} where {expected} was expected", self.call))
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn value(&mut self) -> Result<Value> {
        self.items.next().ok_or_else(|| self.strange("another value", &Value::Nil))
    }

    pub(super) fn list(&mut self) -> Result<Self> {
        Self::of(self.call, self.value()?)
    }

    pub(super) fn bytes_or_nil(&mut self) -> Result<Option<Bytes>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::SimpleString(text) => Ok(Some(text.into())),
            Value::Int(number) => Ok(Some(number.to_string().into())),
            Value::Nil | Value::Boolean(false) => Ok(None),
            other => Err(self.strange("bytes", &other)),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        self.bytes_or_nil()?.ok_or_else(|| self.strange("bytes", &Value::Nil))
    }

    pub(super) fn text_or_nil(&mut self) -> Result<Option<String>> {
        let Some(bytes) = self.bytes_or_nil()? else { return Ok(None) };
        let text = String::from_utf8(bytes.to_vec());
        text.map(Some).map_err(|_| self.strange("text", &Value::BulkString(bytes.to_vec())))
    }

    pub(super) fn text(&mut self) -> Result<String> {
        self.text_or_nil()?.ok_or_else(|| self.strange("text", &Value::Nil))
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        let text = self.text()?;
        text.parse().map_err(|_| self.strange("a number", &Value::SimpleString(text)))
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
                let mut both = Self::of(self.call, list)?;
                Ok((both.bytes()?, both.bytes()?))
            }
        }
    }

    /// The lease of an execution in ms, followed by the terms of the queue if any.
    pub(super) fn terms(&mut self) -> Result<(u64, Terms)> {
        let text = self.text()?;
        let (lease, terms) = text.split_once(',').unwrap_or((&text, ""));
        let read = lease.parse().ok().zip(Terms::parse(terms));
        read.ok_or_else(|| self.strange("a lease with terms", &Value::SimpleString(text.clone())))
    }

    /// A record; `None` where there is none.
    pub(super) fn record(&mut self) -> Result<Option<Record>> {
        let Some(bytes) = self.bytes_or_nil()? else { return Ok(None) };
        let record = std::str::from_utf8(&bytes).ok().and_then(Record::parse);
        record.map(Some).ok_or_else(|| self.strange("a record", &Value::BulkString(bytes.to_vec())))
    }
}
