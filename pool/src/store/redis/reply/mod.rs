//! Reads the answers of scripts and commands. All replies pass through here. A reply that breaks the contract is
//! [`StoreError::Damaged`], and the error names the script and quotes the answer.

use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use redis::Value;
use tenure_steps::{More, ReadLetters};
use tenure_streaming::EntryId;

use crate::model::id::{DispatchId, JobKey, Revision, Token, WorkerId};
use crate::model::level::TooOld;
use crate::model::member::Member;
use crate::store::{Outcome, Refusal, Rest, Result, StoreError};

/// A reply that breaks the contract. The call was executed.
#[derive(Debug, thiserror::Error)]
#[error("{call} answered {answer} where {expected} was expected")]
pub(super) struct UnexpectedReply {
    call: &'static str,
    expected: &'static str,
    answer: String,
}

/// The longest part of a strange answer that an error quotes.
const QUOTED: usize = 200;

pub(super) fn unexpected(call: &'static str, expected: &'static str, answer: &Value) -> StoreError {
    let mut answer = format!("{answer:?}");
    if let Some((end, _)) = answer.char_indices().nth(QUOTED) {
        answer.truncate(end);
        answer.push('…');
    }
    StoreError::Damaged(Arc::new(UnexpectedReply { call, expected, answer }))
}

