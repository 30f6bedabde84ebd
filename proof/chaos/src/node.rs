//! A node in a process of its own: it joins a pool, runs workers, and leaves on request.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure_connection::Client;
use tenure_pool::store::StoreError;
use tenure_pool::{CloseReport, Error, Job, JobHandler, Node, NodeBuilder, Settings, Start};
use tenure_testing::end_with_parent;
use tenure_testing::history::History;
use tokio::time::sleep;

use crate::Result;
use crate::broken::Broken;
use crate::handler::{Hanging, Recorder};
use crate::process::READY;
use crate::resource::Access;

/// The longest time for a node to leave.
const BUDGET: Duration = Duration::from_secs(60);
/// The longest time for a node to join: faults may last for a while.
const JOIN: Duration = Duration::from_secs(120);
/// The pause between two attempts to join.
const AGAIN: Duration = Duration::from_millis(100);

/// The pool, as all of its nodes must know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolPlan {
    /// The pool's name.
    pub pool: String,
    /// The time for which a silent worker keeps its jobs, in ms.
    pub ttl_ms: u64,
    /// The time for which a new worker waits for the slot of one that leaves, in ms.
    pub join_settle_ms: u64,
    /// The time for which a changed ring stays unchanged before jobs are moved, in ms.
    pub stable_after_ms: u64,
    /// The number of jobs that may wait without ever having been begun.
    pub max_queued: u64,
    /// The time from a job's assignment to its beginning, in ms.
    pub assign_ms: u64,
    /// Whether its jobs may start without a begin.
    pub grants: bool,
    /// The time that a job has to end before it is aborted, in ms; the pool's default without it.
    pub stop_ms: Option<u64>,
    /// The part of the protocol that its nodes with workers leave out.
    pub broken: Option<Broken>,
}

impl PoolPlan {
    /// Settings for a node of the pool.
    ///
    /// # Errors
    /// The address is not valid.
    pub fn node(&self, url: &str, name: &str) -> Result<NodeBuilder> {
        let (client, defaults) = (Client::open(url)?, Settings::default());
        let builder = match self.broken {
            Some(broken) => broken.builder(&self.pool, client)?,
            None => Node::builder(&self.pool, client),
        };
        let settings = Settings {
            worker_ttl: Duration::from_millis(self.ttl_ms),
            join_settle: Duration::from_millis(self.join_settle_ms),
            assign_timeout: Duration::from_millis(self.assign_ms),
            max_queued: self.max_queued,
            grant_max: if self.grants { defaults.grant_max } else { 0 },
            // Crashes are many, and the pool must not give a job up for them.
            max_attempts: 1_000_000,
            stable_run: Duration::from_secs(1),
            ..defaults
        };
        let stable = Duration::from_millis(self.stable_after_ms);
        let builder = match self.stop_ms {
            Some(stop_ms) => builder.stop_timeout(Duration::from_millis(stop_ms)),
            None => builder,
        };
        Ok(builder.name(name).settings(settings).stable_after(stable).join_timeout(JOIN))
    }

    /// The same pool for nodes that leave nothing out.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { broken: None, ..self.clone() }
    }
}

/// The settings of a node's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodePlan {
    /// The node's name, unique to one life.
    pub name: String,
    /// The address of its Redis.
    pub url: String,
    /// The pool.
    pub pool: PoolPlan,
    /// The number of its workers.
    pub workers: usize,
    /// The records of its jobs. Without them, jobs do nothing.
    pub watched: Option<Watched>,
}

/// The observers of a node's jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// The file for its history.
    pub history: PathBuf,
    /// The world outside, if there is one.
    pub resource: Option<SocketAddr>,
    /// The longest time that jobs take to end, in ms.
    pub longest_end_ms: u64,
}

impl NodePlan {
    /// The names under which its workers write their histories.
    pub fn worker_names(&self) -> impl Iterator<Item = String> {
        (0..self.workers).map(|number| format!("{}/{number}", self.name))
    }
}

/// The meta of a worker with this name in histories, by which the pool's members are told apart.
pub(crate) fn worker_meta(worker: &str) -> String {
    worker.replace('/', ":")
}

/// Joins, reports that the node is ready, and runs until the process is told to end.
///
/// # Errors
/// An error of the pool.
///
/// # Cancel safety
/// Not safe: a node that has joined continues.
pub async fn run(plan: NodePlan) -> Result<CloseReport> {
    end_with_parent();
    let node = join(&plan).await?;
    let told_to_end = node.close_on_signal(BUDGET);
    match &plan.watched {
        None => {
            for _ in 0..plan.workers {
                node.add_worker(Idle).await?;
            }
        }
        Some(watched) => {
            let history = Arc::new(History::append_to(&watched.history)?);
            let access = match watched.resource {
                Some(resource) => Some(Access::open(resource).await?),
                None => None,
            };
            for worker in plan.worker_names() {
                let meta = worker_meta(&worker);
                let recorder = Recorder {
                    worker,
                    history: Arc::clone(&history),
                    access: access.clone(),
                    longest_end_ms: watched.longest_end_ms.max(1),
                    hanging: Hanging::default(),
                };
                node.add_worker(recorder).meta(meta).await?;
            }
        }
    }
    writeln!(io::stdout(), "{READY}")?;
    Ok(told_to_end.await?)
}

/// Joins the pool, even if nothing listens at its Redis's address for a moment: that is one of the faults.
async fn join(plan: &NodePlan) -> Result<Node> {
    let end = Instant::now() + JOIN;
    loop {
        match plan.pool.node(&plan.url, &plan.name)?.join().await {
            Err(Error::Store(StoreError::NotExecuted(_))) if Instant::now() < end => sleep(AGAIN).await,
            joined => return Ok(joined?),
        }
    }
}

/// A handler that holds its jobs and does nothing.
struct Idle;

impl JobHandler for Idle {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }
}
