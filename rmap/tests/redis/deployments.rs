//! The same map on a cluster, behind sentinels and over TLS.

use std::time::Duration;

use tenure_connection::Client;
use tenure_rmap::{RawMap, Snapshot};
use tenure_testing::tls::Authority;
use tenure_testing::{Cluster, RedisServer, Sentinels, eventually};

use crate::{SOON, bytes, holds, in_time, layout};

/// Fail-overs take longer on a busy machine.
const LATER: Duration = Duration::from_secs(60);

async fn join(url: &str) -> RawMap {
    let client = Client::open(url).unwrap();
    eventually(LATER, "the map to be joined", async || RawMap::join(&client, "m").await).await
}

async fn all_operations(a: &RawMap, b: &RawMap) {
    a.set_and_wait("k", "1").await.unwrap();
    assert!(b.test_and_set("k", "1", "2").await.unwrap().is_written());
    b.set_many([("x", "1"), ("y", "2")]).await.unwrap();
    a.increment("n", 5).await.unwrap();
    a.append("l", ["a"]).await.unwrap();
    a.with_entry_ttl(Duration::from_millis(50)).set("short", "x").await.unwrap();
    a.delete_many(["x", "y"]).await.unwrap();
    same(a, b).await;
    eventually(SOON, "the entry to end", async || a.len() == 3 && b.len() == 3).await;
    a.reset().await.unwrap();
    eventually(SOON, "both to be empty", async || a.is_empty() && b.is_empty()).await;
    assert!(b.destroy().await.unwrap());
    a.set_and_wait("after", "1").await.unwrap();
    same(a, b).await;
}

async fn same(a: &RawMap, b: &RawMap) -> Snapshot {
    eventually(LATER, "the copies to be equal", async || {
        a.refresh().await.is_ok() && a.snapshot() == b.snapshot()
    })
    .await;
    a.snapshot()
}

#[tokio::test]
async fn a_map_on_a_cluster_follows_its_slot() {
    let cluster = Cluster::start().await.unwrap();
    let (a, b) = (join(&cluster.url()).await, join(&cluster.url()).await);
    all_operations(&a, &b).await;
    let slot = cluster.slot(&layout().meta).unwrap();
    for _ in 0..2 {
        let owner = cluster.owner(slot).await.unwrap();
        cluster.migrate_slot(slot, (owner + 1) % 3).await.unwrap();
        let value = format!("not on {owner}");
        eventually(LATER, "a write after the migration", async || a.set("k", &value).await).await;
        holds(&b, LATER, "k", Some(&value)).await;
        same(&a, &b).await;
    }
    // More entries than the comparison reads itself.
    let many = (0..2_000).map(|n| (n.to_string(), "x"));
    eventually(LATER, "many entries", async || a.set_many(many.clone()).await).await;
    assert_eq!(join(&cluster.url()).await.snapshot(), same(&a, &b).await);
}

#[tokio::test]
async fn a_map_on_a_cluster_follows_a_fail_over() {
    let cluster = Cluster::builder().replicas(1).start().await.unwrap();
    let (a, b) = (join(&cluster.url()).await, join(&cluster.url()).await);
    a.set_and_wait("k", "1").await.unwrap();
    let slot = cluster.slot(&layout().meta).unwrap();
    let owner = cluster.owner(slot).await.unwrap();
    cluster.await_replica(owner + 3).await.unwrap();
    cluster.node(owner).kill().unwrap();
    cluster.await_new_owner(slot, owner).await.unwrap();
    eventually(LATER, "a write on the new owner", async || a.set("after", "2").await).await;
    holds(&b, LATER, "after", Some("2")).await;
    assert_eq!(same(&a, &b).await.get("after"), bytes("2").as_ref());
}

#[tokio::test]
async fn behind_sentinels_a_map_follows_fail_overs_that_lose_data() {
    let sentinels = Sentinels::start().await.unwrap();
    let (a, b) = (join(&sentinels.url()).await, join(&sentinels.url()).await);
    all_operations(&a, &b).await;

    sentinels.fail_over().await.unwrap();
    // For a moment the old master takes writes, and loses them.
    eventually(LATER, "a write on the new master", async || {
        a.set("planned", "1").await.is_ok() && b.get("planned") == bytes("1")
    })
    .await;
    same(&a, &b).await;

    sentinels.await_replica().await.unwrap();
    sentinels.hold_replica_back().await.unwrap();
    a.set_and_wait("lost", "1").await.unwrap();
    holds(&b, SOON, "lost", Some("1")).await;
    sentinels.kill_master().await.unwrap();
    eventually(LATER, "a write on the other history", async || b.set("other", "2").await).await;
    let after = same(&a, &b).await;
    assert_eq!((after.get("lost"), after.get("other")), (None, bytes("2").as_ref()));
}

#[tokio::test]
async fn a_map_works_over_tls() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let client = Client::builder(&server.url()).ca_certificate(authority.ca_pem()).build().unwrap();
    let map = in_time(SOON, RawMap::join(&client, "m")).await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    assert_eq!(map.get("k"), bytes("1"));
}
