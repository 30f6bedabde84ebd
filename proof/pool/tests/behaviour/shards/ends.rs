//! The end of nodes in a pool of several shards, and the end of the pool.

use std::sync::Arc;
use std::time::Duration;

use tenure_pool::inspect::PoolPhase;
use tenure_pool::{Error, JobKey, Node, StopReason};

use super::{
    SHARDS, all_run, builder, keys_of, node_with_worker, on_both_stores, stop_requested, tombstones,
};
use crate::recorder::{Act, SlowEnd};
use crate::world::{PATIENCE, SHORT, World, beside, until};

on_both_stores!(
    a_closing_node_hands_off_the_jobs_of_all_shards,
    a_close_that_runs_out_of_time_names_what_is_left,
    a_shutdown_leaves_tombstones_alone,
    jobs_that_nobody_began_are_dropped_in_all_shards,
    a_shutdown_is_hastened_in_all_shards,
    another_number_of_shards_waits_for_the_last_job_to_end,
    the_next_node_to_join_ends_an_abandoned_shutdown,
    a_dropped_handle_closes_all_shards,
);

async fn a_closing_node_hands_off_the_jobs_of_all_shards(world: World) {
    let ((a, _), (b, _)) = (node_with_worker(&world, "a").await, node_with_worker(&world, "b").await);
    let keys = world.dispatch(&a, 40).await;
    let report = a.close().await.unwrap();
    assert!(report.complete && report.left.is_empty(), "{report:?}");
    a.closed().await;
    all_run(&world, &b, &keys, "a").await;
    assert!(matches!(a.stop_job("job-001").await, Err(Error::NodeClosed)));
    assert!(a.close().await.unwrap().complete, "to close what is closed is fine");
    world.assert_clean();
}

async fn a_close_that_runs_out_of_time_names_what_is_left(world: World) {
    let node = world.node("a").await;
    let slow = Arc::new(SlowEnd::default());
    let ends = slow.clone();
    node.add_worker(world.recorder.acting(move |job| {
        if job.key().as_ref() == b"slow" { Act::EndWhenTold(ends.clone()) } else { Act::Run }
    }))
    .await
    .unwrap();
    world.dispatch(&node, 20).await;
    world.dispatch_one(&node, "slow").await;
    // On a slow machine others need longer than the first of these times.
    let slow_is_left = async || {
        let report = node.close_within(SHORT * 10).await.unwrap();
        assert!(!report.complete, "{report:?}");
        if report.left == [JobKey::try_from("slow").unwrap()] { Ok(()) } else { Err(report) }
    };
    until("all but the slow one to end", slow_is_left).await;
    slow.told.notify_one();
    assert!(node.close().await.unwrap().complete);
}

async fn a_shutdown_leaves_tombstones_alone(world: World) {
    let ((a, _), (b, _)) = (node_with_worker(&world, "a").await, node_with_worker(&world, "b").await);
    let c = world.node("c").await;
    let keys = world.dispatch(&c, 40).await;
    stop_requested(&world, &keys);
    let report = a.operate().shutdown().await.unwrap();
    assert!(report.complete);
    assert_eq!((report.dropped_here, report.left), (0, vec![]));
    for node in [&a, &b, &c] {
        tokio::time::timeout(PATIENCE, node.closed()).await.expect("the node to close");
    }
    for key in &keys {
        assert_eq!(world.recorder.stops(key), [StopReason::Shutdown], "{key}");
    }
    assert!(keys_of(&world).is_none_or(|keys| keys == tombstones(3)), "{:?}", keys_of(&world));
    world.assert_clean_at_end();
    // Some shards may have ended before they were asked, because another shard was asked.
    assert!(b.operate().shutdown().await.unwrap().complete);
    let (again, _) = node_with_worker(&world, "a").await;
    world.dispatch_one(&again, "anew").await;
    assert!(world.recorder.is_running("anew"));
}

async fn jobs_that_nobody_began_are_dropped_in_all_shards(world: World) {
    let node = world.node("a").await;
    for i in 0..12 {
        node.submit((format!("job-{i}"), "")).await.unwrap();
    }
    let report = node.operate().shutdown().drop_queued().within(PATIENCE).await.unwrap();
    assert!(report.complete);
    assert_eq!((report.dropped_here, report.left), (12, vec![]));
    assert!(keys_of(&world).is_none_or(|keys| keys == tombstones(3)), "{:?}", keys_of(&world));
}

