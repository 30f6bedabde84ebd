//! A shutdown that is under way is made to end sooner, by a caller that has no node in the pool.

use std::sync::Arc;

use futures::future::try_join_all;

use crate::api::builder::NodeBuilder;
use crate::api::node::joining::{Limit, Waiting};
use crate::api::node::shards::{Probe, Seen, is_silence};
use crate::core::ctx::RETRY;
use crate::error::Error;
use crate::model::id::NodeName;
use crate::model::settings::ShardId;
use crate::store::{Refusal, ShutdownMode, Store, StoreError};

/// A shard that nobody has joined here.
struct Part {
    store: Arc<dyn Store>,
    probe: Probe,
    /// The caller's name.
    name: NodeName,
    limit: Limit,
}

impl NodeBuilder {
    /// Makes a pool that is shutting down drop at once all jobs that have not begun, as
    /// [`Shutdown::drop_queued`](crate::Shutdown::drop_queued) does. No node can join such a pool, so this joins none:
    /// the nodes that live in the pool hear of it and end the pool. False if no such pool is shutting down. Then
    /// nothing was changed.
    ///
    /// # Errors
    /// - A name or setting is not valid. The server is too old or evicts keys.
    /// - [`Error::OtherShards`] if the pool has another number of shards.
    /// - [`Error::NotJoined`], with the last trouble, if Redis has not answered within
    ///   [`join_timeout`](Self::join_timeout).
    ///
    /// After an error, some of several shards may have been told. The call can be made again.
    ///
    /// # Cancel safety
    /// A dropped call is as one with an error.
    pub async fn hasten_shutdown(self) -> Result<bool, Error> {
        self.validate()?;
        let limit = Limit::new(self.patience());
        let builder = self.named();
        let count = builder.count();
        let shards = (0..count).map(|index| (count > 1).then_some(ShardId { index, count }));
        let parts = try_join_all(shards.map(|shard| builder.part(shard, limit))).await?;
        let seen = try_join_all(parts.iter().map(|part| part.is_ending(count))).await?;
        // A shutdown of one shard is one of all, also of those that have not heard of it yet.
        let is_ending = seen.contains(&true);
        if is_ending {
            try_join_all(parts.iter().map(Part::hasten)).await?;
        }
        Ok(is_ending)
    }

    async fn part(&self, shard: Option<ShardId>, limit: Limit) -> Result<Part, Error> {
        let (pool, name) = self.names(shard)?;
        let store = self.store_of(shard, None)?;
        let probe = Probe::at(store.clone(), limit, Waiting::new(pool, name.clone())).await?;
        Ok(Part { store, probe, name, limit })
    }
}

impl Part {
    async fn see(&self) -> Result<Seen, Error> {
        self.probe.see().await.map_err(|error| self.failed(error))
    }

    /// Whether the shard is there and shuts down.
    async fn is_ending(&self, count: u32) -> Result<bool, Error> {
        let seen = self.see().await?;
        seen.check_count(count)?;
        Ok(matches!(seen, Seen::Present(_, settings) if settings.flag().is_some()))
    }

    /// Has the shard drop what has not begun, unless it has ended.
    async fn hasten(&self) -> Result<(), Error> {
        while let Seen::Present(incarnation, _) = self.see().await? {
            let telling = self.store.shutdown(incarnation, &self.name, ShutdownMode::DropQueued);
            match tokio::time::timeout(self.limit.rest(), telling).await {
                Ok(Ok(_)) => return Ok(()),
                // It has ended, or was recovered, since it was seen.
                Ok(Err(StoreError::Refused(
                    Refusal::NoPool | Refusal::Closed | Refusal::StaleIncarnation(_),
                ))) => {}
                Ok(Err(error)) if is_silence(&error) && !self.limit.rest().is_zero() => {
                    tokio::time::sleep(RETRY.min(self.limit.rest())).await;
                }
                Ok(Err(error)) => return Err(self.failed(error)),
                Err(_) => return Err(self.limit.is_up(None)),
            }
        }
        Ok(())
    }

    /// The error of a look or a call that has failed.
    fn failed(&self, error: StoreError) -> Error {
        if is_silence(&error) { self.limit.is_up(Some(error)) } else { error.into() }
    }
}
