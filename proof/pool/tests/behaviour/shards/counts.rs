//! The number of shards: all nodes have the same, or are refused. Also pools with one shard, which are no shards.

use std::time::Duration;

use tenure_pool::{Client, Error, Node};
use tenure_testing::Cluster;

use super::{
    SHARDS, all_run, builder, keys_of, node_with_worker, on_both_stores, on_redis, stop_requested, tombstones,
};
use crate::world::{Home, PATIENCE, POOL, World};

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

async fn another_number_of_shards_is_refused_and_nothing_is_written(world: World) {
    let (node, _) = node_with_worker(&world, "a").await;
    let keys = world.dispatch(&node, 20).await;
    // The node writes its own history and status when it comes to it.
    let keys_of = |world: &World| {
        let its_own = |key: &String| key.ends_with(":history") || key.ends_with(":nodes");
        keys_of(world).map(|keys| keys.into_iter().filter(|key| !its_own(key)).collect::<Vec<_>>())
    };
    let before = keys_of(&world);
    for other in [2, 5] {
        assert_eq!(numbers(builder(&world, "b", other).join().await), (3, other));
        let error = builder(&world, "b", other).join().await.unwrap_err().to_string();
        assert!(error.contains("has 3 shards") && error.contains(&format!("given {other}")), "{error}");
    }
    assert_eq!(keys_of(&world), before);
    all_run(&world, &node, &keys, "").await;
    assert!(node.health().is_healthy());
    // The number survives when a node leaves, but not a shutdown.
    node.close().await.unwrap();
    assert_eq!(numbers(builder(&world, "b", 2).join().await), (3, 2));
    let again = world.node("c").await;
    assert!(again.operate().shutdown().drop_queued().await.unwrap().complete);
    let fewer = builder(&world, "d", 2).join().await.unwrap();
    assert_eq!((fewer.inspect().shards(), fewer.inspect().jobs().await.unwrap().len()), (2, 0));
}

async fn of_two_numbers_that_come_at_once_one_holds(world: World) {
    for round in 0..5 {
        let joins = [2, 3, 2, 3].into_iter().enumerate();
        let joins = joins.map(|(at, count)| builder(&world, &format!("n{round}-{at}"), count).join());
        let joined = futures::future::join_all(joins).await;
        let held: Vec<_> =
            joined.iter().filter_map(|joined| Some(joined.as_ref().ok()?.inspect().shards())).collect();
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
        if let Some(keys) = keys_of(&world) {
            let third = keys.iter().any(|key| key.contains("#2"));
            assert_eq!(third, held[0] == 3, "{keys:?}");
        }
        assert!(pool.operate().shutdown().await.unwrap().complete);
        if let Home::Redis(_) = &world.home {
            // Tombstones of either number are left.
            let mut redis = world.client();
            let () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
        }
    }
}

async fn settings_change_in_all_shards(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let changed = a.operate().change_settings(|settings| settings.max_queued = 7).await.unwrap();
    assert_eq!((changed.max_queued, a.settings().max_queued), (7, 7));
    match builder(&world, "old", SHARDS).max_queued(8).join().await.unwrap_err() {
        Error::SettingMismatch { name, .. } => assert_eq!(name, "max_queued"),
        other => panic!("{other:?}"),
    }
    // All shards have it: a node with the new value joins every one of them.
    let c = builder(&world, "c", SHARDS).max_queued(7).join().await.unwrap();
    c.close().await.unwrap();
    let refused = b.operate().change_settings(|settings| settings.shard = None).await;
    assert!(matches!(refused, Err(Error::FixedSetting { name: "shard" })), "{refused:?}");
}

/// It has the name of the pool, and nothing in it says that it is a shard.
async fn a_single_shard_is_a_pool(world: World) {
    let node = builder(&world, "a", 1).join().await.unwrap();
    node.add_worker(world.recorder.clone()).await.unwrap();
    let keys = world.dispatch(&node, 5).await;
    assert_eq!((node.inspect().shards(), node.inspect().pool_name(), node.settings().shard), (1, POOL, None));
    stop_requested(&world, &keys);
    assert!(node.operate().shutdown().await.unwrap().complete);
    let tombstone = format!("tenure:{{{POOL}}}:pool");
    assert!(keys_of(&world).is_none_or(|keys| keys == [tombstone]), "{:?}", keys_of(&world));
    world.assert_clean_at_end();
}

/// No node lives. The one that joins looks at the first shard's settings, and then recovers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_revision_of_the_settings_keeps_no_node_out() {
    let world = on_redis().with_ttl(Duration::from_secs(2));
    let (node, _) = node_with_worker(&world, "a").await;
    assert!(node.close().await.unwrap().complete);
    let mut redis = world.client();
    let key = format!("tenure:{{{POOL}#0}}:pool");
    let lost: u64 = redis::cmd("HDEL").arg(key).arg("settings_revision").query(&mut redis).unwrap();
    assert_eq!(lost, 1);
    let (again, _) = node_with_worker(&world, "b").await;
    world.dispatch_one(&again, "key").await;
    world.assert_clean();
}

/// A pool with one shard cannot have the name of a shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_by_itself_of_the_same_name_is_another_one() {
    let world = on_redis();
    let (sharded, _) = node_with_worker(&world, "a").await;
    let keys = world.dispatch(&sharded, 10).await;
    for name in [format!("{POOL}#0"), format!("{POOL}#1")] {
        let refused = Node::builder(&name, world.backend()).join().await;
        assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    }
    let plain = Node::builder(POOL, world.backend()).assume_fresh(true).join().await.unwrap();
    assert_eq!(
        (plain.inspect().jobs().await.unwrap(), plain.inspect().workers().await.unwrap()),
        (vec![], vec![])
    );
    assert!(plain.operate().shutdown().await.unwrap().complete);
    all_run(&world, &sharded, &keys, "").await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_spread_over_a_cluster() {
    let cluster = Cluster::start().await.unwrap();
    let world = World::elsewhere(&Client::open(&cluster.url()).unwrap());
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

    let (a, b) =
        (builder(&world, "a", 4).join().await.unwrap(), builder(&world, "b", 4).join().await.unwrap());
    a.add_worker(world.recorder.clone()).await.unwrap();
    let keys = world.dispatch(&b, 60).await;
    all_run(&world, &a, &keys, "b").await;
    b.add_worker(world.recorder.clone()).await.unwrap();
    assert!(a.close().await.unwrap().complete);
    all_run(&world, &b, &keys, "a").await;
    stop_requested(&world, &keys);
    let report = b.operate().shutdown().within(Duration::from_secs(60)).await.unwrap();
    assert!(report.complete, "{report:?}");
    tokio::time::timeout(PATIENCE, b.closed()).await.expect("the node to end");
    let mut left: Vec<_> = (0..cluster.size()).flat_map(|node| cluster.node(node).keys().unwrap()).collect();
    left.sort();
    assert_eq!(left, tombstones(4));
    world.assert_clean_at_end();
}
