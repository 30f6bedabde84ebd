//! The judge: what is known of every dispatch, and what may be said and done about it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use std::time::Duration;

use super::rng::Rng;
use super::world::World;
use crate::core::input::HandlerEvent;
use crate::id::{DispatchId, Incarnation, JobKey, ScheduleId, Term, Token, WorkerId};
use crate::policy::RestartPolicy;
use crate::record::{JobState, Record};

/// How far back a worker's journal reaches, at least.
const REACH: Duration = Duration::from_secs(20);

/// One dispatch, from the moment somebody made it.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) key: JobKey,
    policy: RestartPolicy,
    /// When its record was first seen, and when it was seen no more.
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    started: bool,
    failed: bool,
    pub(super) parked: bool,
    /// The store has lost data since it was made: much may have become of it.
    pub(super) tainted: bool,
    /// Somebody has asked for its end.
    pub(super) to_stop: bool,
    /// Its end is its handler's own doing.
    pub(super) may_end: bool,
    /// Notifications that were kept, in their order, and how many of them were delivered.
    kept: Vec<Bytes>,
    delivered: usize,
    /// When its worker ended it last, and which that was.
    pub(super) ended: Option<(u64, WorkerId)>,
    /// Data were lost when it had been ended within the journal's reach by a worker that still lives.
    in_journal: Option<WorkerId>,
}

/// All that the judge knows.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) lives: BTreeMap<DispatchId, Life>,
    /// The records as they were after the last step; `None`: it does not parse.
    pub(super) records: BTreeMap<JobKey, Option<Record>>,
    /// Begun under these tokens, and the highest of each key.
    pub(super) begun: BTreeSet<(JobKey, Token)>,
    pub(super) top: BTreeMap<JobKey, Token>,
    /// Stops of keys that are not answered yet.
    stops: BTreeMap<JobKey, u64>,
    pub(super) full_at: Option<u64>,
    /// When the store lost data last.
    pub(super) lost_at: Option<u64>,
    /// The incarnations that there were.
    incarnations: BTreeSet<Incarnation>,
    /// Those that there had been by the last loss, while it is not repaired.
    stale: BTreeSet<Incarnation>,
    /// The latest turn of each schedule, and to which turn each tick was given.
    pub(super) turns: BTreeMap<ScheduleId, Term>,
    pub(super) ticks: BTreeMap<(ScheduleId, u64), Term>,
    pub(super) starts: u64,
    pub(super) violations: Vec<String>,
}

impl Judge {
    // ---- what users do

    pub(super) fn submitted(&mut self, key: &JobKey, id: &DispatchId, policy: RestartPolicy) {
        let life = Life {
            key: key.clone(),
            policy,
            from: None,
            to: None,
            started: false,
            failed: false,
            parked: false,
            tainted: false,
            to_stop: false,
            may_end: false,
            kept: Vec::new(),
            delivered: 0,
            ended: None,
            in_journal: None,
        };
        self.lives.insert(id.clone(), life);
    }

    /// Somebody asks for the end of whatever job the key has, from now until that is answered.
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

    /// Whoever wants the job may want its end, too.
    pub(super) fn may_be_stopped(&mut self, id: &DispatchId) {
        if let Some(life) = self.lives.get_mut(id) {
            life.to_stop = true;
        }
    }

    /// The pool is to end, and all jobs with it.
    pub(super) fn all_may_end(&mut self) {
        self.lives.values_mut().for_each(|life| life.to_stop = true);
    }

    pub(super) fn some_life(&self, rng: &mut Rng) -> Option<(JobKey, DispatchId)> {
        let recent = self.lives.iter().rev().filter(|(_, life)| life.from.is_some());
        let at = rng.below(20) as usize;
        recent.take(20).nth(at).map(|(id, life)| (life.key.clone(), id.clone()))
    }

    pub(super) fn some_parked(&self, rng: &mut Rng) -> Option<JobKey> {
        let parked = |record: &&Option<Record>| record.as_ref().is_some_and(|r| r.state == JobState::Parked);
        let keys: Vec<&JobKey> = self.records.iter().filter(|(_, r)| parked(r)).map(|(key, _)| key).collect();
        let at = rng.below(keys.len() as u64) as usize;
        keys.get(at).map(|&key| key.clone())
    }

