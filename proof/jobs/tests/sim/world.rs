//! A world with nodes, users and mishaps, by a clock of its own. A seed is a world.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tenure_jobs::store::{Breakage, Snapshot};
use tenure_jobs::{
    Backoff, BoxError, Ctx, Error, Groups, How, JobId, Jobs, MemoryStore, Outcome, Queue, State, Token,
    Unique, Worker,
};
use tokio::time::Instant;

use super::judge::{Alive, Judge, Word};
use super::rng::Rng;
use super::wire::Wire;

const START: u64 = 1_800_000_000_000;
pub(crate) const QUEUES: [&str; 5] = ["plain", "few", "groups", "bound", "next"];
const NODES: usize = 3;

/// The settings of a queue, as the judge knows them.
pub(crate) struct Rules {
    pub(crate) max: u32,
    pub(crate) grouped: bool,
    pub(crate) concurrency: usize,
    pub(crate) group_concurrency: usize,
    /// The most that begin in a window, and its length in ms.
    pub(crate) group_limit: Option<(u32, u64)>,
}

pub(crate) fn rules(queue: &str) -> Rules {
    let none = Rules { max: 0, grouped: false, concurrency: 0, group_concurrency: 0, group_limit: None };
    match queue {
        "few" => Rules { max: 3, ..none },
        "groups" => {
            Rules { max: 5, grouped: true, group_concurrency: 2, group_limit: Some((3, 2_000)), ..none }
        }
        "bound" => Rules { max: 6, concurrency: 2, ..none },
        _ => none,
    }
}

fn queues() -> Vec<Queue> {
    let make = |name: &str| {
        let rules = rules(name);
        let mut queue =
            Queue::new(name).attempts(rules.max).backoff(Backoff::none()).keep_failed(Duration::from_secs(5));
        queue = queue.concurrency(rules.concurrency as u32);
        match name {
            "plain" => queue.lease(Duration::from_secs(3)),
            "few" => queue.lease(Duration::from_secs(4)).timeout(Duration::from_secs(2)),
            "groups" => {
                let groups = Groups::new().limit(3, Duration::from_secs(2)).concurrency(2);
                queue.lease(Duration::from_secs(3)).groups(groups)
            }
            _ => queue.lease(Duration::from_secs(5)),
        }
    };
    QUEUES.into_iter().map(make).collect()
}

/// The work of a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Work {
    act: Act,
    n: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Act {
    Quick,
    Slow,
    Fails,
    Later,
    Hangs,
    Parent,
    MovesOn,
    Checkpoints,
    Limited,
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) store: MemoryStore,
    judge: Mutex<Judge>,
    faults: AtomicBool,
    outage: AtomicBool,
    breakage: Option<Breakage>,
    began: Instant,
    trace: bool,
}

struct Node {
    jobs: Jobs,
    worker: Worker,
    cut: Arc<AtomicBool>,
    life: Arc<str>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) begins: u64,
    pub(crate) losses: u64,
    pub(crate) digest: u64,
    pub(crate) violations: Vec<String>,
}

/// Plays a world.
pub(crate) fn run(seed: u64, steps: u64, breakage: Option<Breakage>) -> Report {
    let trace = std::env::var_os("TRACE").is_some();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let now = move || START + began.elapsed().as_millis() as u64;
        let store = MemoryStore::with_clock(now);
        if let Some(breakage) = breakage {
            store.break_with(breakage);
        }
        let world = World {
            rng: Rng::new(seed),
            store,
            judge: Mutex::default(),
            faults: AtomicBool::new(true),
            outage: AtomicBool::new(false),
            breakage,
            began,
            trace,
        };
        let world = Arc::new(world);
        world.play(steps).await;
        let judge = world.judge();
        Report {
            seed,
            steps: judge.steps,
            begins: judge.begins,
            losses: judge.losses,
            digest: judge.digest(),
            violations: judge.violations.clone(),
        }
    })
}

