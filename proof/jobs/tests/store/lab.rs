//! A store of either kind, with a clock that the test sets, and short words for its steps.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_connection::{Client, Connection};
use tenure_jobs::store::{
    AddJobs, AddMode, AddReply, Adding, AttestJobs, Attesting, Boot, Booted, Declare, Dump, Ends, ExtendJobs,
    Hint, Kind, Known, Lane, ListJobs, Listing, MemoryStore, NewJob, Page, PeekJobs, Peeked, ReadServer,
    Recover, RedisStore, Request, Result, ScriptPatch, Settle, SettleJobs, SettleReply, Settling, Steer,
    SteerJobs, SteerReply, Step, Store, StoreError, TakeJobs, TakeReply, TakenJob, Taking, Tick, Ticked,
    WatchJobs, Watching,
};
use tenure_jobs::{
    GroupName, Incarnation, JobId, NodeName, QueueName, Record, SetName, Settings, State, Token,
};
use tenure_testing::RedisServer;
use tokio::sync::mpsc;

/// The time at which every clock starts, ms.
pub(crate) const START: u64 = 1_800_000_000_000;

thread_local! {
    /// How the scripts of this thread's stores are broken on purpose.
    pub(crate) static PATCHES: Cell<&'static [ScriptPatch]> = const { Cell::new(&[]) };
    /// The server of this thread's stores, in place of the common one, and the address by which they connect to it.
    pub(crate) static SERVERS: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Memory,
    Redis,
}

/// What a scenario may begin with: the kind of store, or a set with one plain queue, `a`.
pub(crate) trait Opens {
    async fn open(which: Which) -> Self;
}

impl Opens for Which {
    async fn open(which: Which) -> Self {
        which
    }
}

impl Opens for Lab {
    async fn open(which: Which) -> Self {
        Self::new(which, &[("a", "")]).await
    }
}

/// Plays a scenario on a store of this kind.
pub(crate) async fn play<O: Opens>(scene: impl AsyncFnOnce(O), which: Which) {
    scene(O::open(which).await).await;
}

enum Backend {
    Memory(MemoryStore),
    Redis(Arc<RedisStore>, Connection, String),
}

pub(crate) struct Lab {
    pub(crate) store: Arc<dyn Store>,
    backend: Backend,
    clock: Arc<AtomicU64>,
    pub(crate) inc: Cell<Incarnation>,
    number: Cell<u64>,
    /// The token of the last take.
    pub(crate) token: Cell<Token>,
    pub(crate) registration: RefCell<Option<Box<str>>>,
    pub(crate) jobs: RefCell<Vec<TakenJob>>,
    pub(crate) more: Cell<bool>,
    hints: RefCell<Vec<(String, mpsc::UnboundedReceiver<Hint>)>>,
}

pub(crate) fn id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

pub(crate) fn queue(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

pub(crate) fn node(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

pub(crate) fn group(text: &str) -> Option<GroupName> {
    (!text.is_empty()).then(|| GroupName::new(text).unwrap())
}

/// The settings of a queue from `key=value` words: `g` grouped, `o` pinned, `lease`, `max`, `keep` of failed ones,
/// `done` of others, `terms`, `cap`, `step`, `conc`, `limit=n/ms`, `glimit=n/ms`, `gconc`.
pub(crate) fn settings(words: &str) -> Settings {
    let mut settings = Settings::default();
    (settings.max, settings.keep_failed) = (0, -1);
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "0"));
        let (n, ms) = value.split_once('/').unwrap_or((value, "0"));
        let ms = ms.parse().unwrap();
        match name {
            "g" => settings.grouped = true,
            "o" => (settings.grouped, settings.pinned, settings.group_concurrency) = (true, true, 1),
            "shut" => settings.shut = true,
            "lease" => settings.lease = n.parse().unwrap(),
            "max" => settings.max = n.parse().unwrap(),
            "keep" => settings.keep_failed = n.parse().unwrap(),
            "done" => settings.keep = n.parse().unwrap(),
            "terms" => settings.terms = tenure_jobs::Terms::parse(value).unwrap(),
            "cap" => settings.capacity = n.parse().unwrap(),
            "step" => settings.step = n.parse().unwrap(),
            "conc" => settings.concurrency = n.parse().unwrap(),
            "limit" => (settings.limit, settings.window) = (n.parse().unwrap(), ms),
            "glimit" => (settings.group_limit, settings.group_window) = (n.parse().unwrap(), ms),
            "gconc" => settings.group_concurrency = n.parse().unwrap(),
            other => panic!("{other}"),
        }
    }
    settings
}

