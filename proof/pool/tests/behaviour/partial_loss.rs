//! Losses of only one of the pool's keys, or of some of its fields.

use std::time::Duration;

use tenure_pool::Node;
use tenure_pool::health::Unhealthy;

use crate::server_loss::TTL;
use crate::world::{POOL, World, held_by, moved, until, workers_on};

/// For jobs that must lose their workers.
const SHORT_TTL: Duration = Duration::from_secs(1);

fn name(key: &str) -> String {
    format!("tenure:{{{POOL}}}:{key}")
}

impl World {
    fn delete(&self, key: &str) {
        redis::cmd("DEL").arg(name(key)).exec(&mut self.client()).unwrap();
    }

    fn fact(&self, field: &str) -> String {
        redis::cmd("HGET").arg(name("pool")).arg(field).query(&mut self.client()).unwrap()
    }

    /// A new incarnation is open, and every node takes part in it.
    async fn repaired(&self, nodes: &[&Node], incarnation: &str) {
        until("the loss to be repaired", async || {
            self.fact("incarnation") != incarnation
                && self.fact("phase") == "N"
                && nodes.iter().all(|node| node.health().is_healthy())
        })
        .await;
    }

    /// Loses this, and checks that no running job is affected.
    async fn runs_on_without(&self, lose: impl Fn(&[String])) {
        let (a, b) = (self.node_with("a", 2).await, self.node_with("b", 2).await);
        let mut keys = self.dispatch(&a, 30).await;
        let (before, incarnation) = (self.placed(&a, &keys).await, self.fact("incarnation"));
        lose(&keys);
        self.repaired(&[&a, &b], &incarnation).await;
        self.dispatch_one(&b, "another").await;
        assert_eq!(moved(&before, &self.placed(&b, &keys).await), [""; 0]);
        keys.push("another".into());
        for key in &keys {
            assert_eq!(self.recorder.starts_of(key), 1, "{key}");
        }
        self.assert_clean();
        // The records that were written again are complete: a leaving node's jobs move to the other node.
        a.close().await.unwrap();
        until("every job to run on the node that is left", async || {
            keys.iter().all(|key| self.recorder.is_running(key))
        })
        .await;
        self.assert_clean();
        b.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_lost_are_written_again() {
    let world = World::on_redis().with_ttl(TTL);
    world.runs_on_without(|_| world.delete("workers")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_what_workers_own_are_written_again() {
    let world = World::on_redis().with_ttl(TTL);
    world.runs_on_without(|_| world.delete("owners")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_that_are_lost_are_written_again() {
    let world = World::on_redis().with_ttl(TTL);
    world.runs_on_without(|_| world.delete("payloads")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_nobody_can_make_good_is_named_in_health() {
    let world = World::on_redis().with_ttl(SHORT_TTL);
    let client = world.builder("client").client_only().join().await.unwrap();
    client.submit(("waits", "payload")).await.unwrap();
    world.delete("payloads");
    let named = || client.health().damage.as_deref() == Some("the pool has lost payloads of jobs");
    until("the loss to be named", async || named()).await;
    client.stop_job("waits").await.unwrap();
    until("the loss to be named no more", async || client.health().damage.is_none()).await;
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_some_jobs_are_written_again() {
    let world = World::on_redis().with_ttl(TTL);
    world
        .runs_on_without(|keys| {
            redis::cmd("HDEL").arg(name("jobs")).arg(&keys[..10]).exec(&mut world.client()).unwrap();
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_callers_make_again_double_no_job() {
    let world = World::on_redis().with_ttl(TTL);
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let (keys, _) = world.dispatch_placed(&a, 36).await;
    world.delete("jobs");
    futures::future::join_all(keys.iter().map(|key| b.submit((key.as_str(), "again")).into_future())).await;
    world.placed(&a, &keys).await;
    world.assert_clean();
    a.close().await.unwrap();
    b.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_with_its_counters_leaves_its_jobs_to_others() {
    let world = World::on_redis().with_ttl(SHORT_TTL);
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let keys = world.dispatch(&b, 30).await;
    let orphans = held_by(&world.placed(&b, &keys).await, &workers_on(&a).await);
    assert!(!orphans.is_empty());
    a.abandon();
    a.closed().await;
    world.delete("heartbeats");
    until("its jobs to run again", async || {
        orphans.iter().all(|key| world.recorder.starts_of(key) > 1 && world.recorder.is_running(key))
    })
    .await;
    world.assert_clean();
    b.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_is_named_as_long_as_it_does() {
    let world = World::on_redis().with_ttl(SHORT_TTL);
    let node = world.node_with("a", 1).await;
    let set = |policy: &str| {
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("maxmemory-policy").arg(policy).exec(&mut world.client()).unwrap();
    };
    let named = || node.health().reasons.iter().any(|why| matches!(why, Unhealthy::Evicts(_)));
    until("the node to be well", async || node.health().is_healthy()).await;
    set("allkeys-lru");
    until("the policy to be named", async || named()).await;
    assert_eq!(node.health().evicts.as_deref(), Some("allkeys-lru"));
    set("noeviction");
    until("the policy to be named no more", async || !named()).await;
    assert_eq!(node.health().evicts, None);
    node.close().await.unwrap();
}
