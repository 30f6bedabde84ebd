//! The verdict of a handler on its job.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;

use crate::data;
use crate::error::Error;

/// The verdict of a handler on its job. An error in its place is a failed attempt.
#[derive(Debug)]
pub struct Outcome(pub(crate) Made);

/// The data with which a job goes on.
#[derive(Debug)]
pub(crate) enum Onward {
    /// Its own.
    Same,
    /// Its own, merged with these fields.
    More(Bytes),
    /// These.
    Other(Bytes),
}

#[derive(Debug)]
pub(crate) enum Made {
    Done(Bytes),
    Next { queue: Option<String>, data: Onward },
    Wait,
    Later { after: Duration, why: String },
    Limited { until: SystemTime },
}

impl Outcome {
    /// The job has succeeded.
    pub fn done() -> Self {
        Self(Made::Done(Bytes::new()))
    }

    /// The job has succeeded, with this result.
    ///
    /// # Errors
    /// [`Error::Encode`] and [`Error::TooLarge`].
    pub fn result<R: Serialize + ?Sized>(result: &R) -> Result<Self, Error> {
        Ok(Self(Made::Done(data::encode(result)?)))
    }

    /// The job goes on to the next queue: that of its queue's settings, else the next stage of its flow. After the last
    /// stage it has succeeded. In a queue that is no stage of its flow it fails for good, with
    /// [`Error::NoStage`] as its error: there the handler names the queue, or says that the job is done.
    pub fn go_on() -> Self {
        Self(Made::Next { queue: None, data: Onward::Same })
    }

    /// The same, and the fields of `more` become fields of the job's data. Where the job's data or `more` have no
    /// fields, as a text, a list or a number, `more` replaces the data. Another variant of an enum needs
    /// [`next_as`](Self::next_as): a merge of two variants is no variant.
    ///
    /// # Errors
    /// [`Error::Encode`] and [`Error::TooLarge`].
    pub fn next<D: Serialize + ?Sized>(more: &D) -> Result<Self, Error> {
        Ok(Self(Made::Next { queue: None, data: Onward::More(data::encode(more)?) }))
    }

    /// The job goes on as with [`go_on`](Self::go_on), and `data` of any type replace the job's data.
    ///
    /// # Errors
    /// [`Error::Encode`] and [`Error::TooLarge`].
    pub fn next_as<D: Serialize + ?Sized>(data: &D) -> Result<Self, Error> {
        Ok(Self(Made::Next { queue: None, data: Onward::Other(data::encode(data)?) }))
    }

    /// The job goes on in this queue. An outcome that does not go on stays as it is.
    #[must_use]
    pub fn to(self, name: impl Into<String>) -> Self {
        match self.0 {
            Made::Next { data, .. } => Self(Made::Next { queue: Some(name.into()), data }),
            made => Self(made),
        }
    }

    /// The job waits for its children, without a slot and without a lease, and runs again when the last one has ended.
    /// Without an open child the first wait lets the job run again at once: the next run knows that the job has waited.
    /// A later wait is a failed attempt when no child is open and none has ended since the last wait. If an attempt is
    /// left, the job runs again after the queue's pause.
    pub fn wait() -> Self {
        Self(Made::Wait)
    }

    /// The job runs again after this time. The attempt does not count.
    pub fn later(after: Duration, why: impl Into<String>) -> Self {
        Self(Made::Later { after, why: why.into() })
    }

    /// Somebody has refused the work until then, as with a 429. The group of the job waits, or the job alone where there
    /// are no groups. The attempt does not count.
    pub fn limited_until(until: SystemTime) -> Self {
        Self(Made::Limited { until })
    }
}

/// Anything that a handler may return: `()` for a job that has succeeded, or an [`Outcome`].
pub trait IntoOutcome {
    /// The outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::done()
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}