/// How long an answer may take: a machine that does much else answers late.
const PATIENCE: Duration = Duration::from_secs(30);

static SERVER: OnceLock<RedisServer> = OnceLock::new();
static SETS: AtomicU64 = AtomicU64::new(0);

impl Lab {
    /// A set with these queues, as `(name, words)`.
    pub(crate) async fn new(which: Which, queues: &[(&str, &str)]) -> Self {
        let clock = Arc::new(AtomicU64::new(START));
        let (store, backend): (Arc<dyn Store>, _) = match which {
            Which::Memory => {
                let reading = clock.clone();
                let store = MemoryStore::with_clock(move || reading.load(Ordering::SeqCst));
                (Arc::new(store.clone()), Backend::Memory(store))
            }
            Which::Redis => {
                let common = || SERVER.get_or_init(|| RedisServer::start().unwrap()).url();
                let (server, user) = SERVERS.take().unwrap_or_else(|| (common(), common()));
                let set = format!("lab{}", SETS.fetch_add(1, Ordering::SeqCst));
                let name = SetName::new(&set).unwrap();
                let open = |client: &Client| Arc::new(RedisStore::open_patched(client, &name, PATCHES.get()));
                let patient = |url: &str| Client::builder(url).response_timeout(PATIENCE).build().unwrap();
                let client = patient(&server);
                let store = open(&patient(&user));
                SERVERS.set(Some((server, user)));
                let backend =
                    Backend::Redis(open(&client), client.commands(), format!("tenure:{{{set}}}:q:"));
                (store, backend)
            }
        };
        let lab = Self {
            store,
            backend,
            clock,
            inc: Cell::new(Incarnation(0)),
            number: Cell::new(0),
            token: Cell::new(Token(0)),
            registration: RefCell::default(),
            jobs: RefCell::default(),
            more: Cell::new(false),
            hints: RefCell::default(),
        };
        lab.set_clock(START).await;
        lab.store.bless(&lab.run(ReadServer()).await);
        lab.boot().await;
        for (name, words) in queues {
            assert!(lab.declare(name, words).await);
        }
        lab
    }

    /// Performs a step in the present incarnation.
    pub(crate) async fn run<S: Step + Known>(&self, step: S) -> S::Answer {
        self.store.run(self.inc.get(), &step).await.unwrap()
    }

    /// The answer to a step in this incarnation, or its error.
    pub(crate) async fn ask<S: Step + Known>(&self, inc: Incarnation, step: S) -> Result<S::Answer> {
        self.store.run(inc, &step).await
    }

    /// Another incarnation begins, on another server.
    pub(crate) async fn recover(&self, seen: Token, hold: u64, grace: u64) -> Incarnation {
        self.run(Recover { seen, server: "other".into(), hold, grace }).await
    }

    /// A node watches a job from now on.
    pub(crate) async fn watch(&self, by: &str, job: &str) {
        let (node, ids) = (node(by), vec![id(job)]);
        self.run(WatchJobs { node, watching: Watching::Begin, number: 1, ids }).await;
    }

    pub(crate) async fn list(&self, of: Listing, after: Option<String>, size: u32) -> Page {
        self.run(ListJobs { of, after, size }).await
    }

