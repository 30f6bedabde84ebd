//! A pool on a cluster, behind sentinels and over TLS: it works there as on one plain server.

use std::time::Duration;

use tenure_pool::Client;
use tenure_testing::tls::Authority;
use tenure_testing::{Cluster, RedisServer, Sentinels};

use crate::server_loss::{TTL, all_runs_on_after};
use crate::world::{POOL, World, moved, until};

/// A job's whole life: dispatched, notified, moved by a drain and by a closing node, stopped. Then the pool ends.
async fn lives_a_whole_life(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys = world.dispatch(&b, 20).await;
    let placed = world.placed(&a, &keys).await;
    b.notify(&*keys[0], "hello").await.unwrap();
    until("the notification", async || world.recorder.notes(&keys[0]) == ["hello"]).await;

    let second = world.add_worker(&b).await;
    let spread = world.placed(&b, &keys).await;
    assert!(!moved(&placed, &spread).is_empty());
    second.drain().await.unwrap();
    until("the drained worker to be gone", async || a.inspect().workers().await.unwrap().len() == 1).await;

    world.stop(&b, &keys[0]).await;
    until("the stopped job to end", async || !world.recorder.is_running(&keys[0])).await;
    let report = a.operate().shutdown().await.unwrap();
    assert!(report.complete, "{report:?}");
    // A leaving node deletes its stream, and the other node may not have done so yet.
    b.closed().await;
    world.assert_clean_at_end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_lives_on_a_cluster() {
    let cluster = Cluster::start().await.unwrap();
    lives_a_whole_life(World::elsewhere(&Client::open(&cluster.url()).unwrap())).await;
    let left: Vec<_> = (0..cluster.size()).flat_map(|node| cluster.node(node).keys().unwrap()).collect();
    assert_eq!(left, [format!("tenure:{{{POOL}}}:pool")], "the tombstone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_lives_over_tls() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let client = Client::builder(&server.url()).ca_certificate(authority.ca_pem()).build().unwrap();
    lives_a_whole_life(World::elsewhere(&client)).await;
}

/// For the pool, the slot's new server is another server: running jobs run on, and routing waits for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_its_slot_to_another_server() {
    let cluster = Cluster::start().await.unwrap();
    let world = World::elsewhere(&Client::open(&cluster.url()).unwrap()).with_ttl(TTL);
    let slot = cluster.slot(&format!("{{{POOL}}}")).unwrap();
    let to = (cluster.owner(slot).await.unwrap() + 1) % cluster.size();
    all_runs_on_after(&world, async || cluster.migrate_slot(slot, to).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_a_fail_over() {
    let sentinels = Sentinels::start().await.unwrap();
    let world = World::elsewhere(&Client::open(&sentinels.url()).unwrap()).with_ttl(TTL);
    all_runs_on_after(&world, async || {
        // Data that the replica does not have yet are lost. Redis says so, and this test does not cover it.
        sentinels.await_replicated().await.unwrap();
        sentinels.fail_over().await.unwrap();
    })
    .await;
}

/// The new master lacks the steps since the replica's last update, and learns about them from the workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_a_fail_over_to_a_replica_that_lags() {
    let sentinels = Sentinels::start().await.unwrap();
    // On a busy machine a fail-over takes three seconds, and the leases must outlast it.
    let ttl = Duration::from_secs(12);
    let world = World::elsewhere(&Client::open(&sentinels.url()).unwrap()).with_ttl(ttl);
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let mut keys = world.dispatch(&a, 10).await;
    world.placed(&a, &keys).await;
    sentinels.await_replicated().await.unwrap();
    sentinels.hold_replica_back().await.unwrap();
    world.dispatch_one(&b, "forgotten").await;
    let stopped = keys.remove(0);
    world.stop(&b, &stopped).await;
    until("the stopped job to go", async || b.inspect().job(stopped.as_str()).await.unwrap().is_none()).await;
    keys.push("forgotten".to_owned());
    let before = world.placed(&a, &keys).await;
    let old = sentinels.kill_master().await.unwrap();
    sentinels.await_new_master(old).await.unwrap();
    world.dispatch_one(&b, "another").await;
    assert_eq!(moved(&before, &world.placed(&b, &keys).await), [""; 0]);
    assert!(keys.iter().all(|key| world.recorder.starts_of(key) == 1));
    assert_eq!(world.recorder.starts_of(&stopped), 1);
    world.assert_clean();
}
