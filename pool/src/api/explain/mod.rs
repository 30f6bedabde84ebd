//! Why a key's job is where it is: a pure function of what the store knows at one moment.

pub(crate) mod pool;
mod remedy;
mod text;

use std::time::{Duration, SystemTime};

use serde::Serialize;

use self::pool::{Opening, PoolShutdown};
use crate::core::ring::Ring;
use crate::error::Obstacle;
use crate::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use crate::model::member::{MemberState, Members};
use crate::model::paused::Paused;
use crate::model::record::{Begun, JobState, Record};
use crate::model::serial;
use crate::model::settings::{Settings, ShutdownFlag};
use crate::model::why::Why;
use crate::store::Evidence;

/// Where a key's job is, why, since when, and how it goes on: the answer of
/// [`Inspector::explain`](crate::Inspector::explain). Its text is made to be read. Its times count by the store's clock.
/// When serialized, times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The key.
    pub key: JobKey,
    /// The dispatch that made the job. `None` if there is no job, or its record cannot be read.
    pub id: Option<DispatchId>,
    /// The dispatch that the caller named, as far as it is known, if the job is of another one.
    pub named: Option<NamedDispatch>,
    /// Why it is where it is.
    pub verdict: Verdict,
    /// Its state. `None` if there is no job, or its record cannot be read.
    pub state: Option<JobState>,
    /// How long ago it was last begun or became free. For a parked or paused job, how long it has been so.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub lasting: Option<Duration>,
    /// The worker that has it.
    pub owner: Option<OwnerSeen>,
    /// The number of begins since it was last healthy.
    pub attempts: u32,
    /// The pool's limit for them.
    pub max_attempts: u32,
    /// How often it was given another payload ([`Node::update`](crate::Node::update)).
    pub generation: u64,
    /// How often workers have refused it, or have not begun it in time, since it was last handed on. One that is full
    /// counts as often as the pool asks each of them.
    pub strikes: u32,
    /// Why it is there, as far as a worker has had it before.
    pub why: Option<Why>,
    /// The error because of which it waits or is parked.
    pub error: Option<String>,
    /// The reason of the last refusal by a worker ([`Start::Unable`](crate::Start::Unable)). `None` if the job does not wait, or
    /// was not refused since the last run.
    pub refusal: Option<String>,
    /// The one who has paused it, and the reason. `None` if it is not paused.
    pub paused: Option<Paused>,
    /// How long until the pool takes it up again by itself: a retry, the end of a pause, a repeated announcement or a repeated
    /// stop.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub due: Option<Duration>,
    /// How many notifications wait for it.
    pub notifications: u64,
    /// Its checkpoint.
    pub checkpoint: Option<CheckpointInfo>,
    /// The node that dispatched it.
    pub dispatched_by: Option<String>,
    /// When it was accepted.
    #[serde(serialize_with = "serial::maybe_time")]
    pub accepted: Option<SystemTime>,
    /// How long ago that was.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub age: Option<Duration>,
    /// The schedule whose plan wants it.
    pub plan: Option<String>,
    /// The opening of its pool. `None` if the pool is open.
    pub opening: Option<Opening>,
    /// The shutdown of its pool. `None` if nobody has asked for it.
    pub shutdown: Option<PoolShutdown>,
}

/// A dispatch that the caller named, whose key has a job of another dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NamedDispatch {
    /// The dispatch.
    pub id: DispatchId,
    /// Whether it is known to have ended. If not, it was never accepted, or it ended too long ago.
    pub ended: bool,
    /// Its outcome, where the pool keeps it: for a dispatch with a caller's own id.
    pub outcome: Option<String>,
}

/// The owner of an explained job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OwnerSeen {
    /// The worker.
    pub worker: WorkerId,
    /// The node that it lives on. `None` if it is no member any more, or not known yet.
    pub node: Option<String>,
    /// The address that its node publishes, or empty.
    pub address: String,
    /// The fencing token of its ownership.
    pub token: Token,
    /// How long ago it renewed its lease. `None` if it has not yet, or is expired.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub renewed: Option<Duration>,
    /// All workers of its node are leaving.
    pub node_leaves: bool,
}

/// The checkpoint of an explained job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Its length, bytes.
    pub len: u64,
    /// The token under which it was given.
    pub token: Token,
    /// How old it is.
    #[serde(serialize_with = "serial::lapse")]
    pub age: Duration,
}

