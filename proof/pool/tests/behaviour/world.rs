//! One pool under test: its store, its nodes, and the history of what its handlers did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use tenure_pool::inspect::{MemberState, WorkerInfo};
use tenure_pool::node::Backend;
use tenure_pool::store::{Content, ReadIdentity, RedisStore, Store};
use tenure_pool::{BoxError, Client, Job, JobHandler, JobState, MemoryStore, Node, NodeBuilder, Settings};
use tenure_protocol::model::id::PoolName;
use tenure_protocol::model::member::Member;
use tenure_testing::history::{Expect, History, check};
use tenure_testing::{Outcome, RedisServer, eventually};
use tokio::task::JoinHandle;

use crate::placement::Slots;
use crate::recorder::Recorder;

/// Longer than anything here takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const SHORT: Duration = Duration::from_millis(50);
pub(crate) const POOL: &str = "behaviour";
/// The keys of the placement hash, fixed so that all runs are alike.
pub(crate) const HASH_KEYS: (u64, u64) = (0x7465_6e75_7265_0001, 0x6a75_6d70_6368_6e02);

/// Waits for something that must happen, as long as anything here may take.
#[track_caller]
pub(crate) fn until<O: Outcome>(what: &str, look: impl AsyncFnMut() -> O) -> impl Future<Output = O::Value> {
    eventually(PATIENCE, what, look)
}

/// A call of a node that goes on beside the test.
pub(crate) fn beside<F>(node: &Node, call: impl FnOnce(Node) -> F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(call(node.clone()))
}

/// A handler whose jobs get a clone of this each.
pub(crate) fn handler_with<T, F>(
    part: T,
    work: impl Fn(T, Job) -> F + Send + Sync + 'static,
) -> impl JobHandler
where
    T: Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    tenure_pool::run(move |job| work(part.clone(), job))
}

/// Makes two tests of each scenario, one per store. In memory, a scenario runs in paused time. One `in real_time` blocks threads, or
/// counts on several.
macro_rules! on_both_stores {
    ($($scenario:ident $(in $time:ident)?),* $(,)?) => {
        mod in_memory {
            $($crate::world::on_both_stores!(@memory $scenario $($time)?);)*
        }
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                super::$scenario($crate::world::World::on_redis()).await;
            })*
        }
    };
    (@memory $scenario:ident) => {
        #[tokio::test(start_paused = true)]
        async fn $scenario() {
            super::$scenario($crate::world::World::paused()).await;
        }
    };
    (@memory $scenario:ident real_time) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            super::$scenario($crate::world::World::in_memory()).await;
        }
    };
}
pub(crate) use on_both_stores;

/// The store of the pool.
pub(crate) enum Home {
    Memory(MemoryStore),
    Redis(RedisServer),
    /// The creator of the pool keeps its servers.
    Elsewhere,
}

/// The pool under test.
pub(crate) struct World {
    pub(crate) home: Home,
    backend: Backend,
    ttl: Duration,
    shards: u32,
    hash_keys: Option<(u64, u64)>,
    ring: Mutex<Slots>,
    pub(crate) recorder: Recorder,
}

/// The worker that runs a job, and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: u64,
    pub(crate) token: u64,
}

pub(crate) type Holders = BTreeMap<String, Held>;

impl World {
    pub(crate) fn in_memory() -> Self {
        let store = MemoryStore::new();
        Self::new((&store).into(), Home::Memory(store))
    }

    pub(crate) fn paused() -> Self {
        let store = MemoryStore::paused();
        Self::new((&store).into(), Home::Memory(store))
    }

    pub(crate) fn on_redis() -> Self {
        Self::on_server(RedisServer::start().unwrap())
    }

    pub(crate) fn on_server(server: RedisServer) -> Self {
        let client = Client::open(&server.url()).unwrap();
        Self::new(client.into(), Home::Redis(server))
    }

    pub(crate) fn elsewhere(client: &Client) -> Self {
        Self::new(client.into(), Home::Elsewhere)
    }

    fn new(backend: Backend, home: Home) -> Self {
        // Only a crash waits for the time to live. It is long, so that a busy machine costs no lease.
        let ttl = Duration::from_secs(10);
        let ring = Mutex::default();
        let hash_keys = Some(HASH_KEYS);
        Self {
            home,
            backend,
            ttl,
            shards: 1,
            hash_keys,
            ring,
            recorder: Recorder::new(Arc::new(History::new())),
        }
    }

    /// The time of the store.
    pub(crate) fn now(&self) -> SystemTime {
        match &self.home {
            Home::Memory(store) => store.now(),
            Home::Redis(_) | Home::Elsewhere => SystemTime::now(),
        }
    }

