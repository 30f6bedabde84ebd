//! The number of shards: all nodes have the same, or are refused. Also pools with one shard, which are no shards.

use std::time::Duration;

use tenure_pool::{Client, Error, Node};
use tenure_testing::Cluster;

use crate::fleet::{Fleet, PATIENCE, POOL, SHARDS, on_both_stores, tombstones};

on_both_stores!(
    another_number_of_shards_is_refused_and_nothing_is_written,
    of_two_numbers_that_come_at_once_one_holds,
    settings_change_in_all_shards,
    a_single_shard_is_a_pool,
);

fn numbers(joined: Result<Node, Error>) -> (u32, u32) {
    match joined {
        Err(Error::OtherShards { theirs, ours }) => (theirs, ours),
        other => panic!("{other:?}"),
    }
}

async fn another_number_of_shards_is_refused_and_nothing_is_written(fleet: Fleet) {
    let (node, _) = fleet.node_with("a").await;
    let keys = fleet.dispatch(&node, 20).await;
    let before = fleet.keys();
    for other in [2, 5] {
        assert_eq!(numbers(fleet.builder("b", other).join().await), (3, other));
        let error = fleet.builder("b", other).join().await.unwrap_err().to_string();
        assert!(error.contains("has 3 shards") && error.contains(&format!("given {other}")), "{error}");
    }
    assert_eq!(fleet.keys(), before);
    fleet.all_run(&node, &keys, "").await;
    assert!(node.health().is_healthy());
    // The number survives when a node leaves, but not a shutdown.
    node.close().await.unwrap();
    assert_eq!(numbers(fleet.builder("b", 2).join().await), (3, 2));
    let again = fleet.node("c").await;
    assert!(again.shutdown().drop_queued().await.unwrap().complete);
    let fewer = fleet.builder("d", 2).join().await.unwrap();
    assert_eq!((fewer.shards(), fewer.jobs().await.unwrap().len()), (2, 0));
}

async fn of_two_numbers_that_come_at_once_one_holds(fleet: Fleet) {
    for round in 0..5 {
        let joins = [2, 3, 2, 3].into_iter().enumerate();
        let joins = joins.map(|(at, count)| fleet.builder(&format!("n{round}-{at}"), count).join());
        let joined = futures::future::join_all(joins).await;
        let held: Vec<_> = joined.iter().filter_map(|joined| Some(joined.as_ref().ok()?.shards())).collect();
        assert!(!held.is_empty() && held.iter().all(|count| *count == held[0]), "{held:?}");
        let mut pool = None;
        for joined in joined {
            match joined {
                Ok(joined) => pool = Some(joined),
                refused => {
                    let (theirs, ours) = numbers(refused);
                    assert_eq!((theirs as usize, ours), (held[0], 5 - theirs));
                }
            }
        }
        let pool = pool.unwrap();
        if let Some(keys) = fleet.keys() {
            let third = keys.iter().any(|key| key.contains("#2"));
            assert_eq!(third, held[0] == 3, "{keys:?}");
        }
        assert!(pool.shutdown().await.unwrap().complete);
        if let Some(server) = &fleet.server {
            // Tombstones of either number are left.
            let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
            let () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
        }
    }
}

async fn settings_change_in_all_shards(fleet: Fleet) {
    let (a, b) = (fleet.node("a").await, fleet.node("b").await);
    let changed = a.change_settings(|settings| settings.max_queued = 7).await.unwrap();
    assert_eq!((changed.max_queued, a.settings().max_queued), (7, 7));
    match fleet.builder("old", SHARDS).max_queued(8).join().await.unwrap_err() {
        Error::SettingMismatch { name, .. } => assert_eq!(name, "max_queued"),
        other => panic!("{other:?}"),
    }
    // All shards have it: a node with the new value joins every one of them.
    let c = fleet.builder("c", SHARDS).max_queued(7).join().await.unwrap();
    c.close().await.unwrap();
    let refused = b.change_settings(|settings| settings.shard = None).await;
    assert!(matches!(refused, Err(Error::FixedSetting { name: "shard" })), "{refused:?}");
}

