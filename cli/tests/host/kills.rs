//! No process of a host outlives a lease of its jobs, its node, its guard or its keeper.
//!
//! The jobs have processes of each shape. The control is that of `tenure work`: a usual parent leaves all of them behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::process::Signal;
use tenure_pool::JobState;
use tenure_testing::eventually;

use super::processes::{self, Sleepers};
use super::world::{Host, LONG, PATIENCE, SHORT, World, raw, signal};

/// A host with a job of each shape.
struct Stage {
    world: World,
    host: Host,
    sleepers: Sleepers,
}

/// How many processes the jobs have.
const COUNT: usize = 7;

impl Stage {
    async fn new(ttl: Duration, args: &[&str], mode: &str) -> Self {
        let world = World::with_ttl(ttl).await;
        let host = world.host("h", 1, args, &raw(mode)).await;
        let sleepers = Sleepers::new();
        let (sleep, away) = (sleepers.sleep(), "</dev/null >/dev/null 2>&1");
        let scripts = [
            ("plain", format!("{sleep} & {sleep} & wait")),
            ("setsid", format!("setsid {sleep} & setsid {sleep} & wait")),
            ("daemonised", format!("(env -i setsid sh -c '{sleep} & exec {sleep}' {away} &); exec {sleep}")),
        ];
        for (key, script) in scripts {
            world.node.dispatch((key, script)).await.unwrap();
        }
        eventually(PATIENCE, "all run", || async { sleepers.alive().len() >= COUNT }).await;
        Self { world, host, sleepers }
    }

    /// Waits until no process of any job is left.
    async fn emptied(&self) {
        eventually(PATIENCE, "all end", || async { self.sleepers.alive().is_empty() }).await;
    }
}

/// The ids of a node's hosts, as they write them.
fn processes_of(host: &Host) -> Vec<String> {
    let hosts = host.keepers().into_iter().flat_map(processes::children);
    hosts.map(|pid| pid.as_raw_pid().to_string()).collect()
}

/// The fault with cgroups, if this machine has them, and without.
async fn suffer(ttl: Duration, fault: impl AsyncFn(&mut Stage)) {
    suffer_in("good", ttl, fault).await;
}

