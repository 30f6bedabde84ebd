//! The rolling deploy: a new node joins, the oldest one leaves, until all are new.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tempfile::TempDir;
use tenure_pool::inspect::MemberState;
use tenure_pool::{JobState, Node};
use tenure_testing::history::{Expect, History, check};
use tenure_testing::{ChildProcess, RedisServer, within};
use tokio::time::sleep;

use super::node::join;
use super::verdict::Verdict;
use crate::PATIENCE;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Longer than a node waits, by default, before it moves the jobs that belong elsewhere.
const REST: Duration = Duration::from_secs(6);

/// The size of the deploy.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Jobs that run throughout.
    pub jobs: usize,
    /// Nodes, and the same number of deploys.
    pub nodes: usize,
}

/// Runs the deploy on a private Redis, reports its progress, and judges it.
///
/// # Errors
/// There is nothing to judge: Redis or a process did not start, or a node did not leave in order.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: Plan, say: impl Fn(&str)) -> Result<Verdict> {
    let redis = RedisServer::start()?;
    let dir = TempDir::new()?;
    let history = dir.path().join("history");
    let conductor = join(&redis.url(), "conductor").await?;
    let mut fleet = Fleet { url: redis.url(), history, started: 0, running: VecDeque::new() };
    for _ in 0..plan.nodes {
        fleet.add().await?;
    }
    within(PATIENCE, "all workers to be up", async || {
        up(&conductor).await.is_ok_and(|up| up.len() == plan.nodes)
    })
    .await?;
    dispatch(&conductor, plan.jobs, &fleet.history).await?;
    say(&format!("{} jobs run on {} nodes", plan.jobs, plan.nodes));

    for _ in 0..plan.nodes {
        let began = Instant::now();
        let new = fleet.add().await?;
        let old = fleet.retire_oldest().await?;
        say(&format!("{new} for {old} in {} ms", began.elapsed().as_millis()));
    }

    // The judge reports a lost job.
    let all_run = async || running(&conductor).await.is_ok_and(|running| running == plan.jobs);
    let all_run = within(PATIENCE, "every job to run", all_run).await;
    sleep(REST).await;
    let history = History::load(&fleet.history)?;
    history.settled();
    let verdict = Verdict::of(plan.jobs, plan.nodes, &check(&history, &Expect::default()));
    if verdict.lost == 0 {
        all_run?;
    }
    conductor.operate().shutdown().await?;
    fleet.end().await?;
    Ok(verdict)
}

/// The node processes, the oldest first.
struct Fleet {
    url: String,
    history: PathBuf,
    started: usize,
    running: VecDeque<(String, ChildProcess)>,
}

impl Fleet {
    /// Starts a node; its worker is a member of the pool when this returns.
    async fn add(&mut self) -> Result<String> {
        self.started += 1;
        let name = format!("node-{}", self.started);
        let args = ["node".as_ref(), name.as_ref(), self.history.as_os_str()].map(OsString::from);
        let mut child = ChildProcess::of_this_program(&name, args, &[("REDIS_URL", &self.url)])?;
        child.line(PATIENCE).await?;
        self.running.push_back((name.clone(), child));
        Ok(name)
    }

    /// Makes the oldest node hand its jobs off and leave.
    async fn retire_oldest(&mut self) -> Result<String> {
        let (name, mut child) = self.running.pop_front().ok_or("no node runs")?;
        child.leave_well(PATIENCE).await?;
        Ok(name)
    }

    async fn end(mut self) -> Result<()> {
        try_join_all(self.running.iter_mut().map(|(_, child)| child.leave_well(PATIENCE))).await?;
        Ok(())
    }
}

/// Dispatches all jobs, and returns when each has been started.
async fn dispatch(conductor: &Node, jobs: usize, history: &Path) -> Result<()> {
    let history = History::append_to(history)?;
    let dispatched = (0..jobs).map(|number| {
        let (key, history) = (format!("job-{number}"), &history);
        async move {
            history.submitted(&key);
            conductor.dispatch((&*key, "")).await?;
            history.accepted(&key);
            Ok::<_, tenure_pool::DispatchError>(())
        }
    });
    try_join_all(dispatched).await?;
    Ok(())
}

/// The workers in the ring.
async fn up(node: &Node) -> Result<BTreeSet<u64>> {
    let workers = node.inspect().workers().await?;
    let up = workers.into_iter().filter(|worker| worker.state == MemberState::Up);
    Ok(up.map(|worker| worker.id.0).collect())
}

/// The number of jobs run by a worker in the ring.
async fn running(node: &Node) -> Result<usize> {
    let (jobs, up) = (node.inspect().jobs().await?, up(node).await?);
    let runs = jobs.iter().filter(|job| job.state == JobState::Running);
    Ok(runs.filter(|job| job.owner.is_some_and(|owner| up.contains(&owner.0))).count())
}