/// The class of a connection's error.
pub(super) fn failed(error: tenure_connection::Error) -> StoreError {
    use tenure_connection::{Class, Error};
    if let Error::OtherServer { run_id } = error {
        return StoreError::OtherServer { run_id: run_id.into() };
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
    /// Values that were skipped because they cannot be read.
    strange: Vec<String>,
}

impl Values {
    /// The values of a list.
    pub(super) fn of(call: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Array(items) => Ok(Self { call, items: items.into_iter(), strange: Vec::new() }),
            other => Err(unexpected(call, "a list", &other)),
        }
    }

    /// The number of remaining values.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The next value, of any kind.
    pub(super) fn value(&mut self) -> Result<Value> {
        self.items.next().ok_or_else(|| unexpected(self.call, "another value", &Value::Nil))
    }

    /// The next value, a list.
    pub(super) fn list(&mut self) -> Result<Self> {
        Self::of(self.call, self.value()?)
    }

    /// The next value, bytes or nothing.
    pub(super) fn bytes_or_nil(&mut self) -> Result<Option<Bytes>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(Some(bytes.into())),
            Value::SimpleString(text) => Ok(Some(text.into())),
            Value::Int(number) => Ok(Some(number.to_string().into())),
            Value::Nil => Ok(None),
            other => Err(unexpected(self.call, "bytes", &other)),
        }
    }

    /// The next value, bytes.
    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        self.bytes_or_nil()?.ok_or_else(|| unexpected(self.call, "bytes", &Value::Nil))
    }

    /// The next value, read by `parse`.
    pub(super) fn parsed<T>(
        &mut self,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T> {
        let bytes = self.bytes()?;
        std::str::from_utf8(&bytes)
            .ok()
            .and_then(parse)
            .ok_or_else(|| unexpected(self.call, expected, &Value::BulkString(bytes.to_vec())))
    }

    /// The next value, a letter for each of `items`, and the values that belong to the letters. No value may remain.
    pub(super) fn letters<T: ReadLetters<Self, StoreError>>(
        &mut self,
        items: usize,
        expected: &'static str,
    ) -> Result<Vec<T>> {
        let read = self.some_letters(items, expected)?;
        self.end()?;
        Ok(read)
    }

    /// The same, but more values may remain.
    pub(super) fn some_letters<T: ReadLetters<Self, StoreError>>(
        &mut self,
        items: usize,
        expected: &'static str,
    ) -> Result<Vec<T>> {
        let row = self.row(items, expected)?;
        row.iter().map(|letter| self.behind(*letter, &row, expected)).collect()
    }

    /// The next value, a letter for each of `items`.
    pub(super) fn row(&mut self, items: usize, expected: &'static str) -> Result<Bytes> {
        let row = self.bytes()?;
        if row.len() == items { Ok(row) } else { Err(self.strange_row(&row, expected)) }
    }

    /// The answer behind a letter of the row, with the values that follow for the letter.
    pub(super) fn behind<T: ReadLetters<Self, StoreError>>(
        &mut self,
        letter: u8,
        row: &Bytes,
        expected: &'static str,
    ) -> Result<T> {
        T::read(letter, self)?.ok_or_else(|| self.strange_row(row, expected))
    }

    fn strange_row(&self, row: &Bytes, expected: &'static str) -> StoreError {
        unexpected(self.call, expected, &Value::BulkString(row.to_vec()))
    }

    /// No value remains.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.items.next() {
            Some(left) => Err(unexpected(self.call, "no more values", &left)),
            None => Ok(()),
        }
    }

    /// The next value, a letter with the rest of the text.
    pub(super) fn letter<T: for<'a> ReadLetters<Rest<'a>, ()>>(
        &mut self,
        expected: &'static str,
    ) -> Result<T> {
        self.parsed(expected, |text| {
            let (letter, rest) = text.split_at_checked(1)?;
            let mut rest = Rest(rest);
            let read = T::read(letter.as_bytes()[0], &mut rest).ok()?;
            read.filter(|_| rest.0.is_empty())
        })
    }

    /// The next value, a number.
    pub(super) fn number(&mut self) -> Result<u64> {
        match self.items.as_slice().first() {
            Some(&Value::Int(number)) => {
                self.items.next();
                u64::try_from(number).map_err(|_| unexpected(self.call, "a number", &Value::Int(number)))
            }
            _ => self.parsed("a number", |text| text.parse().ok()),
        }
    }

    /// The next value, the revision of a map. An unreadable one is damage, and counts as higher than any that a map
    /// can have.
    pub(super) fn revision(&mut self) -> Result<Revision> {
        let text = self.bytes_or_nil()?;
        let read = text.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok());
        Ok(read.unwrap_or(Revision::UNREADABLE))
    }

    /// The next value, a level.
    pub(super) fn level(&mut self) -> Result<u32> {
        self.parsed("a level", |text| text.parse().ok())
    }

    /// The next value, a number or empty.
    pub(super) fn number_or_empty(&mut self) -> Result<Option<u64>> {
        self.parsed("a number or nothing", |text| match text {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        })
    }

    /// The next value, text.
    pub(super) fn text(&mut self) -> Result<String> {
        self.parsed("text", |text| Some(text.to_owned()))
    }

    /// The next value, a job's key.
    pub(super) fn key(&mut self) -> Result<JobKey> {
        let bytes = self.bytes()?;
        let len = bytes.len();
        JobKey::new(bytes)
            .map_err(|_| unexpected(self.call, "a job's key", &Value::SimpleString(format!("{len} bytes"))))
    }

    /// The next value, a member's entry.
    pub(super) fn member(&mut self) -> Result<Member> {
        self.parsed("a member's entry", |text| Member::parse(text.as_bytes()))
    }

    /// The next value, a member's entry, or nothing.
    pub(super) fn some_member(&mut self) -> Result<Option<Member>> {
        self.parsed("a member's entry or nothing", |text| match text {
            "" => Some(None),
            entry => Member::parse(entry.as_bytes()).map(Some),
        })
    }

    /// The next value, a list of groups of this many values. Skips a group that `read` cannot read.
    pub(super) fn groups<T>(
        &mut self,
        size: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = self.list()?;
        let mut groups = Vec::with_capacity(list.len() / size);
        while list.len() > 0 {
            let group = list.items.by_ref().take(size).collect();
            match read(&mut Self::of(self.call, Value::Array(group))?) {
                Ok(group) => groups.push(group),
                Err(StoreError::Damaged(source)) => self.strange.push(source.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(groups)
    }

    /// The skipped values.
    pub(super) fn strange(&self) -> &[String] {
        &self.strange
    }

    /// The next value, a list of dispatches and their outcomes.
    pub(super) fn outcomes(&mut self) -> Result<Vec<(DispatchId, Outcome)>> {
        self.groups(2, |pair| Ok((pair.parsed("a dispatch", |text| text.parse().ok())?, pair.text()?)))
    }
}

impl More<u64, StoreError> for Values {
    fn more(&mut self) -> Result<u64> {
        self.number()
    }
}

impl More<Bytes, StoreError> for Values {
    fn more(&mut self) -> Result<Bytes> {
        self.bytes()
    }
}

impl More<String, StoreError> for Values {
    fn more(&mut self) -> Result<String> {
        self.text()
    }
}

impl More<Values, StoreError> for Values {
    fn more(&mut self) -> Result<Values> {
        self.list()
    }
}

/// The owner. Only damage can make a record without an owner, or with an owner that no pool gives.
impl More<Option<WorkerId>, StoreError> for Values {
    fn more(&mut self) -> Result<Option<WorkerId>> {
        self.parsed("an owner", |text| Some(text.parse().ok()))
    }
}

/// The owner and the token. Only damage can make a record without them, or with those that no pool gives.
impl More<Option<(WorkerId, Token)>, StoreError> for Values {
    fn more(&mut self) -> Result<Option<(WorkerId, Token)>> {
        let owner: Option<WorkerId> = self.more()?;
        let token = self.parsed("a token", |text| Some(text.parse().ok()))?;
        Ok(owner.zip(token))
    }
}

/// A script's answer: a code, then values.
pub(super) struct Reply {
    code: Bytes,
    values: Values,
}

impl Reply {
    pub(super) fn of(call: &'static str, value: Value) -> Result<Self> {
        let mut values = Values::of(call, value)?;
        Ok(Self { code: values.bytes()?, values })
    }

    /// The code.
    pub(super) fn code(&self) -> &[u8] {
        &self.code
    }

    /// The values after the code.
    pub(super) fn values(self) -> Values {
        self.values
    }

    /// The values after the code `OK`; every other code is a refusal.
    pub(super) fn ok(self) -> Result<Values> {
        if &*self.code == b"OK" { Ok(self.values) } else { Err(self.refused()) }
    }

    /// The values after the code `OK`, one for each of `expected` items.
    pub(super) fn items(self, expected: usize) -> Result<Values> {
        let values = self.ok()?;
        if values.len() == expected {
            return Ok(values);
        }
        let answer = Value::Array(values.items.collect());
        Err(unexpected(values.call, "one value for each item", &answer))
    }

    /// The refusal that the code means.
    pub(super) fn refused(mut self) -> StoreError {
        self.refusal().map_or_else(|error| error, StoreError::Refused)
    }

    fn refusal(&mut self) -> Result<Refusal> {
        let values = &mut self.values;
        Ok(match &*self.code {
            b"NOPOOL" => Refusal::NoPool,
            b"CLOSED" => Refusal::Closed,
            b"STALEINC" => Refusal::StaleIncarnation(crate::model::id::Incarnation(values.number()?)),
            b"RECOVERING" => Refusal::Recovering,
            b"NORMAL" => Refusal::Normal,
            b"LOST" => Refusal::Lost(values.text()?),
            b"SHUTDOWN" => Refusal::ShuttingDown,
            b"STALERING" => Refusal::StaleRing(values.revision()?),
            b"FENCED" => Refusal::Fenced,
            b"SETTING" => {
                Refusal::Setting { name: values.text()?, theirs: values.text()?, ours: values.text()? }
            }
            b"LEVEL" => Refusal::Level(TooOld { floor: values.level()?, level: values.level()? }),
            b"STALETERM" => Refusal::StaleTerm,
            b"NOTOKENS" => Refusal::OutOfTokens,
            b"BADARG" => Refusal::BadArgument,
            b"NOTSTOPPING" => Refusal::NotStopping,
            b"MEMBERS" => Refusal::Members(values.number()?),
            code => return Err(unexpected(values.call, "a code", &Value::BulkString(code.to_vec()))),
        })
    }
}

/// A stream entry's id.
pub(super) fn entry_id(text: &str) -> Option<EntryId> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
