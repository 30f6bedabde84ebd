//! Two sets of background jobs on one server: a damaged set, and its neighbour.
//!
//! Damage may cost the damaged jobs, and the time of a recovery. After the damage every queue of the damaged set has to
//! run jobs again. No two executions have one token, and the neighbour has noticed nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_jobs::{JobId, Jobs, State};
use tenure_testing::{ChildProcess, RedisServer, within};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::inflict::Poisoner;
use super::kind::{Kind, Target};
use super::verdict::{Finding, Worked, Wrong, of_processes};
use super::world::{of_server, worked};
use super::{CALL, DAMAGE, EVERY_MS, HEALED, PANICS, Round, SETTLED, used_words};
use crate::Result;
use crate::jobs::JobsNodePlan;
use crate::jobs::node::{Kind as Way, Work, builder};
use crate::process::{self, READY};
use crate::resource::Resource;

/// The names of the sets.
const SET: &str = "poisoned";
const NEIGHBOUR: &str = "neighbour";
const QUEUES: [&str; 4] = ["work", "more", "children", "few"];
/// Node processes of a set.
const NODES: usize = 2;
const START: Duration = Duration::from_secs(60);
/// The longest time after the damage until each queue has run its probes. After a loss of data no lease is lost for 60 s: an execution
/// whose record was damaged may keep a slot for so long. Nodes look at counts and at the settings of their queues every 10 s.
const REST: Duration = Duration::from_secs(90);
/// Jobs that each queue has to run in the end.
const PROBES: usize = 3;
/// How long a job takes at most, ms.
const WORK_MS: u64 = 40;

/// One set, its node processes, and its producer.
struct Side {
    name: &'static str,
    dir: PathBuf,
    resource: Resource,
    nodes: Vec<ChildProcess>,
    jobs: Jobs,
    /// The jobs that were accepted.
    accepted: Arc<Mutex<Vec<JobId>>>,
    /// The adds that failed.
    failed: Arc<Mutex<Vec<String>>>,
}

impl Side {
    async fn start(redis: &RedisServer, dir: &Path, name: &'static str) -> Result<Self> {
        let dir = dir.join(name);
        fs::create_dir_all(&dir)?;
        let jobs = builder(&redis.url(), name, "producer", None)?.join().await?;
        let resource = Resource::start().await?;
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let (set, name, resource) = (name.to_owned(), format!("{name}-n{number}"), resource.address());
            let log = log(&dir, &name);
            let plan = JobsNodePlan { set, name, url: redis.url(), resource, broken: None };
            nodes.push(process::start("jobs-node", &plan.name, &plan, &log, "info")?);
        }
        for node in &mut nodes {
            while node.line(START).await? != READY {}
        }
        Ok(Self { name, dir, resource, nodes, jobs, accepted: Arc::default(), failed: Arc::default() })
    }

    /// Adds jobs of all kinds until it is dropped.
    fn load(&self, mut random: StdRng) -> JoinHandle<()> {
        let (jobs, accepted, failed) = (self.jobs.clone(), self.accepted.clone(), self.failed.clone());
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(random.random_range(10..40))).await;
                let queue = *QUEUES.choose(&mut random).unwrap_or(&"work");
                let ways = match queue {
                    "work" => &[Way::Plain, Way::FailsOnce, Way::MovesOn][..],
                    "more" => &[Way::Plain, Way::Parent],
                    _ => &[Way::Plain, Way::FailsOnce],
                };
                let kind = *ways.choose(&mut random).unwrap_or(&Way::Plain);
                let work = Work { kind, ms: WORK_MS, heeds: false };
                let group = *["a", "b", "c"].choose(&mut random).unwrap_or(&"a");
                // A set in a new incarnation answers late. The neighbour always answers in time.
                let added = timeout(SETTLED, async { jobs.add(queue, &work).group(group).await }).await;
                match added {
                    Ok(Ok(added)) => accepted.lock().unwrap_or_else(PoisonError::into_inner).push(added.id),
                    Ok(Err(error)) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
                    }
                    Err(_) => {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push("no answer".to_owned());
                    }
                }
            }
        })
    }

    fn accepted(&self) -> Vec<JobId> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn failed(&self) -> Vec<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The probes of a queue that have not ended well. Those that are not there yet are added.
    async fn open_probes(&self, queue: &'static str) -> Result<usize> {
        let mut open = 0;
        for number in 0..PROBES {
            let id = JobId::new(format!("probe-{queue}-{number}"))?;
            let state =
                timeout(CALL, self.jobs.get(&id)).await.ok().and_then(std::result::Result::ok).flatten();
            match state.map(|view| view.state()) {
                Some(State::Done) => continue,
                Some(_) => {}
                None => {
                    let work = Work { kind: Way::Plain, ms: 1, heeds: false };
                    let add = async { self.jobs.add(queue, &work).id(id.as_str()).group("probe").await };
                    // It is asked for again.
                    drop(timeout(CALL, add).await);
                }
            }
            open += 1;
        }
        Ok(open)
    }

    /// The jobs that were accepted and have not ended well.
    async fn open_jobs(&self) -> Result<Vec<JobId>> {
        let ids = self.accepted();
        let views = self.jobs.get_many(&ids).await?;
        let is_open = |(id, view): (JobId, Option<tenure_jobs::JobView>)| {
            view.is_none_or(|view| view.state() != State::Done).then_some(id)
        };
        Ok(ids.into_iter().zip(views).filter_map(is_open).collect())
    }

    fn worked(&mut self) -> Vec<Worked> {
        let dir = self.dir.clone();
        let of = |node: &mut ChildProcess| {
            let ended = !node.is_running();
            worked(node, &log(&dir, node.name()), ended)
        };
        self.nodes.iter_mut().map(of).collect()
    }
}

