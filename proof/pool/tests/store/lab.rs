//! A pool on one of the two stores, and short names for what scenarios do with it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    BeginReply, Bootstrap, Content, Dispatch, DispatchItem, DispatchReply, Join, JoinRequest, Known, LookUp,
    Lookup, Notify, NotifyItem, NotifyReply, OpenNormal, Placing, PoolState, Read, ReadIdentity, ReadPool,
    ReadState, Reap, Recover, Refusal, Release, ReleaseItem, ReleaseMode, ReleaseReply, Renew, Result, Route,
    RouteReply, Seat, Seen, Settle, Started, StartedItem, Stop, StopItem, StopReply, Store, StoreError,
    Sweep, Swept, Take, TakeItem, Taken, Text, WorkerStarts,
};
use tenure_protocol::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId,
};
use tenure_protocol::model::record::Record;
use tenure_protocol::model::settings::Settings;
use tenure_streaming::EntryId;
use tenure_testing::RedisServer;

use super::backend::Backend;
use super::single::Single as _;

/// Which store a scenario runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Memory,
    Redis,
}

/// What a scenario may begin with.
pub(crate) trait Opens {
    async fn open(kind: Kind) -> Self;
}

impl Opens for Kind {
    async fn open(kind: Kind) -> Self {
        kind
    }
}

impl Opens for Lab {
    async fn open(kind: Kind) -> Self {
        Self::new(kind).await
    }
}

/// A scenario gets what its parameters name: the kind of store, or a pool with up to three workers in its ring.
pub(crate) trait Scene<Given> {
    async fn on(self, kind: Kind);
}

impl<S: AsyncFnOnce(O), O: Opens> Scene<(O,)> for S {
    async fn on(self, kind: Kind) {
        self(O::open(kind).await).await;
    }
}

/// A scene for these workers.
macro_rules! scene {
    ($($worker:ident: $of:ty),+) => {
        impl<S: AsyncFnOnce(Lab, $($of),+)> Scene<(Lab, $($of),+)> for S {
            async fn on(self, kind: Kind) {
                let lab = Lab::new(kind).await;
                $(let $worker = lab.worker().await;)+
                self(lab, $($worker),+).await;
            }
        }
    };
}
scene!(first: WorkerId);
scene!(first: WorkerId, second: WorkerId);
scene!(first: WorkerId, second: WorkerId, third: WorkerId);

/// Plays a scenario on a store of this kind.
pub(crate) async fn play<Given>(scene: impl Scene<Given>, kind: Kind) {
    scene.on(kind).await;
}

/// One server for all scenarios, each with its own pool on it. It ends with this process.
static SERVER: LazyLock<RedisServer> = LazyLock::new(|| RedisServer::start().unwrap());
static POOLS: AtomicU32 = AtomicU32::new(0);

/// A pool and its one client.
pub(crate) struct Lab {
    pub(crate) backend: Backend,
    pub(crate) inc: Incarnation,
    pub(crate) settings: Settings,
    nonces: AtomicU32,
}

impl Lab {
    /// An open pool with the default settings.
    pub(crate) async fn new(kind: Kind) -> Self {
        Self::with(kind, Settings::default()).await
    }

    /// An open pool with these settings, that grants nothing.
    pub(crate) async fn with(kind: Kind, settings: Settings) -> Self {
        Self::that_grants(kind, Settings { grant_max: 0, ..settings }).await
    }

    /// An open pool with these settings.
    pub(crate) async fn that_grants(kind: Kind, settings: Settings) -> Self {
        let mut lab = Self::blank(kind).await;
        lab.settings = settings;
        lab.bootstrap().await;
        assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
        lab
    }

    /// The same with a worker in its ring.
    pub(crate) async fn with_worker(kind: Kind, settings: Settings) -> (Self, WorkerId) {
        let lab = Self::with(kind, settings).await;
        let worker = lab.worker().await;
        (lab, worker)
    }

    /// A store without a pool.
    pub(crate) async fn blank(kind: Kind) -> Self {
        let backend = match kind {
            Kind::Memory => Backend::memory().await,
            Kind::Redis => {
                let pool = format!("lab{}", POOLS.fetch_add(1, Ordering::SeqCst));
                Backend::redis(&SERVER, &pool).await
            }
        };
        let settings = Settings::default();
        Self { backend, inc: Incarnation(0), settings, nonces: AtomicU32::new(0) }
    }

