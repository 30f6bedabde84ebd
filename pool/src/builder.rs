//! How a node joins a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Client;

use crate::bounds::{check, check_time};
use crate::breakage::{Breakage, Breakages};
use crate::core::ctx::{Config, Purpose};
use crate::core::lease::Timing;
use crate::error::Error;
use crate::id::{NodeName, PoolName};
use crate::node::{Node, Shard, shards};
use crate::runtime::thread::EngineThread;
use crate::settings::{Given, InvalidSetting, Settings, ShardId};
use crate::store::{MemoryStore, RedisStore, Store, StoreError};
use crate::trace::TraceContext;

/// Where a pool lives: a Redis, or the memory of this process. A memory store holds one pool, whatever its name.
#[derive(Clone)]
pub struct Backend(Kind);

#[derive(Clone)]
enum Kind {
    Redis(Client),
    Memory(MemoryStore),
    Store(Arc<dyn Store>),
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Redis(_) => "Backend(redis)",
            Kind::Memory(_) => "Backend(memory)",
            Kind::Store(_) => "Backend(store)",
        })
    }
}

impl From<Client> for Backend {
    fn from(client: Client) -> Self {
        Self(Kind::Redis(client))
    }
}

impl From<&Client> for Backend {
    fn from(client: &Client) -> Self {
        Self(Kind::Redis(client.clone()))
    }
}

impl From<MemoryStore> for Backend {
    fn from(store: MemoryStore) -> Self {
        Self(Kind::Memory(store))
    }
}

impl From<&MemoryStore> for Backend {
    fn from(store: &MemoryStore) -> Self {
        Self(Kind::Memory(store.clone()))
    }
}

impl From<Arc<dyn Store>> for Backend {
    fn from(store: Arc<dyn Store>) -> Self {
        Self(Kind::Store(store))
    }
}

/// What happens when a handler runs on after its lease, although it was aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencePolicy {
    /// It is logged as an error.
    #[default]
    Report,
    /// The process aborts. Use it wherever the outside resource cannot check tokens.
    AbortProcess,
}

type OnJobSpan = dyn Fn(&tracing::Span, &TraceContext) + Send + Sync;

/// What is done with the span of each job that carries a trace.
#[derive(Clone)]
pub(crate) struct JobSpanHook(Arc<OnJobSpan>);

impl JobSpanHook {
    pub(crate) fn call(&self, span: &tracing::Span, trace: &TraceContext) {
        self.0(span, trace);
    }
}

impl fmt::Debug for JobSpanHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSpanHook")
    }
}

