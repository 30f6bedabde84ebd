//! A node in a process of its own: it joins a pool, runs workers, and leaves when it is told to.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_examples::child::end_with_parent;
use tenure_pool::{CloseReport, Job, JobHandler, Node, NodeBuilder, Start};

use crate::Result;
use crate::process::READY;

/// How long a node may take to leave.
const BUDGET: Duration = Duration::from_secs(60);
/// How long a node may take to join: faults may last for a while.
const JOIN: Duration = Duration::from_secs(120);

/// The pool, as all of its nodes must know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolPlan {
    /// Its name.
    pub pool: String,
    /// How long a silent worker keeps its jobs, in ms.
    pub ttl_ms: u64,
    /// How long a new worker waits for the slot of one that leaves, in ms.
    pub join_settle_ms: u64,
    /// How long a changed ring stays as it is before jobs are moved, in ms.
    pub stable_after_ms: u64,
    /// How many jobs may wait that were never begun.
    pub max_queued: u64,
}

impl PoolPlan {
    /// A node of the pool that is to be built.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn node(&self, url: &str, name: &str) -> Result<NodeBuilder> {
        let builder = Node::builder(&self.pool, Client::open(url)?).name(name);
        Ok(builder
            .worker_ttl(Duration::from_millis(self.ttl_ms))
            .join_settle(Duration::from_millis(self.join_settle_ms))
            .stable_after(Duration::from_millis(self.stable_after_ms))
            .max_queued(self.max_queued)
            .join_timeout(JOIN))
    }
}

/// What a node is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodePlan {
    /// Its name. No two lives have the same one.
    pub name: String,
    /// Where its Redis is.
    pub url: String,
    /// The pool.
    pub pool: PoolPlan,
    /// Its workers.
    pub workers: usize,
}

/// Joins, says that it is ready, and runs until it is told to end.
///
/// # Errors
/// The pool's.
///
/// # Cancel safety
/// Not safe: a node that has joined goes on.
pub async fn run(plan: NodePlan) -> Result<CloseReport> {
    end_with_parent();
    let node = plan.pool.node(&plan.url, &plan.name)?.join().await?;
    let told_to_end = node.close_on_signal(BUDGET);
    for _ in 0..plan.workers {
        node.add_worker(Idle).await?;
    }
    writeln!(io::stdout(), "{READY}")?;
    Ok(told_to_end.await?)
}

/// Holds its jobs, and does nothing.
struct Idle;

impl JobHandler for Idle {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }
}
