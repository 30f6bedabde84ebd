//! A shutdown that is under way is made to end sooner, by a caller that has no node in the pool.

use futures::future::try_join_all;
use tokio::time::Instant;

use crate::api::builder::NodeBuilder;
use crate::api::node::joining::{Limit, Waiting};
use crate::api::node::shards::{Probe, SOON, Seen, is_silence};
use crate::core::ctx::RETRY;
use crate::error::Error;
use crate::model::id::{Incarnation, NodeName};
use crate::model::settings::ShardId;
use crate::store::{Refusal, ShutDown, ShutdownMode, Store, StoreError};

/// A shard that nobody has joined here.
pub(super) struct Part {
    store: Store,
    probe: Probe,
    /// The caller's name.
    name: NodeName,
    limit: Limit,
}

impl NodeBuilder {
    /// Makes a pool that is shutting down drop at once all jobs that have not begun. The nodes that live in the pool hear of
    /// the wish and end the pool. If none lives, the next node that joins does. False if no such pool is shutting down. Then
    /// nothing was changed. After an error, some of several shards may have been told.
    pub(super) async fn hasten_shutdown(self) -> Result<bool, Error> {
        self.validate()?;
        let limit = Limit::new(self.patience());
        let builder = self.named();
        let count = builder.count();
        let shards = (0..count).map(|index| (count > 1).then_some(ShardId { index, count }));
        let parts = try_join_all(shards.map(|shard| builder.part(shard, limit))).await?;
        let seen = try_join_all(parts.iter().map(|part| part.look(count))).await?;
        if !seen.iter().flatten().any(|(_, is_ending)| *is_ending) {
            return Ok(false);
        }
        let there = parts.iter().zip(seen).filter_map(|(part, seen)| Some((part, seen?.0)));
        let told = try_join_all(there.map(|(part, incarnation)| part.hasten(incarnation))).await?;
        Ok(told.contains(&true))
    }

    pub(super) async fn part(&self, shard: Option<ShardId>, limit: Limit) -> Result<Part, Error> {
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

    /// The shard's incarnation, and whether it shuts down. `None` if there is no such shard.
    pub(super) async fn look(&self, count: u32) -> Result<Option<(Incarnation, bool)>, Error> {
        let seen = self.see().await?;
        seen.check_count(count)?;
        Ok(match seen {
            Seen::Present(incarnation, settings) => Some((incarnation, settings.flag().is_some())),
            Seen::Absent | Seen::Closed => None,
        })
    }

    /// Has this incarnation of the shard drop what has not begun, if it shuts down. Any other one may belong to the next
    /// pool. A shard that has not heard of the shutdown is waited for: its nodes hear soon. Without nodes it ends with the
    /// others. False if nothing was written.
    pub(super) async fn hasten(&self, incarnation: Incarnation) -> Result<bool, Error> {
        let until = Instant::now() + SOON;
        loop {
            let settings = match self.see().await? {
                Seen::Present(now, settings) if now == incarnation => settings,
                _ => return Ok(false),
            };
            if settings.flag().is_none() {
                if Instant::now() >= until {
                    return Ok(false);
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
            let hasten = ShutDown { by: self.name.clone(), mode: ShutdownMode::DropQueued };
            let telling = self.store.run(incarnation, &hasten);
            match tokio::time::timeout(self.limit.rest(), telling).await {
                Ok(Ok(_)) => return Ok(true),
                // It has ended, or was recovered, since it was seen.
                Ok(Err(StoreError::Refused(
                    Refusal::NoPool | Refusal::Closed | Refusal::StaleIncarnation(_),
                ))) => return Ok(false),
                Ok(Err(error)) if is_silence(&error) && !self.limit.rest().is_zero() => {
                    tokio::time::sleep(RETRY.min(self.limit.rest())).await;
                }
                Ok(Err(error)) => return Err(self.failed(error)),
                Err(_) => return Err(self.limit.is_up(None)),
            }
        }
    }

    /// The error of a look or a call that has failed.
    fn failed(&self, error: StoreError) -> Error {
        if is_silence(&error) { self.limit.is_up(Some(error)) } else { error.into() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use tenure_testing::eventually;

    use super::*;
    use crate::api::node::Node;
    use crate::store::MemoryStore;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// The next pool of this name, and one whose shutdown nobody asked for.
    #[tokio::test]
    async fn no_other_pool_is_hastened_than_the_one_that_was_seen() {
        let store = MemoryStore::new();
        let builder = Node::builder("ends", &store).worker_ttl(Duration::from_secs(60)).assume_fresh(true);
        let node = builder.clone().join().await.unwrap();
        node.submit(("never begun", "")).await.unwrap();
        let part = builder.part(None, Limit::new(PATIENCE)).await.unwrap();
        let (seen, is_ending) = part.look(1).await.unwrap().unwrap();
        assert!(!is_ending && !part.hasten(seen).await.unwrap(), "the pool is open");
        let ends = tokio::spawn({
            let node = node.clone();
            async move { node.operate().shutdown().closing(PATIENCE * 10).await }
        });
        let is_closing = async || part.look(1).await.unwrap().unwrap().1;
        eventually(PATIENCE, "the shutdown", is_closing).await;
        assert!(!part.hasten(Incarnation(seen.0 - 1)).await.unwrap(), "another pool");
        assert_eq!(node.inspect().jobs().await.unwrap().len(), 1);
        assert!(part.hasten(seen).await.unwrap());
        assert!(ends.await.unwrap().unwrap().complete);
        assert!(!part.hasten(seen).await.unwrap(), "it has ended");
    }
}
