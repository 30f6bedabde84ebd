//! The nodes of the story: processes over Redis, or tasks of this process over one memory store.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tenure_pool::MemoryStore;
use tenure_testing::ChildProcess;

use super::failed::{Context, Failed};
use super::node::{FeedNode, Timings};
use crate::PATIENCE;

/// The settings that every node starts with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool to join.
    pub pool: String,
    /// The feed server.
    pub feed: SocketAddr,
    /// The pool's times.
    pub timings: Timings,
}

/// The kind of the nodes.
#[derive(Debug)]
enum Nodes {
    Processes { redis_url: String, running: BTreeMap<String, ChildProcess> },
    Tasks { store: MemoryStore, running: BTreeMap<String, FeedNode> },
}

/// The running nodes, by name.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    nodes: Nodes,
}

impl Fleet {
    /// A fleet whose nodes are processes.
    pub fn of_processes(plan: Plan, redis_url: String) -> Self {
        Self { plan, nodes: Nodes::Processes { redis_url, running: BTreeMap::new() } }
    }

    /// A fleet whose nodes are tasks of this process.
    pub fn of_tasks(plan: Plan, store: MemoryStore) -> Self {
        Self { plan, nodes: Nodes::Tasks { store, running: BTreeMap::new() } }
    }

    /// The names of the running nodes.
    pub fn names(&self) -> Vec<String> {
        match &self.nodes {
            Nodes::Processes { running, .. } => running.keys().cloned().collect(),
            Nodes::Tasks { running, .. } => running.keys().cloned().collect(),
        }
    }

    /// Starts a node; its workers are members of the pool when this returns.
    ///
    /// # Errors
    /// The node did not start; it does not run then.
    ///
    /// # Cancel safety
    /// A process is killed when the future is dropped; a task may continue.
    pub async fn start(&mut self, name: &str) -> Result<(), Failed> {
        let Plan { pool, feed, timings } = &self.plan;
        match &mut self.nodes {
            Nodes::Processes { redis_url, running } => {
                let Timings { ttl_ms, join_settle_ms, stable_after_ms } = timings;
                let args = [
                    "node".to_owned(),
                    format!("--pool={pool}"),
                    format!("--name={name}"),
                    format!("--feed={feed}"),
                    format!("--ttl-ms={ttl_ms}"),
                    format!("--join-settle-ms={join_settle_ms}"),
                    format!("--stable-after-ms={stable_after_ms}"),
                ];
                // The URL may hold a password, and everybody can see arguments.
                let variables = [("REDIS_URL", redis_url.as_str())];
                let child = ChildProcess::of_this_program(name, args, &variables);
                let mut child = child.context(format!("{name}: could not be started"))?;
                child.line(PATIENCE).await.context(format!("{name}: could not join the pool"))?;
                running.insert(name.to_owned(), child);
            }
            Nodes::Tasks { store, running } => {
                let node = FeedNode::start(store.clone().into(), pool, name, timings, *feed, None).await;
                running.insert(name.to_owned(), node.context(format!("{name}: could not join the pool"))?);
            }
        }
        Ok(())
    }

    /// Makes a node hand its tenants off and leave.
    ///
    /// # Errors
    /// The node did not end as it should; it does not run any more.
    ///
    /// # Cancel safety
    /// When the future is dropped the node does not run any more; its tenants may not have been handed off.
    pub async fn drain(&mut self, name: &str) -> Result<(), Failed> {
        let absent = || Failed::new(format!("{name}: does not run"));
        let could_not = format!("{name}: could not leave the pool");
        match &mut self.nodes {
            Nodes::Processes { running, .. } => {
                running.remove(name).ok_or_else(absent)?.leave_well(PATIENCE).await.context(could_not)
            }
            Nodes::Tasks { running, .. } => {
                running.remove(name).ok_or_else(absent)?.close().await.context(could_not)
            }
        }
    }

    /// Kills a node without a word to anybody.
    ///
    /// # Errors
    /// The node could not be killed.
    ///
    /// # Cancel safety
    /// The node is dead all the same when the future is dropped.
    pub async fn kill(&mut self, name: &str) -> Result<(), Failed> {
        let absent = || Failed::new(format!("{name}: does not run"));
        match &mut self.nodes {
            Nodes::Processes { running, .. } => {
                let killed = running.remove(name).ok_or_else(absent)?.kill().await;
                killed.context(format!("{name}: could not be killed"))?;
            }
            Nodes::Tasks { running, .. } => running.remove(name).ok_or_else(absent)?.crash(),
        }
        Ok(())
    }
}