/// Why a key's job is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// There is no job with this key.
    Absent,
    /// There is no job with this key, and the dispatch that was asked about has ended.
    Ended {
        /// Its outcome, where the pool keeps it: for a dispatch with a caller's own id.
        outcome: Option<String>,
    },
    /// There is no record, and the pool is being opened: a worker may still report the job.
    NotReported,
    /// The record cannot be read. It was left as it is.
    Unreadable {
        /// Its version, if a newer version of this crate wrote it.
        newer: Option<u64>,
    },
    /// There is no job with this key. The memory of the dispatch that was named cannot be read, and was left as it is.
    UnreadableDispatch {
        /// Its version, if a newer version of this crate wrote it.
        newer: Option<u64>,
    },
    /// The pool is being shut down, and the job ends with it: one that runs as soon as its handler has ended.
    Dropped,
    /// Queued or assigned: the pool is being opened, and nothing begins before it is open.
    Recovering,
    /// Queued: the pool is on hold.
    OnHold,
    /// Workers are up or about to be, and none has renewed its lease within the worker TTL. While no process with a worker
    /// lives, nobody takes anything from those that are gone: the job stays where it is, queued or theirs.
    NobodyLives {
        /// How long ago the last one renewed its lease.
        #[serde(serialize_with = "serial::lapse")]
        renewed: Duration,
    },
    /// Queued: no worker is up.
    NoWorker,
    /// Queued: every worker that is up lives on a cordoned node.
    AllCordoned,
    /// Queued: no worker is up, and those that were are leaving.
    AllLeaving {
        /// How many workers are leaving.
        workers: u32,
    },
    /// Queued: no worker is up, and some are about to take their places.
    Settling,
    /// Queued: it failed, and pauses before its next attempt.
    BackOff,
    /// Queued: all workers that are up have turned it away, most likely because they are full. It is tried again after
    /// pauses, and soon after another worker has come.
    NoRoom {
        /// How many workers are up.
        workers: u32,
    },
    /// Queued: workers have refused it, or have not begun it in time.
    PassedOver {
        /// How often.
        times: u32,
        /// The worker that the ring gives it to now.
        next: WorkerId,
    },
    /// Queued: it has run before. Its worker has handed it on or was lost, or it was unparked.
    RanBefore {
        /// The worker that the ring gives it to now.
        next: WorkerId,
    },
    /// Queued: it was accepted, and a router is about to assign it.
    Unrouted {
        /// The worker that the ring gives it to now.
        next: WorkerId,
    },
    /// Assigned: its worker has not begun it.
    NotBegun,
    /// Granted: the worker has not said that the job begins. The worker may not have read of the job yet.
    Granted,
    /// Running: its start handler has not succeeded yet, on any worker. A job that has started once counts as running from
    /// its begin on.
    Starting,
    /// Running where the ring places its key.
    AtHome,
    /// Running on a cordoned node: it stays there, and the node gets no other job.
    Cordoned,
    /// Running past the worker to whom the ring gives its key, because workers have refused it or were too slow. That one
    /// may have joined since.
    PastHome {
        /// The first worker of its chain.
        home: WorkerId,
    },
    /// Running, and another worker is to have it.
    Moving {
        /// That worker. `None` if no worker is up.
        to: Option<WorkerId>,
        /// Nothing moves, because the pool is on hold.
        on_hold: bool,
    },
    /// Assigned to a worker that leaves, or running on it.
    Leaving,
    /// Its worker has not renewed its lease for most of the worker TTL, and others have.
    OwnerSilent,
    /// Its worker was lost, and the pool is about to take the job from it.
    OwnerLost,
    /// Its owner was told to end it.
    Stopping,
    /// It failed too often, or its handler gave it up. It waits for an operator.
    Parked,
    /// An operator has paused it: nobody runs it before it is resumed, or before [the pause is over](Paused::until).
    Paused,
}

/// A time below this is no time: the counter of a worker that has not renewed yet.
pub(crate) const EARLIEST: u64 = 1_000_000_000_000;

/// Whether the dispatch that was named has ended, if its key has no job of it. The outcome alone does not show it during a
/// recovery: one whose start has succeeded has its outcome, and may still run unreported.
fn has_ended(seen: &Evidence) -> bool {
    seen.found.ended || seen.found.outcome.is_some() && !seen.recovering
}

