//! The pool's state and what several steps share: the guard, a job's end, a job's way back into the queue.
//!
//! A plain transcription of `docs/protocol`: every field is one of its keys, every step one method that takes
//! the server's time in ms. Nothing here does I/O, and nothing is changed by a step that is refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use tenure_steps::Scored;

use super::log::Log;
use super::run_ends::RunEnd;
use super::streams::{NodeStream, PoolStream, Starts};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Revision, Token, WorkerId};
use crate::model::member::Member;
use crate::model::paused::Paused;
use crate::model::record::{Begun, JobState, Record};
use crate::model::why::start_of;
use crate::mutation::{Mutation, Mutations};
use crate::step::{BATCH_MAX, Checkpoint, Outcome, Refusal, ScheduleEntry, ScheduleKey, WorkerEvent};

/// The longest error that is kept for a parked job, bytes.
const ERROR_MAX: usize = 1_024;

/// The scalar facts (`pool`). Without an incarnation there is no pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) incarnation: Option<Incarnation>,
    pub(super) recovering: bool,
    /// Clients of a lower level are refused; 0 counts as 1.
    pub(super) floor: u32,
    /// The last token or worker id minted.
    pub(super) token: u64,
    pub(super) members: Revision,
    pub(super) settings: Revision,
    /// Accepted jobs that were never begun.
    pub(super) queued: i64,
    /// Notifications stored so far.
    pub(super) notified: u64,
    pub(super) run_id: String,
    /// The signs of a loss that a recovery was made for and that have not gone since.
    pub(super) lost: String,
    /// The last incarnation of a pool that was shut down before, else 0.
    pub(super) closed: Incarnation,
    /// In which incarnation each worker has attested all that it has.
    pub(super) attested: BTreeMap<WorkerId, Incarnation>,
}

/// The trace that a shutdown leaves for a while.
#[derive(Clone, Debug)]
pub(super) struct Tombstone {
    pub(super) incarnation: Incarnation,
    pub(super) until: u64,
}

/// The value in the place of a record (`jobs`).
#[derive(Clone, Debug)]
pub(super) enum Stored {
    Record(Record),
    /// Another version, or damage: left as it is. Only proofs write one.
    #[cfg_attr(not(any(test, feature = "proof")), allow(dead_code))]
    Damaged(Bytes),
}

/// A job (`jobs`, `payloads`).
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) stored: Stored,
    /// None: it was lost.
    pub(super) payload: Option<Bytes>,
    /// Its place in the listing of all jobs.
    pub(super) serial: u64,
}

/// An expired worker (`expired`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Dead {
    /// When it was heard of last, by its counter.
    pub(super) heard: u64,
    pub(super) slot: Option<u32>,
}

/// Notifications that wait for a job's owner (`notifications`).
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox {
    /// The number of the first one.
    pub(super) head: u64,
    pub(super) bodies: VecDeque<Bytes>,
    pub(super) bytes: u64,
    /// Damage in the place of its header: left as it is.
    pub(super) damage: Option<Bytes>,
}

#[cfg(any(test, feature = "proof"))]
impl Mailbox {
    /// Its header: the first number, the one behind the last, and the bytes of all.
    pub(super) fn header(&self) -> String {
        format!("{}|{}|{}", self.head, self.head + self.bodies.len() as u64, self.bytes)
    }
}

/// A dispatch under a caller's own id (`outcomes`).
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub(super) key: JobKey,
    pub(super) hash: String,
    pub(super) id: DispatchId,
    pub(super) outcome: Option<Outcome>,
    /// When it was accepted, then when it had its outcome, ms.
    pub(super) at: u64,
}

impl Remembered {
    /// An id that stands for this dispatch from now on.
    pub(super) fn open(key: JobKey, hash: String, id: DispatchId, created: u64) -> Self {
        Self { key, hash, id, outcome: None, at: created }
    }

    /// Whether the outcome is that of a former use of the id: a dispatch that was accepted later cannot have had it.
    pub(super) fn is_former(&self, created: u64) -> bool {
        self.outcome.is_some() && created > self.at
    }

