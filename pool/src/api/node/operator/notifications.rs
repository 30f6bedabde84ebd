//! Waiting notifications: how to drop them.

use super::Operator;
use crate::api::listing::WaitingNotification;
use crate::api::node::Shard;
use crate::api::node::calls::AGAIN;
use crate::error::Error;
use crate::model::id::{IdError, JobKey};
use crate::store::{DropNotifications, Refusal, StoreError};

impl Operator {
    /// Drops the oldest notifications of a job, up to and including this one, and returns how many still wait.
    /// Notifications keep their order, so use this for a job that cannot take one of them. The owner may still
    /// deliver those that it already holds.
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// if let Some(oldest) = feeds.inspect().notifications("acme").await?.first() {
    ///     feeds.drop_notifications("acme", oldest).await?;
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
        self.node().await?.of(&key).drop_notifications(key, through).await
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
