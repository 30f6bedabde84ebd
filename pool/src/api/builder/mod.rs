//! How a node joins a pool.

mod backend;
#[cfg(feature = "proof")]
mod proof;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::{Thread, follows_a_test};
use tenure_steps::Failure;

use crate::api::inspector::Inspector;
use crate::api::node::{Limit, Node, Shard, shards};
use crate::core::ctx::{Config, Purpose};
use crate::core::lease::Timing;
use crate::error::Error;
use crate::job::span::JobSpanHook;
use crate::model::id::{NodeName, PoolName};
use crate::model::level::check_address;
use crate::model::policy::FencePolicy;
use crate::model::settings::bounds::{check, check_time};
use crate::model::settings::{Given, InvalidSetting, Settings, ShardId};
use crate::model::trace::TraceContext;
use crate::mutation::{Mutation, Mutations};
use crate::runtime::actors::Beside;
use crate::store::{Store, StoreError};
pub use backend::Backend;

/// Builds a [`Node`]. A pool-wide setting that is not given here is the pool's, or the default if this node creates
/// the pool. One that is given must equal the pool's, or the join fails.
#[derive(Clone, Debug)]
#[must_use = "a node joins only when `join` is awaited"]
pub struct NodeBuilder {
    pool: String,
    backend: Backend,
    shards: u32,
    name: Option<String>,
    settings: Settings,
    given: Given,
    stable_after: Duration,
    handoff_parallel: usize,
    start_timeout: Duration,
    stop_timeout: Duration,
    plan_timeout: Duration,
    start_permits: usize,
    starts_per_second: Option<u32>,
    moves_per_second: Option<u32>,
    fence_policy: FencePolicy,
    on_job_span: Option<JobSpanHook>,
    client_only: bool,
    assume_fresh: bool,
    must_exist: bool,
    address: String,
    serves: bool,
    join_timeout: Option<Duration>,
    own_thread: bool,
    broken: Mutations,
}

impl NodeBuilder {
    pub(crate) fn new(pool: &str, backend: Backend) -> Self {
        Self {
            pool: pool.to_owned(),
            backend,
            shards: 1,
            name: None,
            settings: Settings::default(),
            given: Given::default(),
            stable_after: Duration::from_secs(5),
            handoff_parallel: 128,
            start_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(15),
            plan_timeout: Duration::from_secs(30),
            start_permits: 256,
            starts_per_second: None,
            moves_per_second: None,
            fence_policy: FencePolicy::default(),
            on_job_span: None,
            client_only: false,
            assume_fresh: false,
            must_exist: false,
            address: String::new(),
            serves: false,
            join_timeout: None,
            own_thread: false,
            broken: Mutations::default(),
        }
    }

    /// The node's name, unique among the living nodes of the pool. The default is a random name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The address that the workers of this node publish, for example `http://10.0.0.7:8080`: at most 128 visible ASCII
    /// characters without `|`. [`Inspector::workers`](crate::Inspector::workers) shows it on every node. The default is
    /// none. The pool itself never connects to it.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Keeps an index of the jobs that run on this node, for [`Node::serving`]: a server beside the handlers answers
    /// for its keys. The index costs a lock at each start and end of a job, and about 100 bytes a job.
    pub fn serves(mut self) -> Self {
        self.serves = true;
        self
    }

    /// The pool's number of shards, 1 to 1,024. The default is 1. With more than one, the shards are pools of their
    /// own, named `name#0` and so on. Each has its own hash slot, so the servers of a cluster share the work. The
    /// hash of a key picks its shard, and the key still belongs to one worker.
    ///
    /// The number is fixed for the life of the pool: give every node the same. A node with another number gets
    /// [`Error::OtherShards`]. One shard and several are not told apart: the pools `name` and `name#0` are
    /// independent, and a key would run in both. For another number [shut the pool down](crate::Operator::shutdown) and create
    /// it again.
    ///
    /// Each shard costs each process an engine, a lease thread, connections and idle commands. Limits such as
    /// [`max_queued`](crate::Settings::max_queued), and the options here, apply to each shard. So use as few as
    /// possible: one for each core that Redis may use. A [`MemoryStore`](crate::MemoryStore) has a store for each shard.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure_pool::{Client, Node};
    ///
    /// let client = Client::open("redis+cluster://127.0.0.1:7000")?;
    /// let node = Node::builder("feeds", client).shards(4).join().await?;
    /// node.dispatch(("acme", "payload")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Sets all pool-wide settings at once. Values that differ from the defaults count as given; the pool decides the
    /// others, if it exists. If `hash_keys` is `None`, those that were set before stay.
    pub fn settings(mut self, settings: Settings) -> Self {
        let former = std::mem::replace(&mut self.settings, settings);
        self.settings.hash_keys = self.settings.hash_keys.or(former.hash_keys);
        self.given = Given::of(&self.settings);
        self
    }

