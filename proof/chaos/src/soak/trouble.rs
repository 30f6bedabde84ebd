//! The nodes, and their little trouble: some are replaced, as in a deploy; some are paused for a moment; and now and
//! then all connections are cut.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use redis::cmd;
use tenure_testing::RedisServer;
use tokio::time::sleep;

use crate::Result;
use crate::node::{NodePlan, PoolPlan};
use crate::process::NodeProcess;

/// The number of nodes that stay for the whole run: their memory is measured.
const STEADY: usize = 2;
/// The number of nodes that are replaced in turn.
const PASSING: usize = 2;
/// The longest time for a node to be ready, or to leave.
const PATIENCE: Duration = Duration::from_secs(90);
/// The pause between two troubles.
const REST: Duration = Duration::from_secs(30);
/// A pause shorter than any lease.
const PAUSE: Duration = Duration::from_secs(1);

/// The node processes.
pub(super) struct Fleet {
    pool: PoolPlan,
    url: String,
    logs: PathBuf,
    steady: Vec<NodeProcess>,
    passing: VecDeque<NodeProcess>,
    made: usize,
    faults: usize,
}

impl Fleet {
    /// Starts all nodes, and waits until their workers are members of the pool.
    pub(super) async fn start(pool: &PoolPlan, url: &str, logs: &Path) -> Result<Self> {
        let mut fleet = Self {
            pool: pool.clone(),
            url: url.to_owned(),
            logs: logs.to_owned(),
            steady: Vec::new(),
            passing: VecDeque::new(),
            made: 0,
            faults: 0,
        };
        for _ in 0..STEADY {
            let node = fleet.another().await?;
            fleet.steady.push(node);
        }
        for _ in 0..PASSING {
            let node = fleet.another().await?;
            fleet.passing.push_back(node);
        }
        Ok(fleet)
    }

    /// The processes of the nodes that stay.
    pub(super) fn steady(&self) -> Vec<u32> {
        self.steady.iter().filter_map(|node| node.id()).collect()
    }

    /// The number of troubles so far.
    pub(super) fn faults(&self) -> usize {
        self.faults
    }

    /// Troubles the nodes for as long as it is polled. Ends only with an error.
    pub(super) async fn trouble(
        &mut self,
        redis: &RedisServer,
        random: &mut StdRng,
        say: fn(&str),
    ) -> Result<()> {
        loop {
            sleep(REST).await;
            match random.random_range(0..3) {
                0 => {
                    let new = self.another().await?;
                    self.passing.push_back(new);
                    if let Some(mut old) = self.passing.pop_front() {
                        let well = old.leave(PATIENCE).await?.success();
                        say(&format!(
                            "{} was replaced{}",
                            old.name(),
                            if well { "" } else { ", and left badly" }
                        ));
                    }
                }
                1 => {
                    let node = &self.steady[random.random_range(0..self.steady.len())];
                    node.pause()?;
                    sleep(PAUSE).await;
                    node.resume()?;
                    say(&format!("{} was paused", node.name()));
                }
                _ => {
                    let cut: u64 = redis.query(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal"))?;
                    say(&format!("{cut} connections were cut"));
                }
            }
            self.faults += 1;
        }
    }

    /// Makes all nodes leave.
    pub(super) async fn end(mut self) -> Result<()> {
        for node in self.passing.iter_mut().chain(&mut self.steady) {
            node.leave(PATIENCE).await?;
        }
        Ok(())
    }

    async fn another(&mut self) -> Result<NodeProcess> {
        self.made += 1;
        let name = format!("node-{}", self.made);
        let log = self.logs.join(format!("{name}.log"));
        let plan =
            NodePlan { name, url: self.url.clone(), pool: self.pool.clone(), workers: 2, watched: None };
        let mut node = NodeProcess::start(plan, &log, "error")?;
        node.ready(PATIENCE).await?;
        Ok(node)
    }
}
