//! The targets of the faults: Redis, the world outside, and the nodes with all that is below them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rustix::process::Signal;
use tenure_pool::{JobState, Node};
use tenure_testing::history::boottime_ns;
use tenure_testing::{ChildProcess, Data, RedisServer, within};
use tokio::process::Command;
use tokio::time::sleep;

use super::family::{self, MARK, Member};
use super::hosted::HOST;
use super::load::Heard;
use super::program::JOB;
use super::traces::Traces;
use super::verdict::Verdict;
use super::{ChildrenFault, ChildrenKind, ChildrenPlan};
use crate::Result;
use crate::cli::named;
use crate::node::PoolPlan;
use crate::resource::Resource;

/// The pool.
const POOL: &str = "children";
/// The number of nodes, and of the workers of each.
const NODES: usize = 4;
const WORKERS: usize = 2;
/// The time for which a silent worker keeps its jobs.
const TTL: Duration = Duration::from_secs(5);
/// The same for the control, which has to be quick.
const SHORT: Duration = Duration::from_secs(2);
/// The longest time for a node to start.
const START: Duration = Duration::from_secs(120);
/// The longest time for a node to leave or to end, and the time that its jobs have to move.
const LEAVE: Duration = Duration::from_secs(90);
const DRAIN: &str = "60s";
/// How long processes may be there after the kill of their guard.
const GONE: Duration = Duration::from_secs(20);
/// How long the judges wait until all jobs run.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the control waits for an overlap.
const FOUND: Duration = Duration::from_secs(20);
/// The exit status of a guard that has lost its node.
const LOST: i32 = 70;

/// A node: its guard, and the mark of its processes.
struct Place {
    guard: ChildProcess,
    mark: String,
}

impl Place {
    fn family(&self) -> Vec<Member> {
        family::of(&self.mark)
    }

    fn is_guard(&self, member: &Member) -> bool {
        Some(member.pid.as_raw_pid().cast_unsigned()) == self.guard.id()
    }

    fn guard(&self) -> Option<Member> {
        self.family().into_iter().find(|member| self.is_guard(member))
    }

    /// The process of the node itself.
    fn node(&self) -> Option<Member> {
        self.family().into_iter().find(|member| member.is_tenure() && !self.is_guard(member))
    }
}

/// The server, the world outside, and the nodes.
pub(super) struct Arena {
    server: RedisServer,
    url: String,
    resource: Resource,
    dir: PathBuf,
    traces: Traces,
    /// It has no workers.
    node: Node,
    kinds: Vec<ChildrenKind>,
    ttl: Duration,
    nodes: Vec<Place>,
    lives: usize,
    faults: BTreeMap<ChildrenFault, u32>,
    left_behind: Vec<String>,
    strange: Vec<String>,
}

