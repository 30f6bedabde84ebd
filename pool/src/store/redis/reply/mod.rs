//! Reads the answers of scripts and commands. All replies pass through here. A reply that breaks the contract is
//! [`StoreError::Damaged`], and the error names the script and quotes the answer.

use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use redis::Value;
use tenure_steps::EntryId;
use tenure_steps::{Class, Failure, More, ReadLetters, Unexpected};

use crate::model::id::{DispatchId, JobKey, Revision, Token, WorkerId};
use crate::model::level::TooOld;
use crate::model::member::Member;
use crate::store::{Checkpoint, Outcome, Refusal, Rest, Result, StoreError};

pub(super) fn unexpected(call: &'static str, expected: &'static str, answer: &Value) -> StoreError {
    Unexpected::new(call, expected, answer).into()
}

/// The class of a connection's error.
pub(super) fn failed(error: tenure_connection::Error) -> StoreError {
    if let tenure_connection::Error::OtherServer { run_id } = error {
        return StoreError::OtherServer { run_id: run_id.into() };
    }
    let class = error.class();
    let failure = Failure::of(class, error);
    match class {
        Class::Unanswered => StoreError::Unanswered(failure),
        Class::Silent | Class::Unreachable | Class::NotNow | Class::Full => StoreError::NotExecuted(failure),
        Class::Raised => StoreError::Damaged(failure),
        _ => StoreError::Unusable(failure),
    }
}

/// The values of an answer, for reading in order.
pub(super) struct Values {
    values: tenure_connection::Values<StoreError>,
    /// Values that were skipped because they cannot be read.
    strange: Vec<String>,
}

impl Deref for Values {
    type Target = tenure_connection::Values<StoreError>;
    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.values
    }
}

impl Values {
    /// The values of a list.
    pub(super) fn of(call: &'static str, value: Value) -> Result<Self> {
        Ok(Self { values: tenure_connection::Values::of(call, value)?, strange: Vec::new() })
    }

    /// The next value, a list.
    pub(super) fn list(&mut self) -> Result<Self> {
        Ok(Self { values: self.values.list()?, strange: Vec::new() })
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
        self.unexpected(expected, &Value::BulkString(row.to_vec()))
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

    /// The next value, a job's key.
    pub(super) fn key(&mut self) -> Result<JobKey> {
        let bytes = self.bytes()?;
        let len = bytes.len();
        JobKey::new(bytes)
            .map_err(|_| self.unexpected("a job's key", &Value::SimpleString(format!("{len} bytes"))))
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
            match read(&mut Self { values: list.split(size), strange: Vec::new() }) {
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

/// The header and the bytes of a checkpoint. `None`: the header cannot be read.
impl More<Option<Box<Checkpoint>>, StoreError> for Values {
    fn more(&mut self) -> Result<Option<Box<Checkpoint>>> {
        let header = self.bytes()?;
        Ok(Checkpoint::parse(&header, self.bytes()?).map(Box::new))
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
        values.check(expected, "one value for each item")?;
        Ok(values)
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
            b"LEVEL" => Refusal::Level(TooOld::new(values.level()?, values.level()?)),
            b"STALETERM" => Refusal::StaleTerm,
            b"NOTOKENS" => Refusal::OutOfTokens,
            b"BADARG" => Refusal::BadArgument,
            b"NOTSTOPPING" => Refusal::NotStopping,
            b"MEMBERS" => Refusal::Members(values.number()?),
            code => return Err(values.unexpected("a code", &Value::BulkString(code.to_vec()))),
        })
    }
}

/// A stream entry's id.
pub(super) fn entry_id(text: &str) -> Option<EntryId> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