    /// Creates the pool in phase R.
    pub(crate) async fn bootstrap(&mut self) {
        let run_id = self.read(&ReadIdentity).await.unwrap().run_id;
        let seen = Seen { incarnation: self.inc, ..Seen::default() };
        self.inc = self
            .read(&Bootstrap { seen, run_id, settings: Box::new(self.settings.clone()) })
            .await
            .unwrap()
            .incarnation;
    }

    /// Starts a new incarnation, in phase R.
    pub(crate) async fn recover(&mut self) {
        let run_id = self.read(&ReadIdentity).await.unwrap().run_id;
        self.inc = self.step(&recovery(&run_id)).await.unwrap();
    }

    pub(crate) fn store(&self) -> &Store {
        &self.backend.store
    }

    /// A step in the incarnation of the pool that the lab made.
    pub(crate) async fn step<S: Known>(&self, step: &S) -> Result<S::Answer> {
        self.store().run(self.inc, step).await
    }

    /// A step that names no incarnation.
    pub(crate) async fn read<S: Known + Read>(&self, step: &S) -> Result<S::Answer> {
        self.store().read(step).await
    }

    pub(crate) fn request(&self) -> JoinRequest {
        JoinRequest {
            nonce: Nonce::new(format!("nonce{}", self.nonces.fetch_add(1, Ordering::SeqCst))).unwrap(),
            node: node("node1"),
            meta: String::new(),
            address: String::new(),
            preferred: None,
            settings: self.settings.clone(),
        }
    }

    pub(crate) async fn join(&self) -> Seat {
        self.step(&Join { request: Box::new(self.request()) }).await.unwrap()
    }

    /// A worker in the ring, and a job: who comes after it stands by.
    pub(crate) async fn worker_with_a_job(&self) -> WorkerId {
        let worker = self.worker().await;
        self.dispatch("there", "node1.there").await;
        worker
    }

    /// A worker in the ring.
    pub(crate) async fn worker(&self) -> WorkerId {
        let seat = self.join().await;
        self.step(&Settle { worker: seat.worker }).await.unwrap().worker
    }

    /// Ends a worker by its own call, and reaps its remains.
    pub(crate) async fn leave(&self, worker: WorkerId) {
        self.store().expire_one(self.inc, worker, None).await.unwrap();
        assert!(self.step(&Reap { worker, limit: 1_000 }).await.unwrap().done);
    }

    pub(crate) fn item(&self, key_: &str, id_: &str) -> DispatchItem {
        DispatchItem {
            key: key(key_),
            id: id(id_),
            not_after: self.backend.now() + 1_000,
            hash: String::new(),
            payload: Bytes::from_static(b"payload"),
            worker: None,
            awaited: true,
        }
    }

    pub(crate) async fn dispatch_all(&self, items: &[DispatchItem]) -> Vec<DispatchReply> {
        self.step(&Dispatch { by: Placing::Ring(Revision(0)), items: items.to_vec() }).await.unwrap()
    }

    pub(crate) async fn dispatch(&self, key: &str, id: &str) -> DispatchReply {
        self.dispatch_all(&[self.item(key, id)]).await.remove(0)
    }

    pub(crate) async fn revision(&self) -> Revision {
        match self.read(&ReadState).await.unwrap() {
            PoolState::Present { members, .. } => members,
            other => panic!("{other:?}"),
        }
    }

    /// Takes all start events that no consumer has.
    pub(crate) async fn starts(&self) -> Vec<(EntryId, Vec<(JobKey, u32)>)> {
        let events = self
            .read(&ReadPool { consumer: node("router"), max: 1_000, block: Duration::ZERO })
            .await
            .unwrap()
            .unwrap();
        events.into_iter().map(|event| (event.entry, event.jobs)).collect()
    }

    /// Assigns jobs to a worker, with all start events read.
    pub(crate) async fn route_all(&self, keys: &[&str], worker: Option<WorkerId>) -> Vec<RouteReply> {
        let entries: Vec<_> = self.starts().await.into_iter().map(|(entry, _)| entry).collect();
        let jobs: Vec<_> = keys.iter().map(|name| (key(name), worker)).collect();
        self.step(&Route { ring: self.revision().await, entries, jobs }).await.unwrap()
    }

