//! Workers and jobs that somebody steers from elsewhere, while processes die and servers lose what they knew.

use std::process::{Output, Stdio};
use std::time::Instant;

use rustix::process::{Signal, kill_process};
use tenure_pool::{MemberState, Node};
use tenure_testing::{Proxy, eventually};
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
}

async fn ended(child: Child) -> Output {
    tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap()
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Waits until the worker of this node drains.
async fn drains(node: &Node, name: &str) {
    let drains =
        || async { node.workers().iter().any(|it| it.node == name && it.state == MemberState::Draining) };
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
    let id = world.node.workers()[0].id;
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
    let _stays = world.start("stays", SCRIPT);
    eventually(PATIENCE, "both run there", || async { sleepers.alive().len() == 2 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_drain_hears_that_its_node_was_killed() {
    killed_in_its_drain(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_it_though_no_other_node_lives() {
    killed_in_its_drain(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_left_unseen_is_not_taken_for_a_lost_one() {
    let world = World::with_ttl(SHORT).await;
    let mut leaver = world.worker("leaver", DEAF).await;
    let sleepers = Sleepers::new();
    world.node.dispatch(("acme", format!("exec {}", sleepers.sleep()))).await.unwrap();
    let proxy = Proxy::start(&world.server).await.unwrap();
    let waits = world.steers(&proxy.url(), &DRAIN);
    drains(&world.node, "leaver").await;
    proxy.pause();
    let paused = Instant::now();
    for pid in sleepers.alive() {
        let _ = kill_process(pid, Signal::KILL);
    }
    assert_eq!(leaver.ended().await.code(), Some(0));
    eventually(PATIENCE, "a lease would be over", || async { paused.elapsed() > SHORT }).await;
    proxy.resume();
    let done = ended(waits).await;
    assert_eq!(String::from_utf8_lossy(&done.stdout), "workers that have gone: 1\n", "{}", said(&done));
    assert_eq!(done.status.code(), Some(0));
}