    /// Pool-wide: how long a silent worker keeps its jobs. The default is 10 s.
    pub fn worker_ttl(mut self, ttl: Duration) -> Self {
        self.settings.worker_ttl = ttl;
        self.given = self.given.and(["worker_ttl"]);
        self
    }

    /// Pool-wide: how many accepted jobs that have never begun the pool may hold. The default is 10,000.
    pub fn max_queued(mut self, jobs: u64) -> Self {
        self.settings.max_queued = jobs;
        self.given = self.given.and(["max_queued"]);
        self
    }

    /// Pool-wide: a job is parked after this many begins without success. The default is 20.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self.given = self.given.and(["max_attempts"]);
        self
    }

    /// Pool-wide: how long a new worker waits for the slot of a leaving worker. The default is 5 s.
    pub fn join_settle(mut self, settle: Duration) -> Self {
        self.settings.join_settle = settle;
        self.given = self.given.and(["join_settle"]);
        self
    }

    /// Pool-wide: a job that has run for this long counts as healthy again. The default is 10 min.
    pub fn stable_run(mut self, time: Duration) -> Self {
        self.settings.stable_run = time;
        self.given = self.given.and(["stable_run"]);
        self
    }

    /// How long a changed ring must stay unchanged before this node moves jobs. The default is 5 s.
    pub fn stable_after(mut self, stable: Duration) -> Self {
        self.stable_after = stable;
        self
    }

    /// How many jobs of one worker move at once. The default is 128.
    pub fn handoff_parallel(mut self, jobs: usize) -> Self {
        self.handoff_parallel = jobs;
        self
    }

    /// How long a start handler may take. It is then cancelled, and aborted 5 s later. The default is 30 s. A handler may
    /// have another payload in hand for as long ([`JobHandler::update`](crate::JobHandler::update)).
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long a handler may take to end before it is aborted. The default is 15 s. With it, a node that leaves
    /// within 25 s, as most platforms allow, has moved its jobs by then.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// How long a [`Planner`](crate::Planner) of this node may take before it is aborted. The default is 30 s.
    pub fn plan_timeout(mut self, timeout: Duration) -> Self {
        self.plan_timeout = timeout;
        self
    }

    /// How many start handlers of one worker run at once. The default is 256. A handler counts for 5 s, or a sixth of
    /// [`start_timeout`](Self::start_timeout) if that is less. So hanging starts delay others for at most that long.
    pub fn start_permits(mut self, permits: usize) -> Self {
        self.start_permits = permits;
        self
    }

    /// How many start handlers of each worker are called in a second, in groups of at most a tenth of that. No limit by
    /// default. It protects a database or a partner from many starts at once, as after a crash. A job that waits for
    /// its start holds its key, and 1,024 jobs of a worker may wait. Those beyond stay assigned for `assign_timeout`, and
    /// are then given to another worker.
    pub fn starts_per_second(mut self, jobs: u32) -> Self {
        self.starts_per_second = Some(jobs);
        self
    }

    /// How many jobs of each worker begin to move in a second when the ring has changed, in groups of at most a tenth
    /// of that. No limit by default. A drain and a node that leaves do not keep to it: they have a time in which to end.
    pub fn moves_per_second(mut self, jobs: u32) -> Self {
        self.moves_per_second = Some(jobs);
        self
    }

    /// The reaction to an aborted handler that still runs after its lease. The default is [`FencePolicy::Report`].
    pub fn fence_policy(mut self, policy: FencePolicy) -> Self {
        self.fence_policy = policy;
        self
    }

    /// Sets a hook for the `job` span of each job that carries a trace. It is called before anything runs in the
    /// span: a tracer accepts a parent only then. It is called for every run of the job on any worker of this node.
    /// If the hook panics, that job fails.
    ///
    /// ```
    /// # use tenure_pool::{MemoryStore, Node};
    /// # fn set_parent(span: &tracing::Span, traceparent: &str, tracestate: &str) {}
    /// let builder = Node::builder("feeds", MemoryStore::new()).on_job_span(|span, trace| {
    ///     // With tracing-opentelemetry: extract a context from the two, and `span.set_parent(context)`.
    ///     set_parent(span, trace.traceparent(), trace.tracestate());
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_job_span(
        mut self,
        hook: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static,
    ) -> Self {
        self.on_job_span = Some(JobSpanHook(Arc::new(hook)));
        self
    }

    /// Makes the node a client: it dispatches, lists and asks, and never runs a job. It has no workers, and it may
    /// not shut the pool down. Full nodes do the routing, the sweeping and the watching, and a client only helps to
    /// open and to end a pool: even many cost it little. Their jobs wait while there is no full node. If all data are
    /// lost, a client waits for a full node to create the pool again, and its errors say that there is none.
    ///
    /// Its join creates a pool that never existed, because a producer may come before the first worker. A tool, which
    /// only looks and asks, requires that the pool [exists](Self::must_exist).
    ///
    /// Its engine runs on the runtime on which it is joined. Code that blocks a thread there may delay its calls.
    /// After a worker TTL its plans go to other nodes. A hanging look-up of a host name may delay the end of that
    /// runtime.
    pub fn client_only(mut self) -> Self {
        self.client_only = true;
        self
    }

    /// Asserts that the store is new, for example because the caller has just started it. The pool then opens without
    /// a wait for workers that a wiped store may have forgotten. Use it for demonstrations and tests.
    pub fn assume_fresh(mut self, fresh: bool) -> Self {
        self.assume_fresh = fresh;
        self
    }

    /// Requires that the pool exists. If it does not, or was shut down, [`join`](Self::join) fails at once with
    /// [`Error::NoPool`] and writes nothing. Use it for tools, which must not create a pool for a mistyped name.
    /// Without it, a join creates the pool, so jobs can be dispatched before the first worker joins.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// How long [`join`](Self::join) may take. 60 s, or twice the worker TTL and 10 s if that is longer. With several
    /// shards it is four times the TTL, because the first one is joined before the others. A join must wait for the
    /// worker TTL if the store may have lost its data, or if a shutdown was left unfinished. When the time is up, a
    /// node that has joined some shards takes a few seconds more to leave them.
    ///
    /// A join logs after 2 s why it waits. It fails at once if an operator must act: nothing listens at the address,
    /// a password, permission or certificate is refused, or the server evicts keys or is too old.
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = Some(timeout);
        self
    }

    /// Joins the pool, and creates it if it does not exist. Handlers and planners run on the current tokio runtime,
    /// and the node ends with it. A full node has an engine and a thread for its leases. With several shards the node has
    /// both in each shard, and a thread that watches over all. Each engine has a thread of its own, until the process has as
    /// many engine threads as cores: further engines share them. A client's engine runs on the current runtime.
    /// If the server cannot be reached or is a read-only replica, the join waits for up to
    /// [`join_timeout`](Self::join_timeout).
    ///
    /// # Errors
    /// - A name or setting is not valid. The server is too old or evicts keys.
    /// - The pool runs with another value of a given setting, or is shutting down.
    /// - The pool does not exist, and it [must exist](Self::must_exist).
    /// - [`Error::NotJoined`], with the last trouble, if the time is up.
    /// - [`Error::OtherShards`] if the pool has another number of shards.
    ///
    /// After an error nothing was written, except perhaps an empty pool that others may join. A shutdown that one of
    /// several shards tells of is told to those that were joined. The first of several shards is joined first, because it says how many there are. If one cannot be joined, the node leaves the
    /// others.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing behind, except perhaps an empty pool.
    pub async fn join(self) -> Result<Node, Error> {
        self.validate()?;
        let (count, limit) = (self.shards, Limit::new(self.patience()));
        // Boxed, because these futures are big, and a program's main often has this one in its own.
        if count == 1 {
            return Ok(Node::new([Box::pin(self.join_as(None, Purpose::Part, limit)).await?]));
        }
        Ok(Node::new(Box::pin(shards::join(self.named(), count, limit)).await?))
    }

    /// Joins a pool with one shard, or this shard of a pool.
    pub(crate) async fn join_as(
        mut self,
        shard: Option<ShardId>,
        purpose: Purpose,
        limit: Limit,
    ) -> Result<Shard, Error> {
        let (pool, node) = self.names(shard)?;
        self.settings.shard = shard;
        self.settings.validate()?;
        self.check_own()?;
        let is_alone = self.own_thread;
        let thread =
            self.thread(|| if is_alone { Thread::own("engine".to_owned()) } else { Thread::shared() })?;
        let store = {
            let _here = thread.enter();
            self.store_of(shard, Some(&node))?
        };
        let config = self.config(node, purpose);
        let beside = Beside { on_job_span: self.on_job_span, served: self.serves.then(Arc::default) };
        Shard::start(pool, config, store, thread, self.fence_policy, beside, limit).await
    }

    /// A started thread, or the present runtime for a client, and in the paused time of a test.
    pub(crate) fn thread(&self, start: impl FnOnce() -> io::Result<Thread>) -> Result<Thread, StoreError> {
        if self.client_only || follows_a_test() || self.broken.has(Mutation::EngineAtHome) {
            return Ok(Thread::here());
        }
        start().map_err(|error| StoreError::NotExecuted(Failure::new(error)))
    }

    /// The settings that the node runs with.
    fn config(&self, node: NodeName, purpose: Purpose) -> Config {
        Config {
            node,
            nonce: rand_u64(),
            timing: Timing::of(self.settings.worker_ttl),
            drawn_keys: (rand_u64(), rand_u64()),
            settings: self.settings.clone(),
            given: self.given.clone(),
            stable_after: self.stable_after,
            handoff_parallel: self.handoff_parallel,
            start_timeout: self.start_timeout,
            stop_timeout: self.stop_timeout,
            plan_timeout: self.plan_timeout,
            abort_grace: Duration::from_secs(5),
            start_permits: self.start_permits,
            starts_per_second: self.starts_per_second.and_then(NonZeroU32::new),
            moves_per_second: self.moves_per_second.and_then(NonZeroU32::new),
            client_only: self.client_only,
            assume_fresh: self.assume_fresh,
            must_exist: self.must_exist,
            address: self.address.clone(),
            purpose,
            broken: self.broken.clone(),
        }
    }

    /// The name of the pool, or of this shard, and that of the node. It is random if none was given.
    pub(crate) fn names(&self, shard: Option<ShardId>) -> Result<(PoolName, NodeName), Error> {
        let pool = self.pool_of(shard)?;
        let node = match &self.name {
            Some(name) => NodeName::new(name)?,
            None => NodeName::new(format!("node-{}", ulid::Ulid::generate()))?,
        };
        Ok((pool, node))
    }

    fn pool_of(&self, shard: Option<ShardId>) -> Result<PoolName, Error> {
        let pool = PoolName::new(&self.pool)?;
        Ok(shard.map_or_else(|| pool.clone(), |shard| pool.of_shard(shard.index)))
    }

    /// The number of shards.
    pub(crate) fn count(&self) -> u32 {
        self.shards
    }

    /// The store of the pool, or of this shard.
    pub(crate) fn store_of(&self, shard: Option<ShardId>, node: Option<&NodeName>) -> Result<Store, Error> {
        let pool = PoolName::new(&self.pool)?;
        Ok(self.backend.store(&pool, shard, node.map_or("", NodeName::as_str))?)
    }

    /// Looks at the pool, for as long as a join may take, or for the `default`.
    pub(crate) async fn inspector(&self, default: Duration) -> Result<Inspector, Error> {
        Inspector::open_within(self.join_timeout.unwrap_or(default), &self.pool, self.backend.clone()).await
    }

    /// How long a join may take.
    pub(crate) fn patience(&self) -> Duration {
        let steps = if self.shards == 1 { 1 } else { 2 };
        self.join_timeout.unwrap_or_else(|| join_patience(self.settings.worker_ttl.saturating_mul(steps)))
    }

    /// How long a pool whose data were lost may still run. Zero if the store is known to be new.
    pub(crate) fn shadow(&self) -> Duration {
        if self.assume_fresh { Duration::ZERO } else { self.settings.worker_ttl }
    }

    /// Checks everything that can be checked without the store.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        check("shards", self.shards.into())?;
        self.pool_of(None)?;
        if let Some(name) = &self.name {
            NodeName::new(name)?;
        }
        self.settings.validate()?;
        Ok(self.check_own()?)
    }

    /// Sets a random name if none was given.
    pub(crate) fn named(self) -> Self {
        let name = self.name.unwrap_or_else(|| format!("node-{}", ulid::Ulid::generate()));
        Self { name: Some(name), ..self }
    }

    fn check_own(&self) -> Result<(), InvalidSetting> {
        check_address(&self.address)?;
        check("handoff_parallel", self.handoff_parallel as u128)?;
        check("start_permits", self.start_permits as u128)?;
        let rates =
            [("starts_per_second", self.starts_per_second), ("moves_per_second", self.moves_per_second)];
        for (name, rate) in rates {
            rate.map_or(Ok(()), |rate| check(name, rate.into()))?;
        }
        check_time("stable_after", self.stable_after)?;
        check_time("start_timeout", self.start_timeout)?;
        check_time("stop_timeout", self.stop_timeout)?;
        check_time("plan_timeout", self.plan_timeout)?;
        if let Some(timeout) = self.join_timeout {
            check_time("join_timeout", timeout)?;
        }
        Ok(())
    }
}

/// How long a join of a pool with this worker TTL may take. The node that opens the pool may have to wait for the
/// TTL, and once more if another incarnation begins meanwhile.
pub(crate) fn join_patience(worker_ttl: Duration) -> Duration {
    let opening = worker_ttl.saturating_mul(2).saturating_add(Duration::from_secs(10));
    opening.max(Duration::from_secs(60))
}

/// 64 random bits: they tell one life of a node from another, or are keys of a hash. A test in paused time counts them.
fn rand_u64() -> u64 {
    #[cfg(feature = "test-util")]
    if let Some(number) = tenure_connection::paused::counted() {
        return number;
    }
    ulid::Ulid::generate().random() as u64
}

#[cfg(test)]
mod tests;
