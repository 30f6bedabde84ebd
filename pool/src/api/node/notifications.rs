//! Waiting notifications: how to list and to drop them.

use std::time::Duration;

use bytes::Bytes;

use super::{Node, Shard};
use crate::error::Error;
use crate::job::checkpoint::Checkpointed;
use crate::model::id::{IdError, Incarnation, JobKey};
use crate::store::{DropNotifications, Refusal, StoreError};

/// The pause before the store is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// A notification that is kept until the job's owner has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingNotification {
    /// Its number, which rises with each notification of the job. After a loss of data the numbers may begin again.
    pub number: u64,
    /// Its bytes.
    pub body: Bytes,
    /// The incarnation that the number belongs to, or an earlier one.
    pub(crate) incarnation: Incarnation,
}

impl Node {
    /// The state that a job's owner has left with it ([`Job::checkpoint`](crate::Job::checkpoint)). `None` if there is
    /// none, or no such job. One read, for operators.
    ///
    /// # Errors
    /// The key is not valid, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn checkpoint_of<K>(&self, key: K) -> Result<Option<Checkpointed>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.reader.checkpoint_of(&key).await
    }

    /// The notifications that wait for a job, oldest first. The owner may already be delivering the first of them.
    ///
    /// # Errors
    /// The key is not valid, there is no such job, its notifications cannot be read, or the store does not answer.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn notifications<K>(&self, key: K) -> Result<Vec<WaitingNotification>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.reader.notifications(key).await
    }

    /// Drops the oldest notifications of a job, up to and including this one, and returns how many still wait.
    /// Notifications keep their order, so use this for a job that cannot take one of them. The owner may still
    /// deliver those that it already holds.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// if let Some(oldest) = node.notifications("acme").await?.first() {
    ///     node.drop_notifications("acme", oldest).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The key is not valid, there is no such job, or the pool was shut down.
    /// - [`Error::Renumbered`] if data were lost after the notification was listed, or may have been. Nothing was
    ///   dropped.
    /// - No answer within 20 s. The notifications may have been dropped.
    ///
    /// # Cancel safety
    /// After a dropped call the notifications may have been dropped. The call may be repeated.
    pub async fn drop_notifications<K>(&self, key: K, through: &WaitingNotification) -> Result<u64, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.of(&key).drop_notifications(key, through).await
    }
}

impl Shard {
    async fn drop_notifications(&self, key: JobKey, through: &WaitingNotification) -> Result<u64, Error> {
        let dropped = async {
            let WaitingNotification { number, incarnation, .. } = *through;
            let drop = DropNotifications { key: key.clone(), through: number };
            loop {
                match self.shared.store.0.run(incarnation, &drop).await {
                    Ok(left) => return left.ok_or_else(|| Error::JobNotFound(key.clone())),
                    Err(StoreError::Refused(Refusal::StaleIncarnation(_))) => {
                        return Err(Error::Renumbered(key.clone()));
                    }
                    Err(StoreError::Refused(Refusal::Closed)) => return Err(Error::PoolClosed),
                    Err(error @ (StoreError::NotExecuted(_) | StoreError::Unanswered(_))) => {
                        self.shared.health.trouble(&error);
                    }
                    Err(error) => return Err(error.into()),
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        self.patiently(dropped).await
    }
}
