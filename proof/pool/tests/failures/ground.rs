//! The ground of every case: a pool on its own Redis, the recording handler, and the lines that are broken on
//! purpose.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use tenure_pool::inspect::MemberState;
use tenure_pool::store::{Expire, Known, PoolState, ReadIdentity, ReadState, RedisStore, Store, StoreError};
use tenure_pool::{
    BoxError, Client, Job, JobHandler, Node, NodeBuilder, Settings, Start, StopReason, Worker,
};
use tenure_protocol::model::id::{Incarnation, PoolName, Revision, WorkerId};
use tenure_protocol::mutation::{Mutation, Mutations, ScriptPatch};
use tenure_testing::history::{Event, Expect, History, check};
use tenure_testing::{RedisServer, eventually};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::books::disagreements;
use crate::recorder::{Act, Recorder};

pub(crate) const POOL: &str = "failures";
pub(crate) const SHORT: Duration = Duration::from_millis(50);
/// The keys of the placement hash, fixed so that all runs are alike.
const HASH_KEYS: (u64, u64) = (0x7465_6e75_7265_0001, 0x6a75_6d70_6368_6e02);
/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// If the body must fail, something that it awaits never comes. Everything else comes sooner than the first time on
/// an idle machine, and up to the second on a busy one.
const IMPATIENCE: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(10)];
/// A broken body that has not failed by then hangs. That is a failure, too.
const HANGS: Duration = Duration::from_secs(120);

/// The lines that a broken run leaves out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Broken {
    /// Lines of the core and the runtime, on every node.
    pub(crate) lines: &'static [Mutation],
    /// Lines of the scripts, for every sender.
    pub(crate) scripts: &'static [ScriptPatch],
    /// Lines of the following of maps, on every node.
    pub(crate) maps: &'static [tenure_rmap::Mutation],
}

/// Lines of the core and the runtime that are left out.
pub(crate) const fn lines(lines: &'static [Mutation]) -> Broken {
    Broken { lines, scripts: &[], maps: &[] }
}

/// Lines of the scripts that are left out.
pub(crate) const fn scripts(scripts: &'static [ScriptPatch]) -> Broken {
    Broken { lines: &[], scripts, maps: &[] }
}

/// Lines of the following of maps that are left out.
pub(crate) const fn maps(maps: &'static [tenure_rmap::Mutation]) -> Broken {
    Broken { lines: &[], scripts: &[], maps }
}

/// Another text for one line of a script, or of a part of it.
pub(crate) const fn patch(script: &'static str, from: &'static str, to: &'static str) -> ScriptPatch {
    ScriptPatch { script, from, to }
}

/// Registers cases: `name: what is left out, "what the broken run says";`. Further lines may follow, each with its
/// own name, if each of them breaks the case: `name: …, "…", another_name: …, "…";`.
macro_rules! cases {
    ($($name:ident: $broken:expr, $says:literal $(, $part:ident: $other:expr, $cries:literal)*;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            cases::$name($crate::ground::Ground::sound()).await;
        })*
        mod mutants {
            #[allow(unused_imports)]
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let ground = $crate::ground::Ground::broken($broken);
                $crate::ground::must_fail(cases::$name(ground), $says).await;
            }

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $part() {
                let ground = $crate::ground::Ground::broken($other);
                $crate::ground::must_fail(cases::$name(ground), $cries).await;
            })*)*
        }
    };
}
pub(crate) use cases;

/// With `NOBREAK` set nothing is broken, and every body must pass. That shows that a broken run fails because of the
/// broken line, and not because of its shorter patience.
fn is_control() -> bool {
    std::env::var_os("NOBREAK").is_some()
}

/// Runs a body that must fail, and must fail for the reason of its case.
pub(crate) async fn must_fail(body: impl Future<Output = ()>, says: &str) {
    if is_control() {
        return body.await;
    }
    let body = AssertUnwindSafe(body).catch_unwind();
    let said = match tokio::time::timeout(HANGS, body).await {
        Ok(Ok(())) => panic!("it passes although it is broken"),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        }
        Err(_) => "it hangs".to_owned(),
    };
    assert!(said.contains(says), "it fails for another reason: {said}");
}

/// How many processes wait for each processor of the machine, from 1 to 3.
fn busy() -> u32 {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|load| load.split('.').next()?.parse::<usize>().ok()).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (load / processors).clamp(1, 3) as u32
}

/// The full name of one of the pool's keys.
pub(crate) fn key(name: &str) -> String {
    format!("tenure:{{{POOL}}}:{name}")
}

/// A client for a path that loses nothing: an answer always comes, however long a busy machine takes.
pub(crate) fn patient(url: &str) -> Client {
    Client::builder(url).connect_timeout(PATIENCE).response_timeout(PATIENCE).build().unwrap()
}