    pub(crate) fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Its nodes form a pool of this many shards.
    pub(crate) fn with_shards(self, shards: u32) -> Self {
        Self { shards, ..self }
    }

    /// Nodes are not given the keys of the placement hash.
    pub(crate) fn drawing(self) -> Self {
        Self { hash_keys: None, ..self }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(crate) fn server(&self) -> &RedisServer {
        match &self.home {
            Home::Redis(server) => server,
            Home::Memory(_) | Home::Elsewhere => panic!("this pool is not on a server of its own"),
        }
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend.clone()
    }

    /// A connection for the test itself.
    pub(crate) fn client(&self) -> redis::Connection {
        redis::Client::open(self.server().url()).unwrap().get_connection().unwrap()
    }

    pub(crate) fn history(&self) -> &History {
        self.recorder.history()
    }

    pub(crate) fn builder(&self, name: &str) -> NodeBuilder {
        self.builder_on(self.backend(), name)
    }

    /// A node that reaches the pool in another way.
    pub(crate) fn builder_on(&self, backend: Backend, name: &str) -> NodeBuilder {
        Node::builder(POOL, backend)
            .shards(self.shards)
            .name(name)
            .settings(Settings { hash_keys: self.hash_keys, ..Settings::default() })
            .worker_ttl(self.ttl)
            .join_settle(SHORT)
            .stable_after(SHORT)
            .assume_fresh(true)
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.builder(name).join().await.unwrap()
    }

    /// A node with this many workers that are up.
    pub(crate) async fn node_with(&self, name: &str, workers: usize) -> Node {
        let node = self.node(name).await;
        for _ in 0..workers {
            self.add_worker(&node).await;
        }
        node
    }

    /// A node whose one worker runs this job.
    pub(crate) async fn node_running(&self, name: &str, key: &str) -> Node {
        let node = self.node_with(name, 1).await;
        self.dispatch_one(&node, key).await;
        node
    }

    /// Adds a recording worker and waits until it is up in every shard.
    pub(crate) async fn add_worker(&self, node: &Node) -> tenure_pool::Worker {
        let worker = node.add_worker(self.recorder.clone()).await.unwrap();
        until("the worker to be up", async || {
            let up = |info: &&WorkerInfo| info.state == MemberState::Up;
            worker.infos().iter().filter(up).count() == node.inspect().shards()
        })
        .await;
        let up = self.up(node).await;
        self.ring.lock().unwrap().fill(up);
        worker
    }

    /// Dispatches this many jobs, all at once.
    pub(crate) async fn dispatch(&self, node: &Node, jobs: usize) -> Vec<String> {
        let keys: Vec<_> = (0..jobs).map(|i| format!("job-{i}")).collect();
        join_all(keys.iter().map(|key| self.dispatch_one(node, key))).await;
        keys
    }

    /// Dispatches this many jobs, and waits until every one runs where it belongs.
    pub(crate) async fn dispatch_placed(&self, node: &Node, jobs: usize) -> (Vec<String>, Holders) {
        let keys = self.dispatch(node, jobs).await;
        let holders = self.placed(node, &keys).await;
        (keys, holders)
    }

    pub(crate) async fn dispatch_one(&self, node: &Node, key: &str) {
        self.history().submitted(key);
        node.dispatch((key, format!("payload of {key}"))).await.unwrap();
        self.history().accepted(key);
    }

    pub(crate) async fn stop(&self, node: &Node, key: &str) {
        self.history().stop_requested(key);
        node.stop_job(key).await.unwrap();
    }

    /// Every field of the pool's data, one line each.
    pub(crate) async fn data(&self) -> Vec<String> {
        match &self.home {
            Home::Memory(store) => store.tamper(|server| server.dump()).lines(),
            Home::Redis(_) | Home::Elsewhere => {
                let client = Client::open(&self.server().url()).unwrap();
                let redis = Arc::new(RedisStore::open(&client, &PoolName::new(POOL).unwrap()));
                let store = Store::Redis(Arc::clone(&redis));
                let identity = store.read(&ReadIdentity).await.unwrap();
                store.bless(&identity.run_id);
                let lines = redis.dump().await.unwrap().lines();
                store.close().await;
                lines
            }
        }
    }

    /// The same without the readers of start events and the history, which change at any time.
    pub(crate) async fn data_but_readers(&self) -> Vec<String> {
        let changes = |line: &String| {
            ["starts.routers ", "history[", "history has "].iter().any(|start| line.starts_with(start))
        };
        self.data().await.into_iter().filter(|line| !changes(line)).collect()
    }

    /// Waits until the pool's shutdown flag is set.
    pub(crate) async fn shutting_down(&self) {
        until("the pool's shutdown flag", async || match &self.home {
            Home::Memory(store) => store
                .tamper(|server| server.dump())
                .lines()
                .iter()
                .any(|line| line.starts_with("settings shutdown = ")),
            Home::Redis(_) | Home::Elsewhere => redis::cmd("HEXISTS")
                .arg(format!("tenure:{{{POOL}}}:settings"))
                .arg("shutdown")
                .query(&mut self.client())
                .unwrap(),
        })
        .await;
    }

    /// The running jobs and their workers.
    pub(crate) async fn holders(&self, node: &Node) -> Holders {
        // A listing fails while the server is not the one that the node knows.
        let jobs = node.inspect().jobs().await.unwrap_or_default();
        let running = jobs.into_iter().filter(|job| job.state == JobState::Running);
        running
            .map(|job| (job.key.to_string(), Held { owner: job.owner.unwrap().0, token: job.token.0 }))
            .collect()
    }

    /// The slots and their workers, by the store, because a node's copy may be older. For a pool on the test's own
    /// servers, by that node.
    async fn up(&self, node: &Node) -> Vec<(u32, u64)> {
        let entries: Vec<(String, Vec<u8>)> = match &self.home {
            Home::Memory(store) => match store.tamper(|server| server.dump()).get("workers") {
                Some(Content::Hash(fields)) => {
                    fields.iter().map(|(field, entry)| (field.to_string(), entry.0.to_vec())).collect()
                }
                _ => Vec::new(),
            },
            Home::Redis(_) => {
                let members =
                    redis::cmd("HGETALL").arg(format!("tenure:{{{POOL}}}:workers")).query(&mut self.client());
                members.unwrap_or_default()
            }
            Home::Elsewhere => {
                let up = |worker: WorkerInfo| {
                    (worker.state == MemberState::Up).then_some((worker.slot?, worker.id.0))
                };
                return node.inspect().workers().await.unwrap().into_iter().filter_map(up).collect();
            }
        };
        let up = |(id, entry): (String, Vec<u8>)| {
            let member = Member::parse(&entry).filter(|member| member.state == MemberState::Up)?;
            Some((member.slot?, id.parse().ok()?))
        };
        entries.into_iter().filter_map(up).collect()
    }

    /// Waits until every one of these jobs runs where it belongs, and returns where.
    pub(crate) async fn placed(&self, node: &Node, keys: &[String]) -> Holders {
        until("every job to run where it belongs", async || {
            let (holders, up) = (self.holders(node).await, self.up(node).await);
            let mut ring = self.ring.lock().unwrap();
            ring.fill(up);
            let hash_keys = node.settings().hash_keys.unwrap();
            let belongs =
                |key: &String| holders.get(key).map(|held| held.owner) == ring.worker_of(key, hash_keys);
            let astray: Vec<_> = keys.iter().filter(|key| !belongs(key)).collect();
            let running = self.recorder.running();
            let idle: Vec<_> = keys.iter().filter(|key| !running.contains(*key)).collect();
            if astray.is_empty() && idle.is_empty() {
                return Ok(holders);
            }
            Err(format!("{} astray, {} idle", astray.len(), idle.len()))
        })
        .await
    }

    /// Judges the history; the pool is at rest and running.
    pub(crate) fn assert_clean(&self) {
        check(self.history(), &Expect::default()).assert_clean();
    }

    /// Judges the history of a pool that has ended, or whose jobs were lost on purpose.
    pub(crate) fn assert_clean_at_end(&self) {
        check(self.history(), &Expect { running_at_end: false, ..Expect::default() }).assert_clean();
    }
}

/// The keys whose worker or token has changed.
pub(crate) fn moved(before: &Holders, after: &Holders) -> Vec<String> {
    before.iter().filter(|(key, held)| after.get(*key) != Some(held)).map(|(key, _)| key.clone()).collect()
}

/// The keys that these workers held before.
pub(crate) fn held_by(holders: &Holders, workers: &[u64]) -> Vec<String> {
    holders.iter().filter(|(_, held)| workers.contains(&held.owner)).map(|(key, _)| key.clone()).collect()
}

/// The workers of a node.
pub(crate) async fn workers_on(node: &Node) -> Vec<u64> {
    let workers = node.inspect().workers().await.unwrap().into_iter();
    workers.filter(|worker| worker.node == node.name()).map(|worker| worker.id.0).collect()
}
