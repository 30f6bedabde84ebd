//! No process of a job outlives its lease, its node, its guard, its keeper, or its stop.
//!
//! Each fault meets a job of each shape. A control shows that a usual parent leaves all of them behind.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tenure_testing::eventually;
use tokio::process::Command;

use super::processes::Sleepers;
use super::world::{LONG, PATIENCE, SCRIPT, SHORT, Worker, World, signal};

/// A program by its shape, with the number of its processes that count.
fn shapes(sleep: &str) -> [(&'static str, String, usize); 4] {
    let away = "</dev/null >/dev/null 2>&1";
    [
        ("plain", format!("{sleep} & {sleep} & wait"), 2),
        ("setsid", format!("setsid {sleep} & setsid {sleep} & wait"), 2),
        ("daemonised", format!("(setsid sh -c '{sleep} & exec {sleep}' {away} &); exec {sleep}"), 3),
        (
            "unknown",
            format!("(env -i setsid {sleep} {away} &); (env -i setsid {sleep} {away} &); exec {sleep}"),
            3,
        ),
    ]
}

/// Starts a job of each shape.
async fn started(world: &World) -> BTreeMap<&'static str, Sleepers> {
    let mut jobs = BTreeMap::new();
    for shape in shapes("").map(|(shape, ..)| shape) {
        let sleepers = Sleepers::new();
        let (_, script, count) =
            shapes(&sleepers.sleep()).into_iter().find(|(name, ..)| *name == shape).unwrap();
        world.node.dispatch((shape, script)).await.unwrap();
        eventually(PATIENCE, shape, || async { sleepers.alive().len() == count }).await;
        jobs.insert(shape, sleepers);
    }
    jobs
}

/// A worker with a job of each shape.
struct Stage {
    world: World,
    worker: Worker,
    jobs: BTreeMap<&'static str, Sleepers>,
}

impl Stage {
    async fn new(ttl: Duration, args: &[&str]) -> Self {
        let world = World::with_ttl(ttl).await;
        let worker = world.worker("w", args.iter().chain(&SCRIPT)).await;
        let jobs = started(&world).await;
        Self { world, worker, jobs }
    }

    /// Waits until no process of any job is left.
    async fn emptied(&self) {
        for (shape, sleepers) in &self.jobs {
            eventually(PATIENCE, &format!("{shape} ends"), || async { sleepers.alive().is_empty() }).await;
        }
    }
}

