//! Jobs that a call starts if its key has none.

use std::time::Duration;

use super::Shard;
use super::dispatching::{Dispatch, How};
use crate::clock;
use crate::core::time::Time;
use crate::error::{AskError, DispatchError, Error, NotHandled};
use crate::job::spec::JobSpec;
use crate::model::id::JobKey;
use crate::store::DispatchItem;

/// The job of a call's key, to be started if there is none.
pub(super) struct ToStart {
    job: JobSpec,
}

impl ToStart {
    /// Checks the job, before anything is written.
    pub(super) fn check(shard: &Shard, key: &JobKey, job: JobSpec) -> Result<Self, Error> {
        let wrong = |why| Error::WrongStart { key: key.clone(), why };
        match job.key() {
            Some(own) if own != key => return Err(wrong("has another key")),
            _ if job.has_id() => return Err(wrong("has an id of its own")),
            _ => {}
        }
        let start = Self { job };
        start.item(shard)?;
        Ok(start)
    }

    /// A dispatch of the job.
    pub(super) fn item(&self, shard: &Shard) -> Result<DispatchItem, Error> {
        let max = shard.settings().payload_max as usize;
        let sealed = self.job.clone().seal(&shard.shared.name, max);
        sealed.map(|(_, item)| item).map_err(|error| Error::NotStarted(Box::new(error)))
    }

    /// Starts the job for an ask that nobody was given.
    pub(super) async fn start(&self, shard: &Shard, deadline: Time) -> Result<(), AskError> {
        let patience = deadline.since(clock::now());
        let how = How { ensure: true, patience, ..How::new(true) };
        let result = Dispatch::<()>::of_shard(shard.clone(), self.job.clone(), how).await;
        result.map_err(|error| match error {
            DispatchError::Deadline { .. } => AskError::NotHandled(NotHandled::Late),
            DispatchError::Parked => AskError::NotHandled(NotHandled::Parked),
            DispatchError::ShuttingDown => Error::ShuttingDown.into(),
            DispatchError::NodeClosed => Error::NodeClosed.into(),
            error => Error::NotStarted(Box::new(error)).into(),
        })
    }
}

/// The pauses between the starts of a job that ends before it is asked.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    next: Duration,
}

impl Pauses {
    const MIN: Duration = Duration::from_millis(5);
    const MAX: Duration = Duration::from_millis(250);

    /// The first start comes at once.
    pub(super) async fn wait(&mut self, deadline: Time) {
        tokio::time::sleep(self.next.min(deadline.since(clock::now()))).await;
        self.next = (self.next * 2).clamp(Self::MIN, Self::MAX);
    }
}
