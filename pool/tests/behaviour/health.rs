//! How a node says it is: what its parts have done, not that they exist.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_pool::{Client, Health, Node, PoolPhase, Unhealthy};
use tenure_testing::eventually;

use crate::recorder::Act;
use crate::world::{PATIENCE, POOL, SHORT, World, on_both_stores, workers_on};

on_both_stores!(
    a_node_at_work_is_healthy_and_one_that_has_left_is_too,
    a_node_without_its_store_names_the_store_and_then_its_workers,
    an_abandoned_node_wants_its_process_restarted,
    every_node_knows_how_many_jobs_wait,
    a_handler_that_does_not_end_is_named,
    a_node_that_stands_still_loses_its_jobs_and_comes_back,
);

async fn healthy(node: &Node) -> Health {
    eventually(PATIENCE, "the node to be healthy", async || {
        let health = node.health();
        if health.is_healthy() && health.store.answered.is_some() { Ok(health) } else { Err(health) }
    })
    .await
}

/// Waits until the node names this among its troubles.
async fn names(node: &Node, what: impl Fn(&Unhealthy) -> bool) -> Health {
    eventually(PATIENCE, "the node to name its trouble", async || {
        let health = node.health();
        if health.reasons.iter().any(&what) { Ok(health) } else { Err(health) }
    })
    .await
}

async fn a_node_at_work_is_healthy_and_one_that_has_left_is_too(world: World) {
    let node = world.node_with("a", 2).await;
    let keys = world.dispatch(&node, 10).await;
    world.placed(&node, &keys).await;
    let health = eventually(PATIENCE, "all jobs to be counted", async || {
        let health = healthy(&node).await;
        let held: usize = health.workers.iter().map(|worker| worker.jobs).sum();
        if held == 10 { Ok(health) } else { Err(health) }
    })
    .await;
    assert_eq!((health.phase, health.leaving, health.needs_restart()), (PoolPhase::Open, false, false));
    let mut ids: Vec<_> = health.workers.iter().map(|worker| worker.id.unwrap().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, workers_on(&node));
    for worker in &health.workers {
        assert!(worker.lease_age.unwrap() + worker.lease_left <= world.ttl(), "{worker:?}");
        assert!(!worker.lease_left.is_zero());
    }
    assert!(health.reader_idle.is_some() && health.router_idle.is_some(), "{health:?}");
    node.close().await.unwrap();
    let health = node.health();
    assert!(health.is_healthy() && health.leaving, "{health:?}");
}

async fn a_node_without_its_store_names_the_store_and_then_its_workers(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let node = world.node_with("a", 1).await;
    world.dispatch_one(&node, "key").await;
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
        a.submit(key, "").await.unwrap();
    }
    let waits = async |jobs| {
        for node in [&a, &b] {
            eventually(PATIENCE, "the node to hear how many wait", async || {
                node.health().queued == Some(jobs)
            })
            .await;
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
    node.dispatch("blocks", "").await.unwrap();
    node.stop_job("blocks").await.unwrap();
    let health =
        names(&node, |reason| matches!(reason, Unhealthy::Stuck(key) if key.as_bytes() == b"blocks")).await;
    assert!(health.needs_restart());
    assert_eq!(health.workers[0].stuck.len(), 1);
    released.store(true, Ordering::Release);
    healthy(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_server_has_no_memory_left_says_so_keeps_its_jobs_and_goes_on_when_there_is() {
    let world = World::on_redis().with_ttl(Duration::from_secs(2));
    let node = world.node_with("a", 1).await;
    world.dispatch_one(&node, "runs").await;
    let memory = |bytes: &str| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query::<()>(&mut world.client()).unwrap();
    };
    memory("1");
    world.history().submitted("waits");
    let waits = tokio::spawn(node.dispatch("waits", "").deadline(2 * PATIENCE).into_future());
    let health = names(&node, |reason| matches!(reason, Unhealthy::Steps("dispatch", _))).await;
    assert!(health.store.error.as_ref().is_some_and(|error| error.contains("maxmemory")), "{health:?}");
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
    let world = world.with_ttl(Duration::from_secs(1));
    let b = world.node("b").await;
    let (stand_still, told) = std::sync::mpsc::channel::<()>();
    let (joined, node) = tokio::sync::oneshot::channel();
    let builder = world.builder("still");
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let node = builder.join().await.unwrap();
            let worker = node.add_worker(tenure_pool::run(|job| async move {
                job.cancelled().await;
                Ok(())
            }));
            worker.await.unwrap();
            joined.send(node.clone()).unwrap();
            let listed =
                async || node.jobs().await.is_ok_and(|jobs| jobs.iter().any(|job| job.owner.is_some()));
            eventually(PATIENCE, "a job to run here", listed).await;
            // Its engine stands still from here on, and its lease thread sees that.
            told.recv().unwrap_err();
            node.closed().await;
        });
    });
    let still = node.await.unwrap();
    b.submit("key", "").await.unwrap();
    b.add_worker(world.recorder.clone()).await.unwrap();
    names(&still, |reason| matches!(reason, Unhealthy::Engine(_))).await;
    eventually(PATIENCE, "its job to run elsewhere", async || world.recorder.is_running("key")).await;
    assert!(still.health().needs_restart());
    drop(stand_still);
    healthy(&still).await;
    assert_ne!(still.health().workers[0].id, None);
    still.close().await.unwrap();
    drop(still);
    thread.join().unwrap();
}

/// A client of the pool's server that may do this much.
fn client_with(world: &World, user: &str, rights: &[&str]) -> Client {
    let mut rules = redis::cmd("ACL");
    rules.arg("SETUSER").arg(user).arg("on").arg(">secret").arg("~*").arg("&*").arg("+@all");
    rules.arg(rights).query::<()>(&mut world.client()).unwrap();
    Client::open(&format!("{}?user={user}&pass=secret", world.server().url())).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_hear_of_its_jobs_loses_its_leases_and_they_move() {
    let world = World::on_redis().with_ttl(Duration::from_secs(1));
    let b = world.node("b").await;
    let client = client_with(&world, "half", &[]);
    let half = Node::builder(POOL, client).name("half").worker_ttl(world.ttl()).join_settle(SHORT);
    let half = half.stable_after(SHORT).join().await.unwrap();
    world.add_worker(&half).await;
    let keys = world.dispatch(&half, 10).await;
    world.placed(&half, &keys).await;
    world.add_worker(&b).await;
    // It renews, dispatches and routes, but is told nothing any more.
    client_with(&world, "half", &["-xread"]);
    names(&half, |reason| matches!(reason, Unhealthy::Reader(_))).await;
    eventually(PATIENCE, "its jobs to run elsewhere", async || {
        let holders = world.holders(&b).await;
        let theirs = workers_on(&b);
        if holders.len() == 10 && holders.values().all(|held| theirs.contains(&held.owner)) {
            Ok(())
        } else {
            Err(holders)
        }
    })
    .await;
    eventually(PATIENCE, "it to stay out of the pool", async || workers_on(&half).is_empty()).await;
    client_with(&world, "half", &["+xread"]);
    let health = healthy(&half).await;
    assert!(health.workers[0].id.is_some());
    world.placed(&b, &keys).await;
    world.assert_clean();
}
