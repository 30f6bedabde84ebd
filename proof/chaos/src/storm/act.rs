//! One pool's life: it is created, its users call during faults, it comes to rest, is shut down and judged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use redis::cmd;
use tenure_pool::inspect::MemberState;
use tenure_pool::{BoxError, JobInfo, JobState, Node, Plan, Tick};
use tenure_testing::history::{Entry, Event, Expect, Fault, History, Report, boottime_ns, check};
use tenure_testing::{describe, within};
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::sleep;

use super::arena::{Arena, Ground, NODES, USERS};
use super::books::Told;
use super::excuse::Losses;
use super::fault::{self, Scene};
use super::nemesis::Nemesis;
use super::states::gone_back;
use super::steered::STOPS;
use super::users::Users;
use super::verdict::{Calls, Outcome};
use super::{asks, payloads, steered};
use crate::Result;
use crate::bounds::read;
use crate::broken::{Broken, ENOUGH};
use crate::cli::named;
use crate::node::PoolPlan;
use crate::resource::Resource;

const POOL: &str = "chaos";
/// The number of concurrent users.
const CALLERS: usize = 12;
/// The longest time for the beginning, and for the end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which the pool must come to rest, so that losses show.
const REST_EVERY: Duration = Duration::from_secs(60);
/// The time within which every running job acts, even on a busy machine.
const ACTED: Duration = Duration::from_secs(1);
/// The interval between two ticks of a schedule.
const TICK: Duration = Duration::from_millis(500);
/// The time for which a loss of data may show in answers.
const AFTERMATH_NS: u64 = 30_000_000_000;

/// The settings of an act.
pub(super) struct Act {
    pub(super) scene: Scene,
    pub(super) time: Duration,
    pub(super) keys: usize,
    pub(super) seed: u64,
    /// The only faults, if any are chosen.
    pub(super) only: Vec<fault::Fault>,
    pub(super) dir: PathBuf,
    pub(super) broken: Option<Broken>,
}