impl World {
    pub(crate) fn now(&self) -> u64 {
        START + self.began.elapsed().as_millis() as u64
    }

    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap()
    }

    pub(crate) fn has_faults(&self) -> bool {
        self.faults.load(Ordering::SeqCst)
    }

    pub(crate) fn outage(&self) -> bool {
        self.outage.load(Ordering::SeqCst)
    }

    pub(crate) fn saw(&self, life: &str, word: &Word<'_>) {
        self.judge().after(self.now(), life, self.store.dump_without_lanes(), word);
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>7} {}", self.now() - START, what());
        }
    }

    fn is_over(&self) -> bool {
        !self.judge().violations.is_empty()
    }

    async fn join(self: &Arc<Self>, name: &str, life: u64) -> Option<Node> {
        let life: Arc<str> = format!("{name}.{life}").into();
        let cut = Arc::new(AtomicBool::new(false));
        let wire = Wire { world: self.clone(), life: life.clone(), cut: cut.clone() };
        let mut builder =
            queues().into_iter().fold(Jobs::over(Arc::new(wire)).name(name), tenure_jobs::JobsBuilder::queue);
        if let Some(breakage) = self.breakage {
            builder = builder.break_with(breakage);
        }
        // The wire may be cut.
        let jobs = builder.join().await.ok()?;
        self.judge().lives.insert(life.to_string());
        let (world, own) = (self.clone(), life.clone());
        let worker = jobs.worker_of(QUEUES, move |ctx: Ctx, work: Work| {
            let alive = Alive { id: ctx.id().to_string(), token: ctx.token().0, life: own.to_string() };
            handled(world.clone(), alive, ctx, work)
        });
        let worker = worker.slots(4).start().unwrap();
        Some(Node { jobs, worker, cut, life })
    }

    fn crash(&self, node: &Node) {
        self.say(|| format!("{} dies", node.life));
        self.judge().lives.remove(&*node.life);
        node.jobs.abandon();
    }

    async fn play(self: &Arc<Self>, steps: u64) {
        let wire = Wire { world: self.clone(), life: "client".into(), cut: Arc::default() };
        let client = queues()
            .into_iter()
            .fold(Jobs::over(Arc::new(wire)).name("client"), tenure_jobs::JobsBuilder::queue);
        self.faults.store(false, Ordering::SeqCst);
        let client = client.join().await.unwrap();
        self.faults.store(true, Ordering::SeqCst);
        let mut nodes: Vec<Option<Node>> = Vec::new();
        let mut lives = 0;
        for n in 0..NODES {
            lives += 1;
            nodes.push(self.join(&format!("n{n}"), lives).await);
        }
        for step in 0..steps {
            let at = self.rng.below(NODES as u64) as usize;
            match self.rng.below(40) {
                0..=22 => self.user(&client, step),
                23..=25 => self.steer(&client),
                26 | 27 => self.wait_for(&client),
                28 | 29 => {
                    if let Some(node) = nodes[at].take() {
                        self.crash(&node);
                    }
                }
                30 | 31 => {
                    if let Some(node) = &nodes[at] {
                        self.cut(node);
                    }
                }
                32 if self.rng.one_in(3) => {
                    self.say(|| "the store is away".to_owned());
                    self.outage.store(true, Ordering::SeqCst);
                    tokio::time::sleep(self.rng.ms(200, 9_000)).await;
                    self.outage.store(false, Ordering::SeqCst);
                }
                33 if self.rng.one_in(2) => self.lose(&nodes).await,
                34 => {
                    if let Some(node) = nodes[at].take() {
                        self.close(&node).await;
                    }
                }
                _ => {
                    for (n, node) in nodes.iter_mut().enumerate() {
                        if node.is_none() && self.rng.one_in(2) {
                            lives += 1;
                            self.say(|| format!("n{n}.{lives} comes"));
                            *node = self.join(&format!("n{n}"), lives).await;
                        }
                    }
                }
            }
            tokio::time::sleep(self.rng.ms(0, 250)).await;
            if self.is_over() {
                return;
            }
        }
        self.heal(&client, &mut nodes, lives).await;
    }

    /// All that is asked for comes to its end, and nothing is left.
    async fn heal(self: &Arc<Self>, client: &Jobs, nodes: &mut [Option<Node>], mut lives: u64) {
        self.say(|| "all is well".to_owned());
        self.faults.store(false, Ordering::SeqCst);
        for (n, node) in nodes.iter_mut().enumerate() {
            if let Some(node) = node {
                node.cut.store(false, Ordering::SeqCst);
            } else {
                lives += 1;
                *node = self.join(&format!("n{n}"), lives).await;
            }
        }
        let mut left = Vec::new();
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let paused: Vec<_> = {
                let judge = self.judge();
                let held = |job: &&tenure_jobs::Record| job.flags.contains('p');
                judge
                    .records()
                    .iter()
                    .filter(|(_, job)| held(job))
                    .map(|(id, _)| id.parse().unwrap())
                    .collect()
            };
            for id in paused {
                // It may have ended meanwhile.
                let _ = client.resume(&id).await;
            }
            left = self.store.dump_without_lanes().lines();
            let stays = ["meta ", "queues ", "waiting "];
            left.retain(|line| !stays.iter().any(|key| line.starts_with(key)));
            left.retain(|line| {
                !(line.starts_with("counts ")
                    && (line.ends_with(" = 0")
                        || ["done", "failed", "cancelled", "turn", "limit", "kind"]
                            .iter()
                            .any(|of| line.contains(&format!("|{of} = ")))))
            });
            if left.is_empty() || self.is_over() {
                return;
            }
        }
        let now = self.now();
        self.judge().object(now, format!("this is left: {left:#?}"));
    }

    fn user(self: &Arc<Self>, client: &Jobs, step: u64) {
        let acts = [
            Act::Quick,
            Act::Quick,
            Act::Slow,
            Act::Slow,
            Act::Fails,
            Act::Later,
            Act::Hangs,
            Act::Parent,
            Act::Parent,
            Act::MovesOn,
            Act::Checkpoints,
            Act::Limited,
        ];
        let work = Work { act: self.rng.of(&acts), n: self.rng.below(6) };
        let queue = self.rng.of(&["plain", "plain", "few", "groups", "groups", "bound"]);
        let unique = self.rng.of(&[Unique::Keep, Unique::Keep, Unique::Again, Unique::Replace]);
        let id = if unique == Unique::Keep { format!("j{step}") } else { format!("u{}", self.rng.below(4)) };
        let (group, priority) = (self.rng.of(&["t1", "t2"]), self.rng.of(&[0, 0, 3, -2]));
        let delay = self.rng.one_in(4).then(|| self.rng.ms(1, 4_000));
        let keep = self.rng.of(&[0, 0, 2]);
        let (world, client) = (self.clone(), client.clone());
        tokio::spawn(async move {
            let mut add = client.add(queue, &work).id(&id).group(group).priority(priority).unique(unique);
            if let Some(delay) = delay {
                add = add.delay(delay);
            }
            if keep > 0 {
                add = add.keep(Duration::from_secs(keep));
            }
            let added = add.await;
            world.say(|| format!("added {id} to {queue}: {work:?} {added:?}"));
            let now = world.now();
            let mut judge = world.judge();
            if let Ok(added) = added
                && added.how == How::New
                && !judge.seen.contains(&id)
            {
                judge.object(now, format!("{id} was added and is not there"));
            }
        });
    }

    fn some_job(&self) -> Option<tenure_jobs::JobId> {
        let judge = self.judge();
        let at = self.rng.below(judge.records().len() as u64) as usize;
        judge.records().keys().nth(at).map(|id| id.parse().unwrap())
    }

    fn steer(self: &Arc<Self>, client: &Jobs) {
        let Some(id) = self.some_job() else { return };
        let (world, client, how) = (self.clone(), client.clone(), self.rng.below(7));
        tokio::spawn(async move {
            let answer = match how {
                0 => client.cancel(&id, "enough").await.map(drop),
                1 => client.remove(&id).await,
                2 => client.pause(&id).await,
                3 => client.resume(&id).await,
                4 => client.replay(&id).await,
                5 => client.run_now(&id).await,
                _ => client.prioritize(&id, 5).await,
            };
            world.say(|| format!("steered {id} by {how}: {answer:?}"));
        });
    }

    /// Somebody waits for a job, and perhaps begins anew in the middle. As long as it waits, the job is there.
    fn wait_for(self: &Arc<Self>, client: &Jobs) {
        let Some(id) = self.some_job() else { return };
        let (world, client, again) = (self.clone(), client.clone(), self.rng.one_in(2));
        tokio::spawn(async move {
            let mut watch = client.watch(&id).await;
            if again && let Ok(first) = &mut watch {
                let _ = tokio::time::timeout(world.rng.ms(0, 2_000), first.ended()).await;
                drop(watch);
                tokio::time::sleep(world.rng.ms(0, 2)).await;
                watch = client.watch(&id).await;
            }
            // One that is not there when it begins may have ended before.
            let Ok(mut watch) = watch else { return };
            let losses = world.judge().losses;
            let Ok(ended) = tokio::time::timeout(Duration::from_secs(30), watch.ended()).await else {
                return;
            };
            world.say(|| format!("waited for {id}: {ended:?}"));
            let (now, mut judge) = (world.now(), world.judge());
            match ended {
                Ok(ended) if ended.state() == State::Done => {
                    if let Ok(token) = ended.result::<u64>()
                        && !judge.succeeded.contains(&(id.to_string(), token))
                    {
                        judge.object(now, format!("{id} has a result that no handler gave"));
                    }
                }
                Err(Error::NotFound(_)) if judge.losses == losses && !judge.steered.contains(id.as_str()) => {
                    judge.object(now, format!("{id} was waited for and has gone"));
                }
                _ => {}
            }
        });
    }

    fn cut(self: &Arc<Self>, node: &Node) {
        let (cut, time) = (node.cut.clone(), self.rng.ms(500, 9_000));
        self.say(|| format!("{} is cut off for {time:?}", node.life));
        cut.store(true, Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            cut.store(false, Ordering::SeqCst);
        });
    }

    async fn close(&self, node: &Node) {
        self.say(|| format!("{} is closed", node.life));
        let closed = node.worker.close(self.rng.ms(0, 3_000)).await;
        self.say(|| format!("{} was closed: {closed:?}", node.life));
        self.judge().closed.insert(node.life.to_string());
        tokio::time::sleep(self.rng.ms(0, 200)).await;
        self.crash(node);
    }

    /// The data are lost, or go back to those of a moment ago. Half the time nothing else is amiss meanwhile.
    async fn lose(&self, nodes: &[Option<Node>]) {
        let quiet = self.rng.one_in(2);
        let before: Option<Snapshot> = (!self.rng.one_in(3)).then(|| self.store.snapshot());
        tokio::time::sleep(self.rng.ms(0, 900)).await;
        if quiet {
            self.faults.store(false, Ordering::SeqCst);
            for node in nodes.iter().flatten() {
                node.cut.store(false, Ordering::SeqCst);
            }
        }
        // Executions that are sound: their leases are not about to end, by the store and by their nodes. A renewal that
        // came through without its answer is known to the store alone.
        let looked_at_after = Duration::from_millis(1_900);
        let ran: Vec<Alive> = {
            let (dump, now, judge) = (self.store.dump_without_lanes(), self.now(), self.judge());
            let sound = |one: &&Alive| {
                let until = dump.value("leases", &one.id).and_then(|at| at.parse::<u64>().ok());
                let job = judge.records().get(&one.id);
                let by_node =
                    nodes.iter().flatten().find(|node| *node.life == *one.life).is_some_and(|node| {
                        node.jobs.has_time(&JobId::new(&one.id).unwrap(), Token(one.token), looked_at_after)
                    });
                let valid = job.is_some_and(|job| job.token.0 == one.token && job.queue != "few");
                valid
                    && by_node
                    && until.is_some_and(|until| until > now + 2_000)
                    && judge.lives.contains(&one.life)
            };
            judge.handlers.iter().filter(sound).cloned().collect()
        };
        match &before {
            Some(before) => self.store.go_back(before),
            None => self.store.wipe(),
        }
        self.judge().lost(self.store.dump_without_lanes(), quiet);
        self.say(|| format!("data are lost: {}", if before.is_some() { "some" } else { "all" }));
        if !quiet {
            return;
        }
        tokio::time::sleep(looked_at_after).await;
        let now = self.now();
        let mut judge = self.judge();
        for alive in ran {
            let execution = (alive.id.clone(), alive.token);
            let goes_on = judge.handlers.contains(&alive);
            let runs = judge
                .records()
                .get(&alive.id)
                .is_some_and(|job| job.state == State::Running && job.token.0 == alive.token);
            if judge.steered.contains(&alive.id) {
                continue;
            }
            if goes_on && !runs {
                judge.object(now, format!("{alive:?} runs, and the data do not know it after their loss"));
            } else if !goes_on && !judge.returned.contains(&execution) {
                judge.object(now, format!("{alive:?} was ended by a loss of data"));
            }
        }
        drop(judge);
        self.faults.store(true, Ordering::SeqCst);
    }
}

