//! Reads for proofs, besides the steps of the store: its records and maps, and whether its indexes agree.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Server;
use super::state::{State, Stored};
use crate::model::id::{Incarnation, JobKey, NodeName, Revision, WorkerId};
use crate::model::record::{Begun, JobState, Record};
use crate::step::Checkpoint;

/// The scalar facts of the pool, and the counters that rise with each appended entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The incarnation of the pool.
    pub incarnation: Option<Incarnation>,
    /// The pool recovers from a loss of data.
    pub recovering: bool,
    /// The floor of the pool.
    pub floor: u32,
    /// The revision of the members.
    pub members: Revision,
    /// The revision of the settings.
    pub settings: Revision,
    pub(crate) token: u64,
    /// How many jobs count as never begun.
    pub queued: i64,
    /// How many entries were appended.
    pub appended: u64,
    /// The tombstone of a shutdown is there.
    pub closed: bool,
}

/// The data beside the records.
#[derive(Debug)]
enum Entry {
    Owned(WorkerId, JobKey),
    Queued(JobKey),
    Parked(JobKey),
    Counter(WorkerId),
}

impl Server {
    /// The scalar facts.
    pub fn facts(&self) -> Facts {
        let state = &self.state;
        Facts {
            incarnation: state.meta.incarnation,
            recovering: state.meta.recovering,
            floor: state.floor(),
            members: state.meta.members,
            settings: state.meta.settings,
            token: state.meta.token,
            queued: state.meta.queued,
            appended: state.appended,
            closed: state.tombstone.is_some(),
        }
    }

    /// Shows every job's record, in the order of their keys. `None` for a record that does not parse.
    pub fn each_record(&self, mut show: impl FnMut(&JobKey, Option<&Record>)) {
        for (key, job) in &self.state.jobs {
            match &job.stored {
                Stored::Record(record) => show(key, Some(record)),
                Stored::Damaged(_) => show(key, None),
            }
        }
    }

    /// How many notifications wait for the key's owner.
    pub fn waiting(&self, key: &JobKey) -> usize {
        self.state.mailboxes.get(key).map_or(0, |mailbox| mailbox.bodies.len())
    }

    /// The notifications that wait for the key's owner, in their order.
    pub fn mail(&self, key: &JobKey) -> Vec<Bytes> {
        let state = &self.state;
        state.mailboxes.get(key).map(|mailbox| mailbox.bodies.iter().cloned().collect()).unwrap_or_default()
    }

    /// The state that the job's owner has left with it.
    pub fn state_of(&self, key: &JobKey) -> Option<Checkpoint> {
        self.state.checkpoint(key)
    }

    /// Whether the pool has fenced the worker and not yet reaped it.
    pub fn is_dead(&self, worker: WorkerId) -> bool {
        self.state.dead.contains_key(&worker)
    }

    /// Whether the worker is a member.
    pub fn is_member(&self, worker: WorkerId) -> bool {
        self.state.members.contains_key(&worker)
    }

    /// Whether a worker of the node is a member.
    pub fn has_members_of(&self, node: &NodeName) -> bool {
        self.state.members.values().any(|member| member.node == *node)
    }

    /// The envelope of a job's payload.
    pub fn payload_of(&self, key: &JobKey) -> Option<Bytes> {
        self.state.payload(key)
    }

    /// Things that a pool at rest must not have: expired workers, start events, worker's events, unfinished entries.
    pub fn leftovers(&self) -> Vec<String> {
        let state = &self.state;
        let mut left: Vec<_> =
            state.dead.keys().map(|w| format!("worker {w} is dead and not reaped")).collect();
        if state.pool_stream.log.len() > 0 {
            left.push(format!("the pool's stream has {} entries", state.pool_stream.log.len()));
        }
        let pending = state.pool_stream.group.as_ref().map_or(0, |group| group.pending.len());
        if pending > 0 {
            left.push(format!("{pending} start events are not acknowledged"));
        }
        for (worker, log) in &state.worker_streams {
            if log.len() > 0 || !state.members.contains_key(worker) {
                left.push(format!("the stream of worker {worker} is left with {} entries", log.len()));
            }
        }
        left
    }

    /// Loses one entry: of a worker's index, of the sweeper's queue or of the parked jobs, or a worker's counter.
    /// Returns which.
    pub fn lose_entry(&mut self, chosen: u64) -> Option<String> {
        self.state.lose_entry(chosen)
    }

