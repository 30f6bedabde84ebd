//! Jobs as they are.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::notes::Notes;
use crate::data;
use crate::error::Error;
use crate::model::id::{JobId, QueueName, Token};
use crate::model::record::{Record, State};
use crate::store::Peeked;

/// A job as it was when it was read.
#[derive(Clone, Debug)]
pub struct JobView {
    id: JobId,
    record: Record,
    body: Bytes,
    result: Bytes,
    notes: Bytes,
    begins_at: u64,
    children: Vec<ChildEnd>,
}

/// The end of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildEnd {
    /// The child.
    pub id: JobId,
    /// Done, failed or cancelled.
    pub state: State,
    result: Bytes,
}

impl ChildEnd {
    /// The result of a child that has succeeded.
    ///
    /// # Errors
    /// [`Error::Decode`] when it is of another type, as that of a child without a result is.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, Error> {
        data::decode(&self.result)
    }

    /// The error of a child that has failed, or the reason of its cancellation.
    pub fn error(&self) -> Option<String> {
        (self.state != State::Done).then(|| String::from_utf8_lossy(&self.result).into_owned())
    }
}

pub(crate) fn children(ends: Vec<(JobId, char, Bytes)>) -> Vec<ChildEnd> {
    let child = |(id, letter, result)| ChildEnd {
        id,
        state: State::of(&String::from(letter)).unwrap_or(State::Cancelled),
        result,
    };
    ends.into_iter().map(child).collect()
}

impl JobView {
    pub(crate) fn new(id: JobId, peeked: Peeked) -> Self {
        let Peeked { seen, begins_at, children: ends, .. } = peeked;
        Self {
            id,
            record: seen.record,
            body: seen.body,
            result: seen.result,
            notes: seen.notes,
            begins_at,
            children: children(ends),
        }
    }

    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.record.state
    }

    /// Its queue. Of a job that has failed: where it failed.
    pub fn queue(&self) -> &QueueName {
        &self.record.queue
    }

    /// Its record, with all that the store knows about it.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// How often it was begun in this queue.
    pub fn attempts(&self) -> u32 {
        self.record.attempts
    }

    /// The token of its last execution, or a higher one when it was changed or cancelled since.
    pub fn token(&self) -> Token {
        self.record.token
    }

    /// Its data, or those fields that the type declares.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Error> {
        data::decode(&self.body)
    }

    /// The last checkpoint of the job in its queue; `None` before the first.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn checkpoint<S: DeserializeOwned>(&self) -> Result<Option<S>, Error> {
        Notes::read(&self.notes)?.checkpoint()
    }

    /// The last progress of the job in its queue; `None` before the first.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn progress<P: DeserializeOwned>(&self) -> Result<Option<P>, Error> {
        Notes::read(&self.notes)?.progress()
    }

    /// Its result.
    ///
    /// # Errors
    /// [`Error::Decode`] when it has none, or one of another type.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, Error> {
        data::decode(&self.result)
    }

    /// The error of its last attempt, or why it was delayed, failed or cancelled.
    pub fn error(&self) -> Option<String> {
        let has = self.record.state != State::Done && !self.result.is_empty();
        has.then(|| String::from_utf8_lossy(&self.result).into_owned())
    }

    /// When the limit of its group lets it begin; `None` when that is not in its way.
    pub fn begins_at(&self) -> Option<SystemTime> {
        (self.begins_at > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(self.begins_at))
    }

    /// The ends of its children, as far as they have ended. Those of many children were read after the state of the job.
    pub fn children(&self) -> &[ChildEnd] {
        &self.children
    }

    pub(crate) fn into_children(self) -> Vec<ChildEnd> {
        self.children
    }
}

/// The end of a job that was waited for.
#[derive(Clone, Debug)]
pub struct Ended {
    pub(crate) id: JobId,
    pub(crate) state: State,
    pub(crate) result: Bytes,
}

impl Ended {
    /// The job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Done, failed or cancelled.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it has succeeded.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The result of a job that has succeeded.
    ///
    /// # Errors
    /// [`Error::Decode`] when it is of another type, as that of a job without a result is.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, Error> {
        data::decode(&self.result)
    }

    /// The error of a job that has failed, or the reason of its cancellation.
    pub fn error(&self) -> Option<String> {
        (!self.is_done()).then(|| String::from_utf8_lossy(&self.result).into_owned())
    }
}
