//! A node of the drill: one worker, whose handlers only record when they start and stop.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Client;
use tenure_pool::{BoxError, CloseReport, Job, JobHandler, Node, Start, StopReason};
use tenure_testing::history::History;

/// The pool of the drill.
const POOL: &str = "drill";
/// The time in which a node must leave.
const BUDGET: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Joins the pool without a worker, with default times.
///
/// # Errors
/// An invalid address, or an error of the pool.
///
/// # Cancel safety
/// As [`NodeBuilder::join`](tenure_pool::NodeBuilder::join).
pub async fn join(url: &str, name: &str) -> Result<Node> {
    // The conductor has just started the server.
    Ok(Node::builder(POOL, Client::open(url)?).name(name).assume_fresh(true).join().await?)
}

/// Runs a node whose worker appends to this history. Calls `ready` when it is up, and ends when the process is told to.
///
/// # Errors
/// The history cannot be opened, or an error of the pool.
///
/// # Cancel safety
/// Not safe: a node that has joined continues.
pub async fn run(url: &str, name: &str, history: &Path, ready: impl FnOnce()) -> Result<CloseReport> {
    let history = Arc::new(History::append_to(history)?);
    let node = join(url, name).await?;
    let told_to_end = node.close_on_signal(BUDGET);
    node.add_worker(Recorder { node: name.to_owned(), history }).await?;
    ready();
    Ok(told_to_end.await?)
}

struct Recorder {
    node: String,
    history: Arc<History>,
}

impl JobHandler for Recorder {
    async fn start(&self, job: Job) -> Start {
        self.history.started(&job.key().to_string(), job.token().0, &self.node);
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> std::result::Result<(), BoxError> {
        self.history.stopped(&job.key().to_string(), job.token().0, &self.node);
        Ok(())
    }
}