    // ---- what the store forgets

    /// The store has lost data: the records are others.
    pub(super) fn lost(&mut self, now: u64) {
        self.lost_at = Some(now);
        self.stale = self.incarnations.clone();
        self.records.clear();
        self.turns.clear();
        self.ticks.clear();
        self.lives.values_mut().for_each(|life| life.tainted = true);
    }

    /// Whether what was lost is not repaired yet.
    pub(super) fn is_lossy(&self) -> bool {
        !self.stale.is_empty()
    }

    /// The pool is in this incarnation, and open.
    pub(super) fn is_open_in(&mut self, incarnation: Incarnation) {
        self.incarnations.insert(incarnation);
        if !self.stale.contains(&incarnation) {
            self.stale.clear();
        }
    }

    pub(super) fn is_tainted(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.tainted)
    }

    // ---- what is true of a dispatch

    fn life(&self, id: &DispatchId) -> Option<&Life> {
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

    fn lived_since<'a>(
        &'a self,
        key: &'a JobKey,
        since: u64,
    ) -> impl Iterator<Item = (&'a DispatchId, &'a Life)> {
        let lived = move |life: &Life| life.from.is_some() && life.to.is_none_or(|to| to >= since);
        self.lives.iter().filter(move |(_, life)| life.key == *key && lived(life))
    }

    pub(super) fn another_lived(&self, key: &JobKey, id: &DispatchId, since: u64) -> bool {
        self.lived_since(key, since).any(|(other, _)| other != id)
    }

    /// One job has had the key all the time, and nobody wants its end.
    pub(super) fn lived_throughout(&self, key: &JobKey, since: u64) -> bool {
        let throughout =
            |life: &Life| !life.tainted && life.from.is_some_and(|from| from < since) && life.to.is_none();
        self.lived_since(key, since).any(|(_, life)| throughout(life) && !life.to_stop)
    }

    /// A stop that was asked for at `since` is acknowledged. Returns what is wrong with that.
    pub(super) fn stop_acknowledged(&self, key: &JobKey, gone: bool, since: u64) -> Option<&'static str> {
        let stopping = |id: &DispatchId| {
            let record = self.records.get(key).and_then(Option::as_ref);
            record.is_some_and(|record| record.id == *id && record.state == JobState::Stopping)
        };
        let ended = |(id, life): (&DispatchId, &Life)| life.to.is_some() || !gone && stopping(id);
        let lossy = self.is_lossy() || self.lost_at.is_some_and(|at| at >= since);
        if lossy || self.lived_since(key, since).any(ended) {
            None
        } else {
            Some("no job of it has ended or is to")
        }
    }

    // ---- notifications

    pub(super) fn kept(&mut self, key: &JobKey, body: &Bytes) {
        let Some(id) = self.records.get(key).and_then(Option::as_ref).map(|record| record.id.clone()) else {
            return;
        };
        if let Some(life) = self.lives.get_mut(&id) {
            life.kept.push(body.clone());
        }
    }

    /// A handler is called with a notification: the next one, or one that was delivered before.
    pub(super) fn taking(&mut self, id: &DispatchId, body: &Bytes) {
        let Some(life) = self.lives.get(id).filter(|life| !life.tainted) else { return };
        let upto = (life.delivered + 1).min(life.kept.len());
        if !life.kept.iter().take(upto).any(|kept| kept == body) {
            let what = format!(
                "S11: {id} gets {body:?} out of turn, {} delivered of {:?}",
                life.delivered, life.kept
            );
            self.violations.push(what);
        }
    }

    /// It has taken it.
    pub(super) fn delivered(&mut self, id: &DispatchId, body: &Bytes) {
        if let Some(life) = self.lives.get_mut(id)
            && life.kept.get(life.delivered) == Some(body)
        {
            life.delivered += 1;
        }
    }

    /// Of a job's notifications so many wait: the others were delivered.
    pub(super) fn notes_wait(&mut self, id: &DispatchId, waiting: usize) {
        let Some(life) = self.lives.get(id).filter(|life| !life.tainted) else { return };
        if life.delivered + waiting < life.kept.len() {
            let (kept, delivered) = (life.kept.len(), life.delivered);
            let what =
                format!("S11: of {id}'s {kept} notifications {delivered} were delivered and {waiting} wait");
            self.violations.push(what);
        }
    }

    /// Notifications of a job that were not delivered.
    pub(super) fn undelivered(&self, id: &DispatchId) -> usize {
        self.life(id).filter(|life| !life.tainted).map_or(0, |life| life.kept.len() - life.delivered)
    }
}

