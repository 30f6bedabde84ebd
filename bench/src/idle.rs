//! What running jobs cost while nothing happens: the commands that the nodes of two pools send, one with jobs and one
//! without.
//!
//! `INFO` says how many commands the server ran; those that scripts ran are seen in `MONITOR` and taken off. What is
//! left came from clients.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use redis::aio::MultiplexedConnection;
use serde_json::json;
use tenure_pool::{Client, Job, JobHandler, JobState, Node, Start};
use tenure_testing::RedisServer;
use tokio::time::sleep;

use crate::floor;

type Error = Box<dyn std::error::Error>;

/// How far the two may lie apart, as a share.
const ALLOWED: f64 = 0.02;
/// Jobs that are started at once.
const CALLERS: usize = 1_000;
/// Longer than anything that a start leaves to be done: a blocking read, a sweep, a renewal.
const REST: Duration = Duration::from_secs(15);
/// Between the joins: nodes that do all in the same moment would all have it just within the time, or just not.
const APART: Duration = Duration::from_millis(700);
/// Words around what is counted.
const MARKS: [&str; 2] = ["count-from-here", "count-to-here"];

#[derive(Args)]
pub(crate) struct Options {
    /// One JSON line instead of a table.
    #[arg(long)]
    json: bool,
    /// Jobs that run.
    #[arg(long, default_value_t = 100_000)]
    jobs: usize,
    /// For how long commands are counted, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// A handler that does nothing, at once.
struct Idle;

impl JobHandler for Idle {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }
}

/// What was sent within the time.
struct Count {
    /// From `INFO`, less what scripts ran.
    client_issued: u64,
    /// From `MONITOR`: each kind of command, scripts by the beginning of their hash.
    kinds: BTreeMap<String, u64>,
}

/// A pool on a server of its own.
struct Pool {
    server: RedisServer,
    redis: MultiplexedConnection,
    producer: Node,
    fleet: Vec<Node>,
}

impl Pool {
    /// A node that takes jobs in, and two with two workers each.
    async fn open() -> Result<Self, Error> {
        let server = RedisServer::start()?;
        let client = Client::open(&server.url())?;
        let redis = floor::connect(&server.url()).await?;
        let node = |name: &str| {
            let builder = Node::builder("bench", client.clone()).name(name).max_queued(1_000_000);
            builder.join_settle(Duration::from_millis(10)).assume_fresh(true).join()
        };
        let producer = node("producer").await?;
        let mut fleet = Vec::new();
        for name in ["first", "second"] {
            sleep(APART).await;
            let node = node(name).await?;
            for _ in 0..2 {
                node.add_worker(Idle).await?;
            }
            fleet.push(node);
        }
        while producer.workers().iter().filter(|worker| worker.slot.is_some()).count() < 4 {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Self { server, redis, producer, fleet })
    }

    /// Starts so many jobs.
    async fn fill(&self, jobs: usize) -> Result<(), Error> {
        let mut starts = futures::stream::iter(0..jobs)
            .map(|number| {
                let key = format!("job:{number:015}");
                self.producer.dispatch(key, [b'x'; 100].as_slice()).into_future()
            })
            .buffer_unordered(CALLERS);
        while let Some(started) = starts.next().await {
            started?;
        }
        Ok(())
    }

    /// How many jobs run.
    async fn running(&self) -> Result<usize, Error> {
        let jobs = self.producer.jobs().await?;
        Ok(jobs.iter().filter(|job| job.state == JobState::Running).count())
    }

    async fn count(&mut self, time: Duration) -> Result<Count, Error> {
        count(&self.server.url(), &mut self.redis, time).await
    }

    async fn close(self) -> Result<(), Error> {
        self.producer.shutdown().await?;
        for node in self.fleet {
            node.closed().await;
        }
        Ok(())
    }
}

