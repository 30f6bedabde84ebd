//! A node's health, judged by the progress of its parts, and not by their mere existence.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, CounterFn};
use tenure_pool::health::Unhealthy;
use tenure_pool::inspect::PoolPhase;
use tenure_pool::{Client, Health, Node};

use crate::metering::OfNotifications;
use crate::recorder::{Act, Release};
use crate::world::{PATIENCE, POOL, SHORT, World, on_both_stores, until, workers_on};

on_both_stores!(
    a_node_says_that_another_has_its_name,
    a_node_at_work_is_healthy_and_one_that_has_left_is_too,
    a_node_without_its_store_names_the_store_then_its_workers,
    an_abandoned_node_wants_its_process_restarted,
    every_node_knows_how_many_jobs_wait,
    a_handler_that_does_not_end_is_named in real_time,
    a_node_that_stands_still_loses_its_jobs_and_comes_back in real_time,
    a_handler_that_blocks_its_thread_is_named in real_time,
);

async fn healthy(node: &Node) -> Health {
    until("the node to be healthy", async || {
        let health = node.health();
        if health.is_healthy() && health.store.answered.is_some() { Ok(health) } else { Err(health) }
    })
    .await
}

/// Waits until the node names this reason.
async fn names(node: &Node, what: impl Fn(&Unhealthy) -> bool) -> Health {
    until("the node to name its trouble", async || {
        let health = node.health();
        if health.reasons.iter().any(&what) { Ok(health) } else { Err(health) }
    })
    .await
}

async fn a_node_at_work_is_healthy_and_one_that_has_left_is_too(world: World) {
    let node = world.node_with("a", 2).await;
    world.dispatch_placed(&node, 10).await;
    let health = until("all jobs to be counted", async || {
        let health = healthy(&node).await;
        let held: usize = health.workers.iter().map(|worker| worker.jobs).sum();
        if held == 10 { Ok(health) } else { Err(health) }
    })
    .await;
    assert_eq!((health.phase, health.leaving, health.needs_restart()), (PoolPhase::Open, false, false));
    let mut ids: Vec<_> = health.workers.iter().map(|worker| worker.id.unwrap().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, workers_on(&node).await);
    for worker in &health.workers {
        assert!(worker.lease_age.unwrap() + worker.lease_left <= world.ttl(), "{worker:?}");
        assert!(!worker.lease_left.is_zero());
    }
    assert!(health.reader_idle.is_some() && health.router_idle.is_some(), "{health:?}");
    node.close().await.unwrap();
    let health = node.health();
    assert!(health.is_healthy() && health.leaving, "{health:?}");
}

async fn a_node_without_its_store_names_the_store_then_its_workers(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let node = world.node_running("a", "key").await;
    healthy(&node).await;
    world.cut_off();
    let health = names(&node, |reason| matches!(reason, Unhealthy::Store(_))).await;
    assert!(health.store.error.is_some(), "{health:?}");
    let lost = |reason: &Unhealthy| matches!(reason, Unhealthy::Lease(_) | Unhealthy::Outside);
    let health = names(&node, lost).await;
    assert!(!health.needs_restart(), "it comes back by itself: {health:?}");
    world.reconnect();
    let health = healthy(&node).await;
    assert_eq!(health.store.error, None);
}

async fn every_node_knows_how_many_jobs_wait(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    for key in ["first", "second", "third"] {
        a.submit((key, "")).await.unwrap();
    }
    let waits = async |jobs| {
        for node in [&a, &b] {
            until("the node to hear how many wait", async || node.health().queued == Some(jobs)).await;
        }
    };
    waits(3).await;
    world.add_worker(&b).await;
    waits(0).await;
}

async fn an_abandoned_node_wants_its_process_restarted(world: World) {
    let node = world.node_with("a", 1).await;
    node.abandon();
    node.closed().await;
    let health = node.health();
    assert_eq!(health.reasons, [Unhealthy::Ended]);
    assert!(health.needs_restart());
}