/// Builds a [`Node`]. Pool-wide settings that are not given here are the pool's, or the defaults where this node makes the
/// pool; one that is given must be the pool's, or the join is refused.
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
    fence_policy: FencePolicy,
    on_job_span: Option<JobSpanHook>,
    client_only: bool,
    assume_fresh: bool,
    must_exist: bool,
    join_timeout: Option<Duration>,
    broken: Breakages,
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
            fence_policy: FencePolicy::default(),
            on_job_span: None,
            client_only: false,
            assume_fresh: false,
            must_exist: false,
            join_timeout: None,
            broken: Breakages::default(),
        }
    }

    /// The node's name, unique among the living nodes of the pool. By default made up.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many shards the pool has: 1 to 1,024. 1. Each shard is a pool of its own in a hash slot of its own, so that a
    /// cluster's servers share the work of one pool: `name#0` and so on, where there are more than one. Each key belongs to
    /// one shard, by its hash, and is still one worker's.
    ///
    /// The number is fixed for the life of the pool: give every node the same. A node that is given another is refused with
    /// [`Error::OtherShards`], but one shard and several are not told apart: the pools `name` and `name#0` know nothing of
    /// each other, and a key would run in both. For another number [shut the pool down](Node::shutdown) and make it anew.
    ///
    /// Each shard costs each process an engine, a lease's thread, connections and idle commands. Limits
    /// ([`max_queued`](crate::Settings::max_queued)) and the options here hold in each shard. So take as few as do: one for
    /// each core that Redis may use. A [`MemoryStore`] has a store for each shard.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure_pool::{Client, Node};
    ///
    /// let client = Client::open("redis+cluster://127.0.0.1:7000")?;
    /// let node = Node::builder("feeds", client).shards(4).join().await?;
    /// node.dispatch("acme", "payload").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// All pool-wide settings at once. Those that differ from the defaults count as given; the others are the pool's, where
    /// there is one. Without `hash_keys`, those that were given before stay.
    pub fn settings(mut self, settings: Settings) -> Self {
        let former = std::mem::replace(&mut self.settings, settings);
        self.settings.hash_keys = self.settings.hash_keys.or(former.hash_keys);
        self.given = Given::of(&self.settings);
        self
    }

    /// Pool-wide: how long a silent worker keeps its jobs. 10 s.
    pub fn worker_ttl(mut self, ttl: Duration) -> Self {
        self.settings.worker_ttl = ttl;
        self.given = self.given.and(["ttl"]);
        self
    }

    /// Pool-wide: how many accepted jobs that were never begun the pool holds. 10,000.
    pub fn max_queued(mut self, jobs: u64) -> Self {
        self.settings.max_queued = jobs;
        self.given = self.given.and(["max_queued"]);
        self
    }

    /// Pool-wide: after how many begins without success a job is parked. 20.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self.given = self.given.and(["max_attempts"]);
        self
    }

    /// Pool-wide: how long a new worker waits to be given the slot of one that leaves. 5 s.
    pub fn join_settle(mut self, settle: Duration) -> Self {
        self.settings.join_settle = settle;
        self.given = self.given.and(["join_settle"]);
        self
    }

    /// How long a changed ring must stay as it is before this node moves jobs. 5 s.
    pub fn stable_after(mut self, stable: Duration) -> Self {
        self.stable_after = stable;
        self
    }

    /// How many jobs of a worker are on the move at once. 128.
    pub fn handoff_parallel(mut self, jobs: usize) -> Self {
        self.handoff_parallel = jobs;
        self
    }

    /// How long a start handler may take before it is cancelled, and 5 s later aborted. 30 s.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long a handler may take to end before it is aborted. 15 s: a node that leaves within 25 s, as most platforms
    /// allow, has handed on its jobs by then.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// How long a [`Planner`](crate::Planner) of this node may take before it is aborted. 30 s.
    pub fn plan_timeout(mut self, timeout: Duration) -> Self {
        self.plan_timeout = timeout;
        self
    }

    /// How many start handlers of a worker run at once. 256. One that has taken 5 s, or a sixth of its
    /// [time-out](Self::start_timeout), does not count any more: so starts that hang delay others for that long at most.
    pub fn start_permits(mut self, permits: usize) -> Self {
        self.start_permits = permits;
        self
    }

    /// What happens when a handler runs on after its lease, although it was aborted.
    pub fn fence_policy(mut self, policy: FencePolicy) -> Self {
        self.fence_policy = policy;
        self
    }

    /// Called with the `job` span of each job that carries a trace, before anything runs in the span: the moment to make
    /// it a child of its dispatcher's, which a tracer refuses later. It is called for every run of the job, on whatever
    /// worker of this node; a hook that panics fails that job.
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

    /// A node that takes jobs in, looks and asks, and never runs a job: it may have no workers and may not shut the
    /// pool down. It leaves it to the full nodes to route, to sweep and to watch, so that many of them cost the pool
    /// little; only a pool that is being opened, or that shuts down, it helps along. Jobs that it dispatches while
    /// there is no full node wait for one. Nor does it make a pool again whose data are all lost: what it is asked for
    /// waits until a full node has, and its error at the deadline says that there is no pool.
    ///
    /// Its join makes a pool where there never was one, since a producer may come before the first worker. A tool, which
    /// only looks and asks, says that the pool [must exist](Self::must_exist).
    ///
    /// Its engine runs on the runtime that it is joined on. Code that blocks a thread there may hold up the client's calls;
    /// after T its plans go to other nodes. A look-up of a host name that hangs may hold up the end of that runtime.
    pub fn client_only(mut self) -> Self {
        self.client_only = true;
        self
    }

    /// The store is known to be new, because the caller has just started it: the pool opens without waiting for
    /// workers that a wiped store may have forgotten. For demonstrations and tests.
    pub fn assume_fresh(mut self, fresh: bool) -> Self {
        self.assume_fresh = fresh;
        self
    }

    /// The pool must be there: where there is none, or where it was shut down, [`join`](Self::join) fails at once with
    /// [`Error::NoPool`] and writes nothing. For tools, which must not make a pool of a name that was mistyped. Without it a
    /// join makes the pool, so that jobs can be dispatched before the first worker comes.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// How long [`join`](Self::join) may take; it has to wait for the worker TTL where a store may have lost
    /// its data, and where a pool was shut down halfway. 60 s, or twice the worker TTL and 10 s where that is longer.
    /// A join that has waited for 2 s says why in the log. A trouble that somebody has to mend is told at once: that nothing listens at
    /// the server's address, a refused password, right or certificate, a server that evicts or is too old.
    pub fn join_timeout(mut self, timeout: Duration) -> Self {
        self.join_timeout = Some(timeout);
        self
    }

    /// A node that leaves out these lines of the protocol: for proofs.
    #[doc(hidden)]
    #[cfg(feature = "sim")]
    pub fn broken(mut self, breakages: Breakages) -> Self {
        self.broken = breakages;
        self
    }

    /// Joins the pool; creates it if there is none. Handlers and planners of the node run on the tokio runtime that this is
    /// called on, and the node ends with it. A full node's engine and leases have a thread each; a client's engine runs on the
    /// caller's runtime. The join waits for a server that cannot be reached, or that is a read-only replica, for
    /// [`join_timeout`](Self::join_timeout).
    ///
    /// # Errors
    /// A name or setting is not valid. The pool runs with another value of a setting that was given, or is shutting down.
    /// There is no pool, and it [must exist](Self::must_exist). The server is too old or evicts keys.
    /// [`Error::NotJoined`], with the last trouble, when the time is up. Nothing was written then, but for an empty pool
    /// that others may join.
    ///
    /// Of several shards the first is joined before the others, since it says how many there are:
    /// [`Error::OtherShards`] when the pool has another number. Where one shard cannot be joined, the others are left again.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing but, perhaps, an empty pool.
    pub async fn join(self) -> Result<Node, Error> {
        check("shards", self.shards.into())?;
        if self.shards == 1 {
            return Ok(Node::new([self.join_as(None, Purpose::Part).await?]));
        }
        let node = self.named();
        node.validate()?;
        let (count, patience) = (node.shards, node.patience());
        // Boxed, since a join of one shard must not grow by it.
        Ok(Node::new(Box::pin(shards::join(node, count, patience)).await?))
    }

    /// Joins a pool by itself, or this shard of one.
    pub(crate) async fn join_as(mut self, shard: Option<ShardId>, purpose: Purpose) -> Result<Shard, Error> {
        let pool = self.pool_of(shard)?;
        self.settings.shard = shard;
        let node = match &self.name {
            Some(name) => NodeName::new(name)?,
            None => NodeName::new(format!("node-{}", ulid::Ulid::generate()))?,
        };
        self.settings.validate()?;
        self.check_own()?;
        let thread = if self.client_only || self.broken.has(Breakage::EngineAtHome) {
            EngineThread::home()
        } else {
            EngineThread::start(&node).map_err(|error| StoreError::NotExecuted(Arc::new(error)))?
        };
        let store = {
            let _here = thread.enter();
            self.store_of(shard, Some(&node))?
        };
        let timeout = self.patience();
        let config = self.config(node, purpose);
        Shard::start(pool, config, store, thread, self.fence_policy, self.on_job_span, timeout).await
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
            client_only: self.client_only,
            assume_fresh: self.assume_fresh,
            must_exist: self.must_exist,
            purpose,
            broken: self.broken.clone(),
        }
    }

    fn pool_of(&self, shard: Option<ShardId>) -> Result<PoolName, Error> {
        let pool = PoolName::new(&self.pool)?;
        Ok(shard.map_or_else(|| pool.clone(), |shard| pool.of_shard(shard.index)))
    }

    /// A store of the pool, or of this shard of it.
    pub(crate) fn store_of(
        &self,
        shard: Option<ShardId>,
        node: Option<&NodeName>,
    ) -> Result<Arc<dyn Store>, Error> {
        Ok(match (&self.backend.0, shard) {
            (Kind::Redis(client), _) => {
                let pool = self.pool_of(shard)?;
                let node = node.map_or("", NodeName::as_str);
                let client = client.with_name(&format!("tenure:{}:{node}", pool.as_str()));
                Arc::new(RedisStore::open(&client, &pool))
            }
            (Kind::Memory(store), None) => Arc::new(store.clone()),
            (Kind::Memory(store), Some(shard)) => Arc::new(store.shard(shard.index)),
            (Kind::Store(store), None) => store.clone(),
            (Kind::Store(_), Some(shard)) => {
                let (name, value) = ("shards", shard.count.to_string());
                let why = "must not be asked for on a store of one pool".into();
                return Err(InvalidSetting { name, value, why }.into());
            }
        })
    }

    /// How long a join may take.
    pub(crate) fn patience(&self) -> Duration {
        self.join_timeout.unwrap_or_else(|| join_patience(self.settings.worker_ttl))
    }

    /// How long a pool whose data are lost may still run on: nothing, where the store is known to be new.
    pub(crate) fn shadow(&self) -> Duration {
        if self.assume_fresh { Duration::ZERO } else { self.settings.worker_ttl }
    }

    /// Checks all that can be checked without the store.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        self.pool_of(None)?;
        if let Some(name) = &self.name {
            NodeName::new(name)?;
        }
        self.settings.validate()?;
        Ok(self.check_own()?)
    }

    /// The node's name, given or made up.
    pub(crate) fn named(self) -> Self {
        let name = self.name.unwrap_or_else(|| format!("node-{}", ulid::Ulid::generate()));
        Self { name: Some(name), ..self }
    }

    fn check_own(&self) -> Result<(), InvalidSetting> {
        check("handoff_parallel", self.handoff_parallel as u128)?;
        check("start_permits", self.start_permits as u128)?;
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

/// How long a pool with this worker TTL may take to open: whoever opens it may have to wait for the TTL, and for it
/// again where another incarnation begins meanwhile.
pub(crate) fn join_patience(worker_ttl: Duration) -> Duration {
    let opening = worker_ttl.saturating_mul(2).saturating_add(Duration::from_secs(10));
    opening.max(Duration::from_secs(60))
}

/// 64 random bits: what tells one life of a node from another, and keys for a hash.
fn rand_u64() -> u64 {
    ulid::Ulid::generate().random() as u64
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
