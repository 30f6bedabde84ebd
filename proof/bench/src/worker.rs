//! A process with workers. Its nodes join, and it then obeys its parent, who writes one word a line to its standard input. It
//! answers each with one line. It ends at once when the input closes.

use std::io::{self, BufRead, Write};
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use tenure_pool::{Client, Node, NodeBuilder, Worker};
use tokio::sync::mpsc;

use crate::Error;
use crate::tally::{Counter, Tally};

/// The longest time for a worker or a node to leave.
const LEAVE: Duration = Duration::from_secs(120);
/// How many of a process's nodes join at a time: each hears of all that join meanwhile.
const JOIN_AT_ONCE: usize = 4;
/// The most accepted jobs that were never begun: more than any benchmark dispatches.
const QUEUED: u64 = 1_000_000;
/// The exit status of a process whose parent is gone.
const ORPHANED: i32 = 3;
/// The process's first line.
pub(crate) const READY: &str = "ready";

/// A pool, as all of its nodes must know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) url: String,
    /// The time for which a silent worker keeps its jobs.
    pub(crate) ttl_ms: u64,
    /// The time for which a new worker waits for the slot of one that leaves.
    pub(crate) join_settle_ms: u64,
    /// The time for which a changed ring stays unchanged before jobs are moved.
    pub(crate) stable_after_ms: u64,
    /// Whether every start and stop is recorded.
    pub(crate) logs: bool,
    /// Whether each process keeps its running jobs, to give checkpoints for all of them.
    pub(crate) keeps_jobs: bool,
    /// Whether each job gives a checkpoint in its stop handler.
    pub(crate) saves_at_stop: bool,
}

impl Pool {
    /// A pool whose workers run at once, with defaults otherwise.
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            ttl_ms: 10_000,
            join_settle_ms: 10,
            stable_after_ms: 5_000,
            logs: false,
            keeps_jobs: false,
            saves_at_stop: false,
        }
    }

    pub(crate) fn node(&self, name: &str) -> Result<NodeBuilder, Error> {
        let builder = Node::builder("bench", Client::open(&self.url)?).name(name).max_queued(QUEUED);
        // The server has just been started.
        let builder = builder.assume_fresh(true).worker_ttl(Duration::from_millis(self.ttl_ms));
        let builder = builder.join_settle(Duration::from_millis(self.join_settle_ms));
        Ok(builder.stable_after(Duration::from_millis(self.stable_after_ms)))
    }
}

/// A request of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Request {
    /// The handlers' counts.
    Counts,
    /// The handlers' events since the last request.
    Events,
    /// Each running job gives a checkpoint; the answer is their number, when all are kept.
    Checkpoint,
    /// The first worker hands its jobs off and leaves; the answer is its events.
    Drain,
    /// All nodes do so; the answer is their events.
    Leave,
}

#[derive(Args, Debug)]
pub(crate) struct Life {
    #[arg(long)]
    name: String,
    #[arg(long)]
    pool: String,
    #[arg(long)]
    nodes: usize,
    /// Workers of each node.
    #[arg(long)]
    workers: usize,
}

pub(crate) async fn run(Life { name, pool, nodes, workers }: Life) -> Result<(), Error> {
    let mut requests = requests();
    let pool: Pool = serde_json::from_str(&pool)?;
    let tally = Tally::new(&pool);
    let joining = (0..nodes).map(|number| join(&pool, format!("{name}-{number}"), workers, &tally));
    let joining = stream::iter(joining).buffered(JOIN_AT_ONCE);
    let (nodes, joined): (Vec<_>, Vec<_>) = joining.try_collect::<Vec<_>>().await?.into_iter().unzip();
    say(READY)?;
    while let Some(request) = requests.recv().await {
        match serde_json::from_str(&request)? {
            Request::Counts => say(&serde_json::to_string(&tally.counts())?)?,
            Request::Events => say(&serde_json::to_string(&tally.events())?)?,
            Request::Checkpoint => say(&serde_json::to_string(&tally.checkpoint_all().await?)?)?,
            Request::Drain => {
                joined.iter().flatten().next().ok_or("no worker")?.drain_within(LEAVE).await?;
                say(&serde_json::to_string(&tally.events())?)?;
            }
            Request::Leave => {
                for left in try_join_all(nodes.iter().map(|node| node.close_within(LEAVE))).await? {
                    if !left.complete {
                        return Err(format!("{name} still holds {} jobs", left.left.len()).into());
                    }
                }
                say(&serde_json::to_string(&tally.events())?)?;
            }
        }
    }
    Ok(())
}

/// A node and its workers.
async fn join(
    pool: &Pool,
    name: String,
    workers: usize,
    tally: &Arc<Tally>,
) -> Result<(Node, Vec<Worker>), Error> {
    let node = pool.node(&name)?.join().await?;
    let mut joined = Vec::new();
    for _ in 0..workers {
        joined.push(node.add_worker(Counter(tally.clone())).await?);
    }
    Ok((node, joined))
}

/// The parent's requests. They are read on a thread of their own, because the process must end even when its runtime
/// hangs.
fn requests() -> mpsc::UnboundedReceiver<String> {
    let (requests, received) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if requests.send(line).is_err() {
                return;
            }
        }
        exit(ORPHANED);
    });
    received
}

fn say(line: &str) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
