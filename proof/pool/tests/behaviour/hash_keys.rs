//! The keys of the placement hash: drawn when a pool is created, the same on all its nodes, kept through every loss.

use std::collections::BTreeSet;

use tenure_pool::{Error, MemoryStore, Node};

use crate::server_loss::{TTL, all_runs_on_after};
use crate::world::{HASH_KEYS, World, on_both_stores};

on_both_stores!(
    all_nodes_of_a_pool_place_by_the_keys_that_were_drawn,
    keys_that_were_drawn_outlast_a_loss_of_all_data,
    a_node_that_was_given_other_keys_is_refused,
);

#[tokio::test]
async fn pools_draw_different_keys() {
    let mut drawn = BTreeSet::new();
    for _ in 0..8 {
        let node = Node::builder("p", MemoryStore::new()).assume_fresh(true).join().await.unwrap();
        let (k1, k2) = node.settings().hash_keys.unwrap();
        drawn.extend([k1, k2]);
        node.close().await.unwrap();
    }
    assert_eq!(drawn.len(), 16);
}

async fn all_nodes_of_a_pool_place_by_the_keys_that_were_drawn(world: World) {
    let world = world.drawing();
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let client = world.builder("client").client_only().join().await.unwrap();
    let keys = a.settings().hash_keys;
    assert!(keys.is_some_and(|keys| keys != HASH_KEYS));
    assert_eq!([b.settings().hash_keys, client.settings().hash_keys], [keys; 2]);
    let jobs = world.dispatch(&client, 30).await;
    world.placed(&b, &jobs).await;
    world.assert_clean();
}

async fn keys_that_were_drawn_outlast_a_loss_of_all_data(world: World) {
    let world = world.drawing().with_ttl(TTL);
    let before = world.builder("first").join().await.unwrap();
    let keys = before.settings().hash_keys;
    all_runs_on_after(&world, async || world.wipe()).await;
    let late = world.builder("late").join().await.unwrap();
    assert_eq!([before.settings().hash_keys, late.settings().hash_keys], [keys; 2]);
}

async fn a_node_that_was_given_other_keys_is_refused(world: World) {
    let world = world.drawing();
    let node = world.node_with("a", 1).await;
    let own = node.settings();
    let given = |keys| tenure_pool::Settings { hash_keys: Some(keys), ..(*own).clone() };
    match world.builder("b").settings(given(HASH_KEYS)).join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, .. } => {
            let (k1, k2) = own.hash_keys.unwrap();
            assert_eq!((name.as_str(), theirs), ("hash_keys", format!("{k1}/{k2}")));
        }
        error => panic!("{error:?}"),
    }
    let same = world.builder("c").settings(given(own.hash_keys.unwrap())).join().await.unwrap();
    world.add_worker(&same).await;
    world.assert_clean();
}
