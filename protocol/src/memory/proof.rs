//! For proofs: damage to a server's data, losses of data, and snapshots. A snapshot can be compared, and says whether an index
//! contradicts the records.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use tenure_steps::Scored;

use super::Server;
use super::log::Log;
use super::state::{Ended, State, Stored};
use crate::model::id::{JobKey, Revision, WorkerId};
use crate::model::member::MemberState;
use crate::model::record::{Begun, JobState, Record};
use crate::model::settings::ShutdownFlag;
use crate::mutation::Mutations;
use crate::step::{Dump, WorkerEvent};

/// The state at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(super) State);

impl Server {
    /// Leaves these lines of the protocol out from now on.
    pub fn break_on_purpose(&mut self, mutations: Mutations) {
        self.state.broken = mutations;
    }

    /// The whole state.
    pub fn dump(&self) -> Dump {
        self.state.dump()
    }

    /// Expired keys go, as with any step at this time, ms.
    pub fn expire(&mut self, now: u64) {
        self.state.expire_keys(now);
    }

    /// Loses all data.
    pub fn wipe(&mut self) {
        self.state = State { broken: std::mem::take(&mut self.state.broken), ..State::default() };
        self.flushed = true;
    }

    /// The present state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.clone())
    }

    /// Restores an earlier state.
    pub fn restore(&mut self, snapshot: Snapshot) {
        self.state = snapshot.0;
    }

    /// While the store is not available, every call fails at once and is not executed.
    pub fn set_available(&mut self, available: bool) {
        self.available = available;
    }

    /// Another server process takes over the data at this time, ms.
    pub fn new_process(&mut self, now: u64) {
        self.process += 1;
        self.started = now;
        self.flushed = false;
    }

    /// Writes a record, well-formed or not. The indexes do not change.
    pub fn write_record(&mut self, key: &JobKey, raw: &[u8]) {
        let stored =
            Record::parse(raw).map_or_else(|| Stored::Damaged(Bytes::copy_from_slice(raw)), Stored::Record);
        match self.state.jobs.get_mut(key) {
            Some(job) => job.stored = stored,
            None => self.state.insert(key.clone(), stored, Bytes::new()),
        }
    }

    /// Sets the counter of tokens.
    pub fn set_token(&mut self, token: u64) {
        self.state.meta.token = token;
    }

    /// Writes the header of a job's notifications without a check.
    pub fn write_header(&mut self, key: &JobKey, raw: &[u8]) {
        let mailbox = self.state.mailboxes.entry(key.clone()).or_default();
        mailbox.damage = (raw != mailbox.header().as_bytes()).then(|| Bytes::copy_from_slice(raw));
    }

    /// Puts a key into a worker's index, whether it belongs there or not.
    pub fn write_index(&mut self, worker: WorkerId, key: &JobKey) {
        self.state.own(worker, key.clone());
    }

    /// Removes a setting, as if the pool had been created without it.
    pub fn forget_setting(&mut self, name: &str) {
        self.state.settings.remove(name);
    }

    /// Loses one of the pool's keys: `workers`, `heartbeats`, `jobs` (with the payloads), `payloads`, `owners`, `queue`,
    /// `parked` or a worker's stream.
    pub fn lose(&mut self, name: &str) {
        let state = &mut self.state;
        match name {
            "workers" => {
                state.members.clear();
                state.ring_size = 0;
                state.cordoned.clear();
            }
            "heartbeats" => state.heartbeats.clear(),
            "jobs" => {
                state.jobs.clear();
                state.serials.clear();
            }
            "payloads" => state.jobs.values_mut().for_each(|job| job.payload = None),
            "history" => state.history = super::log::Log::default(),
            "nodes" => state.statuses.clear(),
            "owners" => state.owned.clear(),
            "queue" => state.queue = Scored::default(),
            "parked" => state.parked = Scored::default(),
            name => {
                if let Some(worker) = name.strip_prefix("worker:").and_then(|id| id.parse().ok()) {
                    state.worker_streams.remove(&worker);
                }
            }
        }
    }

    /// Loses the routers' consumer group.
    pub fn destroy_group(&mut self) {
        self.state.pool_stream.group = None;
    }

    /// Exchanges the state with another one.
    pub fn swap(&mut self, snapshot: &mut Snapshot) {
        std::mem::swap(&mut self.state, &mut snapshot.0);
    }
}

#[allow(missing_docs)]
impl Snapshot {
    /// Loses everything except the mutations.
    pub fn wipe(&mut self) {
        self.0 = State { broken: std::mem::take(&mut self.0.broken), ..State::default() };
    }

    /// Leaves these lines of the protocol out from now on.
    pub fn break_on_purpose(&mut self, mutations: Mutations) {
        self.0.broken = mutations;
    }

    /// Takes the events of all streams. Forgets data that only readers and listings need: the ids of entries, their
    /// readers, and the order of acceptance. States that differ only in those are then equal.
    pub fn take_events(&mut self) -> Vec<(WorkerId, WorkerEvent)> {
        let state = &mut self.0;
        state.appended = 0;
        state.last_serial = 0;
        state.serials.clear();
        for job in state.jobs.values_mut() {
            job.serial = 0;
        }
        state.node_streams.clear();
        state.pool_stream.log = Log::default();
        let streams = std::mem::take(&mut state.worker_streams);
        let events = streams.iter().flat_map(|(worker, log)| log.iter().map(move |event| (*worker, event)));
        events.map(|(worker, event)| (worker, event.clone())).collect()
    }

