//! The level of the pool: what its nodes may use of newer versions.

use super::Operator;
use crate::api::node::Shard;
use crate::api::node::calls::PATIENCE;
use crate::error::Error;
use crate::model::level::{self, Level};
use crate::store::{RaiseLevel, Raised};

impl Operator {
    /// The levels of this version, of the pool and of its members, as the [node](Self::node) last heard of them. The floor is
    /// that of the last renewal.
    ///
    /// # Errors
    /// As [`node`](Self::node).
    ///
    /// # Cancel safety
    /// As [`node`](Self::node).
    pub async fn level(&self) -> Result<Level, Error> {
        let shards = &self.node().await?.shards;
        Ok(shards[1..].iter().map(Shard::level).fold(shards[0].level(), Level::and))
    }

    /// Raises the floor of the pool to this level and returns it. A floor that is higher stays, and is returned.
    ///
    /// From then on the pool refuses every node of a lower level with [`Error::TooOld`], and nodes may use all that
    /// belongs to the level. The floor never goes down. A deployment calls this once its last old process has ended.
    /// No node raises the floor by itself, so that a deployment can be rolled back.
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// feeds.raise_level(feeds.level().await?.own).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::MemberBelow`]: a worker of the pool has a lower level. Its shard keeps its floor.
    /// - [`Error::Setting`]: the level is 0, or above that of this version. Nothing was written.
    /// - [`Error::TooOld`]: the floor is above the level of this version.
    /// - The pool was shut down, or the node is closed.
    /// - There is no answer within 20 s, or the pool does not open. The floor may have been raised.
    ///
    /// With several shards, as after a dropped call, perhaps only some shards have the floor. Call it again.
    ///
    /// # Cancel safety
    /// After a dropped call it is not known whether the floor was raised. The call may be repeated.
    pub async fn raise_level(&self, to: u32) -> Result<u32, Error> {
        level::check(to, self.level().await?.own)?;
        let shards = &self.node().await?.shards;
        let raised = async {
            let mut floor = u32::MAX;
            for shard in &**shards {
                floor = floor.min(shard.raise_level(to).await?);
            }
            Ok(floor)
        };
        tokio::time::timeout(PATIENCE, raised).await.unwrap_or_else(|_| {
            let mut late = shards.iter().map(|shard| shard.late(PATIENCE));
            let named = late.find(|late| matches!(late, Error::Deadline { last: Some(_), .. }));
            Err(named.unwrap_or(Error::Deadline { within: PATIENCE, last: None }))
        })
    }
}

impl Shard {
    fn level(&self) -> Level {
        let (floor, store) = (self.shared.health.seen().status.floor, &self.shared.store.0);
        Level::of(store.level(), floor.unwrap_or(level::LOWEST), &store.members().borrow())
    }

    async fn raise_level(&self, to: u32) -> Result<u32, Error> {
        let raised = self.insist(|store, incarnation| async move {
            store.run(incarnation, &RaiseLevel { level: to }).await
        });
        match raised.await? {
            Raised::Floor(floor) => Ok(floor),
            Raised::Below { worker, level } => Err(Error::MemberBelow { worker, level, wanted: to }),
        }
    }
}