/// One pool on its own server.
pub(crate) struct Ground {
    pub(crate) server: RedisServer,
    pub(crate) recorder: Recorder,
    /// How long an expected event may take.
    pub(crate) patience: Duration,
    sound: bool,
    routed: bool,
    broken: Broken,
    settings: Settings,
}

impl Ground {
    pub(crate) fn sound() -> Self {
        Self::new(Broken::default(), PATIENCE)
    }

    pub(crate) fn broken(broken: Broken) -> Self {
        let broken = if is_control() { Broken::default() } else { broken };
        let mut ground = Self::new(broken, IMPATIENCE[1].min(IMPATIENCE[0] * busy()));
        ground.sound = false;
        ground
    }

    fn new(broken: Broken, patience: Duration) -> Self {
        let server = RedisServer::start().unwrap();
        let recorder = Recorder::new(Arc::new(History::new()));
        // If nothing waits for the time to live, it is long, so that a busy machine costs no lease.
        let settings = Settings {
            worker_ttl: Duration::from_secs(10),
            join_settle: SHORT,
            hash_keys: Some(HASH_KEYS),
            ..Settings::default()
        };
        Self { server, recorder, patience, sound: true, routed: false, broken, settings }
    }

    /// Changes pool-wide settings. Call it before the first node joins.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Makes dispatches place nothing: every job goes through a router.
    pub(crate) fn routed(mut self) -> Self {
        self.routed = true;
        self
    }

    /// For leases that run out: soon if the body must fail, and otherwise so late that a busy machine costs no lease.
    pub(crate) fn expiring(self) -> Self {
        self.expiring_after(Duration::from_secs(4))
    }

    /// The same, with this time to live of a sound pool.
    pub(crate) fn expiring_after(self, ttl: Duration) -> Self {
        let ttl = if self.sound { ttl } else { self.patience / 4 };
        self.with(|settings| settings.worker_ttl = ttl)
    }

    /// For losses of data: soon over if the body must fail, because the cost of a loss grows with the time to live.
    pub(crate) fn losing(self) -> Self {
        let ttl = if self.sound { self.settings.worker_ttl } else { self.patience / 4 };
        self.with(|settings| settings.worker_ttl = ttl)
    }

    pub(crate) fn history(&self) -> &History {
        self.recorder.history()
    }

    /// A connection for the test itself.
    pub(crate) fn redis(&self) -> redis::Connection {
        redis::Client::open(self.server.url()).unwrap().get_connection().unwrap()
    }

    /// A store like every node's, over this path, with more patches.
    pub(crate) fn store_by(&self, url: &str, more: &[ScriptPatch]) -> Store {
        self.store_of(POOL, url, more)
    }

    /// The same for another pool.
    pub(crate) fn store_of(&self, pool: &str, url: &str, more: &[ScriptPatch]) -> Store {
        let patches = [self.broken.scripts, more].concat();
        let client = if url == self.server.url() { patient(url) } else { Client::open(url).unwrap() };
        let pool = PoolName::new(pool).unwrap();
        RedisStore::open_broken(&client, &pool, &patches, self.broken_maps()).into()
    }

    pub(crate) fn broken_maps(&self) -> tenure_rmap::Mutations {
        tenure_rmap::Mutations::of(self.broken.maps.iter().copied())
    }

    /// A store that takes the time from the pool's key `clock`, for a client with a wrong clock.
    pub(crate) fn store_with_own_clock(&self) -> Store {
        let client = patient(&self.server.url());
        let pool = PoolName::new(POOL).unwrap();
        RedisStore::open_patched(&client, &pool, true, self.broken.scripts).into()
    }