    pub(crate) async fn route(&self, key: &str, worker: WorkerId) -> RouteReply {
        self.route_all(&[key], Some(worker)).await.remove(0)
    }

    /// A job that is assigned to this worker.
    pub(crate) async fn assign(&self, name: &str, id: &str, worker: WorkerId) {
        assert_eq!(self.dispatch(name, id).await, DispatchReply::Accepted);
        assert_eq!(self.route(name, worker).await, RouteReply::Routed);
    }

    pub(crate) async fn lookup(&self, key_: &str, id_: &str) -> Lookup {
        self.read(&LookUp { items: vec![(key(key_), Some(id(id_)))] }).await.unwrap().remove(0)
    }

    pub(crate) async fn record(&self, name: &str) -> Option<Record> {
        self.read(&LookUp { items: vec![(key(name), None)] }).await.unwrap().remove(0).record
    }

    /// The token under which the job is assigned.
    pub(crate) async fn token(&self, name: &str) -> Token {
        self.record(name).await.unwrap().token
    }

    pub(crate) async fn begin(&self, name: &str, worker: WorkerId) -> BeginReply {
        let jobs = [(key(name), self.token(name).await)];
        self.store().begin_one(self.inc, worker, &[], &jobs).await.unwrap().remove(0)
    }

    /// A running job of this worker, with its token.
    pub(crate) async fn run(&self, name: &str, id: &str, worker: WorkerId) -> Token {
        self.assign(name, id, worker).await;
        self.run_assigned(name, worker).await
    }

    /// Routes and begins a queued job.
    pub(crate) async fn run_again(&self, name: &str, worker: WorkerId) -> Token {
        assert_eq!(self.route(name, worker).await, RouteReply::Routed);
        self.run_assigned(name, worker).await
    }

    /// Begins an assigned job.
    pub(crate) async fn run_assigned(&self, name: &str, worker: WorkerId) -> Token {
        assert!(matches!(self.begin(name, worker).await, BeginReply::Begun(_)));
        self.token(name).await
    }

    pub(crate) async fn started(&self, name: &str, worker: WorkerId) -> bool {
        let item = StartedItem { key: key(name), token: self.token(name).await, tell: None };
        self.step(&Started { starts: vec![WorkerStarts { worker, finished: vec![], items: vec![item] }] })
            .await
            .unwrap()[0]
    }

    pub(crate) async fn release_item(&self, worker: WorkerId, item: ReleaseItem) -> ReleaseReply {
        self.step(&Release { worker, finished: Vec::new(), items: vec![item] }).await.unwrap()[0]
    }

    /// Releases under the record's token, at once, with nobody waiting.
    pub(crate) async fn release(&self, name: &str, worker: WorkerId, mode: ReleaseMode) -> ReleaseReply {
        let token = self.token(name).await;
        self.release_item(worker, release(name, token, mode)).await
    }

    pub(crate) async fn stop_all(&self, items: &[StopItem]) -> Vec<StopReply> {
        self.step(&stopping(items.to_vec())).await.unwrap()
    }

    pub(crate) async fn stop(&self, name: &str, id: &str, guess: Option<WorkerId>) -> StopReply {
        self.stop_all(&[stop(name, id, guess)]).await.remove(0)
    }

    /// A running job that its owner is told to end.
    pub(crate) async fn run_and_stop(&self, name: &str, id: &str, worker: WorkerId) {
        self.run(name, id, worker).await;
        assert_eq!(self.stop(name, id, Some(worker)).await, StopReply::Stopping);
    }

    /// A sweep of at most ten jobs.
    pub(crate) async fn sweep(&self) -> Swept {
        self.step(&Sweep { limit: 10, kick: None }).await.unwrap()
    }

    pub(crate) async fn sweep_after(&self, ms: u64) -> Swept {
        self.backend.advance(ms).await;
        self.sweep().await
    }

    pub(crate) async fn notify(&self, name: &str, guess: Option<WorkerId>, body: &str) -> NotifyReply {
        let item = NotifyItem { key: key(name), guess, body: Bytes::copy_from_slice(body.as_bytes()) };
        self.step(&Notify { items: vec![item] }).await.unwrap()[0]
    }