async fn suffer_in(mode: &str, ttl: Duration, fault: impl AsyncFn(&mut Stage)) {
    for cgroup in ["auto", "off"] {
        let mut stage = Stage::new(ttl, &["--cgroup", cgroup], mode).await;
        fault(&mut stage).await;
        stage.emptied().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_node_is_killed() {
    suffer(LONG, async |stage| {
        signal(stage.host.node(), Signal::KILL);
        assert_eq!(stage.host.ended().await.code(), Some(70));
        // The guard ends last of all.
        assert_eq!(stage.sleepers.alive(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_guard_is_killed() {
    suffer(LONG, async |stage| signal(stage.host.guard(), Signal::KILL)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_node_and_guard_are_killed() {
    suffer(LONG, async |stage| {
        let (guard, node) = (stage.host.guard(), stage.host.node());
        signal(guard, Signal::KILL);
        // It may have ended because of that.
        let _ = rustix::process::kill_process(node, Signal::KILL);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_again_when_the_keeper_is_killed() {
    suffer(LONG, async |stage| {
        let first = stage.sleepers.alive();
        let keepers = stage.host.keepers();
        assert_eq!(keepers.len(), 1);
        signal(keepers[0], Signal::KILL);
        let is_new = || async {
            let alive = stage.sleepers.alive();
            alive.len() >= COUNT && alive.iter().all(|pid| !first.contains(pid))
        };
        eventually(PATIENCE, "the jobs have new processes", is_new).await;
        for key in ["plain", "setsid", "daemonised"] {
            stage.world.node.stop_job(key).until_stopped().await.unwrap();
        }
        // The daemons of a job are the host's affair, until the host ends.
        signal(stage.host.guard(), Signal::TERM);
        assert_eq!(stage.host.ended().await.code(), Some(0));
        assert_eq!(stage.sleepers.alive(), []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_at_the_end_of_a_lease_while_the_node_hangs() {
    suffer(SHORT, async |stage| {
        let node = stage.host.node();
        signal(node, Signal::STOP);
        stage.emptied().await;
        signal(node, Signal::CONT);
        signal(stage.host.guard(), Signal::KILL);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_redis_is_gone_for_longer_than_a_lease() {
    // A host that ends its jobs in time lives on, and so does what they have left behind. This one does not end them.
    suffer_in("deaf", SHORT, async |stage| {
        stage.world.server.pause().unwrap();
        stage.emptied().await;
        stage.world.server.resume().unwrap();
        signal(stage.host.guard(), Signal::KILL);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_a_node_leaves_in_order() {
    suffer(LONG, async |stage| {
        signal(stage.host.guard(), Signal::TERM);
        assert_eq!(stage.host.ended().await.code(), Some(0));
        assert_eq!(stage.sleepers.alive(), []);
        assert!(stage.world.lines("stops").contains(&"plain draining".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_runs_elsewhere_only_when_nothing_of_its_host_is_left() {
    let Stage { world, host, sleepers } = Stage::new(SHORT, &["--cgroup", "off"], "good").await;
    let other = world.start("other", 1, &[], &raw("good"));
    // It holds no job while the first one lives.
    world.up("other", 1).await;
    let (node, first) = (host.node(), sleepers.alive());
    // The keys that this node's hosts were the last to start.
    let keys_of = |node: &Host| -> BTreeSet<String> {
        let (hosts, starts) = (processes_of(node), world.lines("starts"));
        let last = starts.iter().filter_map(|line| {
            let (key, pid) = (line.split(' ').next()?, line.split(' ').next_back()?);
            Some((key.to_owned(), pid.to_owned()))
        });
        let last: BTreeMap<_, _> = last.collect();
        last.into_iter().filter(|(_, pid)| hosts.contains(pid)).map(|(key, _)| key).collect()
    };
    let of_first = keys_of(&host);
    assert!(!of_first.is_empty(), "{:?}", world.lines("starts"));
    signal(node, Signal::STOP);
    let moved = || async { !keys_of(&other).is_disjoint(&of_first) };
    eventually(PATIENCE, "one moves", moved).await;
    assert!(sleepers.alive().iter().all(|pid| !first.contains(pid)), "the first host's are gone");
    assert_eq!(world.lines("overlaps"), Vec::<String>::new());
    drop(host);
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_runs_twice_while_everything_is_killed() {
    const KEYS: usize = 30;
    let world = World::with_ttl(Duration::from_secs(5)).await;
    let args = ["--logs", "null", "--drain", "120s"];
    let mut hosts = Vec::new();
    for name in ["first-0", "first-1"] {
        hosts.push(world.host(name, 2, &args, &raw("good")).await);
    }
    for number in 0..KEYS {
        world.node.dispatch((format!("key-{number}"), "")).await.unwrap();
    }
    let tokens = async || {
        let all_run = || async {
            let jobs = world.node.inspect().jobs().await.unwrap();
            let (running, others): (Vec<_>, Vec<_>) =
                jobs.iter().partition(|job| job.state == JobState::Running);
            let tokens: BTreeMap<_, _> = running.iter().map(|job| (job.key.clone(), job.token)).collect();
            if tokens.len() == KEYS {
                return Ok(tokens);
            }
            // A job that is lost again and again pauses for minutes. This test is not about that.
            for job in others.iter().filter(|job| job.next_try.is_some()) {
                let _ = world.node.operate().retry(&job.key).await;
            }
            Err(format!("{} run, and {others:?}", tokens.len()))
        };
        eventually(PATIENCE, "all keys run", all_run).await
    };
    for round in 0..10 {
        let before = tokens().await;
        let host = hosts.remove(0);
        let mut keeps = None;
        match round % 5 {
            0 => signal(host.node(), Signal::KILL),
            1 => signal(host.guard(), Signal::KILL),
            // It goes on, and makes a host anew.
            2 => {
                // A host whose lease has ended is between two keepers.
                if let Some(keeper) = host.keepers().first() {
                    signal(*keeper, Signal::KILL);
                }
                keeps = Some(host);
            }
            3 => {
                signal(host.node(), Signal::STOP);
                // It is killed only after its jobs run elsewhere.
                let moved = || async { world.node.inspect().workers().await.unwrap().len() <= 2 };
                eventually(PATIENCE, "its workers are lost", moved).await;
                signal(host.node(), Signal::CONT);
            }
            _ => host.leave().await,
        }
        if let Some(host) = keeps {
            hosts.push(host);
        } else {
            hosts.push(world.host(&format!("next-{round}"), 2, &args, &raw("good")).await);
        }
        let after = tokens().await;
        assert!(before.iter().all(|(key, token)| after[key] >= *token), "no token falls");
        assert_eq!(world.lines("overlaps"), Vec::<String>::new(), "round {round}");
    }
}