impl Act {
    /// Plays the act, and asks the judges.
    pub(super) async fn play(&self, say: fn(&str)) -> Result<Outcome> {
        std::fs::create_dir_all(&self.dir)?;
        let scene = self.scene;
        let pool = PoolPlan {
            pool: POOL.into(),
            ttl_ms: scene.ttl().as_millis() as u64,
            join_settle_ms: 300,
            stable_after_ms: 200,
            max_queued: 100_000,
            assign_ms: scene.assign().as_millis() as u64,
            // The scene is about begins that are late.
            grants: scene != Scene::LateStarts,
            stop_ms: Some(STOPS.as_millis() as u64),
            broken: self.broken,
        };
        let mut random = StdRng::seed_from_u64(self.seed);
        let ground =
            if scene == Scene::Sentinels { Ground::sentinels().await? } else { Ground::one().await? };
        let resource = Resource::start().await?;
        let watcher = pool.whole().node(&ground.plain_url(), "watcher")?.assume_fresh(true).join().await?;
        let mut nemesis = Nemesis::new(scene, &self.only, StdRng::from_rng(&mut random), POOL, self.keys);
        let mut arena = Arena::new(ground, pool.clone(), resource.address(), self.dir.clone())?;
        for place in 0..NODES {
            arena.start(place)?;
        }
        all_ready(&mut arena).await?;
        let mut nodes = Vec::new();
        for user in 0..USERS {
            let plan =
                if self.broken.is_some_and(Broken::is_of_askers) { pool.clone() } else { pool.whole() };
            let builder = plan.node(&arena.ground.url(NODES + user), &format!("user-{user}"))?;
            // One of them also routes.
            let builder = if user == 0 { builder } else { builder.client_only() };
            nodes.push(builder.join().await?);
        }
        let history = History::append_to(self.dir.join("users.history"))?;
        let mut users = Users::start(&nodes, CALLERS, self.keys, history, &mut random);

        let mut ticker = None;
        if scene == Scene::Everything {
            // They change nothing, and take the steps that jobs do not.
            let nothing = |_: Tick| async { Ok::<_, BoxError>(Plan::exactly([])) };
            nodes[0].schedule("nothing", nothing, TICK).await?;
            ticker = Some(nodes[1].ticker("nothing", TICK).await?);
        }
        say(&format!(
            "{}: {} s, {} keys, a time to live of {} s",
            named(&scene),
            self.time.as_secs(),
            self.keys,
            scene.ttl().as_secs()
        ));
        let (began, mut rested) = (Instant::now(), Instant::now());
        if scene == Scene::Crashes {
            rest(&mut arena, &mut users, &watcher, &resource).await?;
        }
        while began.elapsed() < self.time {
            nemesis.strike(&mut arena, &watcher, &nodes[0]).await?;
            // A control ends as soon as its fault is found often enough. The last line of a file may not be complete yet, and
            // files are read in turn. Only entries older than a second are in all files.
            if let Some(broken) = self.broken {
                let complete = boottime_ns().saturating_sub(COMPLETE_NS);
                if self.report(complete).is_ok_and(|found| is_found(broken, &found)) {
                    break;
                }
            }
            if self.broken.is_none() && (rested.elapsed() > REST_EVERY || scene == Scene::Crashes) {
                rest(&mut arena, &mut users, &watcher, &resource).await?;
                rested = Instant::now();
            }
        }
        let mut strange = Vec::new();
        let (silence, end, running) = if self.broken.is_none() {
            let Rest { silence, at, running } = rest(&mut arena, &mut users, &watcher, &resource).await?;
            strange.extend(shut_down(&mut arena, &nodes[0]).await?);
            (silence, at, running)
        } else {
            (users.silence().await, boottime_ns(), BTreeMap::new())
        };
        if !users.all_live() {
            strange.push("a user has ended".to_owned());
        }
        let told = users.strange();
        drop(users);
        drop(ticker);
        drop(silence);
        for node in nodes {
            node.abandon();
        }
        watcher.abandon();
        for place in 0..NODES {
            if let Some(mut node) = arena.take(place) {
                arena.kill(&mut node).await?;
            }
        }
        strange.append(&mut arena.strange);
        let outcome = self.judge(end, &running, strange, told, nemesis, &resource)?;
        Ok(Outcome { lost_replies: arena.lost_replies(), ..outcome })
    }

    /// The histories until `end`, and the checker's report on them.
    fn report(&self, end: u64) -> Result<(Vec<Entry>, Report)> {
        let history = History::new();
        // Events after the end belong to the shutdown.
        let entries = read(&self.dir)?.entries().into_iter().filter(|entry| entry.at <= end);
        entries.for_each(|Entry { at, event, .. }| history.record_at(at, event));
        let lease = Some(self.scene.ttl() * 4 / 5);
        let running_at_end = self.broken.is_none();
        let expect = Expect {
            lease,
            grace: self.grace(),
            running_at_end,
            endless: true,
            running_survives_loss: RUNNING_SURVIVES,
            outage: self.grace(),
            // It does not matter how long a broken pool leaves a key alone.
            longest_gap: running_at_end.then(|| self.scene.longest_gap()),
        };
        let (entries, mut report) = (history.entries(), check(&history, &expect));
        let longest = self.scene.longest_gap();
        report.faults.retain(|fault| match fault {
            Fault::LongGap(gap) => !steered::is_excused((gap.from, gap.to), longest, &entries),
            _ => true,
        });
        Ok((entries, report))
    }