async fn a_shutdown_is_hastened_in_all_shards(world: World) {
    let node = world.node("a").await;
    for i in 0..12 {
        node.submit((format!("job-{i}"), "")).await.unwrap();
    }
    let asked = beside(&node, |node| async move {
        node.operate().shutdown().closing(PATIENCE * 10).within(PATIENCE).await
    });
    // The pool itself says how many shards there are.
    let operator = world.builder("x").shards(2).operate().await.unwrap();
    until("the shutdown to begin", async || {
        operator.inspect().pool_state().await.unwrap().iter().all(|shard| shard.phase == PoolPhase::Closing)
    })
    .await;
    assert!(operator.shutdown().drop_queued().within(PATIENCE).await.unwrap().complete);
    let report = asked.await.unwrap().unwrap();
    assert_eq!((report.complete, report.dropped_here), (true, 12));
}

/// A node with a job of the last shard. The job ends only when it is told to, and must be stopped.
async fn slow_in_the_last_shard(world: &World) -> (Node, String, Arc<SlowEnd>) {
    let node = world.node("a").await;
    let key =
        (0..100).map(|i| format!("slow-{i}")).find(|key| node.inspect().shard_of(key).unwrap() == 2).unwrap();
    let slow = Arc::new(SlowEnd::default());
    let ends = slow.clone();
    node.add_worker(world.recorder.acting(move |_| Act::EndWhenTold(ends.clone()))).await.unwrap();
    world.dispatch_one(&node, &key).await;
    stop_requested(world, std::slice::from_ref(&key));
    (node, key, slow)
}

async fn all_but_its_shard_end(node: &Node, slow: &SlowEnd) {
    slow.asked.notified().await;
    until("the second shard to end", async || node.shard_health()[1].phase == PoolPhase::Closed).await;
}

/// The first shard has no job left, and another shard has one. In a pool with other shards, its key would run twice.
async fn another_number_of_shards_waits_for_the_last_job_to_end(world: World) {
    let (node, key, slow) = slow_in_the_last_shard(&world).await;
    let shutdown = beside(&node, |node| async move { node.operate().shutdown().within(PATIENCE * 2).await });
    all_but_its_shard_end(&node, &slow).await;
    match builder(&world, "b", 2).join().await.unwrap_err() {
        Error::OtherShards { theirs: SHARDS, ours: 2 } => {}
        other => panic!("{other:?}"),
    }
    // A node with the same number does not create the first shard again, either.
    let refused = builder(&world, "c", SHARDS).join().await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    match builder(&world, "b", 2).join().await.unwrap_err() {
        Error::OtherShards { theirs: SHARDS, ours: 2 } => {}
        other => panic!("{other:?}"),
    }
    assert!(world.recorder.is_running(&key));
    slow.told.notify_one();
    assert!(shutdown.await.unwrap().unwrap().complete);
    let fewer = builder(&world, "b", 2).join().await.unwrap();
    fewer.add_worker(world.recorder.clone()).await.unwrap();
    fewer.dispatch((&key, "")).await.unwrap();
    assert_eq!(world.recorder.starts_of(&key), 2);
}

/// All processes die when some shards have ended, one runs a job, and the first waits for it.
async fn the_next_node_to_join_ends_an_abandoned_shutdown(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (node, _, slow) = slow_in_the_last_shard(&world).await;
    assert!(!node.operate().shutdown().within(SHORT).await.unwrap().complete);
    all_but_its_shard_end(&node, &slow).await;
    node.abandon();
    node.closed().await;
    let (again, _) = node_with_worker(&world, "b").await;
    assert_eq!(again.inspect().jobs().await.unwrap(), []);
    assert!(again.operate().shutdown().await.unwrap().complete);
    assert_eq!(builder(&world, "d", 2).join().await.unwrap().inspect().shards(), 2);
}

async fn a_dropped_handle_closes_all_shards(world: World) {
    let ((a, worker), (b, _)) = (node_with_worker(&world, "a").await, node_with_worker(&world, "b").await);
    let keys = world.dispatch(&a, 30).await;
    drop((a, worker));
    all_run(&world, &b, &keys, "a").await;
    until("the workers to be gone", async || b.inspect().workers().await.unwrap().len() == 3).await;
    world.assert_clean();
}
