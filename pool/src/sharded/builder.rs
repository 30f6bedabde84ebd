//! How a node joins all shards of a pool.

use std::time::{Duration, Instant};

use super::ShardedPool;
use super::guard::guard;
use super::joining::Joining;
use crate::bounds::check;
#[cfg(feature = "sim")]
use crate::breakage::Breakages;
use crate::builder::{FencePolicy, NodeBuilder};
use crate::error::Error;
use crate::node::Node;
use crate::settings::Settings;
use crate::trace::TraceContext;

/// Builds a [`ShardedPool`]. The number of shards must be the same on every node of a pool; pool-wide settings are as with a
/// [`NodeBuilder`].
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
            #[doc = concat!("As [`NodeBuilder::", stringify!($name), "`], in each shard: a limit holds for each by itself.")]
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
        max_attempts(attempts: u32),
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
        must_exist(),
        join_timeout(timeout: Duration),
    }

    /// As that of a node.
    #[doc(hidden)]
    #[cfg(feature = "sim")]
    pub fn broken(self, breakages: Breakages) -> Self {
        Self { node: self.node.broken(breakages), ..self }
    }

    /// Joins every shard of the pool; creates those that are missing. The first is joined before the others, since it says
    /// how many there are. A pool whose shutdown nobody lives to carry on is brought to its end first, shard by shard.
    ///
    /// # Errors
    /// [`Error::OtherShards`] when the pool was made with another number of shards; otherwise as [`NodeBuilder::join`].
    /// Nothing was written then, but for empty shards that others may join: they have the number of shards that was given
    /// here, which holds from the first of them on, and a node that is given another is refused. Where one shard cannot be
    /// joined, those that were are left again.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing but, perhaps, empty shards.
    pub async fn join(self) -> Result<ShardedPool, Error> {
        check("shards", self.shards.into())?;
        let Self { node, shards } = self;
        let node = node.named();
        node.validate()?;
        let patience = node.patience();
        let joining = Joining { deadline: Instant::now() + patience, node, count: shards };
        loop {
            if let Some(nodes) = joining.attempt().await? {
                // It ends when the nodes have.
                tokio::spawn(guard(nodes.iter().map(Node::overseen).collect()));
                return Ok(ShardedPool { nodes: nodes.into() });
            }
            if Instant::now() >= joining.deadline {
                return Err(Error::Deadline(patience));
            }
        }
    }
}
