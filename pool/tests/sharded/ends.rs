//! The end of nodes in a pool of several shards, and the end of the pool.

use std::sync::Arc;
use std::time::Duration;

use tenure_pool::{Error, JobKey, Node, PoolPhase, StopReason};
use tenure_testing::eventually;

use crate::fleet::{Fleet, PATIENCE, SHARDS, SHORT, on_both_stores, tombstones};
use crate::recorder::{Act, SlowEnd};

on_both_stores!(
    a_closing_node_hands_off_the_jobs_of_all_shards,
    a_close_that_runs_out_of_time_names_what_is_left,
    a_shutdown_leaves_tombstones_alone,
    jobs_that_nobody_began_are_dropped_in_all_shards,
    another_number_of_shards_waits_for_the_last_job_to_end,
    the_next_node_to_join_ends_an_abandoned_shutdown,
    a_dropped_handle_closes_all_shards,
);

async fn a_closing_node_hands_off_the_jobs_of_all_shards(fleet: Fleet) {
    let ((a, _), (b, _)) = (fleet.node_with("a").await, fleet.node_with("b").await);
    let keys = fleet.dispatch(&a, 40).await;
    let report = a.close().await.unwrap();
    assert!(report.complete && report.left.is_empty(), "{report:?}");
    a.closed().await;
    fleet.all_run(&b, &keys, "a").await;
    assert!(matches!(a.stop_job("job-001").await, Err(Error::NodeClosed)));
    assert!(a.close().await.unwrap().complete, "to close what is closed is fine");
    fleet.assert_clean();
}

async fn a_close_that_runs_out_of_time_names_what_is_left(fleet: Fleet) {
    let node = fleet.node("a").await;
    let slow = Arc::new(SlowEnd::default());
    let ends = slow.clone();
    node.add_worker(fleet.recorder.acting(move |job| {
        if job.key().as_ref() == b"slow" { Act::EndWhenTold(ends.clone()) } else { Act::Run }
    }))
    .await
    .unwrap();
    fleet.dispatch(&node, 20).await;
    fleet.dispatch_one(&node, "slow").await;
    let report = node.close_within(SHORT * 10).await.unwrap();
    assert_eq!((report.complete, report.left), (false, vec![JobKey::try_from("slow").unwrap()]));
    slow.told.notify_one();
    assert!(node.close().await.unwrap().complete);
}

async fn a_shutdown_leaves_tombstones_alone(fleet: Fleet) {
    let ((a, _), (b, _)) = (fleet.node_with("a").await, fleet.node_with("b").await);
    let c = fleet.node("c").await;
    let keys = fleet.dispatch(&c, 40).await;
    fleet.stop_requested(&keys);
    let report = a.shutdown().await.unwrap();
    assert!(report.complete);
    assert_eq!((report.dropped_here, report.left), (0, vec![]));
    for node in [&a, &b, &c] {
        tokio::time::timeout(PATIENCE, node.closed()).await.expect("the node to close");
    }
    for key in &keys {
        assert_eq!(fleet.recorder.stops(key), [StopReason::Shutdown], "{key}");
    }
    assert!(fleet.keys().is_none_or(|keys| keys == tombstones(3)), "{:?}", fleet.keys());
    fleet.assert_clean_at_end();
    // Some shards may have ended before they were asked, because another shard was asked.
    assert!(b.shutdown().await.unwrap().complete);
    let (again, _) = fleet.node_with("a").await;
    fleet.dispatch_one(&again, "anew").await;
    assert!(fleet.recorder.is_running("anew"));
}

async fn jobs_that_nobody_began_are_dropped_in_all_shards(fleet: Fleet) {
    let node = fleet.node("a").await;
    for i in 0..12 {
        node.submit((format!("job-{i}"), "")).await.unwrap();
    }
    let report = node.shutdown().drop_queued().within(PATIENCE).await.unwrap();
    assert!(report.complete);
    assert_eq!((report.dropped_here, report.left), (12, vec![]));
    assert!(fleet.keys().is_none_or(|keys| keys == tombstones(3)), "{:?}", fleet.keys());
}

/// A node with a job of the last shard. The job ends only when it is told to, and must be stopped.
async fn slow_in_the_last_shard(fleet: &Fleet) -> (Node, String, Arc<SlowEnd>) {
    let node = fleet.node("a").await;
    let key = (0..100).map(|i| format!("slow-{i}")).find(|key| node.shard_of(key).unwrap() == 2).unwrap();
    let slow = Arc::new(SlowEnd::default());
    let ends = slow.clone();
    node.add_worker(fleet.recorder.acting(move |_| Act::EndWhenTold(ends.clone()))).await.unwrap();
    fleet.dispatch_one(&node, &key).await;
    fleet.stop_requested(std::slice::from_ref(&key));
    (node, key, slow)
}

async fn all_but_its_shard_end(node: &Node, slow: &SlowEnd) {
    slow.asked.notified().await;
    eventually(PATIENCE, "the second shard to end", async || {
        node.shard_health()[1].phase == PoolPhase::Closed
    })
    .await;
}

/// The first shard has no job left, and another shard has one. In a pool with other shards, its key would run twice.
async fn another_number_of_shards_waits_for_the_last_job_to_end(fleet: Fleet) {
    let (node, key, slow) = slow_in_the_last_shard(&fleet).await;
    let shutdown = tokio::spawn({
        let node = node.clone();
        async move { node.shutdown().within(PATIENCE * 2).await }
    });
    all_but_its_shard_end(&node, &slow).await;
    match fleet.builder("b", 2).join().await.unwrap_err() {
        Error::OtherShards { theirs: SHARDS, ours: 2 } => {}
        other => panic!("{other:?}"),
    }
    // A node with the same number does not create the first shard again, either.
    let refused = fleet.builder("c", SHARDS).join().await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    match fleet.builder("b", 2).join().await.unwrap_err() {
        Error::OtherShards { theirs: SHARDS, ours: 2 } => {}
        other => panic!("{other:?}"),
    }
    assert!(fleet.recorder.is_running(&key));
    slow.told.notify_one();
    assert!(shutdown.await.unwrap().unwrap().complete);
    let fewer = fleet.builder("b", 2).join().await.unwrap();
    fewer.add_worker(fleet.recorder.clone()).await.unwrap();
    fewer.dispatch((&key, "")).await.unwrap();
    assert_eq!(fleet.recorder.starts_of(&key), 2);
}

/// All processes die when some shards have ended, one runs a job, and the first waits for it.
async fn the_next_node_to_join_ends_an_abandoned_shutdown(fleet: Fleet) {
    let fleet = fleet.with_ttl(Duration::from_secs(2));
    let (node, _, slow) = slow_in_the_last_shard(&fleet).await;
    assert!(!node.shutdown().within(SHORT).await.unwrap().complete);
    all_but_its_shard_end(&node, &slow).await;
    node.abandon();
    node.closed().await;
    let (again, _) = fleet.node_with("b").await;
    assert_eq!(again.jobs().await.unwrap(), []);
    assert!(again.shutdown().await.unwrap().complete);
    assert_eq!(fleet.builder("d", 2).join().await.unwrap().shards(), 2);
}

async fn a_dropped_handle_closes_all_shards(fleet: Fleet) {
    let ((a, worker), (b, _)) = (fleet.node_with("a").await, fleet.node_with("b").await);
    let keys = fleet.dispatch(&a, 30).await;
    drop((a, worker));
    fleet.all_run(&b, &keys, "a").await;
    eventually(PATIENCE, "the workers to be gone", async || b.workers().len() == 3).await;
    fleet.assert_clean();
}
