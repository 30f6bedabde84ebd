//! How a node joins all shards of a pool.

use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};

use super::ShardedPool;
use super::guard::guard;
#[cfg(feature = "sim")]
use crate::breakage::Breakages;
use crate::builder::{FencePolicy, NodeBuilder};
use crate::error::Error;
use crate::node::Node;
use crate::settings::{InvalidSetting, Settings, Shard};
use crate::trace::TraceContext;

/// How long a node that has joined some shards, and not all, is given to leave them.
const LEAVING: Duration = Duration::from_secs(10);

/// Builds a [`ShardedPool`]. The pool-wide settings, and the number of shards, must be the same on every node of a pool.
#[derive(Clone, Debug)]
#[must_use = "a node joins only when `join` is awaited"]
pub struct ShardedPoolBuilder {
    node: NodeBuilder,
    shards: u32,
}

/// The options of a node, passed on to the node of each shard.
macro_rules! options {
    ($($name:ident($($argument:ident: $type:ty)?),)*) => {
        $(
            #[doc = concat!("As [`NodeBuilder::", stringify!($name), "`], in each shard.")]
            pub fn $name(self $(, $argument: $type)?) -> Self {
                Self { node: self.node.$name($($argument)?), ..self }
            }
        )*
    };
}

impl ShardedPoolBuilder {
    pub(super) fn new(node: NodeBuilder, shards: u32) -> Self {
        Self { node, shards }
    }

    options! {
        name(name: impl Into<String>),
        settings(settings: Settings),
        worker_ttl(ttl: Duration),
        max_queued(jobs: u64),
        join_settle(settle: Duration),
        stable_after(stable: Duration),
        handoff_parallel(jobs: usize),
        start_timeout(timeout: Duration),
        stop_timeout(timeout: Duration),
        plan_timeout(timeout: Duration),
        start_permits(permits: usize),
        fence_policy(policy: FencePolicy),
        on_job_span(hook: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static),
        client_only(),
        assume_fresh(fresh: bool),
        join_timeout(timeout: Duration),
    }

    /// As that of a node.
    #[doc(hidden)]
    #[cfg(feature = "sim")]
    pub fn broken(self, breakages: Breakages) -> Self {
        Self { node: self.node.broken(breakages), ..self }
    }

    /// Joins every shard of the pool; creates those that are missing. The first is joined before the others, since it says
    /// how many there are; each may take the [`join_timeout`](Self::join_timeout).
    ///
    /// # Errors
    /// [`Error::OtherShards`] when the pool was made with another number of shards; otherwise as [`NodeBuilder::join`].
    /// Nothing was written then, but for empty shards that others may join. Where one shard cannot be joined, those that
    /// were are left again.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing but, perhaps, empty shards.
    pub async fn join(self) -> Result<ShardedPool, Error> {
        if !(1..=Shard::MOST).contains(&self.shards) {
            let (name, value) = ("shards", self.shards.to_string());
            return Err(InvalidSetting { name, value, why: "must be from 1 to 1,024" }.into());
        }
        let Self { node, shards: count } = self;
        let node = node.named();
        let mut nodes = vec![join_shard(node.clone(), Shard { index: 0, count }).await?];
        let joining = (1..count).map(|index| {
            let joined = join_shard(node.clone(), Shard { index, count });
            async move { (index, joined.await) }
        });
        let mut joining: FuturesUnordered<_> = joining.collect();
        let mut others = Vec::new();
        let mut failed = None;
        while let Some((index, joined)) = joining.next().await {
            match joined {
                Ok(node) => others.push((index, node)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // Those that are still under way leave by themselves.
        drop(joining);
        others.sort_by_key(|(index, _)| *index);
        nodes.extend(others.into_iter().map(|(_, node)| node));
        if let Some(error) = failed {
            leave(&nodes).await;
            return Err(error);
        }
        let overseen = nodes.iter().map(Node::overseen).collect();
        // It ends when the nodes have.
        tokio::spawn(guard(overseen));
        Ok(ShardedPool { nodes: nodes.into() })
    }
}

async fn join_shard(node: NodeBuilder, shard: Shard) -> Result<Node, Error> {
    node.join_as(Some(shard)).await.map_err(|error| match error {
        Error::SettingMismatch { name, theirs, ours } if name == Shard::SETTING => {
            match Shard::parse(&theirs) {
                Some(theirs) if theirs.count != shard.count => {
                    Error::OtherShards { theirs: theirs.count, ours: shard.count }
                }
                _ => Error::SettingMismatch { name, theirs, ours },
            }
        }
        error => error,
    })
}

/// Not all shards could be joined.
async fn leave(nodes: &[Node]) {
    join_all(nodes.iter().map(|node| async {
        match node.close_within(LEAVING).await {
            Ok(report) if report.complete => {}
            _ => node.abandon(),
        }
    }))
    .await;
}