    /// Whether the id stands for these bytes; without a hash it stands for any.
    pub(super) fn stands_for(&self, key: &JobKey, hash: &str) -> bool {
        self.key == *key && (self.hash.is_empty() || self.hash == hash)
    }
}

/// The memory of ended dispatches, until its time comes (`ended`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    /// A dispatch of a node's own making.
    Dispatch(DispatchId),
    /// The outcome under a caller's own id.
    Caller(String),
    /// The last run of a dispatch that has told its end.
    Run(String),
}

/// Everything of one pool.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The level of the client whose step is executed.
    pub(super) level: u32,
    pub(super) meta: Meta,
    pub(super) tombstone: Option<Tombstone>,
    /// `workers`
    pub(super) members: BTreeMap<WorkerId, Member>,
    /// `size` of `workers`: the slots of the ring; it never shrinks.
    pub(super) ring_size: u32,
    /// The nodes whose workers get no jobs.
    pub(super) cordoned: BTreeSet<NodeName>,
    /// `expired`
    pub(super) dead: BTreeMap<WorkerId, Dead>,
    /// `heartbeats`
    pub(super) heartbeats: BTreeMap<WorkerId, u64>,
    /// `nodes`
    pub(super) statuses: BTreeMap<NodeName, Bytes>,
    /// `history`
    pub(super) history: Log<Bytes>,
    /// `settings`
    pub(super) settings: BTreeMap<String, String>,
    /// `jobs`, `payloads`
    pub(super) jobs: BTreeMap<JobKey, Job>,
    /// The jobs in the order of their acceptance.
    pub(super) serials: BTreeMap<u64, JobKey>,
    pub(super) last_serial: u64,
    /// `owners`
    pub(super) owned: BTreeMap<WorkerId, BTreeSet<JobKey>>,
    /// `queue`
    pub(super) queue: Scored<JobKey>,
    /// `parked`
    pub(super) parked: Scored<JobKey>,
    /// `errors`
    pub(super) errors: BTreeMap<JobKey, Bytes>,
    /// `notifications`
    pub(super) mailboxes: BTreeMap<JobKey, Mailbox>,
    /// `checkpoints`
    pub(super) checkpoints: BTreeMap<JobKey, Checkpoint>,
    /// `ended`
    pub(super) ended: Scored<Ended>,
    /// `outcomes`
    pub(super) remembered: BTreeMap<String, Remembered>,
    /// `outcomes`, by dispatch
    pub(super) run_ends: BTreeMap<String, RunEnd>,
    /// `schedules`
    pub(super) schedules: BTreeMap<ScheduleKey, ScheduleEntry>,
    /// `planned`
    pub(super) planned: BTreeMap<String, BTreeSet<JobKey>>,
    /// `starts`
    pub(super) pool_stream: PoolStream,
    /// `worker:*`
    pub(super) worker_streams: BTreeMap<WorkerId, Log<WorkerEvent>>,
    /// `node:*`
    pub(super) node_streams: BTreeMap<NodeName, NodeStream>,
    /// Entries appended to any stream so far: blocked readers look again when it moves.
    pub(super) appended: u64,
    /// The lines that a proof has broken on purpose.
    pub(super) broken: Mutations,
}

impl State {
    /// Refuses a caller of another incarnation. True in phase R.
    pub(super) fn guard(&self, inc: Incarnation) -> Result<bool, Refusal> {
        match self.meta.incarnation {
            Some(own) if own == inc || self.broken.has(Mutation::IncarnationUnchecked) => {
                self.check_level()?;
                Ok(self.meta.recovering)
            }
            Some(own) => Err(Refusal::StaleIncarnation(own)),
            None if self.tombstone.is_some() => Err(Refusal::Closed),
            None => Err(Refusal::NoPool),
        }
    }

    /// The guard of steps that phase R refuses.
    pub(super) fn guard_normal(&self, inc: Incarnation) -> Result<(), Refusal> {
        if self.guard(inc)? { Err(Refusal::Recovering) } else { Ok(()) }
    }

