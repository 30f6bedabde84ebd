//! Hostile data: the keys of a living pool, or of a set of background jobs, are damaged beside a neighbour on the same server, and
//! judged from outside.
//!
//! `kind.rs` is what can be damaged, `inflict.rs` does it, `world.rs` holds the two pools, and `verdict.rs` says what must
//! not be. `set.rs` has the sets. A run has rounds, each with a server and two neighbours of its own, and a few kinds of damage.

mod inflict;
mod kind;
mod set;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use tenure_pool::Node;
use tenure_testing::history::boottime_ns;
use tenure_testing::{RedisServer, within};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use inflict::{Touched, Wound, deletion_of};
pub use kind::{Choice, Kind, Manner, Shape, Target, all, chosen};
pub use verdict::{Evidence, Finding, WRONGS, Worked, Wrong, judge, rests, running, touched};

use crate::Result;
use inflict::Poisoner;
use world::{NEIGHBOUR, POOL, Side, of_server};

/// Kinds of damage in one round: few, so that a finding tells what it came from.
const KINDS: usize = 4;
/// How long a round damages, and how often.
const DAMAGE: Duration = Duration::from_secs(8);
const EVERY_MS: std::ops::Range<u64> = 100..400;
/// How long the server may be blocked when a person puts things right.
const HEALED: Duration = Duration::from_secs(60);
/// The longest time after the damage until each untouched job runs. A record that cannot be read is tried again after a
/// minute, and no other job waits for it.
const REST: Duration = Duration::from_secs(45);
/// The longest time after the last call until each job has one handler at the same moment.
const SETTLED: Duration = Duration::from_secs(10);
/// Jobs of the damaged pool, and of its neighbour.
const KEYS: usize = 40;
const NEIGHBOURS: usize = 20;
/// Jobs that come and go meanwhile.
const CHURN: usize = 10;
/// The longest time of each of their calls.
const CALL: Duration = Duration::from_secs(1);

/// The settings of a run.
#[derive(Clone, Debug, clap::Args)]
pub struct PoisonPlan {
    /// The length of the run; the last round is played to its end.
    #[arg(long = "minutes", value_name = "MINUTES", value_parser = crate::cli::minutes, default_value = "10")]
    pub time: Duration,
    /// The seed of the damage; random by default.
    #[arg(long, default_value_t = rand::random(), hide_default_value = true)]
    pub seed: u64,
    /// The target of the damage.
    #[arg(long = "of", value_name = "OF", value_enum, default_value_t)]
    pub target: Target,
    /// Only this damage: a key (jobs), a manner (mutate, lose, stray, mistype, delete), or both (jobs-lose).
    #[arg(long)]
    pub only: Vec<Choice>,
    /// Damages nothing, and stops jobs unseen: the judges must find it. The conductor itself stops a job of each pool, or a
    /// queue of one set and a job of the other.
    #[arg(long)]
    pub control: bool,
}

