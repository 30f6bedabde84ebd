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
        started(Dispatch::<()>::of_shard(shard.clone(), self.job.clone(), how).await)
    }
}

/// The end of a start for an ask. A job that has ended at once is asked for, and started again, until the deadline.
fn started<T>(result: Result<T, DispatchError>) -> Result<(), AskError> {
    match result {
        Ok(_) | Err(DispatchError::Ended) => Ok(()),
        Err(DispatchError::Deadline { .. }) => Err(AskError::NotHandled(NotHandled::Late)),
        Err(DispatchError::Parked) => Err(AskError::NotHandled(NotHandled::Parked)),
        Err(DispatchError::Paused) => Err(AskError::NotHandled(NotHandled::Paused)),
        Err(DispatchError::Stopped) => Err(AskError::NotHandled(NotHandled::Stopping)),
        Err(DispatchError::ShuttingDown) => Err(Error::ShuttingDown.into()),
        Err(DispatchError::NodeClosed) => Err(Error::NodeClosed.into()),
        Err(DispatchError::NodeFailed(why)) => Err(Error::NodeFailed(why).into()),
        Err(DispatchError::TooOld(why)) => Err(Error::TooOld(why).into()),
        Err(error) => Err(Error::NotStarted(Box::new(error)).into()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_fails_is_an_error_of_its_ask() {
        let of = |error| started::<()>(Err(error)).map_err(|error| format!("{error:?}"));
        assert_eq!(of(DispatchError::Ended), Ok(()));
        let said = [
            (DispatchError::Parked, "NotHandled(Parked)"),
            (DispatchError::Paused, "NotHandled(Paused)"),
            (DispatchError::Stopped, "NotHandled(Stopping)"),
            (DispatchError::ShuttingDown, "Failed(ShuttingDown)"),
            (DispatchError::NodeClosed, "Failed(NodeClosed)"),
            (DispatchError::NodeFailed("why".into()), "Failed(NodeFailed(\"why\"))"),
            (DispatchError::PoolFull, "Failed(NotStarted(PoolFull))"),
        ];
        for (error, as_ask) in said {
            assert_eq!(of(error), Err(as_ask.to_owned()));
        }
    }
}