/// Explains the job of a key. `named` is a dispatch of the key, if the caller named one.
pub(crate) fn explain(
    key: JobKey,
    named: Option<&DispatchId>,
    seen: Evidence,
    members: &Members,
    settings: &Settings,
) -> Explanation {
    let verdict = verdict(&key, &seen, members, settings);
    let ago = |at: u64| Duration::from_millis(seen.now.saturating_sub(at));
    let until = |at: u64| Duration::from_millis(at.saturating_sub(seen.now));
    let record = seen.found.record.as_ref();
    let owner = record.and_then(|record| Some((record.owner?, record.token)));
    let plan = record.map(|record| record.plan.clone());
    let paused = record.and_then(|record| Paused::of(record, seen.pause.error.as_deref()));
    let refusal = record.and_then(Record::refusal).map(str::to_owned);
    let other = named.filter(|named| record.is_some_and(|record| !record.id.is_same(named)));
    Explanation {
        key,
        id: record.map(|record| record.id.clone()),
        named: other.map(|id| NamedDispatch {
            id: id.clone(),
            ended: has_ended(&seen),
            outcome: seen.found.outcome.clone(),
        }),
        verdict,
        state: record.map(|record| record.state),
        lasting: record.map(|record| ago(record.since)),
        owner: owner.map(|(worker, token)| {
            let member = members.entries.get(&worker);
            OwnerSeen {
                worker,
                node: member.map(|member| member.node.to_string()),
                address: member.map(|member| member.address.clone()).unwrap_or_default(),
                token,
                renewed: seen.heard.filter(|at| *at >= EARLIEST).map(ago),
                node_leaves: member.is_some_and(|member| leaves(&member.node, members)),
            }
        }),
        attempts: record.map_or(0, |record| record.attempts),
        max_attempts: settings.max_attempts,
        generation: record.map_or(0, Record::generation),
        strikes: record.map_or(0, |record| record.strikes),
        why: record.and_then(Record::why),
        due: record.and_then(|record| record.paused_until().or(seen.pause.until)).map(until),
        notifications: seen.notifications,
        checkpoint: seen.checkpoint.map(|kept| CheckpointInfo {
            len: kept.len,
            token: kept.token,
            age: ago(kept.at),
        }),
        dispatched_by: record.map(|record| record.id.node().to_owned()),
        accepted: record.map(|record| SystemTime::UNIX_EPOCH + Duration::from_millis(record.created)),
        age: record.map(|record| ago(record.created)),
        plan: plan.filter(|plan| !plan.is_empty()),
        opening: Opening::of(&seen, members),
        shutdown: PoolShutdown::of(&seen),
        error: seen.pause.error.filter(|_| paused.is_none() && refusal.is_none()),
        refusal,
        paused,
    }
}

fn verdict(key: &JobKey, seen: &Evidence, members: &Members, settings: &Settings) -> Verdict {
    let found = &seen.found;
    let Some(record) = &found.record else {
        return match (found.bad, has_ended(seen)) {
            (true, _) => Verdict::Unreadable { newer: found.newer },
            (_, true) => Verdict::Ended { outcome: found.outcome.clone() },
            _ if seen.recovering => Verdict::NotReported,
            _ if found.bad_id => Verdict::UnreadableDispatch { newer: found.newer_id },
            _ => Verdict::Absent,
        };
    };
    // Where it belongs does not depend on a hold.
    let ring = Ring::new(members, &Settings { hold: false, ..settings.clone() });
    let silence = Silence::of(seen, settings);
    // A lost counter is made again by the next renewal.
    let is_member = record.owner.is_some_and(|owner| members.entries.contains_key(&owner));
    let is_lost = seen.expired || !is_member && seen.heard.is_none();
    let is_stopping = seen.flag.as_ref().is_some_and(ShutdownFlag::is_stopping);
    match (record.state, silence.of_all) {
        (JobState::Queued | JobState::Assigned | JobState::Parked, _) if is_stopping => Verdict::Dropped,
        (JobState::Queued | JobState::Assigned, _) if seen.recovering => Verdict::Recovering,
        (JobState::Parked, _) if record.is_paused() => Verdict::Paused,
        (JobState::Parked, _) => Verdict::Parked,
        (JobState::Queued, of_all) => queued(key, record, seen, (members, &ring), settings, of_all),
        (_, Some(renewed)) => Verdict::NobodyLives { renewed },
        _ if is_lost => Verdict::OwnerLost,
        _ if silence.of_owner => Verdict::OwnerSilent,
        (JobState::Stopping, _) => Verdict::Stopping,
        (JobState::Assigned, _) if is_leaving(record, members) => Verdict::Leaving,
        (JobState::Assigned, _) => Verdict::NotBegun,
        (JobState::Running, _) if is_stopping => Verdict::Dropped,
        _ => running(key, record, members, &ring, settings),
    }
}