    fn judge(
        &self,
        end: u64,
        running: &BTreeMap<String, u64>,
        mut strange: Vec<String>,
        told: Vec<Told>,
        nemesis: Nemesis,
        resource: &Resource,
    ) -> Result<Outcome> {
        let (entries, report) = self.report(end)?;
        let losses = Losses::of(&entries);
        let moments = losses.moments();
        strange.extend(told.into_iter().filter(|told| !is_excused(told, &moments)).map(|told| told.what));
        strange.extend(gone_back(&entries, &moments, AFTERMATH_NS));
        strange.extend(asks::broken_promises(&entries, &losses, self.grace()));
        if self.broken.is_none() {
            strange.extend(payloads::former(&entries, &losses, self.scene.longest_gap()));
            strange.extend(steered::unwanted(&entries));
            strange.extend(without_handler(&entries, running));
        }
        Ok(Outcome {
            crashes: self.scene == Scene::Crashes,
            report,
            occurrences: nemesis.occurrences,
            outside: resource.ledger().counts(),
            calls: Calls::of(&entries),
            lost_replies: BTreeMap::new(),
            strange,
        })
    }

    /// How long after a pause, and after a short outage, handlers may still act.
    fn grace(&self) -> Duration {
        self.scene.ttl() / 5
    }
}

/// The files of all histories have each event that is older.
const COMPLETE_NS: u64 = 1_000_000_000;
/// Whether a job that runs through a loss of data must outlive it.
const RUNNING_SURVIVES: bool = true;

/// Whether the fault of a broken pool shows often enough.
fn is_found(broken: Broken, (entries, report): &(Vec<Entry>, Report)) -> bool {
    let times = if broken.is_of_askers() {
        asks::handed_twice_in_all(entries, &Losses::of(entries))
    } else {
        report.faults.iter().filter(|fault| matches!(fault, Fault::Overlap { .. })).count()
    };
    times >= ENOUGH
}

/// Whether a loss of data excuses the answer: a wrong one soon after it, but never a missing one.
fn is_excused(told: &Told, losses: &[u64]) -> bool {
    !told.silent && losses.iter().any(|&lost| lost <= told.at && told.at <= lost + AFTERMATH_NS)
}

async fn all_ready(arena: &mut Arena) -> Result<()> {
    for place in arena.empty() {
        arena.start(place)?;
    }
    let all_ready = async || arena.ready_from(0).len() == NODES;
    Ok(within(PATIENCE, "all nodes to be ready", all_ready).await?)
}

/// The pool at rest.
struct Rest {
    /// Nobody calls while this lives.
    silence: OwnedRwLockWriteGuard<()>,
    /// The moment.
    at: u64,
    /// The jobs and their tokens.
    running: BTreeMap<String, u64>,
}

/// Waits until all calls are answered and all jobs run, and records that. A pool that never comes to rest is a fault.
async fn rest(arena: &mut Arena, users: &mut Users, watcher: &Node, resource: &Resource) -> Result<Rest> {
    let silence = users.silence().await;
    arena.look_for_the_dead();
    all_ready(arena).await?;
    let (at, running) = match at_rest(watcher, arena, resource).await {
        Ok(rest) => rest,
        Err(unrest) => {
            arena.strange.push(unrest);
            (boottime_ns(), BTreeMap::new())
        }
    };
    arena.history.record_at(at, Event::Settled);
    arena.strange.append(&mut users.ask_all(&running).await);
    arena.strange.append(&mut users.try_all().await);
    Ok(Rest { silence, at, running })
}

/// Waits until every job is run by a live worker, and no notification waits. After a timeout it returns the missing
/// condition. Each job acts before and after the moment, so that none was just being moved.
async fn at_rest(
    watcher: &Node,
    arena: &Arena,
    resource: &Resource,
) -> std::result::Result<(u64, BTreeMap<String, u64>), String> {
    let rest = within(PATIENCE, "the pool to be at rest", async || {
        let running = running(watcher, arena).await?;
        // All have acted since they began.
        sleep(ACTED).await;
        let at = boottime_ns();
        sleep(ACTED).await;
        let ledger = resource.ledger();
        match running.iter().find(|(key, token)| !ledger.wrote_around(key, **token, at)) {
            None => Ok((at, running)),
            Some((key, token)) => Err(format!("{key} is said to run under token {token}, and does not act")),
        }
    });
    rest.await.map_err(|late| late.to_string())
}

