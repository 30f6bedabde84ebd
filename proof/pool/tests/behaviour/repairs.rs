//! Repairs by hand of docs/protocol/recovery.md (section 16), each on a pool with running jobs.

use std::time::{Duration, SystemTime};

use tenure_pool::store::Refusal;
use tenure_pool::{DispatchError, Error, Node};

use crate::world::{POOL, World, until, workers_on};

const JOBS: usize = 5;

/// A pool on Redis with a node, jobs and short leases.
struct Damaged {
    world: World,
    node: Node,
    jobs: Vec<String>,
}

impl Damaged {
    async fn new() -> Self {
        let world = World::on_redis().with_ttl(Duration::from_secs(2));
        let node = world.node_with("a", 1).await;
        let (jobs, _) = world.dispatch_placed(&node, JOBS).await;
        Self { world, node, jobs }
    }

    fn write(&self, key: &str, field: &str, value: &str) {
        let key = format!("tenure:{{{POOL}}}:{key}");
        let () = redis::cmd("HSET").arg(key).arg(field).arg(value).query(&mut self.world.client()).unwrap();
    }

    fn lose(&self, key: &str, field: &str) {
        let key = format!("tenure:{{{POOL}}}:{key}");
        let () = redis::cmd("HDEL").arg(key).arg(field).query(&mut self.world.client()).unwrap();
    }

    fn read(&self, key: &str, field: &str) -> Option<String> {
        let key = format!("tenure:{{{POOL}}}:{key}");
        redis::cmd("HGET").arg(key).arg(field).query(&mut self.world.client()).unwrap()
    }

    /// The node has renewed twice since then, so it has seen the state at the first time.
    async fn seen(&self) {
        let worker = workers_on(&self.node).await[0].to_string();
        for _ in 0..2 {
            let before = self.read("heartbeats", &worker);
            until("a renewal", async || self.read("heartbeats", &worker) != before).await;
        }
    }

    /// The pool is in another incarnation than this one.
    async fn recovered(&self, from: Option<String>) {
        until("another incarnation", async || self.read("pool", "incarnation") != from).await;
    }

    /// All jobs run, and the pool accepts nodes, workers and jobs.
    async fn heals(&self) {
        self.node.add_worker(self.world.recorder.clone()).await.unwrap();
        let late = self.world.node_with("late", 1).await;
        self.world.dispatch_one(&late, "another").await;
        until("every job to run", async || {
            let running = self.world.recorder.running();
            self.jobs.iter().all(|key| running.contains(key))
        })
        .await;
        self.world.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_of_tokens_is_put_right_by_hand() {
    for damage in ["9007199254740996", "abc"] {
        let pool = Damaged::new().await;
        pool.write("pool", "token", damage);
        let refused = pool.node.add_worker(pool.world.recorder.clone()).await.err();
        assert!(matches!(refused, Some(Error::OutOfTokens)), "{refused:?}");
        let refused = pool.node.dispatch(("new", "payload")).await.err();
        assert!(matches!(refused, Some(DispatchError::OutOfTokens)), "{refused:?}");
        let refused = pool.node.ticker("t", Duration::from_secs(1)).await.err();
        assert!(matches!(refused, Some(Error::OutOfTokens)), "{refused:?}");
        assert_eq!(pool.world.recorder.running().len(), JOBS, "what runs, runs on");
        pool.write("pool", "token", "4503599627370496");
        pool.heals().await;
    }
    assert!(Refusal::OutOfTokens.to_string().contains("docs/protocol/data.md"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incarnation_is_put_right_by_hand() {
    let pool = Damaged::new().await;
    pool.write("pool", "incarnation", "abc");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    pool.write("pool", "incarnation", &now.to_string());
    pool.heals().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incarnation_that_no_pool_mints_ends_by_itself() {
    let pool = Damaged::new().await;
    let damage = "9007199254740993";
    pool.write("pool", "incarnation", damage);
    pool.recovered(Some(damage.into())).await;
    pool.heals().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_is_put_right_by_hand() {
    let pool = Damaged::new().await;
    pool.write("settings", "max_dispatch_deadline", "abc");
    let refused = pool.node.dispatch(("new", "payload")).deadline(Duration::from_millis(500)).await.err();
    assert!(refused.is_some(), "a step that needs it cannot be done");
    pool.write("settings", "max_dispatch_deadline", "30000");
    pool.heals().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_that_was_seen_damaged_is_seen_put_right() {
    let pool = Damaged::new().await;
    let sound = pool.read("settings", "payload_max").unwrap();
    pool.write("settings", "payload_max", "52428");
    // Another revision makes the node read all settings.
    let revision: u64 = pool.read("pool", "settings_revision").unwrap().parse().unwrap();
    pool.write("pool", "settings_revision", &(revision + 1).to_string());
    until("the node to go by it", async || pool.node.settings().payload_max == 52428).await;
    pool.write("settings", "payload_max", &sound);
    pool.heals().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_that_no_map_has_ends_by_itself() {
    for (field, damage) in [
        ("workers_revision", "18446744073709551616"),
        ("workers_revision", "9007199254740993"),
        ("settings_revision", "abc"),
        ("settings_revision", "-1"),
    ] {
        let pool = Damaged::new().await;
        let incarnation = pool.read("pool", "incarnation");
        pool.write("pool", field, damage);
        pool.recovered(incarnation).await;
        pool.heals().await;
    }
}

/// No node lives that has read the maps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_pools_high_or_lost_revision_ends_by_itself() {
    for (field, damage) in [("workers_revision", Some("9007199254740993")), ("settings_revision", None)] {
        let mut pool = Damaged::new().await;
        assert!(pool.node.close().await.unwrap().complete);
        match damage {
            Some(damage) => pool.write("pool", field, damage),
            None => pool.lose("pool", field),
        }
        pool.node = pool.world.node_with("b", 1).await;
        pool.heals().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_pools_unreadable_revision_is_put_right_by_hand() {
    for (field, damage) in [("workers_revision", "18446744073709551616"), ("settings_revision", "abc")] {
        let mut pool = Damaged::new().await;
        assert!(pool.node.close().await.unwrap().complete);
        pool.write("pool", field, damage);
        let refused = pool.world.builder("b").join_timeout(Duration::from_secs(1)).join().await;
        assert!(matches!(refused, Err(Error::NotJoined { .. })), "{refused:?}");
        pool.write("pool", field, "1");
        pool.node = pool.world.node_with("b", 1).await;
        pool.heals().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_is_put_right_by_hand() {
    for (field, damage) in [
        ("workers_revision", "1000000"),
        ("workers_revision", "1"),
        ("settings_revision", "1000000"),
        ("settings_revision", "0"),
    ] {
        let pool = Damaged::new().await;
        let sound = pool.read("pool", field).unwrap();
        pool.write("pool", field, damage);
        pool.seen().await;
        // If it was a sign of a loss, somebody may have continued the count.
        if pool.read("pool", field).as_deref() == Some(damage) {
            pool.write("pool", field, &sound);
        }
        pool.heals().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phase_that_went_back_ends_by_itself() {
    let pool = Damaged::new().await;
    let incarnation = pool.read("pool", "incarnation");
    pool.write("pool", "phase", "R");
    pool.recovered(incarnation).await;
    pool.heals().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_of_jobs_that_is_damaged_fills_no_pool() {
    let pool = Damaged::new().await;
    pool.write("pool", "queued", "9007199254740993");
    pool.heals().await;
}