    pub(crate) async fn take(&self, name: &str, worker: WorkerId, token: Token, ack: u64) -> Option<Taken> {
        let item = TakeItem { key: key(name), token, ack };
        self.step(&Take { worker, finished: Vec::new(), items: vec![item] }).await.unwrap().remove(0)
    }

    /// A field of a hash in the dump, as text.
    pub(crate) async fn field(&self, name: &str, field: &str) -> Option<String> {
        match self.backend.dump().await.get(name) {
            Some(Content::Hash(fields)) => fields.get(&Text::from(field)).map(ToString::to_string),
            _ => None,
        }
    }

    /// The time that a member of a sorted set of the dump has.
    pub(crate) async fn score(&self, name: &str, member: &str) -> Option<u64> {
        match self.backend.dump().await.get(name) {
            Some(Content::Scores(members)) => members.get(&Text::from(member)).copied(),
            _ => None,
        }
    }

    /// How many jobs count towards the bound.
    pub(crate) async fn queued(&self) -> u64 {
        self.field("pool", "queued").await.unwrap().parse().unwrap()
    }

    /// Makes a call that must be refused, and sees that it changed nothing.
    pub(crate) async fn refused<T: std::fmt::Debug>(&self, call: impl Future<Output = Result<T>>) -> Refusal {
        let before = self.backend.dump().await;
        let refusal = refusal(call.await);
        assert_eq!(self.backend.dump().await, before, "{refusal:?} changed the state");
        refusal
    }
}

/// The refusal that an answer is.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T>) -> Refusal {
    match answer {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// The score of a parked job that does not go on by itself.
pub(crate) const NEVER: u64 = 9_000_000_000_000_000;

/// Makes a pool with these settings, in phase N, on a server that the store blesses.
pub(crate) async fn open_pool(store: &Store, settings: &Settings) -> Incarnation {
    let run_id = store.read(&ReadIdentity).await.unwrap().run_id;
    let made = store
        .read(&Bootstrap {
            seen: Seen::default(),
            run_id: run_id.clone(),
            settings: Box::new(settings.clone()),
        })
        .await
        .unwrap();
    assert!(made.created);
    store.bless(&run_id);
    assert_eq!(store.run(made.incarnation, &OpenNormal).await.unwrap(), None);
    made.incarnation
}

pub(crate) fn key(name: &str) -> JobKey {
    JobKey::try_from(name).unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A caller that has seen this token.
pub(crate) fn seen(token: Token) -> Seen {
    Seen { token, ..Seen::default() }
}

pub(crate) fn id(text: &str) -> DispatchId {
    text.parse().unwrap()
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A renewal by a caller that has seen nothing.
pub(crate) fn renew(workers: &[WorkerId]) -> Renew {
    Renew {
        seen: Seen::default(),
        node: None,
        workers: workers.to_vec(),
        status: Bytes::new(),
        looks_at_memory: false,
    }
}

/// A recovery on this server by a caller that has seen nothing and misses nothing.
pub(crate) fn recovery(run_id: &str) -> Recover {
    Recover { seen: Seen::default(), run_id: run_id.to_owned(), lost: String::new() }
}

/// A first stop that nobody waits for.
pub(crate) fn stopping(items: Vec<StopItem>) -> Stop {
    Stop { turn: None, repeat: false, waiting: None, items }
}

/// The usual cause of a release.
pub(crate) fn cause_of(mode: ReleaseMode) -> Cause {
    match mode {
        ReleaseMode::Refuse | ReleaseMode::Elsewhere { .. } => Cause::Refused,
        ReleaseMode::Fail | ReleaseMode::Park => Cause::Failed,
        _ => Cause::Moved,
    }
}

pub(crate) fn release(name: &str, token: Token, mode: ReleaseMode) -> ReleaseItem {
    ReleaseItem {
        key: key(name),
        token,
        mode,
        cause: cause_of(mode),
        ran: None,
        rests: String::new(),
        delay: Duration::ZERO,
        tell: None,
        tell_stopper: None,
        result: String::new(),
    }
}

pub(crate) fn stop(name: &str, id_: &str, guess: Option<WorkerId>) -> StopItem {
    StopItem { key: key(name), id: id(id_), guess, forbid: false }
}
