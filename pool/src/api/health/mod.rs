//! A node's health, judged by the progress that its parts made, and not by their mere existence.

use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::core::lease::longest_read;
use crate::model::id::{JobKey, WorkerId};
use crate::model::level::TooOld;
use crate::model::phase::PoolPhase;
use crate::model::serial;
use crate::runtime::polls::BlockedJob;

/// A node's health at one moment, from [`Node::health`](crate::Node::health). When serialized, times are
/// milliseconds, and reasons are text.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// The phase of the pool, as far as the node knows. It is [`Closed`](PoolPhase::Closed) once all shards are.
    pub phase: PoolPhase,
    /// The node is leaving its pool, or has left it.
    pub leaving: bool,
    /// How long ago the node's engine last did something. A healthy engine does so at least with each renewal, five
    /// times per worker TTL.
    #[serde(serialize_with = "serial::lapse")]
    pub engine_idle: Duration,
    /// How long ago the store last answered the read of events for the node's workers and dispatches. A few seconds
    /// are normal in an idle pool. `None` while there is nothing to read.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub reader_idle: Option<Duration>,
    /// The same for the read of events that the node routes.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub router_idle: Option<Duration>,
    /// The connection to the store.
    pub store: StoreHealth,
    /// The node's workers.
    pub workers: Vec<WorkerHealth>,
    /// Jobs whose handlers have blocked their threads for longer than a second, without an await that yields. The
    /// node goes on and keeps these jobs, but nothing else can run on such a thread. Move long work to
    /// `tokio::task::spawn_blocking`. This alone is no reason to be unhealthy.
    pub blocked_jobs: Vec<BlockedJob>,
    /// Dispatches of this node that wait for their outcome.
    pub dispatches: usize,
    /// Jobs of the whole pool that were accepted and had never begun, as of the last renewal.
    pub queued: Option<u64>,
    /// Parked and paused jobs of the whole pool, as of this node's last sweep: they wait for
    /// [`Operator::unpark`](crate::Operator::unpark) or [`Operator::resume`](crate::Operator::resume). `None` before the first sweep, and for a client.
    pub parked: Option<u64>,
    /// For more than two worker TTLs another node has had a worker under this node's name. That is safe and no reason
    /// to be unhealthy. But dispatches of both nodes may get their answers a second late, and their metrics are mixed
    /// up.
    pub namesake: bool,
    /// The damage that a loss of data has left, as of the last renewal, after the repair of all that can be repaired.
    pub damage: Option<String>,
    /// The server's `maxmemory-policy` as of the last renewal, if it lets the server drop keys when its memory is
    /// full.
    pub evicts: Option<String>,
    /// The pool is on [hold](crate::Operator::hold): no worker is given a job.
    pub on_hold: bool,
    /// The floor of the pool, if it is above this node's level: the pool refuses all that the node asks.
    pub too_old: Option<TooOld>,
    /// The reasons why the node is unhealthy. Empty for a healthy node.
    pub reasons: Vec<Unhealthy>,
}

impl Health {
    /// Whether the node is healthy. It takes part in an open pool, all its workers are members and hold their leases,
    /// and all its parts made progress. A node that leaves because it was asked to is healthy, too.
    pub fn is_healthy(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Joins the health of two shards of one pool.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.phase = self.phase.worse(other.phase);
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
        self.on_hold |= other.on_hold;
        self.too_old = self.too_old.or(other.too_old);
        self.reasons.extend(other.reasons);
        self
    }

    /// Whether the node is healthy and not leaving. Use it as a readiness probe.
    pub fn is_ready(&self) -> bool {
        self.is_healthy() && !self.leaving
    }

    /// Whether something is wrong that only a restart of the process can mend, as far as the node can tell. Use its
    /// opposite as a liveness probe. End the process only after several failures in a row. The probe may fail for a
    /// moment after the machine was suspended, or while a handler is slow to end.
    pub fn needs_restart(&self) -> bool {
        self.reasons.iter().any(Unhealthy::needs_restart)
    }
}

/// The connection to the store, judged by its renewals (one every fifth of the worker TTL) and by all other steps.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct StoreHealth {
    /// How long ago the store last answered. `None` if it never has.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub answered: Option<Duration>,
    /// The last error after that answer, or the last error of a failing step, with all its causes.
    pub error: Option<String>,
    /// The steps that have failed for longer than a lease lasts, though they were retried, and for how long each has
    /// failed. Their names are those of `docs/protocol`. Renewals may succeed where other steps fail, for example
    /// when Redis is out of memory.
    #[serde(serialize_with = "serial::lapses")]
    pub failing: Vec<(&'static str, Duration)>,
}

