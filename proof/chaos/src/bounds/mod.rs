//! Measures how soon the jobs of a node run elsewhere, after a crash and in a drain, and compares with the promises.
//!
//! Each round is a pool of its own: all jobs run on the first of four nodes, which is killed or told to leave.
//! `figures.rs` measures the effects from the handlers' histories, and compares them with the bounds.

mod figures;

use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::cmd;
use tenure_pool::{JobSpec, Node};
use tenure_testing::history::{Expect, History, boottime_ns, check};
use tenure_testing::{RedisServer, within};
use tokio::time::sleep;

pub use figures::{Figures, Round, bounds};

use crate::Result;
use crate::node::{NodePlan, PoolPlan, Watched};
use crate::process::NodeProcess;

/// The pool's time to live: the least one for which the promises about crashes hold.
const TTL: Duration = Duration::from_secs(5);
const NODES: usize = 4;
/// The longest time of each step of a round.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between checks whether all jobs run: long, because a check costs the measured resources.
const LOOK: Duration = Duration::from_millis(200);
/// The number of calls under way at once at the beginning.
const BATCH: usize = 500;
/// The delay for a pool whose jobs stay where they are although the ring has changed.
const NEVER_MS: u64 = 3_600_000;

/// The settings of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub struct BoundsPlan {
    /// Jobs of the node that crashes or leaves.
    #[arg(long, default_value_t = 1_000)]
    pub jobs: usize,
    /// The number of crashes.
    #[arg(long, default_value_t = 5)]
    pub crashes: usize,
    /// The number of drains.
    #[arg(long, default_value_t = 5)]
    pub drains: usize,
    /// The seed of the moments of the crashes; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
}

/// Measures, and returns the exceeded bounds. The last line it prints is the verdict as JSON.
///
/// # Errors
/// A round cannot be executed.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: &BoundsPlan, say: fn(&str)) -> Result<Vec<String>> {
    let mut random = StdRng::seed_from_u64(plan.seed);
    let dir = tempfile::Builder::new().prefix("tenure-bounds.").tempdir()?;
    let (mut figures, mut wrong) = (Figures::new(TTL, plan.jobs), Vec::new());
    let kinds = std::iter::repeat_n(true, plan.crashes).chain(std::iter::repeat_n(false, plan.drains));
    for (number, crashes) in kinds.enumerate() {
        // Anywhere between two renewals.
        let moment = random.random_range(Duration::ZERO..TTL / 5);
        let dir = dir.path().join(number.to_string());
        std::fs::create_dir(&dir)?;
        let (round, mut strange) = self::round(&dir, plan.jobs, crashes, moment).await?;
        say(&round.to_string());
        figures.add(round);
        wrong.append(&mut strange);
    }
    wrong.extend(bounds(&figures));
    say(&figures.json(plan.seed, wrong.is_empty()));
    Ok(wrong)
}

/// Runs one round. Returns its measurements, and the forbidden events in it.
async fn round(dir: &Path, jobs: usize, crashes: bool, moment: Duration) -> Result<(Round, Vec<String>)> {
    let redis = RedisServer::builder().tcp().append_only().start()?;
    let pool = PoolPlan {
        pool: "bounds".into(),
        ttl_ms: TTL.as_millis() as u64,
        join_settle_ms: 100,
        stable_after_ms: NEVER_MS,
        max_queued: 2 * jobs as u64,
        assign_ms: 5_000,
        grants: true,
        stop_ms: None,
        broken: None,
    };
    let caller = pool.node(&redis.url(), "caller")?.assume_fresh(true).client_only().join().await?;
    let mut nodes = vec![start(&pool, &redis.url(), dir, 1).await?];
    dispatch(&caller, jobs).await?;
    for number in 2..=NODES {
        nodes.push(start(&pool, &redis.url(), dir, number).await?);
    }
    at_rest(&redis, &pool, NODES, jobs).await?;
    sleep(moment).await;

    let mut strange = Vec::new();
    let mut first = nodes.swap_remove(0);
    let victim: Vec<_> = first.plan().worker_names().collect();
    let from = boottime_ns();
    if crashes {
        first.kill().await?;
        let conductor = History::append_to(dir.join("conductor.history"))?;
        for worker in &victim {
            conductor.worker_dead(worker);
        }
    } else if !first.leave(PATIENCE).await?.success() {
        strange.push("the node left badly".to_owned());
    }
    at_rest(&redis, &pool, NODES - 1, jobs).await?;
    let round = within(PATIENCE, "all jobs to be handled elsewhere", async || {
        let history = read(dir).ok()?;
        Round::of(crashes, from, &victim, &history.entries()).filter(|round| round.moved() == jobs)
    })
    .await?;
    for mut node in nodes {
        if !node.leave(PATIENCE).await?.success() {
            strange.push(format!("{} left badly", node.name()));
        }
    }
    caller.close().await?;
    let expect = Expect { running_at_end: false, ..Expect::default() };
    strange.extend(check(&read(dir)?, &expect).faults.iter().map(ToString::to_string));
    Ok((round, strange))
}

async fn start(pool: &PoolPlan, url: &str, dir: &Path, number: usize) -> Result<NodeProcess> {
    let name = format!("n{number}");
    let history = dir.join(format!("{name}.history"));
    let plan = NodePlan {
        url: url.to_owned(),
        pool: pool.clone(),
        workers: 1,
        watched: Some(Watched { history, resource: None, longest_end_ms: 1 }),
        name,
    };
    let log = dir.join(format!("{}.log", plan.name));
    let mut node = NodeProcess::start(plan, &log, "error")?;
    node.ready(PATIENCE).await?;
    Ok(node)
}

async fn dispatch(caller: &Node, jobs: usize) -> Result<()> {
    let keys: Vec<_> = (0..jobs).map(|number| format!("job-{number}")).collect();
    for part in keys.chunks(BATCH) {
        let started =
            part.iter().map(|key| async move { caller.ensure(JobSpec::new(key, &b"payload"[..])).await });
        join_all(started).await.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    }
    Ok(())
}

/// Waits until this many workers are members, all jobs are begun, and no member waits for a reap. It asks Redis itself
/// for counts, which costs almost nothing.
async fn at_rest(redis: &RedisServer, pool: &PoolPlan, workers: usize, jobs: usize) -> Result<()> {
    let count = |command: &str, key: &str| -> Option<usize> {
        redis.query(cmd(command).arg(format!("tenure:{{{}}}:{key}", pool.pool))).ok()
    };
    let all_run = within(PATIENCE, "all jobs to run", async || {
        sleep(LOOK).await;
        // The hash of members also holds the ring's size.
        let is_so = count("HLEN", "workers")? == workers + 1
            && count("HLEN", "expired")? == 0
            && count("ZCARD", "queue")? == 0
            && count("ZCARD", "owners")? == jobs;
        is_so.then_some(())
    });
    Ok(all_run.await?)
}

/// All histories in this folder, as one.
pub(crate) fn read(dir: &Path) -> Result<History> {
    let history = History::new();
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "history") {
            History::load(&path)?
                .entries()
                .into_iter()
                .for_each(|entry| history.record_at(entry.at, entry.event));
        }
    }
    Ok(history)
}
