//! Every line that a guarantee rests on is left out once, and a test must notice. That is a scenario of the
//! conformance suite, the simulator, the model, a test of the core or a known failure. The tables are `scripts.rs` and `core.rs`.
//!
//! `MUTANT="words"` tries only the mutants whose name has the words, and lists everything that notices them.

mod core;
mod noticing;
mod scripts;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tenure_pool::Client;
use tenure_pool::store::RedisStore;
use tenure_protocol::model::id::PoolName;
use tenure_protocol::mutation::{Mutation, ScriptPatch};
use tenure_testing::mutants::{Missed, Mutant, Trial, hush, say};

use self::core::By;
use self::scripts::MUTANTS;
use crate::backend::{BROKEN, PATCHES};
use crate::lab::Kind;
use crate::{SUITES, Scenario};

const THREADS: usize = 6;

/// The scenarios that are likely to notice a broken script.
fn likely(script: &str) -> &'static [&'static str] {
    match script {
        "attest" | "attend" | "open_normal" => &["attesting", "attending", "recovery", "updating"],
        "update" => &["updating", "planning"],
        "ask" | "reply" => &["asking"],
        "raise_level" => &["levels"],
        "begin" | "started" => &["ownership", "attempts", "checkpoints"],
        "bootstrap" | "recover" => &["recovery"],
        "dispatch" => &["dispatching", "outcomes", "recovery", "planning"],
        "explain" => &["explaining", "damage"],
        "figures" => &["figures", "damage"],
        "history" | "note" => &["history"],
        "expire" | "join" | "settle" | "drain" | "renew" | "reap" => {
            &["membership", "attempts", "stopping", "levels"]
        }
        "drop_notifications" | "notifications" | "notify" | "take" => &["notifications"],
        "notify_or_start" => &["starting"],
        "save" => &["checkpoints"],
        "release" => &["release", "elsewhere", "attempts", "stopping"],
        "route" => &["routing"],
        "sched" | "term" | "tick" => &["planning"],
        "shutdown" | "purge" | "cleanup" => &["closing"],
        "stop" => &["stopping", "outcomes", "recovery", "planning"],
        "sweep" => &["repair"],
        "steer" => &["steering", "pausing"],
        "unpark" => &["parking"],
        _ => &["release", "elsewhere", "recovery", "notifications", "dispatching"],
    }
}

/// All scenarios, the likely ones first.
fn in_order(mutant: &Mutant) -> Vec<Scenario> {
    let likely = likely(mutant.file);
    let rank = |suite: &str| likely.iter().position(|name| *name == suite).unwrap_or(likely.len());
    let mut suites = SUITES.to_vec();
    suites.sort_by_key(|(suite, _)| rank(suite));
    let mut scenarios: Vec<_> = suites.iter().flat_map(|(_, all)| all.iter().copied()).collect();
    scenarios.sort_by_key(|(name, _)| *name != mutant.caught_by);
    scenarios
}

/// Plays a scenario on broken scripts. A scenario that also fails on whole scripts notices nothing.
fn trial(scenario: Scenario, patches: &'static [ScriptPatch]) -> Trial {
    match played(scenario, Kind::Redis, patches, None) {
        Trial::Fails => on_whole_scripts(scenario),
        other => other,
    }
}

/// Mutants share scenarios. A scenario runs on whole scripts until a run has passed.
fn on_whole_scripts(scenario: Scenario) -> Trial {
    static PASSED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if PASSED.lock().unwrap().contains(scenario.0) {
        return Trial::Fails;
    }
    match played(scenario, Kind::Redis, &[], None) {
        Trial::Passes => {
            PASSED.lock().unwrap().insert(scenario.0);
            Trial::Fails
        }
        Trial::Fails => {
            say(&format!("{} fails on whole scripts, too", scenario.0));
            Trial::Passes
        }
        Trial::TakesTooLong => Trial::TakesTooLong,
    }
}

/// The same with a store in memory that leaves out a line.
fn notices_in_memory(scenario: Scenario, broken: Mutation) -> bool {
    let is_whole = || played(scenario, Kind::Memory, &[], None) == Trial::Passes;
    played(scenario, Kind::Memory, &[], Some(broken)) == Trial::Fails && is_whole()
}

