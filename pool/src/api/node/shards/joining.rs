//! The join of all shards: they must have the same number, belong to one pool, and not be shutting down.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};

use super::probe::{Probe, SOON, Seen, is_silence};
use super::supervisor::{Asked, supervise};
use crate::api::builder::NodeBuilder;
use crate::api::node::Shard;
use crate::api::node::joining::{Limit, Waiting};
use crate::api::node::operator::CLOSING;
use crate::core::ctx::Purpose;
use crate::error::Error;
use crate::model::id::Incarnation;
use crate::model::settings::{ShardId, ShutdownFlag};
use crate::store::{ShutdownMode, StoreError};

/// How long a node has at most to leave the shards that it joined when it cannot join all.
const LEAVING: Duration = Duration::from_secs(10);

/// The state of a join.
pub(super) struct Joining {
    pub(super) node: NodeBuilder,
    pub(super) count: u32,
    pub(super) limit: Limit,
}

impl Joining {
    /// Joins a node in each shard. `None` asks for another attempt: the first shard has become another one meanwhile.
    pub(super) async fn attempt(&self) -> Result<Option<Vec<Shard>>, Error> {
        let first = self.probe(0).await?;
        let seen = self.see(&first).await?;
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
                // Its data were lost, so it no longer says how many shards there are. Every pool with several shards
                // has a second one, which still does.
                self.see(&self.probe(1).await?).await?.check_count(self.count)?;
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
            if is_ending(&error) {
                self.end_with_pool(&first.joined(store), &nodes).await;
            }
            self.leave(&nodes).await;
            return if has_ended(&error) { Ok(None) } else { Err(error) };
        }
        // The first shard may have ended since it was joined. The others may then belong to the next pool.
        match self.see(&first.joined(store)).await {
            Ok(Seen::Present(now, settings)) if Some(now) == incarnation => {
                if settings.flag().is_none() {
                    return Ok(Some(nodes));
                }
                // The shards that were joined or created meanwhile end with it.
                let ending = supervise(nodes.iter().map(Shard::overseen).collect());
                let _ = tokio::time::timeout(self.leaving(), ending).await;
                self.leave(&nodes).await;
                Err(Error::ShuttingDown)
            }
            Ok(_) => {
                self.leave(&nodes).await;
                Ok(None)
            }
            Err(error) => {
                self.leave(&nodes).await;
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
        if failed.as_ref().is_err_and(is_ending) {
            // The rest may be creating shards in this moment, which must end with the pool.
            let rest = async {
                while let Some((index, joined)) = joining.next().await {
                    others.extend(joined.ok().map(|node| (index, node)));
                }
            };
            let _ = tokio::time::timeout(self.leaving(), rest).await;
        }
        // Joins that are still under way leave by themselves.
        drop(joining);
        others.sort_by_key(|(index, _)| *index);
        nodes.extend(others.into_iter().map(|(_, node)| node));
        failed
    }

    /// The pool is shutting down. Some of these shards may have ended before, and were created by this join. They end
    /// again, so that nothing of the pool is left. The first shard is left to those that live in it. It ends last: while
    /// it is there, the others belong to its pool and not to the next one.
    async fn end_with_pool(&self, first: &Probe, nodes: &[Shard]) {
        let mode = self.asked().await.map_or(ShutdownMode::Closing(CLOSING), Asked::mode);
        let Some((joined, others)) = nodes.split_first() else { return };
        match self.see(first).await {
            Ok(Seen::Present(now, _)) if Some(now) == joined.incarnation() && !joined.saw_the_end() => {}
            _ => return,
        }
        let overseen: Vec<_> = others.iter().map(Shard::overseen).collect();
        join_all(overseen.iter().map(|node| node.shut_down(mode))).await;
        let _ = tokio::time::timeout(self.leaving(), join_all(others.iter().map(Shard::closed))).await;
    }

    /// The shutdown that the pool was asked for, as far as any shard still tells soon.
    async fn asked(&self) -> Option<Asked> {
        let looks = (0..self.count).map(|index| async move {
            let look = self.probe(index).await.ok()?;
            let Ok(Seen::Present(_, settings)) = self.see(&look).await else { return None };
            Some(Asked::of(&settings.flag()?, look.server_ms().await))
        });
        let asked = join_all(looks.map(|look| tokio::time::timeout(SOON, look))).await;
        asked.into_iter().find_map(|asked| asked.ok().flatten())
    }

    /// The first shard shuts down, and the others must end before it. False if it is another one by now.
    async fn end_others(
        &self,
        first: &Probe,
        incarnation: Incarnation,
        flag: &ShutdownFlag,
    ) -> Result<bool, Error> {
        let asked = Asked::of(flag, first.server_ms().await);
        let ending = (1..self.count).map(|index| self.end(index, first, incarnation, asked));
        Ok(try_join_all(ending).await?.into_iter().all(|ended| ended))
    }

    /// Brings a shard to its end, and creates none. False if the first shard is another one by now.
    async fn end(
        &self,
        index: u32,
        first: &Probe,
        incarnation: Incarnation,
        asked: Asked,
    ) -> Result<bool, Error> {
        let look = self.probe(index).await?;
        let mut absent = false;
        loop {
            match self.see(&look).await? {
                Seen::Closed => return Ok(true),
                Seen::Absent if absent => return Ok(true),
                Seen::Absent => {
                    // After a loss of data, a node that runs jobs here may create the shard again while its leases
                    // last.
                    absent = true;
                    let leases_end = tokio::time::sleep(self.node.shadow());
                    let in_time = tokio::time::timeout(self.limit.rest(), leases_end).await;
                    in_time.map_err(|_| self.limit.is_up(None))?;
                    continue;
                }
                Seen::Present(..) => absent = false,
            }
            let node = match self.join(index, Purpose::End).await {
                Ok(node) => node,
                Err(error) if has_ended(&error) => continue,
                Err(error) => return Err(error),
            };
            // This shard was not told yet.
            match first.shuts_down(incarnation).await {
                Ok(true) => {}
                other => {
                    self.leave(&[node]).await;
                    return other.map_err(|error| self.failed(error));
                }
            }
            let overseen = node.overseen();
            overseen.shut_down(asked.mode()).await;
            let ended = tokio::time::timeout(self.limit.rest(), node.closed()).await;
            if ended.is_err() || !node.saw_the_end() {
                node.abandon();
                return Err(Error::ShuttingDown);
            }
        }
    }

    async fn probe(&self, index: u32) -> Result<Probe, Error> {
        // The index matters here, and the number does not.
        let shard = Some(ShardId { index, count: self.count });
        let (pool, name) = self.node.names(shard)?;
        Probe::at(self.node.store_of(shard, None)?, self.limit, Waiting::new(pool, name)).await
    }

    async fn see(&self, look: &Probe) -> Result<Seen, Error> {
        look.see().await.map_err(|error| self.failed(error))
    }

    /// The error of a look that has failed.
    fn failed(&self, error: StoreError) -> Error {
        if is_silence(&error) { self.limit.is_up(Some(error)) } else { error.into() }
    }

    async fn join(&self, index: u32, purpose: Purpose) -> Result<Shard, Error> {
        let shard = ShardId { index, count: self.count };
        self.node.clone().join_as(Some(shard), purpose, self.limit).await.map_err(|error| match error {
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

    /// How long the node may take to leave: there is a little time even when the join's is up.
    fn leaving(&self) -> Duration {
        self.limit.rest().clamp(SOON, LEAVING)
    }

    /// Leaves these shards, because not all could be joined.
    async fn leave(&self, nodes: &[Shard]) {
        let within = self.leaving();
        join_all(nodes.iter().map(|node| async {
            match node.close_within(within).await {
                Ok(report) if report.complete => {}
                _ => node.abandon(),
            }
        }))
        .await;
    }
}

/// Whether the shard is shutting down.
fn is_ending(error: &Error) -> bool {
    matches!(error, Error::ShuttingDown)
}

/// Whether the pool, and the node with it, ended during the join.
fn has_ended(error: &Error) -> bool {
    matches!(error, Error::PoolClosed | Error::NodeClosed)
}