/// Runs round after round, and returns the findings. The last line that it prints is the verdict as JSON.
///
/// # Errors
/// A round cannot be executed.
///
/// # Cancel safety
/// All processes end when the future is dropped.
pub async fn run(plan: &PoisonPlan, say: fn(&str)) -> Result<Vec<String>> {
    count_panics();
    let mut kinds = chosen(plan.target, &plan.only);
    if kinds.is_empty() {
        return Err("nothing of that kind can be damaged there".into());
    }
    let dir = tempfile::Builder::new().prefix("tenure-poison.").tempdir()?.keep();
    say(&format!("seed {}; histories and logs: {}", plan.seed, dir.display()));
    let mut random = StdRng::seed_from_u64(plan.seed);
    let (began, mut round, mut wounds) = (Instant::now(), 0, 0);
    let (mut complaints, mut counts) = (Vec::new(), BTreeMap::new());
    // Every kind has its turn before one comes again.
    let mut turn: Vec<Kind> = Vec::new();
    while round == 0 || (began.elapsed() < plan.time && !plan.control) {
        round += 1;
        if turn.is_empty() {
            kinds.shuffle(&mut random);
            turn.clone_from(&kinds);
        }
        let here = turn.split_off(turn.len().saturating_sub(KINDS));
        let kinds_of_round: Vec<_> = here.iter().map(ToString::to_string).collect();
        let of_round = dir.join(format!("round-{round}"));
        let random = StdRng::from_rng(&mut random);
        let Round { wounds: here, found, told } = match plan.target {
            Target::Pool => of_pools(play(&of_round, &here, plan.control, random).await?),
            Target::Set => set::play(&of_round, &here, plan.control, random).await?,
        };
        wounds += here.len();
        say(&line(round, &kinds_of_round, &told, &found));
        for finding in &found {
            *counts.entry(finding.wrong).or_insert(0_usize) += 1;
            complaints.push(format!("round {round}: {finding}"));
        }
        if found.is_empty() {
            std::fs::remove_dir_all(&of_round)?;
        } else {
            for wound in &here {
                say(&format!("  {wound}"));
            }
            for finding in &found {
                say(&format!("  FOUND {finding}"));
            }
        }
    }
    if complaints.is_empty() {
        std::fs::remove_dir_all(&dir)?;
    } else {
        say(&format!("run it again with seed {}; histories and logs are in {}", plan.seed, dir.display()));
    }
    let mut verdict = serde_json::Map::new();
    for (wrong, name) in WRONGS {
        verdict.insert(name.into(), counts.get(&wrong).copied().unwrap_or_default().into());
    }
    verdict.insert("rounds".into(), round.into());
    verdict.insert("wounds".into(), wounds.into());
    verdict.insert("seed".into(), plan.seed.into());
    say(&serde_json::Value::from(verdict).to_string());
    Ok(complaints)
}

/// The outcome of a round.
struct Round {
    wounds: Vec<Wound>,
    found: Vec<Finding>,
    /// A few words about its course.
    told: String,
}

fn of_pools(evidence: Evidence) -> Round {
    let found = judge(&evidence);
    let harmed = touched(&evidence.wounds, &evidence.keys);
    let told = format!(
        "{} wounds to {} of {} jobs; {}",
        evidence.wounds.len(),
        harmed.iter().filter(|key| evidence.keys.contains(key)).count(),
        evidence.keys.len(),
        used_words(&evidence.processes, evidence.watched)
    );
    Round { wounds: evidence.wounds, found, told }
}

/// The use of processes in this time, in words.
fn used_words(processes: &[Worked], watched: Duration) -> String {
    let lines = processes.iter().map(|process| process.lines).max().unwrap_or_default();
    let busy = processes.iter().map(|process| process.busy).max().unwrap_or_default();
    let (watched, busy) = (watched.as_secs_f64(), busy.as_secs_f64());
    format!("watched for {watched:.0} s, at most {lines} log lines and {busy:.1} s of a core")
}

fn line(round: usize, kinds: &[String], told: &str, found: &[Finding]) -> String {
    let end = if found.is_empty() { "all is well".to_owned() } else { format!("{} findings", found.len()) };
    format!("round {round}: {}: {told}; {end}", kinds.join(" "))
}

