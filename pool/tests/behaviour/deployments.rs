//! A pool on a cluster, behind sentinels and over TLS: all that it does on one plain server, it does there.

use std::time::Duration;

use tenure_pool::Client;
use tenure_testing::tls::Authority;
use tenure_testing::{Cluster, RedisServer, Sentinels, eventually};

use crate::server_loss::all_start_again_after;
use crate::world::{PATIENCE, POOL, World, moved};

const TTL: Duration = Duration::from_secs(1);

/// A job's whole life: dispatched, told, moved by a drain and by a closing node, stopped; then the pool ends.
async fn lives_a_whole_life(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys = world.dispatch(&b, 20).await;
    let placed = world.placed(&a, &keys).await;
    b.notify(&*keys[0], "hello").await.unwrap();
    eventually(PATIENCE, "the notification", async || world.recorder.notes(&keys[0]) == ["hello"]).await;

    let second = world.add_worker(&b).await;
    let spread = world.placed(&a, &keys).await;
    assert!(!moved(&placed, &spread).is_empty());
    second.drain().await.unwrap();
    eventually(PATIENCE, "the drained worker to be gone", async || a.workers().len() == 1).await;

    world.stop(&b, &keys[0]).await;
    eventually(PATIENCE, "the stopped job to end", async || !world.recorder.is_running(&keys[0])).await;
    let report = a.shutdown().await.unwrap();
    assert!(report.complete, "{report:?}");
    // A node takes its stream with it, and the other one may still be about to.
    b.closed().await;
    world.assert_clean_at_end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_lives_on_a_cluster() {
    let cluster = Cluster::start().await.unwrap();
    lives_a_whole_life(World::elsewhere(&Client::open(&cluster.url()).unwrap())).await;
    let left: Vec<_> = (0..cluster.size()).flat_map(|node| cluster.node(node).keys().unwrap()).collect();
    assert_eq!(left, [format!("tenure:{{{POOL}}}:m")], "the tombstone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_lives_over_tls() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let client = Client::builder(&server.url()).ca_certificate(authority.ca_pem()).build().unwrap();
    lives_a_whole_life(World::elsewhere(&client)).await;
}

/// The slot's new server is another one to the pool: it stops what runs, waits, and starts all of it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_its_slot_to_another_server() {
    let cluster = Cluster::start().await.unwrap();
    let world = World::elsewhere(&Client::open(&cluster.url()).unwrap()).with_ttl(TTL);
    let slot = cluster.slot(&format!("{{{POOL}}}")).unwrap();
    let to = (cluster.owner(slot).await.unwrap() + 1) % cluster.size();
    all_start_again_after(&world, async || cluster.migrate_slot(slot, to).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_a_fail_over() {
    let sentinels = Sentinels::start().await.unwrap();
    let world = World::elsewhere(&Client::open(&sentinels.url()).unwrap()).with_ttl(TTL);
    all_start_again_after(&world, async || {
        // What the replica does not have yet is lost: that is Redis's promise, and not under test here.
        sentinels.await_replicated().await.unwrap();
        sentinels.fail_over().await.unwrap();
    })
    .await;
}