    /// The versions that replicas compare.
    pub(super) fn revisions(&self) -> (Option<Incarnation>, Revision, Revision) {
        (self.meta.incarnation, self.meta.members, self.meta.settings)
    }

    /// A numeric setting; every one was stored when the pool was created.
    pub(super) fn limit(&self, name: &str) -> u64 {
        self.settings.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// True once a shutdown has reached its second half.
    pub(super) fn stopping(&self) -> bool {
        self.settings.get("shutdown").is_some_and(|flag| flag.starts_with('S'))
    }

    /// Refuses what would mint from a counter that is at its end.
    pub(super) fn check_tokens(&self) -> Result<(), Refusal> {
        let left = Token::LAST.0.saturating_sub(self.meta.token);
        if left >= BATCH_MAX as u64 { Ok(()) } else { Err(Refusal::OutOfTokens) }
    }

    /// Raises the counter to a token that a caller has seen, unless it is one that no pool mints.
    pub(super) fn raise_tokens(&mut self, seen: Token) {
        if seen <= Token::LAST {
            self.meta.token = self.meta.token.max(seen.0);
        }
    }

    /// The next number of the counter that tokens and worker ids come from.
    pub(super) fn mint(&mut self) -> u64 {
        self.meta.token += 1;
        self.meta.token
    }

    /// The key's record; `None` when it is absent or damaged.
    pub(super) fn record(&self, key: &JobKey) -> Option<&Record> {
        match self.jobs.get(key).map(|job| &job.stored) {
            Some(Stored::Record(record)) => Some(record),
            _ => None,
        }
    }

    /// True if there is a record that does not parse.
    pub(super) fn is_damaged(&self, key: &JobKey) -> bool {
        matches!(self.jobs.get(key), Some(Job { stored: Stored::Damaged(_), .. }))
    }

    /// The key's record, in any state, if the worker owns the job under this token.
    pub(super) fn record_of(&self, key: &JobKey, worker: WorkerId, token: Token) -> Option<&Record> {
        self.record(key).filter(|record| record.owner == Some(worker) && record.token == token)
    }

    /// Writes the record of a job that exists.
    pub(super) fn write(&mut self, key: &JobKey, record: Record) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.stored = Stored::Record(record);
        }
    }

    /// Somebody may have the job in hand by now: it does not wait for its first start any more.
    pub(super) fn confirm(&mut self, record: &mut Record) {
        if record.begun == Begun::Never {
            record.begun = Begun::Begun;
            if !self.broken.has(Mutation::ConfirmUncounted) {
                self.meta.queued -= 1;
            }
        }
    }

    /// Adds a job.
    pub(super) fn insert(&mut self, key: JobKey, stored: Stored, payload: Bytes) {
        self.forget(&key);
        self.last_serial += 1;
        self.serials.insert(self.last_serial, key.clone());
        self.jobs.insert(key, Job { stored, payload: Some(payload), serial: self.last_serial });
    }

    /// Adds a key to a worker's index.
    pub(super) fn own(&mut self, worker: WorkerId, key: JobKey) {
        self.owned.entry(worker).or_default().insert(key);
    }

    /// Takes a key out of a worker's index.
    pub(super) fn disown(&mut self, worker: WorkerId, key: &JobKey) {
        if let Some(keys) = self.owned.get_mut(&worker) {
            keys.remove(key);
            if keys.is_empty() {
                self.owned.remove(&worker);
            }
        }
    }

    fn forget(&mut self, key: &JobKey) {
        if let Some(job) = self.jobs.remove(key) {
            self.serials.remove(&job.serial);
        }
    }

    /// Deletes a job and all that belongs to it, and records its outcome.
    pub(super) fn drop_job(&mut self, key: &JobKey, record: &Record, now: u64, outcome: &str) {
        self.forget(key);
        self.queue.remove(key);
        if let Some(owner) = record.owner {
            self.disown(owner, key);
        }
        self.parked.remove(key);
        self.errors.remove(key);
        self.unplan_job(&record.plan, key);
        if record.begun == Begun::Never {
            self.meta.queued -= 1;
        }
        self.mailboxes.remove(key);
        if !self.broken.has(Mutation::StatesStay) {
            self.checkpoints.remove(key);
        }
        self.settle_outcome(&record.id, outcome, now);
        // Its worker may not have heard that it gave the job up, and may report the job after a loss of data. An
        // outcome does not say that the run has ended.
        let owned = matches!(record.state, JobState::Running | JobState::Stopping);
        let again = self.attested_now(record) || record.begun != Begun::Never && !owned;
        let accepted = record.id.caller_id().is_none().then_some(record.created);
        // Begun lately: a former owner that has not heard that may report it, too.
        let begun = owned.then_some(record.since.max(record.created));
        let since = if again { Some(now.max(record.created)) } else { begun.or(accepted) };
        if let Some(until) =
            since.map(|since| since + self.limit("max_dispatch_deadline")).filter(|until| *until > now)
        {
            self.ended.put(Ended::Dispatch(record.id.clone()), until);
        }
    }

    /// Whether its worker attested it in this incarnation. An attestation that is late or doubled may still come.
    pub(super) fn attested_now(&self, record: &Record) -> bool {
        record.attested.is_some() && record.attested == self.meta.incarnation
    }

    /// Records the outcome under a caller's own id: once, and only of the dispatch that holds the id.
    pub(super) fn settle_outcome(&mut self, id: &DispatchId, outcome: &str, now: u64) {
        let keep =
            if self.broken.has(Mutation::OwnIdsForgotten) { 1 } else { self.limit("outcome_retention") };
        let Some(caller) = id.caller_id() else { return };
        let Some(remembered) = self.remembered.get_mut(caller) else { return };
        if remembered.outcome.is_none() && remembered.id == *id {
            // The clock may have gone back since the dispatch was accepted.
            (remembered.outcome, remembered.at) = (Some(outcome.to_owned()), now.max(remembered.at));
            self.ended.put(Ended::Caller(caller.to_owned()), now + keep);
        }
    }

    /// Takes a job from its owner, or out of the parked jobs. It is queued, with a start event now, or with one from
    /// the sweeper after `delay` ms. If it has begun too often, it is parked. The token stays. The caller emits
    /// `starts`.
    pub(super) fn requeue(
        &mut self,
        key: &JobKey,
        mut record: Record,
        now: u64,
        delay: u64,
        reason: &str,
        starts: &mut Starts,
    ) -> JobState {
        if u64::from(record.attempts) >= self.limit("max_attempts") {
            return self.park(key, record, now, reason);
        }
        if let Some(owner) = record.owner.take() {
            self.disown(owner, key);
        }
        (record.since, record.state) = (now, JobState::Queued);
        if delay > 0 {
            self.queue.put(key.clone(), now + delay);
            if record.attempts > 0 && !reason.is_empty() {
                self.errors.insert(key.clone(), shortened(reason));
            }
        } else {
            self.queue.put(key.clone(), now + self.limit("route_timeout"));
            starts.push((key.clone(), record.strikes));
        }
        self.write(key, record);
        JobState::Queued
    }

    /// Takes a job from its owner, or out of the queue, and parks it.
    pub(super) fn park(&mut self, key: &JobKey, mut record: Record, now: u64, reason: &str) -> JobState {
        if let Some(owner) = record.owner.take() {
            self.disown(owner, key);
        }
        (record.since, record.state) = (now, JobState::Parked);
        if let (true, Some(end)) = (record.is_paused(), Paused::end_of(reason)) {
            record.set_pause_end(end);
        }
        self.queue.remove(key);
        self.parked.put(key.clone(), record.wakes_at());
        self.errors.insert(key.clone(), shortened(reason));
        self.write(key, record);
        JobState::Parked
    }

    /// A run that lasted long enough counts as healthy: it was the first attempt.
    pub(super) fn forgive(&self, record: &mut Record, now: u64) {
        if record.state == JobState::Running && now.saturating_sub(record.since) >= self.limit("stable_run") {
            record.attempts = 1;
        }
    }
}

/// The part of a reason that is stored.
fn shortened(text: &str) -> Bytes {
    Bytes::copy_from_slice(start_of(text, ERROR_MAX).as_bytes())
}