/// One round: two pools, damage to one of them, rest, and what came of it.
async fn play(dir: &Path, kinds: &[Kind], control: bool, mut random: StdRng) -> Result<Evidence> {
    std::fs::create_dir_all(dir)?;
    let redis = RedisServer::builder().append_only().start()?;
    let (mut pool, mut neighbour) = futures::future::try_join(
        Side::start(&redis, dir, POOL, 2_000, 3, KEYS),
        // Nothing but the server can make its leases run out.
        Side::start(&redis, dir, NEIGHBOUR, 10_000, 2, NEIGHBOURS),
    )
    .await?;
    let (began, began_at, panics) = (Instant::now(), boottime_ns(), PANICS.load(Ordering::Relaxed));
    let before = used(&redis, &mut pool, &mut neighbour);
    let churn = churn(pool.caller.clone(), StdRng::from_rng(&mut random));
    // One node dies on the way in half of the rounds: what is damaged is then needed.
    let dies = random.random_bool(0.5).then(|| random.random_range(0..pool.nodes.len()));
    let mut poisoner = Poisoner::new(&redis, Target::Pool, POOL, StdRng::from_rng(&mut random));
    if control {
        let (ours, theirs) = (pool.keys[0].clone(), neighbour.keys[0].clone());
        pool.caller.stop_job(&*ours).until_stopped().await?;
        neighbour.caller.stop_job(&*theirs).until_stopped().await?;
    } else {
        let mut alive = true;
        while began.elapsed() < DAMAGE {
            if let Some(kind) = kinds.choose(&mut random) {
                // A server that is blocked does not answer: that shows in the end.
                drop(poisoner.strike(*kind));
            }
            let again: Vec<_> = touched(&poisoner.wounds, &pool.keys).into_iter().collect();
            if let Some(key) = again.choose(&mut random).filter(|key| pool.keys.contains(key)) {
                let job = tenure_pool::JobSpec::new(key.as_str(), &b"payload"[..]);
                drop(tokio::time::timeout(CALL, pool.caller.ensure(job).deadline(CALL)).await);
            }
            if let Some(place) = dies.filter(|_| alive && began.elapsed() > DAMAGE / 2) {
                alive = false;
                pool.kill(place).await?;
                pool.add_node()?;
            }
            sleep(Duration::from_millis(random.random_range(EVERY_MS))).await;
        }
    }
    within(HEALED, "the damage to be put right", async || poisoner.put_right(true)).await?;
    churn.abort();
    let wounds = std::mem::take(&mut poisoner.wounds);
    let harmed = touched(&wounds, &pool.keys);
    let sound: Vec<_> = pool.keys.iter().filter(|key| !harmed.contains(*key)).cloned().collect();
    let limit = if control { SETTLED } else { REST };
    // The judges find the jobs that do not come to rest.
    let _ = within(limit, "those that were not touched", async || pool.all_run(&sound).is_ok_and(|all| all))
        .await;
    if !control {
        pool.ensure(&pool.keys).await;
    }
    let at_rest = async || pool.entries().ok().filter(|entries| rests(entries, &pool.keys, &sound));
    let limit = if control { Duration::ZERO } else { SETTLED };
    let entries = match within(limit, "each job to have one handler", at_rest).await {
        Ok(entries) => entries,
        Err(_) => pool.entries()?,
    };
    let mut processes = used(&redis, &mut pool, &mut neighbour);
    for process in &mut processes {
        if let Some(before) = before.iter().find(|before| before.name == process.name) {
            process.busy = process.busy.saturating_sub(before.busy);
            process.lines -= before.lines.min(process.lines);
        }
    }
    let evidence = Evidence {
        wounds,
        watched: began.elapsed(),
        processes,
        panics: PANICS.load(Ordering::Relaxed) - panics,
        pool: entries,
        neighbour: neighbour.entries()?,
        keys: pool.keys.clone(),
        neighbour_keys: neighbour.keys.clone(),
        began: began_at,
        stale_accepted: pool.stale_accepted() + neighbour.stale_accepted(),
    };
    pool.end().await?;
    neighbour.end().await?;
    Ok(evidence)
}

/// The use of the server and of all nodes so far.
fn used(redis: &RedisServer, pool: &mut Side, neighbour: &mut Side) -> Vec<Worked> {
    let mut all = vec![of_server(redis)];
    all.extend(pool.all_worked());
    all.extend(neighbour.all_worked());
    all
}

/// Dispatches, notifies and stops jobs, and ignores the answers.
fn churn(caller: Node, mut random: StdRng) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let key = format!("churn-{}", random.random_range(0..CHURN));
            match random.random_range(0..4) {
                0 => drop(tokio::time::timeout(CALL, caller.stop_job(&*key).deadline(CALL)).await),
                1 => drop(
                    tokio::time::timeout(CALL, caller.submit((&*key, &b"payload"[..])).deadline(CALL)).await,
                ),
                _ => drop(tokio::time::timeout(CALL, caller.notify(&*key, "1")).await),
            }
            sleep(Duration::from_millis(random.random_range(20..80))).await;
        }
    })
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts the panics of the conductor's own tasks, which end no process.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            hook(info);
        }));
    });
}