    /// The places where the indexes do not agree with the records (S8).
    pub fn disagreements(&self) -> Vec<String> {
        self.state.disagreements()
    }
}

impl State {
    /// Whether the job is parked, or may be waiting after a failure.
    pub(super) fn may_have_error(&self, key: &JobKey) -> bool {
        let waits = |record: &Record| match record.state {
            JobState::Queued | JobState::Assigned => record.attempts > 0,
            state => state == JobState::Parked,
        };
        self.record(key).is_some_and(waits)
    }

    fn lose_entry(&mut self, chosen: u64) -> Option<String> {
        let owned = self
            .owned
            .iter()
            .flat_map(|(worker, keys)| keys.iter().map(|key| Entry::Owned(*worker, key.clone())));
        let queued = self.queue.iter().map(|(_, key)| Entry::Queued(key.clone()));
        let parked = self.parked.iter().map(|(_, key)| Entry::Parked(key.clone()));
        let counters = self.heartbeats.keys().map(|worker| Entry::Counter(*worker));
        let all: Vec<Entry> = owned.chain(queued).chain(parked).chain(counters).collect();
        let entry = all.get(usize::try_from(chosen % (all.len() as u64).max(1)).ok()?)?;
        match entry {
            Entry::Owned(worker, key) => self.disown(*worker, key),
            Entry::Queued(key) => self.queue.remove(key),
            Entry::Parked(key) => self.parked.remove(key),
            Entry::Counter(worker) => drop(self.heartbeats.remove(worker)),
        }
        Some(format!("{entry:?} is lost"))
    }

    fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must = |holds: bool, key: &JobKey, what: &str| {
            if !holds {
                found.push(format!("{key}: {what}"));
            }
        };
        let (mut owned, mut queued, mut damaged) = (0, 0, 0);
        for (key, job) in &self.jobs {
            must(self.serials.get(&job.serial) == Some(key), key, "not in the listing");
            let Stored::Record(record) = &job.stored else {
                damaged += 1;
                continue;
            };
            let (due, parked) = (self.queue.contains(key), self.parked.contains(key));
            let of_owner = record
                .owner
                .is_some_and(|owner| self.owned.get(&owner).is_some_and(|keys| keys.contains(key)));
            owned += usize::from(record.owner.is_some());
            queued += i64::from(record.begun == Begun::Never);
            let owes = matches!(record.state, JobState::Assigned | JobState::Running | JobState::Stopping);
            must(owes == record.owner.is_some(), key, "its owner does not fit its state");
            must(record.owner.is_none() || of_owner, key, "not in its owner's index");
            let waits = matches!(record.state, JobState::Queued | JobState::Assigned | JobState::Stopping);
            must(waits == due, key, "its place in the sweeper's queue does not fit its state");
            must((record.state == JobState::Parked) == parked, key, "its place among the parked is wrong");
            let planned = self.planned.get(&record.plan).is_some_and(|keys| keys.contains(key));
            must(record.plan.is_empty() || planned, key, "not in its plan's index");
        }
        let indexed: usize = self.owned.values().map(BTreeSet::len).sum();
        if damaged == 0 {
            for (_, key) in self.queue.iter().chain(self.parked.iter()) {
                must(self.jobs.contains_key(key), key, "in the queue or parked without a record");
            }
            for key in self.errors.keys() {
                must(self.may_have_error(key), key, "has an error, and neither waits with one nor is parked");
            }
            for key in self.mailboxes.keys() {
                must(self.jobs.contains_key(key), key, "has notifications and no record");
            }
            for key in self.checkpoints.keys() {
                must(self.jobs.contains_key(key), key, "has a checkpoint and no record");
            }
            for key in self.planned.values().flatten() {
                must(self.jobs.contains_key(key), key, "in a plan's index without a record");
            }
            if indexed != owned {
                found.push(format!("{indexed} keys in the workers' indexes, {owned} records with an owner"));
            }
            if queued != self.meta.queued {
                found.push(format!("{} jobs counted as never begun, {queued} are", self.meta.queued));
            }
        }
        for worker in self.owned.keys() {
            if !self.members.contains_key(worker) && !self.dead.contains_key(worker) {
                found.push(format!("worker {worker} owns jobs and is neither a member nor dead"));
            }
        }
        found
    }
}