/// The fault with cgroups, if this machine has them, and without.
async fn suffer(ttl: Duration, fault: impl AsyncFn(&mut Stage)) {
    for cgroup in ["auto", "off"] {
        let mut stage = Stage::new(ttl, &["--cgroup", cgroup]).await;
        fault(&mut stage).await;
        stage.emptied().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_node_is_killed() {
    suffer(LONG, async |stage| {
        signal(stage.worker.node(), Signal::KILL);
        assert_eq!(stage.worker.ended().await.code(), Some(70));
        // The guard ends last of all.
        for (shape, sleepers) in &stage.jobs {
            assert_eq!(sleepers.alive(), [], "{shape}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_guard_is_killed() {
    suffer(LONG, async |stage| signal(stage.worker.guard(), Signal::KILL)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_node_and_guard_are_killed() {
    suffer(LONG, async |stage| {
        let (guard, node) = (stage.worker.guard(), stage.worker.node());
        signal(guard, Signal::KILL);
        // It may have ended because of that.
        let _ = rustix::process::kill_process(node, Signal::KILL);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_keepers_are_killed() {
    suffer(LONG, async |stage| {
        // The jobs run again: stop them for good first.
        let keepers = stage.worker.keepers();
        assert_eq!(keepers.len(), stage.jobs.len());
        let first: Vec<_> = stage.jobs.values().flat_map(Sleepers::alive).collect();
        for keeper in keepers {
            signal(keeper, Signal::KILL);
        }
        for (shape, sleepers) in &stage.jobs {
            let is_new = || async { sleepers.alive().iter().all(|pid| !first.contains(pid)) };
            eventually(PATIENCE, &format!("the first processes of {shape} end"), is_new).await;
        }
        for shape in stage.jobs.keys() {
            stage.world.stop(shape).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_node_and_keepers_are_killed() {
    suffer(LONG, async |stage| {
        let (node, keepers) = (stage.worker.node(), stage.worker.keepers());
        // It must not see what happens to them.
        signal(node, Signal::STOP);
        for keeper in keepers {
            signal(keeper, Signal::KILL);
        }
        signal(node, Signal::KILL);
        assert_eq!(stage.worker.ended().await.code(), Some(70));
        for (shape, sleepers) in &stage.jobs {
            assert_eq!(sleepers.alive(), [], "{shape}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_when_all_above_it_are_killed() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let sleepers = Sleepers::new();
    world.node.dispatch(("acme", format!("exec {}", sleepers.sleep()))).await.unwrap();
    eventually(PATIENCE, "it runs", || async { sleepers.alive().len() == 1 }).await;
    let (node, keepers) = (worker.node(), worker.keepers());
    for pid in [worker.guard(), node] {
        signal(pid, Signal::STOP);
    }
    for pid in keepers.into_iter().chain([worker.guard(), node]) {
        signal(pid, Signal::KILL);
    }
    eventually(PATIENCE, "it ends", || async { sleepers.alive().is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_at_the_end_of_a_lease_while_the_node_hangs() {
    suffer(SHORT, async |stage| {
        let node = stage.worker.node();
        signal(node, Signal::STOP);
        stage.emptied().await;
        signal(node, Signal::CONT);
        signal(stage.worker.guard(), Signal::KILL);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_redis_is_gone_for_longer_than_a_lease() {
    suffer(SHORT, async |stage| {
        stage.world.server.pause().unwrap();
        stage.emptied().await;
        stage.world.server.resume().unwrap();
        signal(stage.worker.guard(), Signal::KILL);
    })
    .await;
}

/// In a pid namespace the guard is process 1. These faults meet it and its node from outside.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_pid_namespace() {
    for faults in [&["node"][..], &["stopped node", "guard"]] {
        let world = World::new().await;
        // A killed guard would leave its cgroup to nobody.
        let args = [&["--cgroup", "off"][..], &SCRIPT].concat();
        let Some(mut worker) = world.start_in_namespace("w", args) else { return };
        world.up("w").await;
        let jobs = started(&world).await;
        for fault in faults {
            match *fault {
                "node" => signal(worker.node(), Signal::KILL),
                "stopped node" => signal(worker.node(), Signal::STOP),
                // It may have ended because of the first fault.
                _ => drop(rustix::process::kill_process(worker.guard(), Signal::KILL)),
            }
        }
        worker.ended().await;
        for (shape, sleepers) in &jobs {
            eventually(PATIENCE, &format!("{shape} ends"), || async { sleepers.alive().is_empty() }).await;
        }
    }
}

/// Each guard is process 1 of its namespace, none sees the processes of another, and all are in one cgroup.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_a_pid_namespace_leaves_others_alone() {
    let world = World::new().await;
    world.node.operate().cordon("outside").await.unwrap();
    let outside = world.worker("outside", SCRIPT).await;
    let Some(inside) = world.start_in_namespace("inside", SCRIPT) else { return };
    world.up("inside").await;
    let sleepers = Sleepers::new();
    let script = format!("exec {}", sleepers.sleep());
    for key in ["acme", "hooli", "zenith"] {
        world.node.dispatch((key, script.clone())).await.unwrap();
    }
    eventually(PATIENCE, "all run inside", || async { sleepers.alive().len() == 3 }).await;
    let running = sleepers.alive();
    world.node.operate().cordon("inside").await.unwrap();
    // The guard of each of these has a process to kill, and no group or another one.
    for cgroup in ["auto", "off"] {
        let args = [&["--cgroup", cgroup][..], &SCRIPT].concat();
        let mut third = world.start_in_namespace(cgroup, args).unwrap();
        world.up(cgroup).await;
        world.node.dispatch((cgroup, script.clone())).await.unwrap();
        eventually(PATIENCE, "one more runs", || async { sleepers.alive().len() == 4 }).await;
        signal(third.node(), Signal::KILL);
        third.ended().await;
        eventually(PATIENCE, "it ends", || async { sleepers.alive().len() < 4 }).await;
        assert_eq!(sleepers.alive(), running);
        // Its lease lasts on.
        world.node.operate().cordon(cgroup).await.unwrap();
    }
    world.node.operate().uncordon("outside").await.unwrap();
    world.node.dispatch(("late", script)).await.unwrap();
    eventually(PATIENCE, "one runs outside", || async { sleepers.alive().len() == 4 }).await;
    inside.leave().await;
    outside.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_job_is_left_when_its_stop_returns() {
    suffer(LONG, async |stage| {
        for (shape, sleepers) in &stage.jobs {
            stage.world.node.stop_job(*shape).until_stopped().await.unwrap();
            assert_eq!(sleepers.alive(), [], "{shape}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_a_worker_leaves_in_order() {
    for cgroup in ["auto", "off"] {
        let Stage { world: _world, worker, jobs } = Stage::new(LONG, &["--cgroup", cgroup]).await;
        // Other workers take the jobs: there are none, so they wait.
        signal(worker.guard(), Signal::TERM);
        let mut worker = worker;
        assert_eq!(worker.ended().await.code(), Some(0));
        for (shape, sleepers) in &jobs {
            assert_eq!(sleepers.alive(), [], "{shape}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_runs_elsewhere_only_when_nothing_of_it_is_left() {
    let Stage { world, worker, jobs } = Stage::new(SHORT, &["--cgroup", "off"]).await;
    let other =
        world.worker("other", ["--", "sh", "-c", "echo $TENURE_KEY >> $FOLDER/moved; exec sleep 1000"]).await;
    signal(worker.node(), Signal::STOP);
    let moved = world.file("moved");
    for (shape, sleepers) in &jobs {
        let has_moved = || async {
            std::fs::read_to_string(&moved).is_ok_and(|text| text.lines().any(|key| key == *shape))
        };
        eventually(PATIENCE, "it moves", has_moved).await;
        assert_eq!(sleepers.alive(), [], "{shape}");
    }
    drop(worker);
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_neither_stops_nor_orphans_a_worker() {
    let world = World::new().await;
    let mut worker = world.worker("w", SCRIPT).await;
    let sleepers = Sleepers::new();
    world.node.dispatch(("acme", sleepers.sleep())).await.unwrap();
    // Ctrl-Z, and then the terminal is closed.
    signal(worker.guard(), Signal::TSTP);
    signal(worker.guard(), Signal::HUP);
    assert_eq!(worker.ended().await.code(), Some(0));
    assert_eq!(sleepers.alive(), []);
}

#[tokio::test]
async fn mutants_a_usual_parent_leaves_every_shape_behind() {
    for (shape, ..) in shapes("") {
        let sleepers = Sleepers::new();
        let (_, script, count) = shapes(&sleepers.sleep()).into_iter().find(|it| it.0 == shape).unwrap();
        let mut parent = Command::new("sh");
        // It waits for its child, so it does not become it.
        parent.args(["-c", "sh -c \"$SCRIPT\"; true"]).env("SCRIPT", script).stdin(Stdio::null());
        let mut parent = parent.kill_on_drop(true).spawn().unwrap();
        eventually(PATIENCE, shape, || async { sleepers.alive().len() == count }).await;
        parent.kill().await.unwrap();
        assert_eq!(sleepers.alive().len(), count, "{shape}");
    }
}
