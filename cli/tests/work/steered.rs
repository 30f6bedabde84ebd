//! Workers and jobs that somebody steers from elsewhere, while processes die and servers lose what they knew.

use std::process::{Output, Stdio};
use std::time::Instant;

use rustix::process::{Signal, kill_process};
use tenure_pool::Node;
use tenure_pool::inspect::MemberState;
use tenure_testing::{Data, Proxy, eventually};
use tokio::process::Child;

use super::processes::Sleepers;
use super::world::{PATIENCE, SCRIPT, SHORT, World, signal};

impl World {
    /// Starts another command, by way of this server.
    fn steers(&self, url: &str, args: &[&str]) -> Child {
        let mut command = self.tenure();
        command.args(args).env("REDIS_URL", url).env("TENURE_POOL", "feeds");
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command that must succeed, and returns the text that it prints.
    async fn run(&self, args: &[&str]) -> String {
        let done = ended(self.steers(&self.server.url(), args)).await;
        assert!(done.status.success(), "{args:?}: {}", said(&done));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Waits until this job is paused, by this name. Nothing of it may run.
    async fn rests(&self, key: &str, by: &str, after: &str) {
        let is_paused = || async {
            let paused = self.node.inspect().job(key).await.ok().flatten().and_then(|job| job.paused);
            paused.is_some_and(|paused| paused.by == by)
        };
        eventually(PATIENCE, &format!("{key} is paused {after}"), is_paused).await;
        assert_eq!(self.run(&["ls", "--state", "paused", "-o", "name"]).await, format!("{key}\n"), "{after}");
    }
}

async fn ended(child: Child) -> Output {
    tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap()
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Waits until the worker of this node drains.
async fn drains(node: &Node, name: &str) {
    let drains = || async {
        node.inspect()
            .workers()
            .await
            .unwrap()
            .iter()
            .any(|it| it.node == name && it.state == MemberState::Draining)
    };
    eventually(PATIENCE, "it drains", drains).await;
}

/// Programs that do not end before they are killed.
const DEAF: [&str; 8] =
    ["--grace", "300s", "--payload", "env", "--", "sh", "-c", "trap '' TERM; eval \"$TENURE_PAYLOAD\""];
const DRAIN: [&str; 5] = ["drain", "leaver", "--yes", "--wait", "--timeout=60s"];

/// A node is killed while it drains, and somebody waits for its end from elsewhere.
async fn killed_in_its_drain(others_live: bool) {
    let world = World::with_ttl(SHORT).await;
    let mut leaver = world.worker("leaver", DEAF).await;
    let id = world.node.inspect().workers().await.unwrap()[0].id;
    let sleepers = Sleepers::new();
    for key in ["acme", "hooli"] {
        world.node.dispatch((key, format!("exec {}", sleepers.sleep()))).await.unwrap();
    }
    let waits = world.steers(&world.server.url(), &DRAIN);
    drains(&world.node, "leaver").await;
    if !others_live {
        // Then nobody expires the worker.
        world.node.abandon();
        world.node.closed().await;
    }
    signal(leaver.node(), Signal::KILL);
    assert_eq!(leaver.ended().await.code(), Some(70));
    let done = ended(waits).await;
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    let text = format!("tenure: lost before it had drained: worker {id} of node leaver, with 2 jobs; ");
    assert!(said(&done).starts_with(&text), "{}", said(&done));
    assert_eq!(sleepers.alive(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_drain_hears_that_its_node_was_killed() {
    killed_in_its_drain(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_it_though_no_other_node_lives() {
    killed_in_its_drain(false).await;
}

/// The way of who waits stands still for longer than a lease. The worker leaves in order: meanwhile, or later.
async fn cut_off_from_a_drain(leaves_meanwhile: bool) {
    let world = World::with_ttl(SHORT).await;
    let mut leaver = world.worker("leaver", DEAF).await;
    let sleepers = Sleepers::new();
    world.node.dispatch(("acme", format!("exec {}", sleepers.sleep()))).await.unwrap();
    let proxy = Proxy::start(&world.server).await.unwrap();
    let waits = world.steers(&proxy.url(), &DRAIN);
    drains(&world.node, "leaver").await;
    let mut leaves = async || {
        for pid in sleepers.alive() {
            let _ = kill_process(pid, Signal::KILL);
        }
        assert_eq!(leaver.ended().await.code(), Some(0));
    };
    proxy.pause();
    let paused = Instant::now();
    if leaves_meanwhile {
        leaves().await;
    }
    eventually(PATIENCE, "a lease would be over", || async { paused.elapsed() > SHORT }).await;
    proxy.resume();
    if !leaves_meanwhile {
        eventually(PATIENCE, "a later look", || async { paused.elapsed() > SHORT * 2 }).await;
        leaves().await;
    }
    let done = ended(waits).await;
    assert_eq!(String::from_utf8_lossy(&done.stdout), "workers that have gone: 1\n", "{}", said(&done));
    assert_eq!(done.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_left_unseen_is_not_taken_for_a_lost_one() {
    cut_off_from_a_drain(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lives_is_not_taken_for_a_lost_one() {
    cut_off_from_a_drain(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_worker_is_named_though_others_do_not_go_in_time() {
    let world = World::with_ttl(SHORT).await;
    let mut leaver = world.worker("leaver", DEAF).await;
    let _stayer = world.worker("stayer", DEAF).await;
    let sleepers = Sleepers::new();
    for key in 0..8 {
        let script = format!("exec {}", sleepers.sleep());
        world.node.dispatch((format!("key {key}"), script)).await.unwrap();
    }
    let waits = world
        .steers(&world.server.url(), &["drain", "leaver", "stayer", "--yes", "--wait", "--within", "6s"]);
    drains(&world.node, "leaver").await;
    drains(&world.node, "stayer").await;
    signal(leaver.node(), Signal::KILL);
    assert_eq!(leaver.ended().await.code(), Some(70));
    let done = ended(waits).await;
    assert_eq!(done.status.code(), Some(5), "{}", said(&done));
    let text = "in time; they go on draining; lost before it had drained: worker ";
    assert!(said(&done).contains(text), "{}", said(&done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_outlives_a_recovery_a_death_and_a_deploy() {
    // The worker must not lose its lease while the server restarts.
    let world = World::with_ttl(SHORT * 2).await;
    let mut first = world.worker("first", SCRIPT).await;
    let sleepers = Sleepers::new();
    let script = format!("echo $$ >> $FOLDER/starts; exec {}", sleepers.sleep());
    world.node.dispatch(("acme", script)).await.unwrap();
    let () = world.server.query(&redis::cmd("SAVE")).unwrap();
    world.run(&["pause", "acme", "--by", "anna", "--reason", "db moves"]).await;
    assert_eq!(sleepers.alive(), []);

    // The data are from before the pause, in which the job runs.
    world.server.kill().unwrap();
    world.server.restart(Data::Keep).unwrap();
    world.rests("acme", "anna", "after a recovery").await;

    signal(first.node(), Signal::KILL);
    assert_eq!(first.ended().await.code(), Some(70));
    let second = world.worker("second", SCRIPT).await;
    let is_gone =
        || async { world.node.inspect().workers().await.unwrap().iter().all(|it| it.node == "second") };
    eventually(PATIENCE, "the first worker is expired", is_gone).await;
    world.rests("acme", "anna", "after the death of its worker").await;

    let third = world.worker("third", SCRIPT).await;
    second.leave().await;
    world.node.dispatch(("other", "exec sleep 1000")).await.unwrap();
    world.rests("acme", "anna", "after a deploy").await;
    assert_eq!(sleepers.alive(), []);

    world.run(&["resume", "acme"]).await;
    eventually(PATIENCE, "it runs", || async { sleepers.alive().len() == 1 }).await;
    let starts = std::fs::read_to_string(world.file("starts")).unwrap();
    assert_eq!(starts.lines().count(), 2, "{starts}");
    third.leave().await;
}
