//! Faults hit nodes of background jobs, one after the other, while jobs come; then the judges compare the ends of all jobs
//! with the world outside.
//!
//! `node.rs` is the process with the handlers, `load.rs` adds the jobs, and `verdict.rs` judges. `excuse.rs` knows what may be
//! gone with lost data, and `over.rs` which executions may follow a cancellation or an end.

mod excuse;
mod load;
pub mod node;
mod over;
mod verdict;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_jobs::Jobs;
use tenure_testing::history::boottime_ns;
use tenure_testing::{ChildProcess, Data, RedisServer, Sentinels, sentinels};
use tokio::time::{Instant, sleep};

pub use node::{BrokenJobs, JobsNodePlan};

use crate::Result;
use crate::broken::ENOUGH;
use crate::losses::{self, Change};
use crate::process::{self, READY};
use crate::resource::Resource;
use excuse::Losses;
use load::Load;
use verdict::Verdict;

/// The number of node processes.
const NODES: usize = 3;
/// The number of faults that the nodes of a control meet at least: a busy machine makes few in a short time.
const CONTROL_FAULTS: u32 = 6;
/// The longest time for a node to start.
const START: Duration = Duration::from_secs(60);
/// The longest time for a node to leave.
const LEAVE: Duration = Duration::from_secs(40);
/// The shortest run with fail-overs, each of which takes some seconds.
const SENTINELS_FROM: Duration = Duration::from_secs(150);
/// How long the judges wait for the ends of all jobs: for a minute after a loss of data no lease is lost.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time that no execution of a job exceeds.
const WORK: Duration = Duration::from_millis(150);
/// The same time where nodes are broken: each pause and each kill then hits several executions.
const BROKEN_WORK: Duration = Duration::from_millis(450);

/// The settings of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct JobsPlan {
    /// The length of the faults. The judges wait until all jobs have ended, up to two minutes.
    #[arg(long = "minutes", value_name = "MINUTES", value_parser = crate::cli::minutes, default_value = "5")]
    pub time: Duration,
    /// The seed of the faults and the jobs; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
    /// Only these faults; all of them by default.
    #[arg(long)]
    pub only: Vec<JobsFault>,
    /// Nodes that are broken in this way: the judges must find it, and the exit status is 1.
    #[arg(long)]
    pub control: Option<BrokenJobs>,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum JobsFault {
    /// A node is killed, and another one comes.
    Kill,
    /// A node stands still for up to two leases.
    Pause,
    /// A node leaves, and another one comes.
    Leave,
    /// Redis stands still.
    RedisPause,
    /// Redis is killed, and comes back with its data.
    RedisRestart,
    /// Redis loses all data.
    FlushAll,
    /// A replica becomes the master: on order, because the master is killed, or without the last second.
    FailOver,
}

impl JobsFault {
    /// Those of nodes: they can happen everywhere.
    const OF_NODES: [Self; 3] = [Self::Kill, Self::Pause, Self::Leave];
    /// Those of one server.
    const OF_A_SERVER: [Self; 3] = [Self::RedisPause, Self::RedisRestart, Self::FlushAll];

    /// After these no lease is lost for a while, so the judges would wait.
    fn delays_the_end(self) -> bool {
        !Self::OF_NODES.contains(&self)
    }

    fn loses_data(self) -> bool {
        matches!(self, Self::FlushAll | Self::FailOver)
    }
}

/// A part of a run, with a Redis and nodes of its own.
#[derive(Debug, PartialEq, Eq)]
struct Act {
    faults: Vec<JobsFault>,
    time: Duration,
}

/// The acts of a run: with one server, and with sentinels if there is time for them.
fn acts(plan: &JobsPlan) -> Result<Vec<Act>> {
    let fails_over = plan.only.contains(&JobsFault::FailOver);
    if fails_over && plan.only.iter().any(|fault| JobsFault::OF_A_SERVER.contains(fault)) {
        return Err("a fail-over needs sentinels, and faults of one server cannot happen there".into());
    }
    if !plan.only.is_empty() {
        return Ok(vec![Act { faults: plan.only.clone(), time: plan.time }]);
    }
    let with_nodes = |others: &[JobsFault]| [&JobsFault::OF_NODES, others].concat();
    let of_sentinels = if plan.time >= SENTINELS_FROM { plan.time / 4 } else { Duration::ZERO };
    let mut acts = vec![Act {
        faults: with_nodes(&JobsFault::OF_A_SERVER),
        time: plan.time.saturating_sub(of_sentinels),
    }];
    if !of_sentinels.is_zero() {
        acts.push(Act { faults: with_nodes(&[JobsFault::FailOver]), time: of_sentinels });
    }
    Ok(acts)
}

