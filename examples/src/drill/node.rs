//! A node of the drill: one worker, whose handlers write down when they start and stop, and do nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Client;
use tenure_pool::{BoxError, CloseReport, Job, JobHandler, Node, Start, StopReason};
use tenure_testing::history::History;

/// The pool of the drill.
const POOL: &str = "drill";
/// How long a node may take to leave.
const BUDGET: Duration = Duration::from_secs(10);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Joins the pool, without a worker, with all times as they are by default.
///
/// # Errors
/// The address is not valid; the pool's.
///
/// # Cancel safety
/// As [`NodeBuilder::join`](tenure_pool::NodeBuilder::join).
pub async fn join(url: &str, name: &str) -> Result<Node> {
    // The conductor has just started the server.
    Ok(Node::builder(POOL, Client::open(url)?).name(name).assume_fresh(true).join().await?)
}

/// Runs a node whose worker appends to this history, from `ready` on until the process is told to end.
///
/// # Errors
/// The history cannot be opened; the pool's.
///
/// # Cancel safety
/// Not safe: a node that has joined goes on.
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
