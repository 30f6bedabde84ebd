//! How the shards are joined: none of another number of them, none of a pool that shuts down, all of the same pool.

use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};

use super::guard::{Asked, guard};
use super::look::{Look, Seen};
use crate::builder::NodeBuilder;
use crate::core::ctx::Purpose;
use crate::error::Error;
use crate::id::Incarnation;
use crate::node::Shard;
use crate::settings::{ShardId, ShutdownFlag};

/// How long a node that has joined some shards, and not all, is given to leave them.
const LEAVING: Duration = Duration::from_secs(10);

/// A join under way.
pub(super) struct Joining {
    pub(super) node: NodeBuilder,
    pub(super) count: u32,
    pub(super) deadline: Instant,
}

impl Joining {
    /// A node in each shard; `None`: the first shard has become another one meanwhile, and all is to be tried again.
    pub(super) async fn attempt(&self) -> Result<Option<Vec<Shard>>, Error> {
        let first = self.look_at(0).await?;
        let seen = first.see().await?;
        seen.check_count(self.count)?;
        let purpose = match &seen {
            Seen::Present(incarnation, settings) => match settings.flag() {
                None => Purpose::Part,
                Some(flag) if self.end_others(&first, *incarnation, &flag).await? => {
                    Purpose::PartAfter(*incarnation)
                }
                Some(_) => return Ok(None),
            },
            Seen::Absent | Seen::Closed => {
                // It says no more how many there are: its data were lost. The second one, which every other number
                // has, too, still does.
                self.look_at(1).await?.see().await?.check_count(self.count)?;
                Purpose::Part
            }
        };
        let node = match self.join(0, purpose).await {
            Err(error) if has_ended(&error) => return Ok(None),
            joined => joined?,
        };
        let (incarnation, store) = (node.incarnation(), node.store());
        let mut nodes = vec![node];
        if let Err(error) = self.join_others(&mut nodes).await {
            leave(&nodes).await;
            return if has_ended(&error) { Ok(None) } else { Err(error) };
        }
        // The first shard may have ended since it was joined, and the others may be those of the next pool.
        match Look::through(store, self.deadline).see().await {
            Ok(Seen::Present(now, settings)) if Some(now) == incarnation => {
                if settings.flag().is_none() {
                    return Ok(Some(nodes));
                }
                // What was joined meanwhile, or made, ends with it.
                let ending = guard(nodes.iter().map(Shard::overseen).collect());
                let _ = tokio::time::timeout(LEAVING, ending).await;
                leave(&nodes).await;
                Err(Error::ShuttingDown)
            }
            Ok(_) => {
                leave(&nodes).await;
                Ok(None)
            }
            Err(error) => {
                leave(&nodes).await;
                Err(error)
            }
        }
    }

    async fn join_others(&self, nodes: &mut Vec<Shard>) -> Result<(), Error> {
        let joining =
            (1..self.count).map(|index| async move { (index, self.join(index, Purpose::Part).await) });
        let mut joining: FuturesUnordered<_> = joining.collect();
        let mut others = Vec::new();
        let mut failed = Ok(());
        while let Some((index, joined)) = joining.next().await {
            match joined {
                Ok(node) => others.push((index, node)),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        // Those that are still under way leave by themselves.
        drop(joining);
        others.sort_by_key(|(index, _)| *index);
        nodes.extend(others.into_iter().map(|(_, node)| node));
        failed
    }

    /// The first shard shuts down: the others are to have ended before it. False: it is another one by now.
    async fn end_others(
        &self,
        first: &Look,
        incarnation: Incarnation,
        flag: &ShutdownFlag,
    ) -> Result<bool, Error> {
        let asked = Asked::of(flag, first.server_ms().await);
        let ending = (1..self.count).map(|index| self.end(index, first, incarnation, asked));
        Ok(try_join_all(ending).await?.into_iter().all(|ended| ended))
    }

    /// Sees the end of a shard, and makes none. False: the first shard is another one by now.
    async fn end(
        &self,
        index: u32,
        first: &Look,
        incarnation: Incarnation,
        asked: Asked,
    ) -> Result<bool, Error> {
        let look = self.look_at(index).await?;
        let mut absent = false;
        loop {
            match look.see().await? {
                Seen::Closed => return Ok(true),
                Seen::Absent if absent => return Ok(true),
                Seen::Absent => {
                    // Where data were lost, whoever runs jobs here makes it again while its leases last.
                    absent = true;
                    tokio::time::sleep(self.node.shadow()).await;
                    continue;
                }
                Seen::Present(..) => absent = false,
            }
            let node = match self.join(index, Purpose::End).await {
                Ok(node) => node,
                Err(error) if has_ended(&error) => continue,
                Err(error) => return Err(error),
            };
            // Nobody has told this one.
            match first.shuts_down(incarnation).await {
                Ok(true) => {}
                other => {
                    leave(&[node]).await;
                    return other;
                }
            }
            let overseen = node.overseen();
            overseen.shut_down(asked.mode()).await;
            let ended = tokio::time::timeout(first.rest(), node.closed()).await;
            if ended.is_err() || !node.saw_the_end() {
                node.abandon();
                return Err(Error::ShuttingDown);
            }
        }
    }

    async fn look_at(&self, index: u32) -> Result<Look, Error> {
        // The place matters, and not how many there are.
        let store = self.node.store_of(Some(ShardId { index, count: self.count }), None)?;
        Look::at(store, self.deadline).await
    }

    async fn join(&self, index: u32, purpose: Purpose) -> Result<Shard, Error> {
        let shard = ShardId { index, count: self.count };
        self.node.clone().join_as(Some(shard), purpose).await.map_err(|error| match error {
            Error::SettingMismatch { name, theirs, ours } if name == ShardId::SETTING => {
                match ShardId::parse(&theirs) {
                    Some(theirs) if theirs.count != shard.count => {
                        Error::OtherShards { theirs: theirs.count, ours: shard.count }
                    }
                    _ => Error::SettingMismatch { name, theirs, ours },
                }
            }
            error => error,
        })
    }
}

/// The pool ended while the node was joining, and the node with it.
fn has_ended(error: &Error) -> bool {
    matches!(error, Error::PoolClosed | Error::NodeClosed)
}

/// Not all shards could be joined.
async fn leave(nodes: &[Shard]) {
    join_all(nodes.iter().map(|node| async {
        match node.close_within(LEAVING).await {
            Ok(report) if report.complete => {}
            _ => node.abandon(),
        }
    }))
    .await;
}
