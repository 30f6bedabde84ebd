//! Workers in every shard: they come, go and crash, and each shard's keys move as in a pool by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_pool::Error;
use tenure_testing::eventually;

use crate::fleet::{Fleet, PATIENCE, SHARDS, on_both_stores};

on_both_stores!(
    a_worker_has_a_place_in_every_shard,
    a_drained_workers_jobs_run_elsewhere,
    a_crashed_nodes_jobs_run_elsewhere,
    the_whole_is_as_healthy_as_each_shard,
);

async fn a_worker_has_a_place_in_every_shard(fleet: Fleet) {
    let node = fleet.node("a").await;
    let worker = node.add_worker_as("blue", fleet.recorder.clone()).await.unwrap();
    let keys = fleet.dispatch(&node, 40).await;
    let info = worker.info();
    assert_eq!(info, node.workers());
    assert_eq!(info.iter().map(|info| info.shard).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(info.iter().all(|info| info.worker.meta == "blue" && info.worker.node == "a"));
    assert_eq!(worker.ids(), info.iter().map(|info| Some(info.worker.id)).collect::<Vec<_>>());
    let mut held = BTreeMap::new();
    for info in &info {
        for job in node.jobs_of(info.shard, info.worker.id, None, 100).await.unwrap() {
            assert_eq!(node.shard_of(&job.key).unwrap(), info.shard);
            held.insert(job.key.to_string(), info.shard);
        }
    }
    assert_eq!(held.into_keys().collect::<Vec<_>>(), keys);
    assert!(node.jobs_of(SHARDS as usize, info[0].worker.id, None, 1).await.is_err());
    let other = fleet.node("b").await;
    assert!(matches!(other.remove_worker(&worker).await, Err(Error::OtherNode)));
}

async fn a_drained_workers_jobs_run_elsewhere(fleet: Fleet) {
    let ((a, worker), (b, _)) = (fleet.node_with("a").await, fleet.node_with("b").await);
    let keys = fleet.dispatch(&a, 40).await;
    a.remove_worker(&worker).await.unwrap();
    fleet.all_run(&b, &keys, "a").await;
    assert_eq!(worker.ids(), [None; SHARDS as usize]);
    assert_eq!(worker.info(), []);
    worker.drain_within(PATIENCE).await.unwrap();
    fleet.assert_clean();
}

async fn a_crashed_nodes_jobs_run_elsewhere(fleet: Fleet) {
    let fleet = fleet.with_ttl(Duration::from_secs(2));
    let ((a, _), (b, _)) = (fleet.node_with("a").await, fleet.node_with("b").await);
    let keys = fleet.dispatch(&b, 40).await;
    a.abandon();
    fleet.all_run(&b, &keys, "a").await;
    fleet.assert_clean();
}

async fn the_whole_is_as_healthy_as_each_shard(fleet: Fleet) {
    let (node, _) = fleet.node_with("a").await;
    eventually(PATIENCE, "all shards to be healthy", async || node.health().is_healthy()).await;
    let health = node.health();
    assert_eq!((health.shards.len(), health.reasons().count()), (3, 0));
    assert!(health.shards.iter().all(|shard| shard.workers.len() == 1));
    node.abandon();
    node.closed().await;
    let health = node.health();
    assert!(!health.is_healthy() && health.needs_restart());
    assert_eq!(health.reasons().map(|(shard, _)| shard).collect::<Vec<_>>(), [0, 1, 2]);
}