    /// Sets that clock this far ahead of the server's.
    pub(crate) fn set_own_clock(&self, ahead: Duration) {
        let mut redis = self.redis();
        let (secs, _): (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
        let ms = (secs + ahead.as_secs()) * 1_000;
        redis::cmd("SET").arg(key("clock")).arg(ms).exec(&mut redis).unwrap();
    }

    /// A node on this store.
    pub(crate) fn builder_on(&self, name: &str, store: Store) -> NodeBuilder {
        self.builder_of(POOL, name, store)
    }

    /// A node of another pool.
    pub(crate) fn builder_of(&self, pool: &str, name: &str, store: Store) -> NodeBuilder {
        let unplaced = self.routed.then_some(Mutation::NothingPlaced);
        Node::builder(pool, store)
            .name(name)
            .settings(self.settings.clone())
            .stable_after(SHORT)
            .assume_fresh(true)
            .broken(Mutations::of(self.broken.lines.iter().copied().chain(unplaced)))
    }

    pub(crate) fn builder(&self, name: &str) -> NodeBuilder {
        self.builder_on(name, self.store_by(&self.server.url(), &[]))
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.builder(name).join().await.unwrap()
    }

    pub(crate) async fn node_with(&self, name: &str, workers: usize) -> Node {
        let node = self.node(name).await;
        for _ in 0..workers {
            self.add_worker(&node).await;
        }
        node
    }

    /// Adds a recording worker and waits until it is up.
    pub(crate) async fn add_worker(&self, node: &Node) -> Worker {
        self.add_worker_with(node, self.recorder.clone()).await
    }

    pub(crate) async fn add_worker_with(&self, node: &Node, handler: Recorder) -> Worker {
        let worker = node.add_worker(handler).await.unwrap();
        eventually(PATIENCE, "the worker to be up", async || {
            worker.info().is_some_and(|info| info.state == MemberState::Up)
        })
        .await;
        worker
    }

    /// A bystander: steps of the same pool, sent from outside of any node.
    pub(crate) async fn bystander(&self) -> Bystander {
        self.bystander_by(&self.server.url()).await
    }

    /// A bystander over this path.
    pub(crate) async fn bystander_by(&self, url: &str) -> Bystander {
        let store = self.store_by(url, &[]);
        let identity = store.read(&ReadIdentity).await.unwrap();
        store.bless(&identity.run_id);
        Bystander { store }
    }

    /// Dispatches this many jobs, all at once.
    pub(crate) async fn dispatch(&self, node: &Node, jobs: usize) -> Vec<String> {
        let keys: Vec<_> = (0..jobs).map(|i| format!("job-{i}")).collect();
        join_all(keys.iter().map(|key| self.dispatch_one(node, key))).await;
        keys
    }

    pub(crate) async fn dispatch_one(&self, node: &Node, key: &str) {
        self.history().submitted(key);
        node.dispatch((key, format!("payload of {key}"))).await.unwrap();
        self.history().accepted(key);
    }

    /// Submits a job, without waiting for its start.
    pub(crate) async fn submit(&self, node: &Node, key: &str) {
        self.history().submitted(key);
        node.submit((key, format!("payload of {key}"))).await.unwrap();
        self.history().accepted(key);
    }

    /// Waits until each of these keys has been started this often in all.
    pub(crate) async fn started(&self, keys: &[String], times: usize) {
        eventually(self.patience, "every job to be started", async || {
            let starts = self.recorder.starts();
            let count = |key: &String| starts.get(key).copied().unwrap_or_default();
            let missing: Vec<_> = keys.iter().filter(|key| count(key) < times).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
        })
        .await;
    }

    /// Waits until every event in the pool's stream has been handled.
    pub(crate) async fn events_handled(&self) {
        let mut redis = self.redis();
        eventually(self.patience, "every event to be handled", async || {
            redis::cmd("XLEN").arg(key("starts")).query::<usize>(&mut redis).unwrap() == 0
        })
        .await;
    }

    /// Waits until a worker has handled every event in its stream.
    pub(crate) async fn worker_events_handled(&self, worker: WorkerId) {
        let mut redis = self.redis();
        eventually(self.patience, "every event of the worker to be handled", async || {
            redis::cmd("XLEN").arg(key(&format!("worker:{}", worker.0))).query::<usize>(&mut redis).unwrap()
                == 0
        })
        .await;
    }

    /// Adds a start event that a router read long ago and never acknowledged, because it died.
    pub(crate) fn leave_to_a_dead_router(&self, keys: &[&str]) {
        redis::Script::new(
            "local fields = {}
            for i = 1, #ARGV do fields[2 * i - 1], fields[2 * i] = 's', ARGV[i] end
            local entry = redis.call('XADD', KEYS[1], '*', unpack(fields))
            redis.call('XGROUP', 'SETID', KEYS[1], 'routers', entry)
            redis.call('XCLAIM', KEYS[1], 'routers', 'dead', 0, entry, 'IDLE', 3600000, 'FORCE')",
        )
        .key(key("starts"))
        .arg(keys)
        .invoke::<()>(&mut self.redis())
        .unwrap();
    }

    /// Waits until every key runs exactly once.
    pub(crate) async fn each_runs_once(&self, keys: &[String]) {
        eventually(self.patience, "every job to run once", async || {
            let runs = self.runs();
            let count = |key: &String| runs.get(key).copied().unwrap_or_default();
            let other: Vec<_> = keys.iter().map(|key| (key, count(key))).filter(|(_, n)| *n != 1).collect();
            if other.is_empty() { Ok(()) } else { Err(format!("{other:?}")) }
        })
        .await;
    }

    /// How often each key runs at present.
    fn runs(&self) -> BTreeMap<String, usize> {
        let mut runs: BTreeMap<String, usize> = BTreeMap::new();
        for entry in self.history().entries() {
            match entry.event {
                Event::Started { key, .. } => *runs.entry(key).or_default() += 1,
                Event::Stopped { key, .. } => *runs.entry(key).or_default() -= 1,
                _ => {}
            }
        }
        runs
    }

    /// The keys that a node's workers run.
    pub(crate) async fn keys_on(&self, node: &Node) -> Vec<String> {
        let own = workers_of(node).await;
        let jobs = node.inspect().jobs().await.unwrap();
        let here = jobs.iter().filter(|job| job.owner.is_some_and(|owner| own.contains(&owner)));
        here.map(|job| job.key.to_string()).collect()
    }

    /// A newly dispatched job starts: so the routers have looked at everything that came before it.
    pub(crate) async fn goes_on(&self, node: &Node, name: &str) {
        for i in 0..4 {
            self.dispatch_one(node, &format!("{name}-{i}")).await;
        }
    }

    /// Judges the history; the pool is at rest and running.
    pub(crate) fn assert_clean(&self) {
        check(self.history(), &Expect::default()).assert_clean();
    }

    /// Every key was started exactly this often.
    pub(crate) fn assert_starts(&self, keys: &[String], times: usize) {
        for key in keys {
            let starts = self.recorder.starts_of(key);
            assert_eq!(starts, times, "{key} was started {starts} times");
        }
    }
}

impl Drop for Ground {
    /// The pool's books must agree when a case is over.
    fn drop(&mut self) {
        if !self.sound || std::thread::panicking() {
            return;
        }
        let second = Duration::from_secs(1);
        let client = redis::Client::open(self.server.url()).unwrap();
        let Ok(mut redis) = client.get_connection_with_timeout(second) else { return };
        redis.set_read_timeout(Some(second)).unwrap();
        assert_eq!(disagreements(&mut redis), Vec::<String>::new());
    }
}

/// A call of a node that goes on beside the test.
pub(crate) fn beside<F>(node: &Node, call: impl FnOnce(Node) -> F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(call(node.clone()))
}

/// The workers of a node.
pub(crate) async fn workers_of(node: &Node) -> Vec<WorkerId> {
    let workers =
        node.inspect().workers().await.unwrap().into_iter().filter(|worker| worker.node == node.name());
    workers.map(|worker| worker.id).collect()
}

/// Stop handlers wait at this gate until it is opened.
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    reached: Arc<AtomicUsize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(false), reached: Arc::default() }
    }
}