/// It has the name of the pool, and nothing in it says that it is a shard.
async fn a_single_shard_is_a_pool(fleet: Fleet) {
    let node = fleet.builder("a", 1).join().await.unwrap();
    node.add_worker(fleet.recorder.clone()).await.unwrap();
    let keys = fleet.dispatch(&node, 5).await;
    assert_eq!((node.shards(), node.pool_name(), node.settings().shard), (1, POOL, None));
    fleet.stop_requested(&keys);
    assert!(node.shutdown().await.unwrap().complete);
    let tombstone = format!("tenure:{{{POOL}}}:pool");
    assert!(fleet.keys().is_none_or(|keys| keys == [tombstone]), "{:?}", fleet.keys());
    fleet.assert_clean_at_end();
}

/// No node lives. The one that joins looks at the first shard's settings, and then recovers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_revision_of_the_settings_keeps_no_node_out() {
    let fleet = Fleet::on_redis().with_ttl(Duration::from_secs(2));
    let (node, _) = fleet.node_with("a").await;
    assert!(node.close().await.unwrap().complete);
    let mut redis =
        redis::Client::open(fleet.server.as_ref().unwrap().url()).unwrap().get_connection().unwrap();
    let key = format!("tenure:{{{POOL}#0}}:pool");
    let lost: u64 = redis::cmd("HDEL").arg(key).arg("settings_revision").query(&mut redis).unwrap();
    assert_eq!(lost, 1);
    let (again, _) = fleet.node_with("b").await;
    fleet.dispatch_one(&again, "key").await;
    fleet.assert_clean();
}

/// A pool with one shard cannot have the name of a shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_by_itself_of_the_same_name_is_another_one() {
    let fleet = Fleet::on_redis();
    let (sharded, _) = fleet.node_with("a").await;
    let keys = fleet.dispatch(&sharded, 10).await;
    for name in ["sharded#0", "sharded#1"] {
        let refused = Node::builder(name, fleet.backend.clone()).join().await;
        assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    }
    let plain = Node::builder(POOL, fleet.backend.clone()).assume_fresh(true).join().await.unwrap();
    assert_eq!((plain.jobs().await.unwrap(), plain.workers()), (vec![], vec![]));
    assert!(plain.shutdown().await.unwrap().complete);
    fleet.all_run(&sharded, &keys, "").await;
    fleet.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_spread_over_a_cluster() {
    let cluster = Cluster::start().await.unwrap();
    let fleet = Fleet::elsewhere(&Client::open(&cluster.url()).unwrap());
    let mut slots = Vec::new();
    let mut owners = std::collections::BTreeSet::new();
    for shard in 0..4 {
        let slot = cluster.slot(&format!("{{{POOL}#{shard}}}")).unwrap();
        owners.insert(cluster.owner(slot).await.unwrap());
        slots.push(slot);
    }
    slots.sort_unstable();
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] > 3_000), "about a quarter apart: {slots:?}");
    assert_eq!(owners.len(), cluster.size(), "every server has a shard");

    let (a, b) = (fleet.builder("a", 4).join().await.unwrap(), fleet.builder("b", 4).join().await.unwrap());
    a.add_worker(fleet.recorder.clone()).await.unwrap();
    let keys = fleet.dispatch(&b, 60).await;
    fleet.all_run(&a, &keys, "b").await;
    b.add_worker(fleet.recorder.clone()).await.unwrap();
    assert!(a.close().await.unwrap().complete);
    fleet.all_run(&b, &keys, "a").await;
    fleet.stop_requested(&keys);
    let report = b.shutdown().within(Duration::from_secs(60)).await.unwrap();
    assert!(report.complete, "{report:?}");
    tokio::time::timeout(PATIENCE, b.closed()).await.expect("the node to end");
    let mut left: Vec<_> = (0..cluster.size()).flat_map(|node| cluster.node(node).keys().unwrap()).collect();
    left.sort();
    assert_eq!(left, tombstones(4));
    fleet.assert_clean_at_end();
}