/// All jobs and their tokens, if each is run by a live worker and no notification waits; otherwise the missing
/// condition.
async fn running(watcher: &Node, arena: &Arena) -> std::result::Result<BTreeMap<String, u64>, String> {
    let unread = |error| format!("the pool cannot be read: {}", describe(&error));
    let workers = watcher.inspect().workers().await.map_err(unread)?;
    let up = workers.iter().filter(|worker| worker.state == MemberState::Up);
    let up: BTreeSet<_> = up.map(|worker| worker.id).collect();
    let jobs = watcher.inspect().jobs().await.map_err(unread)?;
    let runs =
        |job: &JobInfo| job.state == JobState::Running && job.owner.is_some_and(|owner| up.contains(&owner));
    let waiting = format!("tenure:{{{POOL}}}:notifications");
    let server = arena.ground.server().await.map_err(|error| describe(&*error))?;
    let waits: u64 = server.query(cmd("EXISTS").arg(&waiting)).map_err(|error| describe(&error))?;
    let idle: Vec<&JobInfo> = jobs.iter().filter(|job| !runs(job)).collect();
    if let Some(first) = idle.first() {
        let (key, state, count) = (&first.key, first.state, idle.len());
        return Err(format!("{key} is {state:?}, owned by {:?}, and {count} jobs do not run", first.owner));
    }
    if waits != 0 {
        return Err("notifications wait".to_owned());
    }
    Ok(jobs.iter().map(|job| (job.key.to_string(), job.token.0)).collect())
}

/// Shuts the pool down. Returns the leftovers that must not exist.
async fn shut_down(arena: &mut Arena, user: &Node) -> Result<Vec<String>> {
    let mut strange = Vec::new();
    let report = user.operate().shutdown().within(PATIENCE).await?;
    if !report.complete {
        strange.push(format!("the pool was not shut down within {} s: {report:?}", PATIENCE.as_secs()));
    }
    let ended = within(PATIENCE, "the nodes to end", async || arena.all_ended());
    strange.extend(ended.await.err().map(|error| error.to_string()));
    let prefix = format!("tenure:{{{POOL}}}:");
    let server = arena.ground.server().await?;
    for key in server.keys()? {
        let Some(name) = key.strip_prefix(&prefix).filter(|&name| name != "pool") else { continue };
        // The stream of a killed node expires by itself.
        let goes = name.starts_with("node:") && server.query::<i64>(cmd("PTTL").arg(&key))? != -1;
        if !goes {
            strange.push(format!("{key} is left after the shutdown"));
        }
    }
    Ok(strange)
}

/// The jobs that run according to the pool, but that no handler runs under that token.
fn without_handler(entries: &[Entry], running: &BTreeMap<String, u64>) -> Vec<String> {
    let mut live: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    for entry in entries {
        match &entry.event {
            Event::Started { key, token, worker } => {
                live.insert((key, *token), worker);
            }
            Event::Stopped { key, token, .. } => {
                live.remove(&(&**key, *token));
            }
            Event::WorkerDead { worker } => live.retain(|_, runner| *runner != worker),
            _ => {}
        }
    }
    let lonely = running.iter().filter(|(key, token)| !live.contains_key(&(&***key, **token)));
    lonely
        .map(|(key, token)| format!("{key}: said to run under token {token}, and no handler does"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_data_excuses_a_wrong_answer_but_no_missing_one() {
        let told = |at, silent| Told { at, what: String::new(), silent };
        let losses = [10, 2 * AFTERMATH_NS];
        for at in [10, 10 + AFTERMATH_NS, 3 * AFTERMATH_NS] {
            assert!(is_excused(&told(at, false), &losses), "{at}");
            assert!(!is_excused(&told(at, true), &losses), "{at}");
        }
        for at in [9, 11 + AFTERMATH_NS] {
            assert!(!is_excused(&told(at, false), &losses), "{at}");
        }
    }
}