impl Gate {
    /// A handler whose jobs last until their stop handlers have passed.
    pub(crate) fn before_stops_of(&self, recorder: &Recorder) -> impl JobHandler + use<> {
        StopsAtGate {
            inner: recorder.acting(|_| Act::Hold),
            open: self.open.subscribe(),
            reached: self.reached.clone(),
        }
    }

    /// Waits until this many stop handlers have reached the gate.
    pub(crate) async fn reached(&self, ground: &Ground, jobs: usize) {
        eventually(ground.patience, "the handlers to be asked to stop", async || {
            self.reached.load(Ordering::SeqCst) >= jobs
        })
        .await;
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

struct StopsAtGate {
    inner: Recorder,
    open: watch::Receiver<bool>,
    reached: Arc<AtomicUsize>,
}

impl JobHandler for StopsAtGate {
    async fn start(&self, job: Job) -> Start {
        self.inner.start(job).await
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.reached.fetch_add(1, Ordering::SeqCst);
        // A dropped gate counts as open.
        let _ = self.open.clone().wait_for(|open| *open).await;
        self.inner.stop(job, why).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.inner.notify(job, body).await
    }
}

/// A client that sends steps of the pool without being a node.
pub(crate) struct Bystander {
    pub(crate) store: Store,
}

impl Bystander {
    /// The pool's incarnation and the revision of its members.
    pub(crate) async fn view(&self) -> (Incarnation, Revision) {
        match self.store.read(&ReadState).await.unwrap() {
            PoolState::Present { incarnation, members, .. } => (incarnation, members),
            other => panic!("{other:?}"),
        }
    }

    /// A step in the pool's present incarnation.
    pub(crate) async fn run<S: Known>(&self, step: &S) -> Result<S::Answer, StoreError> {
        self.store.run(self.view().await.0, step).await
    }

    /// Expires this worker, whose lease is over.
    pub(crate) async fn bury(&self, worker: WorkerId) {
        self.run(&Expire { workers: vec![(worker, None)] }).await.unwrap();
    }
}