impl World {
    /// The store has lost data, without a word to anybody.
    pub(super) fn lost(&mut self) {
        self.judge.lost(self.now);
        let reach = u64::try_from(REACH.as_nanos()).unwrap_or(u64::MAX);
        let ended = |life: &Life| life.ended.filter(|(at, _)| self.now < at.saturating_add(reach));
        let known: Vec<(DispatchId, Option<WorkerId>)> = self
            .judge
            .lives
            .iter()
            .map(|(id, life)| (id.clone(), ended(life).map(|(_, by)| by).filter(|by| self.lives_on(*by))))
            .collect();
        for (id, by) in known {
            if let Some(life) = self.judge.lives.get_mut(&id) {
                life.in_journal = by;
            }
        }
        let (judge, now) = (&mut self.judge, self.now);
        self.store.each_record(|key, record| {
            judge.records.insert(key.clone(), record.cloned());
            // What had ended may be there again.
            if let Some(life) = record.and_then(|record| judge.lives.get_mut(&record.id)) {
                life.from.get_or_insert(now);
                life.to = None;
            }
        });
    }

    /// A start handler is called.
    pub(super) fn began(&mut self, actor: u64) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (id, key, token, dispatch) = (actor.id, actor.key.clone(), actor.token, actor.dispatch.clone());
        self.judge.starts += 1;
        self.note(|| format!("handler {id} of {key} starts, token {token}"));
        if !self.judge.begun.contains(&(key.clone(), token)) {
            self.judge
                .violations
                .push(format!("S2: {key} starts under token {token}, which did not begin it"));
        }
        if self.judge.lives.get(&dispatch).is_some_and(|life| life.to.is_some() && !life.tainted)
            && self.holds(id)
        {
            self.judge.violations.push(format!("S5: {dispatch} of {key} starts after its end"));
        }
        let by = self.judge.lives.get(&dispatch).and_then(|life| life.in_journal);
        if let Some(by) = by.filter(|by| self.lives_on(*by) && self.holds(id)) {
            let what =
                format!("S5: {dispatch} of {key} starts after a loss, and {by} ended it before and lives");
            self.judge.violations.push(what);
        }
        self.exclusive(id);
    }

    /// A worker's lease holds, by the clock of its node, which acts.
    fn lives_on(&self, worker: WorkerId) -> bool {
        self.nodes.iter().any(|node| {
            node.alive
                && !node.paused
                && node.locals.values().any(|local| *local == Some(worker))
                && node.clock.read(self.now) < node.leases.holds_until(worker)
        })
    }

    /// A handler is told to stop for good: somebody has asked for that, also when the store has lost the data since.
    pub(super) fn told_to_stop(&mut self, actor: u64) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let wanted = self.judge.was_to_stop(&actor.dispatch) || self.judge.is_stop_open(&actor.key);
        if !wanted {
            let what =
                format!("S4: {} of {} is told to stop, and nobody asked for that", actor.dispatch, actor.key);
            self.judge.violations.push(what);
        }
    }

    /// No other handler of the key is active. Those of a node that stands still are not.
    fn exclusive(&mut self, id: u64) {
        let Some(actor) = self.actors.get(&id) else { return };
        let stands = |node: usize| self.nodes.get(node).is_none_or(|node| node.paused || !node.alive);
        let other = self
            .actors
            .values()
            .find(|other| other.id != id && other.key == actor.key && other.runs() && !stands(other.node));
        if let Some(other) = other {
            let what = format!(
                "S1: {} is active twice: on n{} as {} under {}, and on n{} as {} under {}",
                actor.key, actor.node, actor.worker, actor.token, other.node, other.worker, other.token
            );
            self.judge.violations.push(what);
        }
    }

    pub(super) fn started(&mut self, actor: u64) {
        let Some(actor) = self.actors.get(&actor) else { return };
        if let Some(life) = self.judge.lives.get_mut(&actor.dispatch) {
            life.started = true;
        }
    }

    /// A handler ends, and says how: by some ways of ending the job is over.
    pub(super) fn ends(&mut self, actor: u64, event: &HandlerEvent) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (id, key) = (actor.id, actor.key.clone());
        if let Some(life) = self.judge.lives.get_mut(&actor.dispatch) {
            let never = life.policy == RestartPolicy::Never;
            match event {
                HandlerEvent::Ended(Ok(())) => life.may_end |= life.policy != RestartPolicy::Always,
                HandlerEvent::Ended(Err(_)) | HandlerEvent::Failed(_) => {
                    life.failed = true;
                    life.may_end |= never;
                }
                _ => {}
            }
        }
        self.note(|| format!("handler {id} of {key} ends: {event:?}"));
    }

    /// The lease of an actor's worker holds, by the clock of its node.
    fn holds(&self, id: u64) -> bool {
        let Some(actor) = self.actors.get(&id) else { return false };
        let Some(node) = self.nodes.get(actor.node) else { return false };
        node.alive && !node.paused && node.clock.read(self.now) < node.leases.holds_until(actor.worker)
    }

    /// A node stood still and goes on: what of it runs on must be alone.
    pub(super) fn resumed(&mut self, at: usize) {
        let of_it: Vec<u64> = self
            .actors
            .values()
            .filter(|actor| actor.node == at && actor.runs())
            .map(|actor| actor.id)
            .collect();
        for id in of_it {
            self.exclusive(id);
        }
    }

    /// What a node has asked for and nobody will hear of.
    pub(super) fn crashed(&mut self, at: usize) {
        let Some(node) = self.nodes.get(at) else { return };
        for asked in node.asked.values() {
            if let super::users::Ask::Stop { key, .. } = &asked.what {
                self.judge.stop_over(key);
            }
        }
    }

    /// Judged after every event: while a lease holds, the record names who runs the job.
    pub(super) fn judge_all(&mut self) {
        if self.judge.is_lossy() {
            return;
        }
        let mut wrong = None;
        for actor in self.actors.values() {
            if !actor.runs() || !self.holds(actor.id) {
                continue;
            }
            let record = self.judge.records.get(&actor.key).and_then(Option::as_ref);
            let named = record.is_some_and(|record| {
                record.owner == Some(actor.worker)
                    && record.token == actor.token
                    && matches!(record.state, JobState::Running | JobState::Stopping)
            });
            if !named {
                let record = record.map(ToString::to_string);
                wrong = Some(format!(
                    "S2: {} runs {} under {}: {record:?}",
                    actor.worker, actor.key, actor.token
                ));
                break;
            }
        }
        self.judge.violations.extend(wrong);
    }

    /// What keeps a healed pool from being at rest.
    pub(super) fn unrest(&self) -> Vec<String> {
        let mut unrest = self.store.leftovers();
        for (key, record) in &self.judge.records {
            let Some(record) = record else { continue };
            let runs = self.actors.values().any(|actor| {
                actor.key == *key
                    && record.owner == Some(actor.worker)
                    && record.token == actor.token
                    && actor.is_settled()
            });
            let rests = match record.state {
                JobState::Running => runs,
                JobState::Parked => true,
                _ => false,
            };
            if !rests {
                unrest.push(format!("{key} is {record}"));
            }
            let left = self.judge.undelivered(&record.id);
            if runs && left > 0 {
                unrest.push(format!("{left} notifications of {key} are not delivered"));
            }
        }
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            unrest
                .extend(node.asked.values().map(|asked| format!("n{at} has not answered {:?}", asked.what)));
        }
        let (members, _) = self.store.maps();
        for (worker, member) in &members.entries {
            let there = self.nodes.iter().any(|node| {
                node.alive
                    && node.config.node == member.node
                    && node.locals.values().any(|w| *w == Some(*worker))
            });
            if !there {
                unrest.push(format!("{worker} of {} is a member and gone", member.node));
            }
        }
        unrest
    }
}