pub(crate) async fn run(Options { json, jobs, seconds }: Options) -> Result<(), Error> {
    // Side by side: what nodes do once in a while, they do in both pools at the same age.
    let (mut empty, mut full) = tokio::try_join!(Pool::open(), Pool::open())?;
    full.fill(jobs).await?;
    sleep(REST).await;
    let time = Duration::from_secs(seconds);
    let (without, with) = tokio::try_join!(empty.count(time), full.count(time))?;
    let running = full.running().await?;
    tokio::try_join!(empty.close(), full.close())?;

    let difference = with.client_issued as f64 / without.client_issued as f64 - 1.0;
    report(json, jobs, seconds, &without, &with, difference);
    if running != jobs {
        return Err(format!("{running} of {jobs} jobs run").into());
    }
    if difference.abs() > ALLOWED {
        let [with, without] = [with.client_issued, without.client_issued];
        return Err(format!("{with} commands with {jobs} jobs, {without} without").into());
    }
    Ok(())
}

async fn count(url: &str, redis: &mut MultiplexedConnection, time: Duration) -> Result<Count, Error> {
    let mut monitor = redis::Client::open(url)?.get_async_monitor().await?;
    let mut lines = monitor.on_message::<String>();
    let seen = async {
        let (mut counting, mut inside, mut kinds) = (false, 0, BTreeMap::new());
        while let Some(line) = lines.next().await {
            if line.contains(MARKS[1]) {
                return Ok((inside, kinds));
            } else if line.contains(MARKS[0]) {
                counting = true;
            } else if !counting {
            } else if line.contains(" lua] ") {
                inside += 1;
            } else {
                *kinds.entry(kind(&line)).or_default() += 1;
            }
        }
        Err::<_, Error>("the monitor has ended".into())
    };
    let counted = async {
        mark(redis, MARKS[0]).await?;
        let before = commands(redis).await?;
        sleep(time).await;
        // The INFO before is in it, too.
        let within = commands(redis).await? - before - 1;
        mark(redis, MARKS[1]).await?;
        Ok::<_, Error>(within)
    };
    let ((inside, mut kinds), within) = tokio::try_join!(seen, counted)?;
    kinds.remove("info");
    Ok(Count { client_issued: within - inside, kinds })
}

async fn mark(redis: &mut MultiplexedConnection, word: &str) -> Result<(), Error> {
    Ok(redis::cmd("ECHO").arg(word).query_async::<()>(redis).await?)
}

/// All commands that the server has run, those in scripts as well.
async fn commands(redis: &mut MultiplexedConnection) -> Result<u64, Error> {
    let info: String = redis::cmd("INFO").arg("commandstats").query_async(redis).await?;
    let calls = info.lines().filter_map(|line| {
        let (_, stats) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        stats.split(',').next()?.parse::<u64>().ok()
    });
    Ok(calls.sum())
}

/// The command in a line of `MONITOR`, which is its third word; for a script with the beginning of its hash.
fn kind(line: &str) -> String {
    let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
    match words[..] {
        [name, hash, ..] if name.eq_ignore_ascii_case("evalsha") => format!("script {hash:.8}"),
        [name, ..] => name.to_ascii_lowercase(),
        [] => "unknown".to_owned(),
    }
}

fn report(as_json: bool, jobs: usize, seconds: u64, empty: &Count, full: &Count, difference: f64) {
    let [without, with] = [empty, full].map(|count| count.client_issued);
    if as_json {
        println!(
            "{}",
            json!({"jobs": jobs, "seconds": seconds, "commands_without_jobs": without, "commands_with_jobs": with,
                "difference_percent": (difference * 1e4).round() / 1e2})
        );
        return;
    }
    println!("{:24} {:>12} {:>12}", "", "without jobs", "with jobs");
    println!("{:24} {without:12} {with:12}", "commands of clients");
    for kind in empty.kinds.keys().chain(full.kinds.keys().filter(|kind| !empty.kinds.contains_key(*kind))) {
        let [without, with] = [empty, full].map(|count| count.kinds.get(kind).copied().unwrap_or_default());
        println!("  {kind:22} {without:12} {with:12}");
    }
    println!("difference: {:.2} %, allowed are {:.0} %", difference * 1e2, ALLOWED * 1e2);
}
