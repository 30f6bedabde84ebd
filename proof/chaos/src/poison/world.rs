//! Two pools on one server: the one that is damaged, and its neighbour.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_pool::inspect::MemberState;
use tenure_pool::{JobSpec, Node};
use tenure_testing::history::{Entry, History};
use tenure_testing::{ChildProcess, RedisServer, within};

use super::verdict::{Worked, running};
use crate::Result;
use crate::bounds::read;
use crate::node::{NodePlan, PoolPlan, Watched};
use crate::process::NodeProcess;
use crate::resource::Resource;

/// The names of the pools.
pub(super) const POOL: &str = "poisoned";
pub(super) const NEIGHBOUR: &str = "neighbour";
/// Workers of a node.
const WORKERS: usize = 2;
/// Linux shows times of processes in hundredths of a second.
const TICK_MS: u64 = 10;
/// The longest time of the beginning.
const PATIENCE: Duration = Duration::from_secs(60);

/// One pool, its node processes, and its caller.
pub(super) struct Side {
    plan: PoolPlan,
    url: String,
    dir: PathBuf,
    resource: Resource,
    conductor: History,
    lives: usize,
    pub(super) nodes: Vec<NodeProcess>,
    /// The nodes that have ended, with their use until then.
    ended: Vec<Worked>,
    pub(super) keys: Vec<String>,
    pub(super) caller: Node,
}

impl Side {
    /// Starts the nodes, and a job for each of the keys.
    pub(super) async fn start(
        redis: &RedisServer,
        dir: &Path,
        name: &str,
        ttl_ms: u64,
        nodes: usize,
        keys: usize,
    ) -> Result<Self> {
        let dir = dir.join(name);
        fs::create_dir_all(&dir)?;
        let plan = PoolPlan {
            pool: name.into(),
            ttl_ms,
            join_settle_ms: 300,
            stable_after_ms: 200,
            max_queued: 10_000,
            assign_ms: 2_000,
            grants: true,
            stop_ms: None,
            broken: None,
        };
        let caller = plan
            .node(&redis.url(), &format!("{name}-caller"))?
            .assume_fresh(true)
            .client_only()
            .join()
            .await?;
        let mut side = Self {
            plan,
            url: redis.url(),
            resource: Resource::start().await?,
            conductor: History::append_to(dir.join("conductor.history"))?,
            dir,
            lives: 0,
            nodes: Vec::new(),
            ended: Vec::new(),
            keys: (0..keys).map(|number| format!("{name}-{number}")).collect(),
            caller,
        };
        for _ in 0..nodes {
            side.add_node()?;
        }
        for node in &mut side.nodes {
            node.ready(PATIENCE).await?;
        }
        // Jobs that come later stay where they are: none moves by itself while all is watched.
        within(PATIENCE, "all workers to be in the ring", async || side.is_whole().await).await?;
        side.ensure(&side.keys).await;
        within(PATIENCE, "all jobs to run", async || side.all_run(&side.keys).is_ok_and(|all| all)).await?;
        Ok(side)
    }

    /// Whether all workers of all nodes are in the ring.
    async fn is_whole(&self) -> bool {
        let workers = self.caller.inspect().workers().await.unwrap_or_default();
        let up = workers.iter().filter(|worker| worker.state == MemberState::Up).count();
        up == self.nodes.len() * WORKERS
    }

    /// Starts another node, and does not wait for it.
    pub(super) fn add_node(&mut self) -> Result<()> {
        self.lives += 1;
        let name = format!("{}-n{}", self.plan.pool, self.lives);
        let watched = Watched {
            history: self.dir.join(format!("{name}.history")),
            resource: Some(self.resource.address()),
            longest_end_ms: 20,
        };
        let node = NodePlan {
            name,
            url: self.url.clone(),
            pool: self.plan.clone(),
            workers: WORKERS,
            watched: Some(watched),
        };
        let log = self.log(&node.name);
        self.nodes.push(NodeProcess::start(node, &log, "info")?);
        Ok(())
    }

    /// Kills the node at this place.
    pub(super) async fn kill(&mut self, place: usize) -> Result<()> {
        let mut node = self.nodes.remove(place);
        self.ended.push(self.worked(&mut node));
        node.kill().await?;
        node.plan().worker_names().for_each(|worker| self.conductor.worker_dead(&worker));
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Asks for these jobs, and ignores the answers.
    pub(super) async fn ensure(&self, keys: &[String]) {
        let asked = keys.iter().map(|key| async move {
            let job = JobSpec::new(key.as_str(), &b"payload"[..]);
            self.caller.ensure(job).deadline(Duration::from_secs(5)).await
        });
        futures::future::join_all(asked).await;
    }

    /// The records of all handlers.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        Ok(read(&self.dir)?.entries())
    }

    /// Whether each of these keys has one handler.
    pub(super) fn all_run(&self, keys: &[String]) -> Result<bool> {
        let running = running(&self.entries()?);
        Ok(keys.iter().all(|key| running.get(key).is_some_and(|holders| holders.len() == 1)))
    }

    /// Accepted writes of a holder whom another one had already followed.
    pub(super) fn stale_accepted(&self) -> u64 {
        self.resource.ledger().counts().stale_accepted
    }

    fn worked(&self, node: &mut NodeProcess) -> Worked {
        // A node that cannot join, because settings are damaged, ends with an error.
        let ended = node.is_ready() && !node.is_running();
        worked(node, &self.log(node.name()), ended)
    }

    /// The use of each node so far.
    pub(super) fn all_worked(&mut self) -> Vec<Worked> {
        let mut nodes = std::mem::take(&mut self.nodes);
        let mut worked: Vec<_> = nodes.iter_mut().map(|node| self.worked(node)).collect();
        self.nodes = nodes;
        worked.extend(self.ended.iter().cloned());
        worked
    }

    /// Ends everything, without a word to the pool.
    pub(super) async fn end(mut self) -> Result<()> {
        self.caller.abandon();
        while !self.nodes.is_empty() {
            self.kill(0).await?;
        }
        Ok(())
    }
}

/// What a process has used so far, and what it has written to its log at this path.
pub(super) fn worked(process: &ChildProcess, log: &Path, ended: bool) -> Worked {
    // It may write at this moment.
    let log = fs::read(log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    Worked {
        name: process.name().to_owned(),
        busy: process.id().and_then(|pid| busy(pid).ok()).unwrap_or_default(),
        lines: log.lines().count(),
        panics: log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect(),
        ended,
    }
}

/// What the server has used so far.
pub(super) fn of_server(redis: &RedisServer) -> Worked {
    let pid = redis.pid();
    let busy = pid.and_then(|pid| busy(pid).ok()).unwrap_or_default();
    Worked { name: "redis".into(), busy, lines: 0, panics: Vec::new(), ended: pid.is_none() }
}

/// The time of a core that a process has used.
fn busy(pid: u32) -> Result<Duration> {
    // The name in it may have blanks; what follows its bracket has none.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let tick = |at: usize| after.split_whitespace().nth(at).and_then(|ticks| ticks.parse::<u64>().ok());
    let (Some(user), Some(system)) = (tick(11), tick(12)) else {
        return Err(format!("process {pid} has no times").into());
    };
    Ok(Duration::from_millis((user + system) * TICK_MS))
}
