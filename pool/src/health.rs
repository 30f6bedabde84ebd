//! How a node is, told from what its parts have done last: that they made progress, not that they exist.

use std::time::Duration;

use serde::Serialize;

use crate::core::call::READ_BLOCK;
use crate::id::{JobKey, WorkerId};
use crate::serial;

/// How a node is, at one moment. From [`Node::health`](crate::Node::health). Serialized, times are milliseconds, and reasons are
/// text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The pool, as far as the node knows.
    pub phase: PoolPhase,
    /// The node is leaving its pool, or has left it.
    pub leaving: bool,
    /// How long ago the node's engine has last done something. It does so with every renewal at the
    /// latest, five times per worker TTL.
    #[serde(serialize_with = "serial::lapse")]
    pub engine_idle: Duration,
    /// How long ago the read of what concerns the node's workers and dispatches was last answered: a few seconds
    /// where nothing happens. `None` while there is nothing to read.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub reader_idle: Option<Duration>,
    /// The same of the read of what the node routes.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub router_idle: Option<Duration>,
    /// The connection to the store.
    pub store: StoreHealth,
    /// The node's workers.
    pub workers: Vec<WorkerHealth>,
    /// Jobs whose handlers have kept their threads for longer than a second, without an await that gives them back. The
    /// node goes on, and they stay with it; but nothing else runs on such a thread. Work that takes long belongs in
    /// `tokio::task::spawn_blocking`. Not a reason by itself.
    pub blocked_jobs: Vec<BlockedJob>,
    /// Dispatches of this node that wait for what becomes of them.
    pub dispatches: usize,
    /// Jobs of the whole pool that were accepted and had never begun at the last renewal.
    pub queued: Option<u64>,
    /// Jobs of the whole pool that were parked at this node's last sweep: they failed too often, and wait for
    /// [`Node::unpark`](crate::Node::unpark). `None` before the first, and at a client.
    pub parked: Option<u64>,
    /// A worker of another node that has this node's name has been there for more than two worker TTLs. That is safe and no
    /// reason, but dispatches of one of them may hear of their jobs a second late, and their metrics are mixed up.
    pub namesake: bool,
    /// The damage that a loss of data has left at the last renewal, after a repair as far as can be.
    pub damage: Option<String>,
    /// The server's `maxmemory-policy` at the last renewal, if it may drop keys when its memory is full.
    pub evicts: Option<String>,
    /// What is wrong; empty when all is well.
    pub reasons: Vec<Unhealthy>,
}

impl Health {
    /// Nothing is wrong: the node takes part in an open pool, all its workers are members and hold their leases, and
    /// everything made progress. One that leaves as it was told to is healthy, too.
    pub fn is_healthy(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Both together, of two shards of one pool.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.phase = worse(self.phase, other.phase);
        self.leaving |= other.leaving;
        self.engine_idle = self.engine_idle.max(other.engine_idle);
        self.reader_idle = self.reader_idle.max(other.reader_idle);
        self.router_idle = self.router_idle.max(other.router_idle);
        self.store.answered = self.store.answered.zip(other.store.answered).map(|(a, b)| a.max(b));
        self.store.error = self.store.error.or(other.store.error);
        self.store.failing.extend(other.store.failing);
        self.workers.extend(other.workers);
        self.blocked_jobs.extend(other.blocked_jobs);
        self.dispatches += other.dispatches;
        self.queued = self.queued.zip(other.queued).map(|(a, b)| a + b);
        self.parked = self.parked.zip(other.parked).map(|(a, b)| a + b);
        self.namesake |= other.namesake;
        self.damage = self.damage.or(other.damage);
        self.evicts = self.evicts.or(other.evicts);
        self.reasons.extend(other.reasons);
        self
    }

    /// It is healthy and does not leave: as a readiness probe.
    pub fn is_ready(&self) -> bool {
        self.is_healthy() && !self.leaving
    }

