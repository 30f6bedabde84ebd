//! The cost of an idle pool: a few commands between two renewals, and none for the jobs that it holds. The benchmark
//! `idle` is the full version, with 100,000 jobs and over a minute.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tenure_testing::RedisServer;

use crate::world::{PATIENCE, World, until};

const NODES: [&str; 2] = ["a", "b"];
const WORKERS: usize = 2;
const RENEWALS: usize = 5;
const JOBS: usize = 2_000;

/// The commands that clients send, by kind, between the first and the last of this many renewals on each node.
/// Commands inside scripts are not counted, but they show the renewals.
fn commands_within(socket: &Path, renewals: usize) -> BTreeMap<String, usize> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "+OK");
    let is_beat = |line: &String| line.contains("\"HSET\"") && line.contains(":heartbeats\"");
    assert!(lines.by_ref().any(|line| is_beat(&line)));
    let (mut beats, mut kinds) = (0, BTreeMap::new());
    while beats < renewals * WORKERS * NODES.len() {
        let line = lines.next().unwrap();
        if is_beat(&line) {
            beats += 1;
        } else if !line.contains(" lua] ") {
            *kinds.entry(kind(&line)).or_default() += 1;
        }
    }
    kinds
}

/// The command, with the beginning of its hash when it is a script.
fn kind(line: &str) -> String {
    let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
    if words[0] == "EVALSHA" { format!("{:.8}", words[1]) } else { words[0].to_owned() }
}

/// Schedules and tickers that wait for their ticks: one call in a quarter of the worker TTL for all of a node's
/// together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_that_wait_cost_one_command_a_while() {
    let world = World::on_redis();
    let nodes = [world.node_with(NODES[0], WORKERS).await, world.node_with(NODES[1], WORKERS).await];
    let seldom = std::time::Duration::from_secs(3_600);
    let without = idle_commands(world.server()).await;
    let mut tickers = Vec::new();
    for node in &nodes {
        for i in 0..10 {
            let nothing =
                |_: tenure_pool::Tick| async { Ok::<_, tenure_pool::BoxError>(tenure_pool::Plan::new()) };
            node.schedule(format!("plan-{i}"), nothing, seldom).await.unwrap();
            tickers.push(node.ticker(format!("ticker-{i}"), seldom).await.unwrap());
        }
    }
    until("the first plans", async || {
        let data = world.data().await;
        let plans = data.iter().filter(|line| line.starts_with("schedules s:"));
        let ticked = plans.filter(|line| line.split('|').nth(5) == Some("1")).count();
        if ticked == 10 { Ok(()) } else { Err(format!("{ticked} of 10")) }
    })
    .await;
    let with = idle_commands(world.server()).await;
    let told = format!("without schedules {without:?}, with them {with:?}");
    println!("{told}");
    for (kind, count) in &with {
        // Five renewals are the worker TTL. In it each node makes one call for all its schedules, and one may be in
        // flight when it begins. The periods are jittered. A command for each schedule would be 200 more.
        let before = without.get(kind).copied().unwrap_or_default();
        assert!(*count <= before + before / 2 + 5 * nodes.len(), "{kind}: {told}");
    }
    drop(tickers);
}

async fn idle_commands(server: &RedisServer) -> BTreeMap<String, usize> {
    let socket = server.dir().join("redis.sock");
    tokio::task::spawn_blocking(move || commands_within(&socket, RENEWALS)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_jobs_cost_no_commands() {
    let world = World::on_redis();
    let (a, _b) = (world.node_with(NODES[0], WORKERS).await, world.node_with(NODES[1], WORKERS).await);
    let without = idle_commands(world.server()).await;
    world.dispatch_placed(&a, JOBS).await;
    let with = idle_commands(world.server()).await;
    let told = format!("without jobs {without:?}, with {JOBS} {with:?}, in {RENEWALS} renewals of each node");
    println!("{told}");
    for (kind, count) in &with {
        // The periods are jittered, and a busy machine delays some more than others. The jobs, or batches of them,
        // would be far more.
        let before = without.get(kind).copied().unwrap_or_default();
        assert!(*count <= before + before / 2 + 5, "{kind}: {told}");
    }
    // About 10 a second, and a renewal comes every two seconds.
    let both = [without, with].map(|kinds| kinds.into_values().sum::<usize>());
    assert!(both.iter().all(|sum| *sum < 30 * RENEWALS), "{both:?}: {told}");
}
