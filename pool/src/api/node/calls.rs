//! Calls from a node to its engine: the parts that all requests share.

use std::time::Duration;

use super::Shard;
use crate::core::input::{Answer, Command, ReplyTo};
use crate::error::Error;
use crate::model::id::Incarnation;
use crate::model::phase::PoolPhase;
use crate::store::{Refusal, Store, StoreError};

/// How long a call waits for its answer by default.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before the store is asked again.
pub(super) const AGAIN: Duration = Duration::from_millis(50);
/// How long a call waits after its deadline, in case its answer was lost.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

impl Shard {
    /// Sends a step that may be repeated until it is answered. An error that no repetition can mend ends it.
    pub(super) async fn insist<T, Step, Answered>(&self, step: Step) -> Result<T, Error>
    where
        Step: Fn(Store, Incarnation) -> Answered,
        Answered: Future<Output = Result<T, StoreError>>,
    {
        loop {
            if self.shared.messages.is_closed() {
                let closed = self.shared.health.seen().status.phase == PoolPhase::Closed;
                return Err(if closed { Error::PoolClosed } else { self.gone().await.into() });
            }
            if let Some(incarnation) = self.incarnation() {
                match step(self.store(), incarnation).await {
                    Ok(answer) => return Ok(answer),
                    Err(StoreError::Refused(Refusal::Closed)) => return Err(Error::PoolClosed),
                    Err(
                        error @ (StoreError::Unusable(_)
                        | StoreError::Damaged(_)
                        | StoreError::Refused(Refusal::BadArgument | Refusal::Level(_))),
                    ) => return Err(error.into()),
                    Err(error) if error.is_full() => return Err(error.into()),
                    // The pool or the store must be found again.
                    Err(error) => self.shared.health.trouble(&error),
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The error of a call without an answer in this time. The error names the trouble of the store.
    pub(super) fn late(&self, within: Duration) -> Error {
        let last = self.shared.store.0.unfollowed().or_else(|| self.shared.health.present_trouble());
        Error::Deadline { within, last }
    }

    /// The answer to a call of this node, which may take as long as calls do.
    pub(super) async fn patiently<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(self.late(PATIENCE)))
    }

    pub(crate) async fn request(
        &self,
        patience: Duration,
        command: impl FnOnce(ReplyTo) -> Command,
    ) -> Result<(), Error> {
        self.answered(patience, self.ask(command)).await
    }

    pub(super) async fn answered(
        &self,
        patience: Duration,
        call: impl Future<Output = Option<Answer>>,
    ) -> Result<(), Error> {
        match tokio::time::timeout(patience.saturating_add(MARGIN), call).await {
            Ok(Some(
                Answer::Stopped(result)
                | Answer::Notified(result)
                | Answer::Unparked(result)
                | Answer::Steered(result)
                | Answer::Scheduled(result),
            )) => result,
            Ok(Some(Answer::Late { stopping: Some(key) })) => {
                Err(Error::StillStopping { key, within: patience })
            }
            Ok(Some(Answer::Late { stopping: None })) | Err(_) => Err(self.late(patience)),
            Ok(_) => Err(self.gone().await.into()),
        }
    }
}
