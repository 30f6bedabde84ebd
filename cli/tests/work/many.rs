//! Many keys at once.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tenure_pool::JobSpec;

use super::processes::Sleepers;
use super::world::{PATIENCE, SCRIPT, World};

/// Prints how long it takes, and fails on its bound.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a check of speed: run it alone, with --release"]
async fn a_thousand_keys_run_as_processes_within_20_seconds() {
    const KEYS: usize = 1_000;
    const BOUND: Duration = Duration::from_secs(20);
    let (world, worker) = World::with_worker("w", ["--logs", "prefix"].iter().chain(&SCRIPT)).await;
    let sleepers = Sleepers::new();
    let sleep = sleepers.sleep();
    let begun = Instant::now();
    let jobs = (0..KEYS).map(move |number| JobSpec::new(format!("key-{number}"), format!("exec {sleep}")));
    let started: Vec<_> = world.node.dispatch_many(jobs).deadline(PATIENCE).await;
    assert!(started.iter().all(Result::is_ok));
    let took = begun.elapsed();
    println!("{KEYS} keys run after {took:?}");
    assert!(took < BOUND, "{KEYS} keys took {took:?}");
    assert_eq!(sleepers.alive().len(), KEYS);
    let keepers = futures::stream::iter(worker.keepers());
    let memory: Vec<u64> = keepers.filter_map(async |keeper| pss(keeper.as_raw_pid())).collect().await;
    println!("a keeper has {} KiB (PSS)", memory.iter().sum::<u64>() / memory.len() as u64);
    let begun = Instant::now();
    worker.leave().await;
    println!("they have ended after {:?}", begun.elapsed());
    assert_eq!(sleepers.alive(), []);
}

fn pss(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pss:"))?.split_whitespace().next()?.parse().ok()
}