fn log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

/// Plays one round: two sets, damage to the first, rest, and the judgement.
pub(super) async fn play(dir: &Path, kinds: &[Kind], control: bool, mut random: StdRng) -> Result<Round> {
    fs::create_dir_all(dir)?;
    let redis = RedisServer::builder().append_only().start()?;
    let (mut set, mut neighbour) =
        futures::future::try_join(Side::start(&redis, dir, SET), Side::start(&redis, dir, NEIGHBOUR)).await?;
    let (began, panics) = (Instant::now(), PANICS.load(Ordering::Relaxed));
    let loads = [&set, &neighbour].map(|side| side.load(StdRng::from_rng(&mut random)));
    let mut poisoner = Poisoner::new(&redis, Target::Set, SET, StdRng::from_rng(&mut random));
    if control {
        set.jobs.queue("more")?.pause().await?;
        let some = async || !neighbour.accepted().is_empty();
        within(START, "a job of the neighbour", some).await?;
        neighbour.jobs.remove(&neighbour.accepted()[0]).await?;
    }
    while began.elapsed() < DAMAGE && !control {
        if let Some(kind) = kinds.choose(&mut random) {
            // A blocked server does not answer: the verdict shows the loss.
            drop(poisoner.strike(*kind));
        }
        sleep(Duration::from_millis(random.random_range(EVERY_MS))).await;
    }
    within(HEALED, "the damage to be put right", async || poisoner.put_right(true)).await?;
    for load in loads {
        load.abort();
        // A job whose add was cut off is nobody's.
        let _ = load.await;
    }
    let mut found = Vec::new();
    let mut say = |wrong, what| found.push(Finding { wrong, what });
    let limit = if control { SETTLED } else { REST };
    let damaged = &set;
    let probed = QUEUES.map(async |queue| {
        let none_open = async || damaged.open_probes(queue).await.is_ok_and(|open| open == 0);
        (queue, within(limit, "its probes to end", none_open).await.is_ok())
    });
    for (queue, runs) in futures::future::join_all(probed).await {
        if !runs {
            say(Wrong::Lost, format!("queue {queue} runs nothing {limit:?} after the damage"));
        }
    }
    let all_ended = async || neighbour.open_jobs().await.is_ok_and(|open| open.is_empty());
    let _ = within(SETTLED, "all jobs of the neighbour to end", all_ended).await;
    for id in neighbour.open_jobs().await? {
        say(Wrong::Neighbour, format!("{id} has not ended well"));
    }
    for error in neighbour.failed() {
        say(Wrong::Neighbour, format!("a job was not accepted: {error}"));
    }
    for side in [&set, &neighbour] {
        for id in side.resource.ledger().keys_of_one_token() {
            say(Wrong::Token, format!("two executions of {id} of {} had one token", side.name));
        }
        let stale = side.resource.ledger().counts().stale_accepted;
        if stale > 0 {
            say(Wrong::Doubled, format!("the world outside of {} took {stale} stale writes", side.name));
        }
    }
    let (watched, panics) = (began.elapsed(), PANICS.load(Ordering::Relaxed) - panics);
    let mut processes = [set.worked(), neighbour.worked()].concat();
    processes.push(of_server(&redis));
    of_processes(&processes, panics, watched, &mut say);
    let wounds = std::mem::take(&mut poisoner.wounds);
    let told = format!(
        "{} wounds, {} jobs were accepted and {} not, {} of the neighbour; {}",
        wounds.len(),
        set.accepted().len(),
        set.failed().len(),
        neighbour.accepted().len(),
        used_words(&processes, watched)
    );
    for side in [&mut set, &mut neighbour] {
        side.jobs.close();
        for node in &mut side.nodes {
            node.kill().await?;
        }
    }
    Ok(Round { wounds, found, told })
}
