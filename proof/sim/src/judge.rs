//! The judge: the known facts of every dispatch, and the answers and actions that they allow.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::asks::Asks;
use super::lives::{Life, Lives};
use super::rng::Rng;
use super::saves::Run;
use tenure_protocol::model::id::{DispatchId, Incarnation, JobKey, ScheduleId, Term, Token, WorkerId};
use tenure_protocol::model::policy::RestartPolicy;
use tenure_protocol::model::record::{JobState, Record};

/// All knowledge of the judge.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) lives: Lives,
    /// The dispatches, in the order of their creation.
    pub(super) recent: Vec<DispatchId>,
    /// The records after the last step; `None`: the record does not parse.
    pub(super) records: BTreeMap<JobKey, Option<Record>>,
    /// The worker and dispatch of each token that was begun; and the highest token of each key.
    pub(super) begun: BTreeMap<(JobKey, Token), (WorkerId, DispatchId)>,
    /// The tokens under which a start handler was called.
    pub(super) called: BTreeSet<(JobKey, Token)>,
    pub(super) top: BTreeMap<JobKey, Token>,
    /// The level of each worker's node, and the highest floor so far.
    pub(super) levels: BTreeMap<WorkerId, u32>,
    pub(super) highest_floor: u32,
    /// Stops of keys that are not yet answered.
    pub(super) stops: BTreeMap<JobKey, u64>,
    /// Every notification that the store has kept.
    pub(super) kept: BTreeSet<Bytes>,
    /// Those that the present step has kept with jobs that it may have made.
    pub(super) to_keep: Vec<(JobKey, Bytes)>,
    pub(super) asks: Asks,
    pub(super) full_at: Option<u64>,
    /// The runs whose release no worker has heard of, by key and token.
    pub(super) runs: BTreeMap<(JobKey, Token), Run>,
    /// The generation of each payload that an update has given, and of the one that each run has ended with.
    pub(super) generations: BTreeMap<Bytes, u64>,
    pub(super) ran: BTreeMap<(JobKey, Token), u64>,
    /// When a key's job last had the maximum of waiting notifications.
    pub(super) crowded_at: BTreeMap<JobKey, u64>,
    /// When a job of each key was last parked, or ceased to be.
    pub(super) parked_at: BTreeMap<JobKey, u64>,
    /// The minimum time that the outcome of a caller's own id is kept, ns.
    pub(super) own_kept: u64,
    /// The number of attempts after which a job is parked.
    pub(super) max_attempts: u32,
    /// When the store last lost data.
    pub(super) lost_at: Option<u64>,
    /// All incarnations so far.
    pub(super) incarnations: BTreeSet<Incarnation>,
    /// The incarnations before the last loss, until that is repaired.
    pub(super) stale: BTreeSet<Incarnation>,
    /// The latest turn of each schedule, and the turn that got each tick.
    pub(super) turns: BTreeMap<ScheduleId, Term>,
    pub(super) ticks: BTreeMap<(ScheduleId, u64), Term>,
    /// An entry beside the records was lost, and the indexes do not yet agree with the records.
    pub(super) disagrees: bool,
    /// Such an entry was lost at some time.
    pub(super) disagreed: bool,
    /// The pool must end.
    pub(super) ends: bool,
    pub(super) starts: u64,
    /// Payloads that handlers took without a restart.
    pub(super) taken: u64,
    pub(super) violations: Vec<String>,
}

impl Judge {
    // ---- what users do

    pub(super) fn submitted(&mut self, key: &JobKey, id: &DispatchId, policy: RestartPolicy) {
        self.recent.push(id.clone());
        self.lives.insert(id, Life { to_stop: self.ends, ..Life::new(key, id, policy) });
    }

    /// A user asks for the end of the key's present job, from now until the answer.
    pub(super) fn stop_wanted(&mut self, key: &JobKey) {
        *self.stops.entry(key.clone()).or_default() += 1;
        let alive = |life: &&mut Life| life.key == *key && life.from.is_some() && life.to.is_none();
        self.lives.values_mut().filter(alive).for_each(|life| life.to_stop = true);
    }