/// A handler's life, for the judge.
struct Life {
    world: Arc<World>,
    alive: Alive,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.world.say(|| format!("  {:?} is gone", self.alive));
        self.world.judge().ends(&self.alive);
    }
}

async fn handled(world: Arc<World>, alive: Alive, ctx: Ctx, work: Work) -> Result<Outcome, BoxError> {
    world.say(|| format!("  {alive:?} begins: {work:?}"));
    world.judge().begins(world.now(), alive.clone());
    let life = Life { world: world.clone(), alive: alive.clone() };
    let made = work_on(&world, &ctx, work).await;
    world.say(|| format!("  {alive:?} has come to {made:?}"));
    world.judge().returned.insert((alive.id.clone(), alive.token));
    if made.is_ok() {
        world.judge().succeeded.insert((alive.id, alive.token));
    }
    drop(life);
    made
}

async fn work_on(world: &Arc<World>, ctx: &Ctx, work: Work) -> Result<Outcome, BoxError> {
    let Work { act, n } = work;
    match act {
        Act::Slow => tokio::time::sleep(Duration::from_millis(300 * n)).await,
        Act::Fails if u64::from(ctx.attempt()) <= n => return Err("not yet".into()),
        Act::Later if world.rng.one_in(2) => {
            return Ok(Outcome::later(Duration::from_millis(200 * n), "busy"));
        }
        Act::Limited if world.rng.one_in(2) => {
            let until = UNIX_EPOCH + Duration::from_millis(world.now() + 300 * n);
            return Ok(Outcome::limited_until(SystemTime::max(until, UNIX_EPOCH)));
        }
        Act::Hangs if ctx.attempt() == 1 => {
            let long = tokio::time::sleep(Duration::from_secs(10 * (n + 1)));
            if n > 2 {
                // It heeds its cancellation.
                tokio::select! {
                    biased;
                    () = ctx.cancelled() => return Err("cancelled".into()),
                    () = long => {}
                }
            } else {
                long.await;
            }
        }
        Act::MovesOn if *ctx.queue() == "plain" => return Ok(Outcome::go_on().to("next")),
        Act::Checkpoints => {
            for _ in 0..n {
                tokio::time::sleep(Duration::from_millis(150)).await;
                ctx.checkpoint(&work).await?;
            }
        }
        Act::Parent => {
            let Some(ends) = ctx.children().await? else {
                for child in 0..n {
                    let acts = [Act::Quick, Act::Slow, Act::Hangs, Act::Fails];
                    let own = Work { act: world.rng.of(&acts), n: child };
                    ctx.spawn(world.rng.of(&["plain", "few"]), &child.to_string(), &own).await?;
                }
                return Ok(Outcome::wait());
            };
            let mut ids: Vec<_> = ends.iter().map(|end| end.id.to_string()).collect();
            ids.dedup();
            // The data of a job that is added again may change between its runs.
            let many = ctx.id().as_str().starts_with('j') && ends.len() as u64 > n;
            if ids.len() != ends.len() || many {
                let now = world.now();
                world.judge().object(now, format!("{} has strange children: {ends:?}", ctx.id()));
            }
        }
        _ => {}
    }
    Ok(Outcome::result(&ctx.token().0)?)
}