impl Arena {
    /// A pool with its nodes.
    pub(super) async fn open(dir: &Path, plan: &ChildrenPlan) -> Result<Self> {
        let server = RedisServer::builder().append_only().config("appendfsync", "always").start()?;
        let (url, ttl) = (server.url(), if plan.control { SHORT } else { TTL });
        let pool = PoolPlan {
            pool: POOL.to_owned(),
            ttl_ms: ttl.as_millis() as u64,
            join_settle_ms: 200,
            stable_after_ms: 300,
            max_queued: 10_000,
            assign_ms: 5_000,
            grants: true,
            stop_ms: None,
            broken: None,
        };
        let kinds = match (plan.kind, plan.control) {
            // Hosts may end their jobs by themselves.
            (_, true) => vec![ChildrenKind::Work],
            (Some(kind), false) => vec![kind],
            (None, false) => vec![ChildrenKind::Work, ChildrenKind::Host],
        };
        let mut arena = Self {
            node: pool.node(&url, "users")?.join().await?,
            resource: Resource::start().await?,
            traces: Traces::make(dir.join("traces"))?,
            server,
            url,
            dir: dir.to_owned(),
            kinds,
            ttl,
            nodes: Vec::new(),
            lives: 0,
            faults: BTreeMap::new(),
            left_behind: Vec::new(),
            strange: Vec::new(),
        };
        let count = if plan.control { 2 } else { NODES };
        for _ in 0..count {
            arena.begin()?;
        }
        arena.all_up().await?;
        Ok(arena)
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub(super) fn traces(&self) -> &Traces {
        &self.traces
    }

    /// Whether no judge has found anything so far.
    pub(super) fn is_well(&self) -> bool {
        self.strange.is_empty() && self.left_behind.is_empty()
    }

    /// Starts a node. The kinds come in turn.
    fn begin(&mut self) -> Result<()> {
        let kind = self.kinds[self.lives % self.kinds.len()];
        self.lives += 1;
        let word = named(&kind);
        let name = format!("{word}-{}", self.lives);
        let mark = format!("{}/{name}", self.dir.display());
        let program = std::env::current_exe()?;
        let log = OpenOptions::new().create(true).append(true).open(self.dir.join(format!("{name}.log")))?;
        let mut command = Command::new(&program);
        command.args([&*word, "--pool", POOL, "--name", &name, "--workers", &WORKERS.to_string()]);
        command.args(["--log-level", "warn", "--logs", "null", "--drain", DRAIN, "--grace", "3s"]);
        if kind == ChildrenKind::Work {
            command.args(["--ready", "notify", "--payload", "none"]);
        }
        command.arg("--").arg(&program).arg(if kind == ChildrenKind::Work { JOB } else { HOST });
        command.arg(self.resource.address().to_string()).arg(self.traces.path());
        for name in ["TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "POD_NAME"] {
            command.env_remove(name);
        }
        // The files that a killed guard leaves go with the run.
        command.env("REDIS_URL", &self.url).env("TMPDIR", &self.dir).env(MARK, &mark).stderr(log);
        self.nodes.push(Place { guard: ChildProcess::start(&name, command)?, mark });
        Ok(())
    }

    /// Waits until the workers of all nodes are in the ring.
    async fn all_up(&self) -> Result<()> {
        let up = async || {
            let infos = self.node.inspect().workers().await.map_err(|error| error.to_string())?;
            let count = |name: &str| infos.iter().filter(|it| it.node == name && it.slot.is_some()).count();
            let away: Vec<_> =
                self.nodes.iter().map(|it| it.guard.name()).filter(|it| count(it) < WORKERS).collect();
            if away.is_empty() { Ok(()) } else { Err(format!("without their workers: {away:?}")) }
        };
        Ok(within(START, "the nodes are up", up).await?)
    }

    /// Causes a fault and heals it. It does not count if there is nobody to suffer it.
    pub(super) async fn cause(&mut self, fault: ChildrenFault, random: &mut StdRng) -> Result<()> {
        let at = random.random_range(0..self.nodes.len());
        let pause = random.random_range(Duration::from_millis(200)..2 * self.ttl);
        let family = self.nodes[at].family();
        let keepers: Vec<_> = family.iter().filter(|it| it.is_keeper()).collect();
        let programs: Vec<_> = family.iter().filter(|it| it.is_program()).collect();
        let suffered = match fault {
            ChildrenFault::KillNode => self.kill_node(at).await?,
            ChildrenFault::KillGuard => {
                let mut place = self.nodes.swap_remove(at);
                place.guard.kill().await?;
                self.awaits_end_of(&place).await;
                self.begin()?;
                true
            }
            ChildrenFault::KillKeeper => hit(keepers.choose(random).copied(), Signal::KILL),
            ChildrenFault::KillChild => hit(programs.choose(random).copied(), Signal::KILL),
            ChildrenFault::StopNode => stand_still(self.nodes[at].node().as_ref(), pause).await,
            ChildrenFault::StopGuard => {
                self.nodes[at].guard.pause()?;
                sleep(pause).await;
                self.nodes[at].guard.resume()?;
                true
            }
            ChildrenFault::StopKeeper => stand_still(keepers.choose(random).copied(), pause).await,
            ChildrenFault::StopChild => stand_still(programs.choose(random).copied(), pause).await,
            ChildrenFault::Drain => {
                // Its workers may have been lost just now, and come again.
                let drained = self
                    .node
                    .operate()
                    .drain_node(self.nodes[at].guard.name())
                    .await
                    .is_ok_and(|it| it == WORKERS);
                if drained {
                    let place = self.nodes.swap_remove(at);
                    self.ends(place, 0).await;
                    self.begin()?;
                }
                drained
            }
            ChildrenFault::Leave => {
                let place = self.nodes.swap_remove(at);
                self.leaves(place).await;
                self.begin()?;
                true
            }
            ChildrenFault::RedisPause => {
                self.server.pause()?;
                sleep(pause).await;
                self.server.resume()?;
                true
            }
            ChildrenFault::RedisRestart => {
                self.server.kill()?;
                sleep(pause / 2).await;
                self.server.restart(Data::Keep)?;
                true
            }
        };
        if suffered {
            *self.faults.entry(fault).or_default() += 1;
        }
        for place in &mut self.nodes {
            if !place.guard.is_running() {
                self.strange.push(format!("{} ended by itself, after {fault:?}", place.guard.name()));
            }
        }
        if self.is_well() { self.all_up().await } else { Ok(()) }
    }

    async fn kill_node(&mut self, at: usize) -> Result<bool> {
        let Some(node) = self.nodes[at].node() else { return Ok(false) };
        let place = self.nodes.swap_remove(at);
        node.signal(Signal::KILL);
        self.ends(place, LOST).await;
        self.begin()?;
        Ok(true)
    }

    /// Tells a node to leave. It must leave in order.
    async fn leaves(&mut self, place: Place) {
        hit(place.guard().as_ref(), Signal::TERM);
        self.ends(place, 0).await;
    }

    /// Waits for the end of a node, which must come with this status, and last of all its processes.
    async fn ends(&mut self, mut place: Place, status: i32) {
        let name = place.guard.name().to_owned();
        match place.guard.ended(LEAVE).await {
            Ok(ended) if ended.code() == Some(status) => {}
            Ok(ended) => self.strange.push(format!("{name} ended with {ended}")),
            Err(error) => self.strange.push(error.to_string()),
        }
        for member in place.family() {
            self.left_behind.push(format!("{name} has left a process behind: {member:?}"));
        }
    }

    /// Waits until nothing is left of a node whose guard was killed.
    async fn awaits_end_of(&mut self, place: &Place) {
        let gone = async || {
            let left = place.family();
            if left.is_empty() { Ok(()) } else { Err(left) }
        };
        if let Err(late) = within(GONE, "all processes of a killed guard end", gone).await {
            self.left_behind.push(late.to_string());
        }
    }

    /// The control: a node stands still, and so do its keepers, which would end its jobs with their leases. Its jobs go on.
    pub(super) async fn stop_what_ends_jobs(&mut self) -> Result<()> {
        let all_run = async || self.traces.notes("starts").is_ok_and(|starts| starts.len() >= 8);
        within(START, "all jobs run", all_run).await?;
        let victim = self.nodes.iter().max_by_key(|place| place.family().len()).ok_or("there is no node")?;
        let family = victim.family();
        let node = victim.node().ok_or("there is no node")?;
        let stopped: Vec<_> = family.iter().filter(|it| it.is_keeper()).chain([&node]).collect();
        for member in &stopped {
            member.signal(Signal::STOP);
        }
        self.faults.insert(ChildrenFault::StopNode, 1);
        let found = async || self.traces.notes("overlaps").is_ok_and(|overlaps| !overlaps.is_empty());
        // The judges say whether it was found.
        let _ = within(FOUND, "two programs of a key run at once", found).await;
        for member in &stopped {
            member.signal(Signal::CONT);
        }
        Ok(())
    }

    /// Waits until all jobs run, lets the nodes leave, and judges.
    pub(super) async fn judge(mut self, heard: Heard, is_control: bool) -> Result<Verdict> {
        let lost = if is_control { Vec::new() } else { self.not_running(&heard.alive).await };
        for mut place in std::mem::take(&mut self.nodes) {
            if is_control {
                place.guard.kill().await?;
                self.awaits_end_of(&place).await;
            } else {
                self.leaves(place).await;
            }
        }
        let mut verdict = Verdict {
            faults: self.faults,
            counts: self.resource.ledger().counts(),
            calls: heard.calls,
            alive: heard.alive.len(),
            lost,
            left_behind: self.left_behind,
            strange: self.strange.into_iter().chain(heard.strange).collect(),
            ..Verdict::default()
        };
        verdict.read(&self.traces)?;
        Ok(verdict)
    }

    /// The jobs that do not run, when all have had time to.
    async fn not_running(&self, keys: &[String]) -> Vec<String> {
        let mut away = keys.to_vec();
        let at = boottime_ns();
        let all_run = async || {
            let Ok(jobs) = self.node.inspect().jobs().await else { return Err("nobody knows".to_owned()) };
            away = Vec::new();
            for key in keys {
                let job = jobs.iter().find(|job| job.key.as_bytes() == key.as_bytes());
                let Some(job) = job else {
                    away.push(format!("{key} is gone"));
                    continue;
                };
                // One that was lost again and again pauses for minutes.
                if job.next_try.is_some() {
                    let _ = self.node.operate().retry(key.as_str()).await;
                }
                let ledger = self.resource.ledger();
                let writes = ledger.last_writer(key).is_some_and(|(token, _)| token == job.token.0);
                let wrote = ledger.wrote_after(key, at);
                drop(ledger);
                if job.state != JobState::Running || !writes || !wrote {
                    away.push(format!("{key} is {:?} and writes: {writes}, {wrote}", job.state));
                }
            }
            if away.is_empty() { Ok(()) } else { Err(format!("{away:?}")) }
        };
        let _ = within(PATIENCE, "all jobs run", all_run).await;
        away
    }
}

/// Sends a process a signal, if there is one.
fn hit(member: Option<&Member>, signal: Signal) -> bool {
    member.is_some_and(|member| {
        member.signal(signal);
        true
    })
}

/// Stops a process for a while, if there is one.
async fn stand_still(member: Option<&Member>, pause: Duration) -> bool {
    let is_there = hit(member, Signal::STOP);
    if is_there {
        sleep(pause).await;
        hit(member, Signal::CONT);
    }
    is_there
}