/// Runs the faults and asks the judges. Returns their findings. The last line it prints is the verdict as JSON.
///
/// # Errors
/// The run cannot be executed.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: &JobsPlan, say: fn(&str)) -> Result<Vec<String>> {
    let acts = acts(plan)?;
    let dir = tempfile::Builder::new().prefix("tenure-chaos.").tempdir()?.keep();
    say(&format!("seed {}; logs: {}", plan.seed, dir.display()));
    let mut verdict = Verdict::default();
    for (number, act) in acts.into_iter().enumerate() {
        let dir = dir.join(number.to_string());
        std::fs::create_dir(&dir)?;
        verdict.join(play(plan, &act, dir).await?);
    }
    say(&verdict.to_string());
    let found = verdict.violations();
    if found.is_empty() {
        std::fs::remove_dir_all(&dir)?;
    } else {
        say(&format!("run it again with seed {}; logs are in {}", plan.seed, dir.display()));
    }
    say(&verdict.json(plan.seed));
    Ok(found)
}

async fn play(plan: &JobsPlan, act: &Act, dir: PathBuf) -> Result<Verdict> {
    let ground = Ground::start(act.faults.contains(&JobsFault::FailOver)).await?;
    let resource = Resource::start().await?;
    let mut arena = Arena {
        url: ground.url(),
        ground,
        resource,
        dir,
        broken: plan.control,
        nodes: Vec::new(),
        lives: 0,
        faults: BTreeMap::new(),
        losses: Losses::default(),
        strange: Vec::new(),
    };
    let jobs = node::builder(&arena.url, node::SET, "producer", plan.control)?.join().await?;
    for _ in 0..NODES {
        arena.start().await?;
    }
    let load = Arc::new(Load::default());
    let longest = if plan.control.is_some() { BROKEN_WORK } else { WORK };
    let adding = load::start(&jobs, &load, plan.seed, longest);
    arena.inflict(act, plan.seed).await?;
    let unanswered = adding.stop().await;
    let verdict = arena.judge(&jobs, &load, unanswered).await?;
    jobs.close();
    Ok(verdict)
}

/// The Redis of an act.
enum Ground {
    One(RedisServer),
    Sentinels(Box<Sentinels>),
}

impl Ground {
    async fn start(with_sentinels: bool) -> Result<Self> {
        if with_sentinels {
            return Ok(Self::Sentinels(Box::new(sentinels::Builder::default().start().await?)));
        }
        Ok(Self::One(RedisServer::builder().append_only().config("appendfsync", "always").start()?))
    }

    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Sentinels(sentinels) => sentinels.url(),
        }
    }
}

/// The server, the world outside, and the nodes.
struct Arena {
    ground: Ground,
    url: String,
    resource: Resource,
    dir: PathBuf,
    broken: Option<BrokenJobs>,
    nodes: Vec<ChildProcess>,
    lives: usize,
    faults: BTreeMap<JobsFault, u32>,
    losses: Losses,
    /// The forbidden actions of nodes.
    strange: Vec<String>,
}

impl Arena {
    async fn start(&mut self) -> Result<()> {
        self.lives += 1;
        let name = format!("n{}", self.lives);
        let log = self.dir.join(format!("{name}.log"));
        let (url, resource) = (self.url.clone(), self.resource.address());
        let plan = JobsNodePlan { set: node::SET.to_owned(), name, url, resource, broken: self.broken };
        let mut process = process::start("jobs-node", &plan.name, &plan, &log, "warn")?;
        while process.line(START).await? != READY {}
        self.nodes.push(process);
        Ok(())
    }