async fn a_handler_that_does_not_end_is_named(world: World) {
    let node = world.builder("a").stop_timeout(SHORT).join().await.unwrap();
    let released = Arc::new(AtomicBool::new(false));
    let act = Act::Block(released.clone());
    node.add_worker(world.recorder.acting(move |_| act.clone())).await.unwrap();
    node.dispatch(("blocks", "")).await.unwrap();
    node.stop_job("blocks").await.unwrap();
    let health =
        names(&node, |reason| matches!(reason, Unhealthy::Stuck(key) if key.as_bytes() == b"blocks")).await;
    assert!(health.needs_restart());
    assert_eq!(health.workers[0].stuck.len(), 1);
    released.store(true, Ordering::Release);
    healthy(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reports_a_full_server_keeps_its_jobs_and_goes_on() {
    let world = World::on_redis().with_ttl(Duration::from_secs(2));
    let node = world.node_running("a", "runs").await;
    let memory = |bytes: &str| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query::<()>(&mut world.client()).unwrap();
    };
    memory("1");
    world.history().submitted("waits");
    let waits = tokio::spawn(node.dispatch(("waits", "")).deadline(2 * PATIENCE).into_future());
    let health = until("the node to name the step and its cause", async || {
        let health = names(&node, |reason| matches!(reason, Unhealthy::Steps("dispatch", _))).await;
        let full = health.store.error.as_ref().is_some_and(|error| error.contains("maxmemory"));
        if full { Ok(health) } else { Err(health) }
    })
    .await;
    assert!(!health.needs_restart(), "{health:?}");
    assert!(world.recorder.is_running("runs") && !health.workers[0].lease_left.is_zero(), "{health:?}");
    memory("0");
    waits.await.unwrap().unwrap();
    world.history().accepted("waits");
    healthy(&node).await;
    assert_eq!(world.recorder.starts_of("runs"), 1);
    world.assert_clean();
}

async fn a_node_that_stands_still_loses_its_jobs_and_comes_back(world: World) {
    let world = world.with_ttl(Duration::from_secs(3));
    let (b, halt) = (world.node("b").await, Halt::default());
    let release = Release(halt.0.clone());
    let counting = OfNotifications(Counter::from_arc(Arc::new(halt)));
    let armed = metrics::set_default_local_recorder(&counting);
    let still = world.builder("still").own_thread().join().await.unwrap();
    drop(armed);
    world.add_worker(&still).await;
    world.dispatch_one(&still, "key").await;
    let before = world.holders(&b).await;
    b.add_worker(world.recorder.clone()).await.unwrap();
    // From here on its engine stands still, and its lease thread notices that.
    b.notify("key", "hello").await.unwrap();
    names(&still, |reason| matches!(reason, Unhealthy::Engine(_))).await;
    until("its job to run elsewhere", async || {
        world.recorder.is_running("key") && world.holders(&b).await != before
    })
    .await;
    assert!(still.health().needs_restart());
    drop(release);
    healthy(&still).await;
    assert_ne!(still.health().workers[0].id, None);
    still.close().await.unwrap();
    world.assert_clean();
}

/// Blocks the thread that counts a notification, until it is set.
#[derive(Default)]
struct Halt(Arc<AtomicBool>);

impl CounterFn for Halt {
    fn increment(&self, _: u64) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn absolute(&self, _: u64) {}
}

async fn a_handler_that_blocks_its_thread_is_named(world: World) {
    let node = world.node("a").await;
    let released = Arc::new(AtomicBool::new(false));
    let (release, act) = (Release(released.clone()), Act::Block(released));
    let handler = world.recorder.acting(move |job| match job.key().as_bytes() {
        b"blocks" => act.clone(),
        _ => Act::Run,
    });
    let worker = node.add_worker(handler).await.unwrap();
    node.submit(("blocks", "")).await.unwrap();
    world.dispatch_one(&node, "other").await;
    let blocked = until("the job to be named", async || {
        let health = node.health();
        health.blocked_jobs.first().cloned().ok_or(health)
    })
    .await;
    assert_eq!((blocked.key.as_bytes(), Some(blocked.worker)), (&b"blocks"[..], worker.id()));
    assert!(blocked.lasted >= Duration::from_secs(1), "{blocked:?}");
    until("the time to go on", async || {
        let health = node.health();
        assert!(health.is_healthy() && health.blocked_jobs.len() == 1, "{health:?}");
        if health.blocked_jobs[0].lasted > blocked.lasted { Ok(()) } else { Err(health) }
    })
    .await;
    drop(release);
    until("no job to be named", async || node.health().blocked_jobs.is_empty()).await;
    assert_eq!(world.recorder.starts_of("blocks"), 1);
}

/// A client of the pool's server with these rights.
fn client_with(world: &World, user: &str, rights: &[&str]) -> Client {
    let mut rules = redis::cmd("ACL");
    rules.arg("SETUSER").arg(user).arg("on").arg(">secret").arg("~*").arg("&*").arg("+@all");
    rules.arg(rights).query::<()>(&mut world.client()).unwrap();
    Client::open(&format!("{}?user={user}&pass=secret", world.server().url())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_hear_of_its_jobs_loses_them() {
    let world = World::on_redis().with_ttl(Duration::from_secs(1));
    let b = world.node("b").await;
    let client = client_with(&world, "half", &[]);
    let half = Node::builder(POOL, client).name("half").worker_ttl(world.ttl()).join_settle(SHORT);
    let half = half.stable_after(SHORT).join().await.unwrap();
    world.add_worker(&half).await;
    let (keys, _) = world.dispatch_placed(&half, 10).await;
    world.add_worker(&b).await;
    // It renews, dispatches and routes, but receives nothing.
    client_with(&world, "half", &["-xread"]);
    names(&half, |reason| matches!(reason, Unhealthy::Reader(_))).await;
    until("its jobs to run elsewhere", async || {
        let holders = world.holders(&b).await;
        let theirs = workers_on(&b).await;
        if holders.len() == 10 && holders.values().all(|held| theirs.contains(&held.owner)) {
            Ok(())
        } else {
            Err(holders)
        }
    })
    .await;
    until("it to stay out of the pool", async || workers_on(&half).await.is_empty()).await;
    client_with(&world, "half", &["+xread"]);
    let health = healthy(&half).await;
    assert!(health.workers[0].id.is_some());
    world.placed(&b, &keys).await;
    world.assert_clean();
}

async fn a_node_says_that_another_has_its_name(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let one = world.node_with("twin", 1).await;
    let other = world.node_with("twin", 1).await;
    until("both to say it", async || one.health().namesake && other.health().namesake).await;
    until("it to be safe", async || {
        let health = one.health();
        if health.namesake && health.is_healthy() { Ok(()) } else { Err(health.reasons) }
    })
    .await;
    other.close().await.unwrap();
    until("it to be over", async || !one.health().namesake).await;
}
