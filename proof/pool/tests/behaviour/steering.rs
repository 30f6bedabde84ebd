//! Operators steer single jobs from any node: park, bounce, restart and retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_pool::{Error, JobState, StopReason};

use crate::recorder::Act;
use crate::world::{World, on_both_stores, until};

on_both_stores!(
    a_running_job_is_parked_and_retried_from_another_node,
    a_job_that_waits_is_parked_and_retried,
    a_bounced_job_stays_elsewhere_and_a_restart_brings_it_home,
    a_job_that_waits_for_its_pause_begins_now,
    what_cannot_be_steered_says_so,
    every_shard_steers_its_jobs,
    an_operator_without_a_node_joins_once_and_leaves,
);

async fn runs(world: &World, key: &str, starts: usize) {
    until("the job to run", async || {
        world.recorder.is_running(key) && world.recorder.starts_of(key) == starts
    })
    .await;
}

async fn a_running_job_is_parked_and_retried_from_another_node(world: World) {
    let (node, other) = (world.node_with("a", 2).await, world.node("b").await);
    world.dispatch_one(&node, "key").await;
    other.notify("key", "before").await.unwrap();
    until("the notification", async || world.recorder.notes("key") == ["before"]).await;
    other.operate().park("key", "ticket 17").await.unwrap();
    let job = other.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.state, job.attempts, job.error.as_deref()), (JobState::Parked, 0, Some("ticket 17")));
    assert_eq!(world.recorder.stops("key"), [StopReason::Parked]);
    assert!(!world.recorder.is_running("key"));
    other.operate().park("key", "another reason").await.unwrap();
    assert_eq!(other.inspect().parked().await.unwrap()[0].error, "ticket 17", "it was parked before");
    other.notify("key", "meanwhile").await.unwrap();
    other.operate().retry("key").await.unwrap();
    runs(&world, "key", 2).await;
    until("what was kept", async || {
        world.recorder.notes("key").last().is_some_and(|last| last == "meanwhile")
    })
    .await;
    world.assert_clean();
}

async fn a_job_that_waits_is_parked_and_retried(world: World) {
    let node = world.node("a").await;
    world.history().submitted("key");
    node.submit(("key", "payload of key")).await.unwrap();
    node.operate().park("key", "not yet").await.unwrap();
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().state, JobState::Parked);
    world.add_worker(&node).await;
    node.operate().retry("key").await.unwrap();
    runs(&world, "key", 1).await;
    world.assert_clean();
}

async fn a_bounced_job_stays_elsewhere_and_a_restart_brings_it_home(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let (keys, before) = world.dispatch_placed(&a, 12).await;
    let key = keys[0].as_str();
    b.operate().bounce(key).await.unwrap();
    runs(&world, key, 2).await;
    let there = b.inspect().job(key).await.unwrap().unwrap();
    assert_ne!(there.owner.map(|worker| worker.0), Some(before[key].owner), "it runs on another worker");
    assert_eq!(there.attempts, 1, "the run that was ended counts as none");
    let explained = b.inspect().explain(key).await.unwrap().to_string();
    assert!(explained.contains("the ring gives this key to worker"), "{explained}");
    b.operate().restart(key).await.unwrap();
    runs(&world, key, 3).await;
    let after = world.placed(&a, &keys).await;
    assert_eq!(after[key].owner, before[key].owner, "it is at home again");
    assert_eq!(world.recorder.stops(key), [StopReason::Bounced; 2]);
    for key in &keys[1..] {
        assert_eq!((world.recorder.starts_of(key), after[key]), (1, before[key]), "{key}");
    }
    world.assert_clean();
}

async fn a_job_that_waits_for_its_pause_begins_now(world: World) {
    let node = world.node("a").await;
    let refuses = Arc::new(AtomicBool::new(true));
    let told = refuses.clone();
    let acting = world.recorder.acting(move |_| {
        if told.load(Ordering::SeqCst) { Act::Refuse(Duration::from_secs(240)) } else { Act::Run }
    });
    node.add_worker(acting).await.unwrap();
    world.history().submitted("key");
    node.submit(("key", "payload of key")).await.unwrap();
    until("the job to be refused", async || {
        let job = node.inspect().job("key").await.unwrap();
        job.is_some_and(|job| job.state == JobState::Queued && job.token.0 > 0)
    })
    .await;
    refuses.store(false, Ordering::SeqCst);
    node.operate().retry("key").await.unwrap();
    // Without the retry this would take four minutes.
    until("the job to run", async || world.recorder.is_running("key")).await;
}

async fn what_cannot_be_steered_says_so(world: World) {
    let node = world.node_with("a", 1).await;
    assert!(matches!(node.operate().park("", "x").await, Err(Error::Name(_))));
    assert!(matches!(
        node.operate().park("key", "x".repeat(1_025)).await,
        Err(Error::TooLong { max: 1_024, .. })
    ));
    assert!(matches!(node.operate().park("key", "x").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.operate().bounce("key").await, Err(Error::JobNotFound(_))));
    world.dispatch_one(&node, "key").await;
    assert!(matches!(node.operate().retry("key").await, Err(Error::NotWaiting(_))));
    node.operate().park("key", "x").await.unwrap();
    assert!(matches!(node.operate().bounce("key").await, Err(Error::Parked(_))));
    assert!(matches!(node.operate().restart("key").await, Err(Error::Parked(_))));
    world.stop(&node, "key").await;
    assert!(matches!(node.operate().retry("key").await, Err(Error::JobNotFound(_))));
}

async fn every_shard_steers_its_jobs(world: World) {
    let world = world.with_shards(3);
    let node = world.node_with("a", 2).await;
    let keys = world.dispatch(&node, 9).await;
    for key in &keys {
        node.operate().park(key.as_str(), "all of them").await.unwrap();
    }
    assert_eq!(node.inspect().parked().await.unwrap().len(), 9);
    for key in &keys {
        node.operate().retry(key.as_str()).await.unwrap();
        runs(&world, key, 2).await;
    }
    world.assert_clean();
}

async fn an_operator_without_a_node_joins_once_and_leaves(world: World) {
    let node = world.node_running("a", "key").await;
    let operator = world.builder("x").operate().await.unwrap();
    operator.pause("key", "ticket 17").await.unwrap();
    let paused = operator.inspect().job("key").await.unwrap().unwrap().paused.unwrap();
    assert_eq!((&*paused.by, &*paused.reason), ("x", "ticket 17"), "its name is that of its builder");
    let again = operator.clone();
    again.resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    assert_eq!(operator.inspect().nodes().await.unwrap().len(), 1, "it has no worker");
    again.close().await;
    assert!(matches!(operator.park("key", "").await, Err(Error::NodeClosed)));
    assert!(node.health().is_healthy());
    world.assert_clean();
}
