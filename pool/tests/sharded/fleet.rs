//! One pool of several shards under test: its store, its nodes, and the history of what its handlers did.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tenure_pool::{
    Backend, Client, JobState, MemberState, MemoryStore, Node, NodeBuilder, Settings, Worker, WorkerInfo,
};
use tenure_testing::history::{Expect, History, check};
use tenure_testing::{RedisServer, eventually};

use crate::recorder::Recorder;

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const SHORT: Duration = Duration::from_millis(50);
pub(crate) const POOL: &str = "sharded";
/// The number of shards, unless a test says otherwise.
pub(crate) const SHARDS: u32 = 3;

/// Makes two tests of each scenario, one per store.
macro_rules! on_both_stores {
    ($($scenario:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$scenario($crate::fleet::Fleet::in_memory()).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$scenario($crate::fleet::Fleet::on_redis()).await;
            })*
        }
    };
}
pub(crate) use on_both_stores;

pub(crate) struct Fleet {
    pub(crate) backend: Backend,
    pub(crate) server: Option<RedisServer>,
    ttl: Duration,
    pub(crate) recorder: Recorder,
}

impl Fleet {
    pub(crate) fn in_memory() -> Self {
        Self::new(MemoryStore::new().into(), None)
    }

    pub(crate) fn on_redis() -> Self {
        let server = RedisServer::start().unwrap();
        Self::new(Client::open(&server.url()).unwrap().into(), Some(server))
    }

    pub(crate) fn elsewhere(client: &Client) -> Self {
        Self::new(client.into(), None)
    }

    fn new(backend: Backend, server: Option<RedisServer>) -> Self {
        // Only a crash waits for the time to live. It is long, so that a busy machine costs no lease.
        let ttl = Duration::from_secs(10);
        Self { backend, server, ttl, recorder: Recorder::new(Arc::new(History::new())) }
    }

    pub(crate) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn builder(&self, name: &str, shards: u32) -> NodeBuilder {
        let hash_keys = Some((0x7465_6e75_7265_0001, 0x6a75_6d70_6368_6e02));
        let builder = Node::builder(POOL, self.backend.clone())
            .shards(shards)
            .name(name)
            .settings(Settings { hash_keys, ..Settings::default() });
        builder.worker_ttl(self.ttl).join_settle(SHORT).stable_after(SHORT).assume_fresh(true)
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.builder(name, SHARDS).join().await.unwrap()
    }

    /// A node with a worker that is up in every shard.
    pub(crate) async fn node_with(&self, name: &str) -> (Node, Worker) {
        let node = self.node(name).await;
        let worker = node.add_worker(self.recorder.clone()).await.unwrap();
        eventually(PATIENCE, "the worker to be up", async || {
            let up = |info: &&WorkerInfo| info.state == MemberState::Up;
            worker.infos().iter().filter(up).count() == node.shards()
        })
        .await;
        (node, worker)
    }

    /// Dispatches this many jobs, all at once.
    pub(crate) async fn dispatch(&self, node: &Node, jobs: usize) -> Vec<String> {
        let keys: Vec<_> = (0..jobs).map(|i| format!("job-{i:03}")).collect();
        join_all(keys.iter().map(|key| self.dispatch_one(node, key))).await;
        keys
    }

    pub(crate) async fn dispatch_one(&self, node: &Node, key: &str) {
        self.recorder.history().submitted(key);
        node.dispatch((key, format!("payload of {key}"))).await.unwrap();
        self.recorder.history().accepted(key);
    }

    pub(crate) fn stop_requested(&self, keys: &[String]) {
        for key in keys {
            self.recorder.history().stop_requested(key);
        }
    }

    /// Waits until every one of these jobs runs, on any worker except this node's.
    pub(crate) async fn all_run(&self, node: &Node, keys: &[String], but_on: &str) {
        eventually(PATIENCE, "every job to run", async || {
            let workers = node.workers();
            let jobs = node.jobs().await.unwrap_or_default();
            let good = |job: &&tenure_pool::JobInfo| {
                let shard = node.shard_of(&job.key).unwrap();
                let owner = workers.iter().find(|w| w.shard == shard && Some(w.id) == job.owner);
                job.state == JobState::Running && owner.is_some_and(|w| w.node != but_on)
            };
            jobs.iter().filter(good).count() == keys.len() && self.recorder.running().len() == keys.len()
        })
        .await;
    }

    /// The keys in Redis, without their common prefix.
    pub(crate) fn keys(&self) -> Option<Vec<String>> {
        let mut keys = self.server.as_ref()?.keys().unwrap();
        keys.sort();
        Some(keys)
    }

    /// Judges the history; the pool is at rest and running.
    pub(crate) fn assert_clean(&self) {
        check(self.recorder.history(), &Expect::default()).assert_clean();
    }

    /// Judges the history of a pool that has ended.
    pub(crate) fn assert_clean_at_end(&self) {
        let expect = Expect { running_at_end: false, ..Expect::default() };
        check(self.recorder.history(), &expect).assert_clean();
    }
}

/// The tombstones of a pool with this number of shards, which is more than one.
pub(crate) fn tombstones(shards: usize) -> Vec<String> {
    (0..shards).map(|shard| format!("tenure:{{{POOL}#{shard}}}:pool")).collect()
}