/// The workers that have not renewed their leases for long.
struct Silence {
    /// For how long no worker has, if that is longer than a lease lasts.
    of_all: Option<Duration>,
    /// The owner has not for most of that time.
    of_owner: bool,
}

impl Silence {
    fn of(seen: &Evidence, settings: &Settings) -> Self {
        let ago = |at: u64| Duration::from_millis(seen.now.saturating_sub(at));
        let ttl = settings.worker_ttl;
        Self {
            of_all: seen.freshest.map(ago).filter(|silence| *silence > ttl),
            of_owner: seen.heard.filter(|at| *at >= EARLIEST).is_some_and(|at| ago(at) > ttl / 5 * 3),
        }
    }
}

fn queued(
    key: &JobKey,
    record: &Record,
    seen: &Evidence,
    (members, ring): (&Members, &Ring),
    settings: &Settings,
    silence: Option<Duration>,
) -> Verdict {
    let next = match (ring.pick(key.as_bytes(), record.strikes), silence) {
        _ if settings.hold => return Verdict::OnHold,
        (_, Some(renewed)) => return Verdict::NobodyLives { renewed },
        (None, _) if ring.is_filling() => return Verdict::Settling,
        (None, _) if ring.obstacle() == Some(Obstacle::Cordoned) => return Verdict::AllCordoned,
        (None, _) => return nobody_up(members),
        _ if record.strikes / settings.strikes.max(1) >= ring.live() => {
            return Verdict::NoRoom { workers: ring.live() };
        }
        _ if seen.pause.error.is_some() && record.refusal().is_none() && !record.found_no_worker() => {
            return Verdict::BackOff;
        }
        (Some(next), _) => next,
    };
    match record {
        Record { strikes: times @ 1.., .. } => Verdict::PassedOver { times: *times, next },
        Record { begun: Begun::Never, .. } => Verdict::Unrouted { next },
        _ => Verdict::RanBefore { next },
    }
}

/// No worker is up, and none is about to be.
fn nobody_up(members: &Members) -> Verdict {
    let leaving = members.entries.values().filter(|member| member.state == MemberState::Draining).count();
    match u32::try_from(leaving) {
        Ok(workers @ 1..) => Verdict::AllLeaving { workers },
        _ => Verdict::NoWorker,
    }
}

/// Whether the owner of the job leaves its pool.
fn is_leaving(record: &Record, members: &Members) -> bool {
    let member = record.owner.and_then(|owner| members.entries.get(&owner));
    member.is_some_and(|member| member.state == MemberState::Draining)
}

/// Whether all workers of a node leave their pool. It has one.
fn leaves(node: &NodeName, members: &Members) -> bool {
    let mut of_node = members.entries.values().filter(|member| member.node == *node);
    of_node.all(|member| member.state == MemberState::Draining)
}

fn running(key: &JobKey, record: &Record, members: &Members, ring: &Ring, settings: &Settings) -> Verdict {
    let to = ring.pick(key.as_bytes(), record.strikes);
    match ring.pick(key.as_bytes(), 0) {
        _ if is_leaving(record, members) => Verdict::Leaving,
        _ if record.begun == Begun::Never => Verdict::Granted,
        _ if record.begun == Begun::Begun => Verdict::Starting,
        _ if record.owner.is_some_and(|owner| ring.is_cordoned(owner)) => Verdict::Cordoned,
        _ if to != record.owner => Verdict::Moving { to, on_hold: settings.hold },
        Some(home) if Some(home) != to => Verdict::PastHome { home },
        _ => Verdict::AtHome,
    }
}

#[cfg(test)]
mod tests;