    /// Something is wrong that does not pass by itself, as far as can be told: only the end of the process helps. As
    /// a liveness probe, turned round; let it be seen several times in a row before the process is ended, since a machine
    /// that was suspended, or a handler that is slow to end, shows it for a moment.
    pub fn needs_restart(&self) -> bool {
        self.reasons.iter().any(Unhealthy::needs_restart)
    }
}

/// Where a pool is, as far as one node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PoolPhase {
    /// To be found out: the node has just begun, or there was a sign that data was lost.
    #[default]
    Unknown,
    /// Being opened, after its creation or a loss of data.
    Recovering,
    /// Open.
    Open,
    /// Shutting down: nothing new is accepted, what was accepted is still begun.
    Closing,
    /// Shutting down: every job ends.
    Stopping,
    /// Shut down.
    Closed,
}

/// The phase that is further from an open pool.
fn worse(one: PoolPhase, other: PoolPhase) -> PoolPhase {
    let distance = |phase| match phase {
        PoolPhase::Open => 0,
        PoolPhase::Recovering => 1,
        PoolPhase::Unknown => 2,
        PoolPhase::Closing => 3,
        PoolPhase::Stopping => 4,
        PoolPhase::Closed => 5,
    };
    if distance(other) > distance(one) { other } else { one }
}

/// The connection to the store: by its renewals, which come every fifth of the worker TTL, and by what else it is asked.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StoreHealth {
    /// How long ago the store has last answered; `None` if it never has.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub answered: Option<Duration>,
    /// The last error since then, or of a step that fails, with all its causes.
    pub error: Option<String>,
    /// Steps, named as in `docs/protocol`, that it has not done for longer than a lease lasts, though they were sent
    /// again and again; and for how long. Renewals go through where these do not, as when a Redis has no memory left.
    #[serde(serialize_with = "serial::lapses")]
    pub failing: Vec<(&'static str, Duration)>,
}

/// One of the node's workers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WorkerHealth {
    /// The shard, from 0.
    pub shard: usize,
    /// Its id, unique within the shard; `None` while it is no member.
    pub id: Option<WorkerId>,
    /// How long ago the last renewal that was acknowledged was sent; `None` without a lease.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub lease_age: Option<Duration>,
    /// How long it may go on without another one; zero once the lease is given up.
    #[serde(serialize_with = "serial::lapse")]
    pub lease_left: Duration,
    /// Jobs in its hands.
    pub jobs: usize,
    /// Jobs whose handler does not end although it was aborted. They stay with this worker, which has left the ring.
    pub stuck: Vec<JobKey>,
    /// Handlers that run on after the lease. Another worker may run their jobs.
    pub overdue: usize,
}

/// A job whose handler blocks its thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockedJob {
    /// Its key.
    pub key: JobKey,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// For how long it has blocked the thread, at least.
    #[serde(serialize_with = "serial::lapse")]
    pub lasted: Duration,
}