fn scenario(name: &str) -> Option<Scenario> {
    SUITES.iter().flat_map(|(_, all)| *all).find(|scenario| scenario.0 == name).copied()
}

fn played(
    scenario: Scenario,
    kind: Kind,
    patches: &'static [ScriptPatch],
    broken: Option<Mutation>,
) -> Trial {
    Trial::of(move || {
        PATCHES.set(patches);
        BROKEN.set(broken);
        (scenario.1)(kind)
    })
}

/// Each text to break must be in its script. If it is not, opening the store panics, and that looks like a scenario
/// that notices something.
fn every_line_stands_in_its_script() {
    let client = Client::open("redis://127.0.0.1:1").unwrap();
    let pool = PoolName::new("mutants").unwrap();
    // A store begins to follow its pool's maps when it is opened.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    for mutant in MUTANTS {
        drop(RedisStore::open_patched(&client, &pool, true, patches(mutant)));
    }
}

/// The broken line, for the rest of this process.
fn patches(mutant: &Mutant) -> &'static [ScriptPatch] {
    Vec::leak(vec![ScriptPatch { script: mutant.file, from: mutant.from, to: mutant.to }])
}

#[test]
fn mutants_of_scripts_are_caught() {
    every_line_stands_in_its_script();
    hush();
    let began = Instant::now();
    let wanted = std::env::var("MUTANT").ok();
    let tried: Vec<_> = MUTANTS
        .iter()
        .filter(|mutant| wanted.as_ref().is_none_or(|words| mutant.what.contains(words)))
        .collect();
    let queue = Mutex::new(tried.iter());
    let (missed, caught) = (Missed::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(mutant) = queue.lock().unwrap().next() else { break };
                    let (mut names, mut is_late, patches) = (Vec::new(), false, patches(mutant));
                    for scenario in in_order(mutant) {
                        match trial(scenario, patches) {
                            Trial::Fails => names.push(scenario.0),
                            Trial::TakesTooLong => is_late = true,
                            Trial::Passes => {}
                        }
                        if !names.is_empty() && wanted.is_none() {
                            break;
                        }
                    }
                    say(&format!("{:<50} {}", mutant.what, names.join(" ")));
                    if names.is_empty() {
                        missed.add(mutant.what, is_late);
                    } else {
                        caught.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (caught, seconds) = (caught.into_inner(), began.elapsed().as_secs_f32());
    say(&format!("caught {caught} of {} in {seconds:.0} s", tried.len()));
    missed.assert_none();
}

#[test]
fn mutants_of_the_core_are_caught() {
    hush();
    let began = Instant::now();
    let wanted = std::env::var("MUTANT").ok();
    let is_wanted =
        |mutation: Mutation| wanted.as_ref().is_none_or(|words| format!("{mutation:?}").contains(words));
    let queue = Mutex::new(core::MUTANTS.iter().filter(|(mutation, _)| is_wanted(*mutation)));
    let found = Mutex::new((0, 0, Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(&(mutation, by)) = queue.lock().unwrap().next() else { break };
                    let noticed = noticing::noticed(mutation, by);
                    let name = format!("{mutation:?}");
                    say(&format!("{name:<25} {}", noticed.as_deref().unwrap_or("SURVIVES")));
                    let (caught, named, survivors) = &mut *found.lock().unwrap();
                    match noticed {
                        Some(_) if matches!(by, By::Scenario(_)) => *caught += 1,
                        Some(_) => *named += 1,
                        None => survivors.push((mutation, by)),
                    }
                }
            });
        }
    });
    let (caught, named, survivors) = found.into_inner().unwrap();
    let (of, seconds) = (caught + named + survivors.len(), began.elapsed().as_secs_f32());
    say(&format!(
        "caught {caught} of {of} in {seconds:.0} s, and {named} by tests of their own, which are there"
    ));
    assert!(survivors.is_empty(), "these survive: {survivors:?}");
}

#[test]
fn mutants_of_the_core_are_all_in_the_table() {
    let mut table: Vec<_> = core::MUTANTS.iter().map(|(mutation, _)| format!("{mutation:?}")).collect();
    let mut all = noticing::all();
    // It leaves out nothing that a guarantee rests on.
    all.retain(|name| name != "NothingPlaced");
    table.sort();
    all.sort();
    assert!(all.len() > 20, "{all:?}");
    assert_eq!(table, all);
}
