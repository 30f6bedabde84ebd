//! An execution of a job as it began, and its end.

use std::sync::Arc;

use bytes::Bytes;

use super::Time;
use crate::model::id::{JobId, Token};
use crate::model::queue::Terms;
use crate::model::record::Record;
use crate::store::{Settle, Settling};

/// Tells an execution from all others.
pub(crate) type Key = (JobId, Token);

/// An execution of a job as it began.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) id: JobId,
    pub(crate) token: Token,
    pub(crate) record: Record,
    pub(crate) terms: Terms,
}

impl Execution {
    pub(crate) fn key(&self) -> Key {
        (self.id.clone(), self.token)
    }

    /// The end of a failed attempt, for any reason: the job runs again after the queue's pause.
    pub(crate) fn retry(&self, why: impl Into<Bytes>) -> Settle {
        Settle::Retry(self.pause(), why.into())
    }

    /// The pause after an attempt that has failed, ms.
    pub(crate) fn pause(&self) -> u64 {
        let pause = self.terms.backoff.after(self.record.attempts, &self.id, self.token);
        u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The fate of an execution.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) execution: Arc<Execution>,
    pub(crate) settle: Settle,
    pub(crate) began: Time,
    /// The length of its lease.
    pub(crate) lease: Time,
}

impl End {
    pub(crate) fn settling(&self) -> Settling {
        Settling::new(self.execution.id.clone(), self.execution.token, self.settle.clone())
    }
}