    pub(super) fn stop_over(&mut self, key: &JobKey) {
        if let Some(open) = self.stops.get_mut(key) {
            *open = open.saturating_sub(1);
        }
    }

    pub(super) fn is_stop_open(&self, key: &JobKey) -> bool {
        self.stops.get(key).is_some_and(|&open| open > 0)
    }

    /// The user who wants the job may want its end, too.
    pub(super) fn may_be_stopped(&mut self, id: &DispatchId) {
        if let Some(life) = self.lives.get_mut(id) {
            life.to_stop = true;
            life.next_to_stop |= life.to.is_some();
        }
    }

    /// The pool must end, and all jobs with it.
    pub(super) fn all_may_end(&mut self) {
        self.ends = true;
        self.lives.values_mut().for_each(|life| life.to_stop = true);
    }

    pub(super) fn some_life(&self, rng: &mut Rng) -> Option<(JobKey, DispatchId)> {
        let accepted = |id: &DispatchId| self.life(id).filter(|life| life.from.is_some());
        let recent = self.recent.iter().rev().filter_map(|id| Some((accepted(id)?.key.clone(), id.clone())));
        let at = rng.below(20) as usize;
        recent.take(20).nth(at)
    }

    pub(super) fn some_parked(&self, rng: &mut Rng) -> Option<JobKey> {
        let parked = |record: &&Option<Record>| record.as_ref().is_some_and(|r| r.state == JobState::Parked);
        let keys: Vec<&JobKey> = self.records.iter().filter(|(_, r)| parked(r)).map(|(key, _)| key).collect();
        let at = rng.below(keys.len() as u64) as usize;
        keys.get(at).map(|&key| key.clone())
    }

    // ---- what is true of a dispatch

    pub(super) fn life(&self, id: &DispatchId) -> Option<&Life> {
        self.lives.get(id)
    }

    pub(super) fn was_started(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.started)
    }

    pub(super) fn was_accepted(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.from.is_some())
    }

    pub(super) fn has_failed(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.failed)
    }

    pub(super) fn was_to_stop(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.to_stop)
    }

    pub(super) fn was_parked(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.parked)
    }

    pub(super) fn lives(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.from.is_some() && life.to.is_none())
    }

    pub(super) fn was_full(&self, since: u64) -> bool {
        self.full_at.is_some_and(|at| at >= since)
    }

    pub(super) fn was_crowded(&self, key: &JobKey, since: u64) -> bool {
        self.crowded_at.get(key).is_some_and(|&at| at >= since)
    }

    fn lived_since<'a>(&'a self, key: &'a JobKey, since: u64) -> impl Iterator<Item = &'a Life> {
        let lived = move |life: &&Life| life.from.is_some() && life.to.is_none_or(|to| to >= since);
        self.lives.values().filter(move |life| life.key == *key).filter(lived)
    }

    pub(super) fn another_lived(&self, key: &JobKey, id: &DispatchId, since: u64) -> bool {
        self.lived_since(key, since).any(|life| !life.id.is_same(id))
    }

    /// One job has had the key all the time, and need not end.
    pub(super) fn lived_throughout(&self, key: &JobKey, since: u64) -> bool {
        let throughout =
            |life: &Life| !life.tainted && life.from.is_some_and(|from| from < since) && life.to.is_none();
        self.lived_since(key, since).any(|life| throughout(life) && !life.may_go())
    }

    /// A stop that was requested at `since` is acknowledged. Returns the objection.
    pub(super) fn stop_acknowledged(&self, key: &JobKey, gone: bool, since: u64) -> Option<&'static str> {
        let stopping = |id: &DispatchId| {
            let record = self.records.get(key).and_then(Option::as_ref);
            record.is_some_and(|record| record.id.is_same(id) && record.state == JobState::Stopping)
        };
        let ended = |life: &Life| {
            life.to.or(life.earlier).is_some_and(|to| to >= since) || !gone && stopping(&life.id)
        };
        let lossy = self.is_lossy() || self.lost_at.is_some_and(|at| at >= since);
        if lossy || self.lived_since(key, since).any(ended) {
            None
        } else {
            Some("no job of it has ended or is to")
        }
    }
}