    pub(crate) async fn boot(&self) {
        match self.run(Boot(self.token.get())).await {
            Booted::Created { incarnation } | Booted::Exists { incarnation, .. } => self.inc.set(incarnation),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn declare(&self, name: &str, words: &str) -> bool {
        self.run(Declare(queue(name), Some(settings(words)))).await
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub(crate) async fn set_clock(&self, ms: u64) {
        self.clock.store(ms, Ordering::SeqCst);
        if let Backend::Redis(..) = self.backend {
            self.raw("SET", "clock", &[&ms.to_string()]).await;
        }
    }

    pub(crate) async fn advance(&self, ms: u64) {
        self.set_clock(self.now() + ms).await;
    }

    /// Sends a command to Redis about one of the set's keys.
    pub(crate) async fn raw(&self, command: &str, key: &str, args: &[&str]) -> Option<redis::Value> {
        let Backend::Redis(_, connection, prefix) = &self.backend else { return None };
        let mut command = redis::cmd(command);
        Some(connection.command(command.arg(format!("{prefix}{key}")).arg(args)).await.unwrap())
    }

    pub(crate) async fn dump(&self) -> Dump {
        match &self.backend {
            Backend::Memory(store) => store.dump(),
            Backend::Redis(store, ..) => store.dump().await.unwrap(),
        }
    }

    /// The names of keys, without those of lanes.
    pub(crate) async fn keys(&self) -> Vec<String> {
        self.dump().await.names().filter(|name| !name.starts_with("lane")).map(str::to_owned).collect()
    }

    /// Loses all data and tells nobody.
    pub(crate) async fn wipe(&self) {
        match &self.backend {
            Backend::Memory(store) => store.wipe(),
            Backend::Redis(..) => {
                for name in self.dump().await.names() {
                    self.raw("DEL", name, &[]).await;
                }
            }
        }
    }

    /// The next call of a lane.
    pub(crate) fn lane(&self, name: &str) -> Lane {
        self.number.set(self.number.get() + 1);
        let mut lane = Lane::new(name);
        lane.number = self.number.get().into();
        lane
    }

    pub(crate) async fn add_all(&self, adding: &Adding) -> Vec<AddReply> {
        self.run(AddJobs(self.lane("p"), adding.clone())).await
    }

    /// Adds plain jobs.
    pub(crate) async fn add(&self, name: &str, ids: &[&str]) -> Vec<AddReply> {
        let kind = Arc::new(Kind::new(queue(name)));
        let jobs = ids.iter().map(|text| NewJob::new(id(text), format!("body-{text}"), kind.clone()));
        self.add_all(&Adding::new(jobs.collect())).await
    }

    /// Adds plain jobs to a queue, and takes all that is ready there. Returns the token of the take.
    pub(crate) async fn begin(&self, name: &str, ids: &[&str]) -> Token {
        self.add(name, ids).await;
        self.take(name).await;
        self.token.get()
    }

    /// Adds one job of a kind that `change` describes.
    pub(crate) async fn add_one(&self, name: &str, job: &str, change: impl FnOnce(&mut Kind)) -> AddReply {
        self.add_body(name, job, "b", AddMode::Keep, change).await
    }

    pub(crate) async fn add_body(
        &self,
        name: &str,
        job: &str,
        body: &str,
        mode: AddMode,
        change: impl FnOnce(&mut Kind),
    ) -> AddReply {
        let mut kind = Kind::new(queue(name));
        change(&mut kind);
        let mut adding = Adding::new(vec![NewJob::new(id(job), body.to_owned(), kind)]);
        adding.mode = mode;
        self.add_all(&adding).await[0]
    }

    /// Adds a child from the running execution of its parent.
    pub(crate) async fn spawn(
        &self,
        name: &str,
        parent: &str,
        token: Option<Token>,
        child: &str,
    ) -> AddReply {
        self.spawn_by(name, parent, token, child, 0).await
    }

    /// The same for a child with a deadline, if that is not 0.
    pub(crate) async fn spawn_by(
        &self,
        name: &str,
        parent: &str,
        token: Option<Token>,
        child: &str,
        deadline: u64,
    ) -> AddReply {
        let mut kind = Kind::new(queue(name));
        (kind.parent, kind.deadline) = (Some(id(parent)), deadline);
        let mut adding = Adding::new(vec![NewJob::new(id(child), "b", kind)]);
        adding.token = token;
        self.add_all(&adding).await[0]
    }

    /// Takes as asked, and returns the ids.
    pub(crate) async fn take_as(&self, taking: &Taking) -> Vec<String> {
        let lane = self.lane(&format!("a{}", taking.node));
        let reply = self.run(TakeJobs(lane.clone(), taking.clone())).await;
        let TakeReply::Taken { jobs, registration, more } = reply else { panic!("{reply:?}") };
        if let Some(job) = jobs.first() {
            self.token.set(job.record.token);
        }
        *self.registration.borrow_mut() = registration;
        self.more.set(more);
        let ids = jobs.iter().map(|job| job.id.to_string()).collect();
        *self.jobs.borrow_mut() = jobs;
        ids
    }

    pub(crate) async fn take(&self, name: &str) -> Vec<String> {
        self.take_as(&taking(name, 100)).await
    }

    pub(crate) async fn take_n(&self, name: &str, want: u32) -> Vec<String> {
        self.take_as(&taking(name, want)).await
    }

    pub(crate) async fn settle(&self, job: &str, settle: Settle) -> SettleReply {
        self.settle_as(job, self.token.get(), settle).await
    }

    pub(crate) async fn settle_as(&self, job: &str, token: Token, settle: Settle) -> SettleReply {
        let settling = [Settling::new(id(job), token, settle)];
        self.run(SettleJobs(self.lane("s"), settling.to_vec())).await[0]
    }

    pub(crate) async fn done(&self, job: &str) -> SettleReply {
        self.settle(job, done()).await
    }

    pub(crate) async fn extend(&self, job: &str, token: Token) -> SettleReply {
        self.run(ExtendJobs(vec![(id(job), token)])).await.replies[0]
    }

    /// Says which executions a node has.
    pub(crate) async fn attest(&self, jobs: &[Attesting]) -> Vec<SettleReply> {
        self.run(AttestJobs(jobs.to_vec())).await.replies
    }

    /// Says that the execution of a job that was taken goes on, with its data or without.
    pub(crate) async fn attest_one(&self, taken: &TakenJob, with_body: bool) -> SettleReply {
        let body = with_body.then(|| taken.body.clone());
        self.attest(&[Attesting::new(taken.id.clone(), taken.record.clone(), body)]).await[0]
    }

    pub(crate) async fn tick(&self) -> Ticked {
        self.tick_as("n1", 3_000, true).await
    }

    pub(crate) async fn tick_after(&self, ms: u64) -> Ticked {
        self.advance(ms).await;
        self.tick().await
    }

    /// A tick whose next one comes after 9 s at the latest: a gap of more than 10 s spares leases.
    pub(crate) async fn tick_as(&self, name: &str, grace: u64, off_duty: bool) -> Ticked {
        self.run(Tick { node: node(name), most: 50, pause: 9_000, grace, off_duty }).await
    }

    pub(crate) async fn steer(&self, job: &str, steer: Steer) -> SteerReply {
        self.request(Request::Job(id(job), steer)).await
    }

    pub(crate) async fn request(&self, request: Request) -> SteerReply {
        self.run(SteerJobs(vec![request])).await[0]
    }

    pub(crate) async fn peek(&self, job: &str) -> Option<Peeked> {
        self.run(PeekJobs(Ends::With, vec![id(job)])).await.remove(0)
    }

    pub(crate) async fn record(&self, job: &str) -> Option<Record> {
        self.peek(job).await.map(|peeked| peeked.seen.record)
    }

    pub(crate) async fn state(&self, job: &str) -> Option<State> {
        self.record(job).await.map(|record| record.state)
    }

    pub(crate) async fn body(&self, job: &str) -> Bytes {
        self.peek(job).await.unwrap().seen.body
    }

    pub(crate) async fn result(&self, job: &str) -> Bytes {
        self.peek(job).await.unwrap().seen.result
    }

    /// Listens for the messages to a node, and waits until they come.
    pub(crate) async fn listen(&self, name: &str) {
        let mut hints = self.store.listen(&node(name));
        assert_eq!(hints.recv().await, Some(Hint::Subscribed));
        self.hints.borrow_mut().push((name.to_owned(), hints));
    }

    /// The messages to all nodes that came since, in the order of the nodes. A message to itself shows that no more
    /// are on their way.
    pub(crate) async fn heard(&self) -> Vec<(String, Hint)> {
        let mut heard = Vec::new();
        let mut nodes = std::mem::take(&mut *self.hints.borrow_mut());
        for (name, hints) in &mut nodes {
            if let Backend::Redis(_, connection, prefix) = &self.backend {
                let mut command = redis::cmd("SPUBLISH");
                connection.command(command.arg(format!("{prefix}n:{name}")).arg("w|END")).await.unwrap();
                while let Some(hint) = hints.recv().await {
                    if hint == Hint::Ready(queue("END"), None) {
                        break;
                    }
                    heard.push((name.clone(), hint));
                }
            } else {
                while let Ok(hint) = hints.try_recv() {
                    heard.push((name.clone(), hint));
                }
            }
        }
        *self.hints.borrow_mut() = nodes;
        heard
    }

    /// The nodes that were woken since.
    pub(crate) async fn woken(&self) -> Vec<String> {
        let heard = self.heard().await;
        heard.into_iter().filter(|(_, hint)| matches!(hint, Hint::Ready(..))).map(|(name, _)| name).collect()
    }
}

/// A wish for this many jobs of a queue.
pub(crate) fn taking(name: &str, want: u32) -> Taking {
    Taking::new(node("n1"), queue(name), want)
}

pub(crate) fn done() -> Settle {
    Settle::Done(Bytes::new(), tenure_jobs::store::Data::Keep)
}

pub(crate) fn with_result(text: &str) -> Settle {
    Settle::Done(text.to_owned().into(), tenure_jobs::store::Data::Keep)
}

pub(crate) fn retry(delay: u64, error: &str) -> Settle {
    Settle::Retry(delay, error.to_owned().into())
}

pub(crate) fn fail(error: &str) -> Settle {
    Settle::Fail(error.to_owned().into(), tenure_jobs::store::Data::Keep)
}

pub(crate) fn is_stale(error: &StoreError) -> bool {
    matches!(error, StoreError::Stale(_))
}