    pub fn record(&self, key: &JobKey) -> Option<&Record> {
        self.0.record(key)
    }

    pub fn members(&self) -> impl Iterator<Item = (WorkerId, MemberState)> {
        self.0.members.iter().map(|(worker, member)| (*worker, member.state))
    }

    pub fn member_revision(&self) -> Revision {
        self.0.meta.members
    }

    /// Workers that have expired and are not reaped yet.
    pub fn dead(&self) -> impl Iterator<Item = WorkerId> {
        self.0.dead.keys().copied()
    }

    pub fn heartbeat(&self, worker: WorkerId) -> Option<u64> {
        self.0.heartbeats.get(&worker).copied()
    }

    pub fn last_token(&self) -> u64 {
        self.0.meta.token
    }

    pub fn is_recovering(&self) -> bool {
        self.0.meta.recovering
    }

    pub fn flag(&self) -> Option<ShutdownFlag> {
        self.0.flag()
    }

    /// Whether only the tombstone of a shutdown is left.
    pub fn is_closed(&self) -> bool {
        self.0.meta.incarnation.is_none() && self.0.tombstone.is_some()
    }

    /// An index that contradicts the records, if any does.
    pub fn disagreement(&self) -> Option<String> {
        let state = &self.0;
        let mut owned = BTreeSet::new();
        let mut never_begun = 0;
        for (key, job) in &state.jobs {
            let Stored::Record(record) = &job.stored else { continue };
            let (queued, parked) = (state.queue.contains(key), state.parked.contains(key));
            let fits = match record.state {
                JobState::Queued => record.owner.is_none() && queued && !parked,
                JobState::Assigned | JobState::Stopping => record.owner.is_some() && queued && !parked,
                JobState::Running => record.owner.is_some() && !queued && !parked,
                JobState::Parked => record.owner.is_none() && !queued && parked,
            };
            if !fits {
                return Some(format!("{record} of {key:?}: queued {queued}, parked {parked}"));
            }
            owned.extend(record.owner.map(|owner| (owner, key)));
            never_begun += i64::from(record.begun == Begun::Never);
        }
        let indexed = state.owned.iter().flat_map(|(owner, keys)| keys.iter().map(|key| (*owner, key)));
        let strays = [
            ("owners", indexed.collect::<BTreeSet<_>>() != owned),
            ("queue", state.queue.iter().any(|(_, key)| state.record(key).is_none())),
            ("parked", state.parked.iter().any(|(_, key)| state.record(key).is_none())),
            ("errors", state.errors.keys().any(|key| !state.may_have_error(key))),
            ("notifications", state.mailboxes.keys().any(|key| state.record(key).is_none())),
            ("checkpoints", state.checkpoints.keys().any(|key| !state.jobs.contains_key(key))),
            ("queued", state.meta.queued != never_begun),
        ];
        strays.iter().find(|(_, wrong)| *wrong).map(|(name, _)| format!("{name} contradicts the records"))
    }
}

/// Hashes the data that steps depend on. Entry ids, first payloads and schedules are left out.
impl Hash for Snapshot {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let state = &self.0;
        let meta = &state.meta;
        (meta.incarnation, meta.recovering, meta.token, meta.members, meta.notified).hash(hasher);
        for (worker, member) in &state.members {
            (worker, member.state, member.slot).hash(hasher);
        }
        for (worker, dead) in &state.dead {
            (worker, dead.slot).hash(hasher);
        }
        (&state.heartbeats, &meta.attested).hash(hasher);
        (state.settings.get("shutdown"), self.is_closed()).hash(hasher);
        for (key, job) in &state.jobs {
            key.hash(hasher);
            if let Stored::Record(record) = &job.stored {
                let Record { state, owner, token, attempts, begun, id, attested, strikes, .. } = record;
                (state, owner, token, attempts, begun, id, attested, strikes).hash(hasher);
                (record.is_paused(), record.since).hash(hasher);
                if record.generation() > 0 {
                    (record.generation(), &job.payload).hash(hasher);
                }
            }
        }
        state.owned.hash(hasher);
        for scored in [&state.queue, &state.parked] {
            scored.iter().collect::<Vec<_>>().hash(hasher);
        }
        for (until, ended) in state.ended.iter() {
            match ended {
                Ended::Dispatch(id) => (until, id.as_str()).hash(hasher),
                Ended::Caller(id) => (until, id.as_str()).hash(hasher),
                Ended::Run(dispatch) => (until, state.run_ends.get(dispatch)).hash(hasher),
            }
        }
        for (key, mailbox) in &state.mailboxes {
            (key, mailbox.head, &mailbox.bodies).hash(hasher);
        }
        for (key, kept) in &state.checkpoints {
            (key, kept.token, kept.number, &kept.bytes).hash(hasher);
        }
        let outcomes: BTreeMap<_, _> =
            state.remembered.iter().map(|(id, r)| (id, (&r.id, &r.outcome))).collect();
        outcomes.hash(hasher);
    }
}