/// One of the node's workers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WorkerHealth {
    /// The shard, from 0.
    pub shard: usize,
    /// Its id, unique within the shard. `None` while it is not a member.
    pub id: Option<WorkerId>,
    /// How long ago the last acknowledged renewal was sent. `None` without a lease.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub lease_age: Option<Duration>,
    /// How long its lease lasts without another renewal. Zero once it has given the lease up.
    #[serde(serialize_with = "serial::lapse")]
    pub lease_left: Duration,
    /// The number of jobs that it holds.
    pub jobs: usize,
    /// How many jobs it takes, in all shards together. `None`: all.
    pub capacity: Option<u32>,
    /// It turns further jobs away. That is no reason to be unhealthy.
    pub full: bool,
    /// Jobs whose handlers were aborted and do not end. They stay with this worker, which has left the ring.
    pub stuck: Vec<JobKey>,
    /// The number of handlers that run on after the lease. Another worker may run their jobs.
    pub overdue: usize,
}

/// A reason why a node is unhealthy. A worker's id is unique within its shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unhealthy {
    /// The node has ended without leaving its pool: it was abandoned, or its runtime has ended.
    #[error("the node has ended without leaving its pool")]
    Ended,
    /// The node's engine has panicked, with this text. The node's jobs start elsewhere when its leases have run out.
    #[error("the node has failed: {0}")]
    Failed(Arc<str>),
    /// The engine has done nothing for longer than the worker TTL, because something holds up its thread. Its leases
    /// run out.
    #[error("the engine has done nothing for {0:?}")]
    Engine(Duration),
    /// A client has done nothing for longer than the worker TTL, because code blocks the runtime on which it was
    /// joined. Its calls wait, and its plans go to other nodes.
    #[error("the client's runtime has been held up for {0:?}")]
    Runtime(Duration),
    /// The events of the node's workers have not been read for too long. The node renews no lease until they are.
    #[error("the node's events have not been read for {0:?}")]
    Reader(Duration),
    /// The events that the node routes have not been read for too long. Other nodes route them meanwhile.
    #[error("the pool's events have not been read for {0:?}")]
    Router(Duration),
    /// The store has not answered for longer than a lease lasts.
    #[error("the store has not answered for {0:?}")]
    Store(Duration),
    /// The store answers, but has failed this step for longer than a lease lasts. Running jobs go on.
    #[error("the store has not done {0} for {1:?}")]
    Steps(&'static str, Duration),
    /// A loss of data has left this damage, after the repair of all that can be repaired.
    #[error("{0}")]
    Damaged(String),
    /// The server's `maxmemory-policy` is this: it may drop the pool's keys when its memory is full.
    #[error("redis runs with maxmemory-policy {0}, which drops keys when its memory is full")]
    Evicts(String),
    /// The floor of the pool is above the level of this node: only a newer version helps.
    #[error("{0}")]
    TooOld(TooOld),
    /// The pool is not open.
    #[error("the pool is not open: {0:?}")]
    Phase(PoolPhase),
    /// A worker of the node is not a member: it is joining, or joining again after it lost its lease.
    #[error("a worker is not a member of the pool")]
    Outside,
    /// A worker has given up its lease. Its jobs on this node end.
    #[error("worker {0} has lost its lease")]
    Lease(WorkerId),
    /// A handler was aborted and does not end.
    #[error("the handler of {0} does not end")]
    Stuck(JobKey),
    /// Handlers still run after their worker lost its lease.
    #[error("{1} handlers of worker {0} run on after its lease")]
    Overdue(WorkerId, usize),
}

impl Serialize for Unhealthy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Unhealthy {
    /// Whether only a restart of the process helps, as far as the node can tell.
    pub fn needs_restart(&self) -> bool {
        matches!(self, Self::Ended | Self::Failed(_) | Self::Engine(_) | Self::Stuck(_) | Self::Overdue(..))
    }
}

/// The reasons why this health is bad. `ended` says why the node's engine no longer runs.
pub(crate) fn judge(
    health: &Health,
    ended: Option<Unhealthy>,
    client_only: bool,
    ttl: Duration,
    soft: Duration,
) -> Vec<Unhealthy> {
    if health.phase == PoolPhase::Closed {
        return Vec::new();
    }
    match ended {
        Some(Unhealthy::Ended) if health.leaving => return Vec::new(),
        Some(why) => return vec![why],
        None => {}
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
    reasons.extend(health.too_old.map(Unhealthy::TooOld));
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
mod tests;