/// What is wrong with a node. A worker's id is unique within its shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unhealthy {
    /// The node has ended without leaving its pool: it was abandoned, or its runtime has ended.
    #[error("the node has ended without leaving its pool")]
    Ended,
    /// The engine has done nothing for longer than the worker TTL: something holds up its own thread. Its leases run out.
    #[error("the engine has done nothing for {0:?}")]
    Engine(Duration),
    /// A client has done nothing for longer than the worker TTL: code holds up the runtime that it was joined on. Its calls
    /// wait, and its plans go to other nodes.
    #[error("the client's runtime has been held up for {0:?}")]
    Runtime(Duration),
    /// What concerns the node's workers has not been read for too long: it renews no more until it has.
    #[error("the node's events have not been read for {0:?}")]
    Reader(Duration),
    /// What it routes has not been read for too long. Other nodes route meanwhile.
    #[error("the pool's events have not been read for {0:?}")]
    Router(Duration),
    /// The store has not answered for longer than a lease lasts.
    #[error("the store has not answered for {0:?}")]
    Store(Duration),
    /// The store answers, and has not done this step for longer than a lease lasts. Jobs that run go on.
    #[error("the store has not done {0} for {1:?}")]
    Steps(&'static str, Duration),
    /// A loss of data has left this, though it was repaired as far as can be.
    #[error("{0}")]
    Damaged(String),
    /// The server may drop the pool's keys when its memory is full: its `maxmemory-policy` is this.
    #[error("redis runs with maxmemory-policy {0}, which drops keys when its memory is full")]
    Evicts(String),
    /// The pool is not open.
    #[error("the pool is not open: {0:?}")]
    Phase(PoolPhase),
    /// A worker of the node is no member: it joins, or joins anew after it has lost its lease.
    #[error("a worker is not a member of the pool")]
    Outside,
    /// A worker has given up its lease: its jobs end here.
    #[error("worker {0} has lost its lease")]
    Lease(WorkerId),
    /// A handler does not end although it was aborted.
    #[error("the handler of {0} does not end")]
    Stuck(JobKey),
    /// Handlers run on after their worker's lease.
    #[error("{1} handlers of worker {0} run on after its lease")]
    Overdue(WorkerId, usize),
}

impl Unhealthy {
    /// Only the end of the process helps, as far as can be told.
    pub fn needs_restart(&self) -> bool {
        matches!(self, Self::Ended | Self::Engine(_) | Self::Stuck(_) | Self::Overdue(..))
    }
}

/// What a read may take on top of its own waiting, at least: a busy machine is not a deaf node.
const READ_MARGIN: Duration = Duration::from_secs(3);

/// How long a read may go unanswered in a pool with this worker TTL: a read that finds nothing waits for its time.
pub(crate) fn longest_read(ttl: Duration) -> Duration {
    ttl.max(READ_MARGIN).saturating_add(READ_BLOCK)
}

/// What is wrong, told from everything else; `ended`: the node's engine runs no more.
pub(crate) fn judge(
    health: &Health,
    ended: bool,
    client_only: bool,
    ttl: Duration,
    soft: Duration,
) -> Vec<Unhealthy> {
    if health.phase == PoolPhase::Closed {
        return Vec::new();
    }
    if ended {
        return if health.leaving { Vec::new() } else { vec![Unhealthy::Ended] };
    }
    let mut reasons = Vec::new();
    if health.engine_idle > ttl {
        let reason = if client_only { Unhealthy::Runtime } else { Unhealthy::Engine };
        reasons.push(reason(health.engine_idle));
    }
    if health.phase != PoolPhase::Open && !health.leaving {
        reasons.push(Unhealthy::Phase(health.phase));
    }
    reasons.extend(health.store.answered.filter(|age| *age > soft).map(Unhealthy::Store));
    reasons.extend(health.store.failing.iter().map(|(step, age)| Unhealthy::Steps(step, *age)));
    reasons.extend(health.damage.clone().map(Unhealthy::Damaged));
    reasons.extend(health.evicts.clone().map(Unhealthy::Evicts));
    let late = |idle: Option<Duration>| idle.filter(|idle| *idle > longest_read(ttl));
    reasons.extend(late(health.reader_idle).map(Unhealthy::Reader));
    if health.phase == PoolPhase::Open && !health.leaving {
        reasons.extend(late(health.router_idle).map(Unhealthy::Router));
    }
    for worker in &health.workers {
        match worker.id {
            None if !health.leaving => reasons.push(Unhealthy::Outside),
            Some(id) if worker.lease_left.is_zero() => reasons.push(Unhealthy::Lease(id)),
            _ => {}
        }
        reasons.extend(worker.stuck.iter().cloned().map(Unhealthy::Stuck));
        if worker.overdue > 0 {
            reasons.push(Unhealthy::Overdue(worker.id.unwrap_or_default(), worker.overdue));
        }
    }
    reasons
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