    /// Causes a fault, heals it, rests, and goes on until the time is over. The last third has only faults of nodes.
    async fn inflict(&mut self, act: &Act, seed: u64) -> Result<()> {
        let (began, mut random) = (Instant::now(), StdRng::seed_from_u64(seed));
        let (known, time) = (&act.faults, act.time);
        let late: Vec<_> = known.iter().copied().filter(|fault| !fault.delays_the_end()).collect();
        while began.elapsed() < time || (self.shows_too_little() && began.elapsed() < time * 10) {
            sleep(Duration::from_millis(random.random_range(200..1_500))).await;
            let last = began.elapsed() > time * 2 / 3 && !late.is_empty();
            let choices = if last { &late } else { known };
            let Some(fault) = choices.choose(&mut random).copied() else { continue };
            self.cause(fault, &mut random).await?;
            *self.faults.entry(fault).or_default() += 1;
            for node in &mut self.nodes {
                if !node.is_running() {
                    self.strange.push(format!("{} ended by itself", node.name()));
                }
            }
            if !self.strange.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the nodes of a control have met too few faults, or the world outside has seen too few repeated tokens, to
    /// rule out luck.
    fn shows_too_little(&self) -> bool {
        let faults: u32 = self.faults.values().sum();
        match self.broken {
            None => false,
            Some(BrokenJobs::TokensRepeat) => {
                let ledger = self.resource.ledger();
                ledger.counts().stale_accepted == 0 || ledger.keys_of_one_token().len() < ENOUGH
            }
            Some(_) => faults < CONTROL_FAULTS,
        }
    }

    async fn cause(&mut self, fault: JobsFault, random: &mut StdRng) -> Result<()> {
        if fault.loses_data() {
            // The jobs that the last fault has held up run again.
            sleep(random.random_range(node::LEASE..2 * node::LEASE)).await;
        }
        let at = random.random_range(0..self.nodes.len());
        match fault {
            JobsFault::Kill => {
                let mut node = self.nodes.swap_remove(at);
                self.losses.node_ends(node.name(), boottime_ns());
                node.kill().await?;
                self.start().await?;
            }
            JobsFault::Leave => {
                let mut node = self.nodes.swap_remove(at);
                self.losses.node_ends(node.name(), boottime_ns());
                if !node.leave(LEAVE).await?.success() {
                    self.strange.push(format!("{} left badly", node.name()));
                }
                self.start().await?;
            }
            JobsFault::Pause => {
                self.nodes[at].pause()?;
                // The judges of broken nodes need pauses that outlast a lease.
                let least =
                    if self.broken.is_some() { node::LEASE * 3 / 2 } else { Duration::from_millis(300) };
                sleep(random.random_range(least..2 * node::LEASE)).await;
                self.nodes[at].resume()?;
                self.losses.goes_on(Some(self.nodes[at].name()), boottime_ns());
            }
            JobsFault::FlushAll => {
                let Ground::One(server) = &self.ground else { return Ok(()) };
                let meta = format!("tenure:{{{}}}:q:meta", node::SET);
                let (loss, _) = losses::flush_all(server, &meta).await?;
                self.losses.add(loss);
            }
            JobsFault::FailOver => {
                let Ground::Sentinels(sentinels) = &self.ground else { return Ok(()) };
                let mut change = Change::ALL.choose(random).copied().unwrap_or(Change::Ordered);
                if self.broken == Some(BrokenJobs::JournalForgotten) {
                    // Ends are lost for sure.
                    change = Change::LostAhead;
                }
                self.losses.add(losses::fail_over(sentinels, change).await?);
            }
            JobsFault::RedisPause => {
                let Ground::One(server) = &self.ground else { return Ok(()) };
                server.pause()?;
                sleep(random.random_range(Duration::from_millis(200)..2 * node::LEASE)).await;
                server.resume()?;
                self.losses.goes_on(None, boottime_ns());
            }
            JobsFault::RedisRestart => {
                let Ground::One(server) = &self.ground else { return Ok(()) };
                server.kill()?;
                sleep(random.random_range(Duration::ZERO..node::LEASE)).await;
                server.restart(Data::Keep)?;
                self.losses.goes_on(None, boottime_ns());
            }
        }
        Ok(())
    }

    /// Waits until all jobs have ended, lets the nodes leave, and judges.
    async fn judge(mut self, jobs: &Jobs, load: &Load, unanswered: usize) -> Result<Verdict> {
        let mut verdict = Verdict::new(self.faults.clone(), unanswered);
        // The broken ones are found sooner, but for those whose jobs run again when their leases are over.
        let soon = self.broken.is_some_and(|broken| broken != BrokenJobs::JournalForgotten);
        let patience = if soon { PATIENCE / 8 } else { PATIENCE };
        verdict.await_ends(jobs, &load.accepted(), patience).await?;
        for mut node in std::mem::take(&mut self.nodes) {
            if !node.leave(LEAVE).await?.success() {
                self.strange.push(format!("{} left badly", node.name()));
            }
        }
        verdict.judge(jobs, &load.accepted(), &self.resource, &self.losses).await?;
        verdict.add(self.strange);
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_overs_have_an_act_of_their_own() {
        let acts = |seconds, only: &[JobsFault]| {
            let time = Duration::from_secs(seconds);
            let acts = acts(&JobsPlan { time, seed: 1, only: only.to_vec(), control: None });
            acts.ok().map(|acts| acts.into_iter().map(|act| (act.faults.len(), act.time.as_secs())).collect())
        };
        assert_eq!(acts(30, &[]), Some(vec![(6, 30)]));
        assert_eq!(acts(160, &[]), Some(vec![(6, 120), (4, 40)]));
        assert_eq!(acts(160, &[JobsFault::FailOver, JobsFault::Kill]), Some(vec![(2, 160)]));
        assert_eq!(acts(160, &[JobsFault::FailOver, JobsFault::FlushAll]), None);
    }
}
