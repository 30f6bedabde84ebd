//! Workers in every shard: they join, leave and crash, and the keys of each shard move as in a pool with one shard.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_pool::health::Unhealthy;
use tenure_pool::inspect::PoolPhase;
use tenure_pool::{Error, JobKey};

use super::{SHARDS, all_run, node_with_worker, on_both_stores};
use crate::world::{PATIENCE, World, until};

on_both_stores!(
    a_worker_has_a_place_in_every_shard,
    a_drained_workers_jobs_run_elsewhere,
    a_crashed_nodes_jobs_run_elsewhere,
    the_whole_is_as_healthy_as_each_shard,
);

async fn a_worker_has_a_place_in_every_shard(world: World) {
    let node = world.node("a").await;
    let worker = node.add_worker(world.recorder.clone()).meta("blue").await.unwrap();
    let mut keys = world.dispatch(&node, 40).await;
    keys.sort();
    let info = worker.infos();
    assert_eq!(info, node.inspect().workers().await.unwrap());
    assert_eq!(info.iter().map(|info| info.shard).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(info.iter().all(|info| info.meta == "blue" && info.node == "a"));
    assert_eq!((worker.id(), worker.info()), (Some(info[0].id), Some(info[0].clone())));
    assert_eq!(worker.ids(), info.iter().map(|info| Some(info.id)).collect::<Vec<_>>());
    let mut held = BTreeMap::new();
    for info in &info {
        for job in node.inspect().jobs_of(info, None, 100).await.unwrap() {
            assert_eq!(node.inspect().shard_of(&job.key).unwrap(), info.shard);
            held.insert(job.key.to_string(), info.shard);
        }
    }
    assert_eq!(held.into_keys().collect::<Vec<_>>(), keys);
    let all = async |limit| {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().map(|key| JobKey::try_from(key.as_str()).unwrap());
            let page = worker.jobs(after.as_ref(), limit).await.unwrap();
            if page.is_empty() {
                return listed;
            }
            listed.extend(page.iter().map(|job| job.key.to_string()));
        }
    };
    assert_eq!((all(7).await, all(100).await), (keys.clone(), keys));
    let mut nowhere = info[0].clone();
    nowhere.shard = SHARDS as usize;
    let refused = node.inspect().jobs_of(&nowhere, None, 1).await;
    assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
}

async fn a_drained_workers_jobs_run_elsewhere(world: World) {
    let ((a, worker), (b, _)) = (node_with_worker(&world, "a").await, node_with_worker(&world, "b").await);
    let keys = world.dispatch(&a, 40).await;
    worker.drain().await.unwrap();
    all_run(&world, &b, &keys, "a").await;
    assert_eq!(worker.ids(), [None; SHARDS as usize]);
    assert_eq!((worker.infos(), worker.info(), worker.id()), (vec![], None, None));
    worker.drain_within(PATIENCE).await.unwrap();
    world.assert_clean();
}

async fn a_crashed_nodes_jobs_run_elsewhere(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let ((a, _), (b, _)) = (node_with_worker(&world, "a").await, node_with_worker(&world, "b").await);
    let keys = world.dispatch(&b, 40).await;
    a.abandon();
    all_run(&world, &b, &keys, "a").await;
    world.assert_clean();
}

async fn the_whole_is_as_healthy_as_each_shard(world: World) {
    let (node, _) = node_with_worker(&world, "a").await;
    until("all shards to be healthy", async || node.health().is_healthy()).await;
    let health = node.health();
    let places: Vec<_> = health.workers.iter().map(|worker| worker.shard).collect();
    assert_eq!((health.phase, places), (PoolPhase::Open, vec![0, 1, 2]));
    let each = node.shard_health();
    assert!(each.len() == 3 && each.iter().all(|shard| shard.is_healthy() && shard.workers.len() == 1));
    node.abandon();
    node.closed().await;
    let health = node.health();
    assert!(!health.is_healthy() && health.needs_restart());
    assert_eq!(health.reasons, vec![Unhealthy::Ended; 3]);
    assert!(node.shard_health().iter().all(|shard| shard.reasons == [Unhealthy::Ended]));
}
