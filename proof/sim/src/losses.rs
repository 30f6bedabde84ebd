//! Losses of data, and the duties that remain (docs/guarantees.md). A run under a lease that holds goes on under its
//! token. A job that its living worker has lately ended or stopped does not come back. Only a worker with a lease
//! reports its jobs, and its report is true. Jobs that no worker runs may be gone, and may have ended before.

use std::time::Duration;

use super::calls::Request;
use super::clock::RHO_PPB;
use super::judge::Judge;
use super::lives::Life;
use super::node::nanos;
use super::world::World;
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::model::id::{DispatchId, Incarnation, JobKey, Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::{
    Attest, AttestItem, AttestJobs, AttestReply, HandedOff, Release, ReleaseMode, WorkerEvent,
};

/// The minimum reach of a worker's journal.
const REACH: Duration = Duration::from_secs(20);

/// A worker's report of its jobs.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) worker: WorkerId,
    pub(super) items: &'a [AttestItem],
}

impl<'a> Said<'a> {
    pub(super) fn of(request: &'a Request) -> Option<Self> {
        let Request::Call(_, call) = request else { return None };
        match &**call {
            Call::Attest(AttestJobs { worker, items, .. }, _) => Some(Self { worker: *worker, items }),
            _ => None,
        }
    }

    fn runs(self) -> impl Iterator<Item = &'a AttestItem> {
        self.items.iter().filter(|item| matches!(item.what, Attest::Runs { .. }))
    }
}

impl Judge {
    /// The store has lost data: the records have changed.
    fn forget(&mut self, now: u64) {
        self.lost_at = Some(now);
        // The restored data may lack an entry.
        self.disagrees = self.disagreed;
        self.stale = self.incarnations.clone();
        self.records.clear();
        self.turns.clear();
        self.ticks.clear();
        self.lives.values_mut().for_each(|life| (life.tainted, life.any_hash) = (true, true));
    }

    /// Whether a loss is not yet repaired.
    pub(super) fn is_lossy(&self) -> bool {
        !self.stale.is_empty()
    }

    /// The pool is in this incarnation, and open. True if that repairs the loss.
    pub(super) fn is_open_in(&mut self, incarnation: Incarnation) -> bool {
        self.incarnations.insert(incarnation);
        let repaired = self.is_lossy() && !self.stale.contains(&incarnation);
        if repaired {
            self.stale.clear();
        }
        repaired
    }

    /// Workers hear of stops, and of the ends of their runs.
    pub(super) fn hears(&mut self, done: &Done) {
        match done {
            Done::Release(Release { items, .. }, Ok(replies)) => self.hears_of_release(items, replies),
            Done::ReadNode(_, _, Ok(events)) => {
                for (worker, _, event) in &events.workers {
                    let WorkerEvent::Stop { jobs, .. } = event else { continue };
                    jobs.iter().filter_map(|(_, _, id)| id.as_ref()).for_each(|id| self.tell(id, *worker));
                }
            }
            Done::Attest(AttestJobs { worker, items, .. }, _, Ok(replies)) => {
                let stop = |(item, reply): &(&AttestItem, &AttestReply)| {
                    let runs = matches!(item.what, Attest::Runs { .. });
                    **reply == AttestReply::MustStop || runs && **reply == AttestReply::Ended
                };
                items.iter().zip(replies).filter(stop).for_each(|(item, _)| self.tell(&item.id, *worker));
            }
            _ => {}
        }
    }

    /// The pool now remembers these as ended, even without a record. No report makes them run again, and a worker
    /// that reports one must stop it.
    pub(super) fn remembers(&mut self, now: u64, said: Said<'_>, replies: &[AttestReply]) {
        for (item, reply) in said.items.iter().zip(replies) {
            let ended = matches!(item.what, Attest::Ended { .. }) && *reply == AttestReply::Ended;
            let Some(life) = self.lives.get_mut(&item.id).filter(|_| ended) else { continue };
            life.to.get_or_insert(now);
            if !life.may_go() {
                let what =
                    format!("S4: {} has ended {} of {}, which was to run on", said.worker, item.id, item.key);
                self.violations.push(what);
            }
        }
    }

    fn tell(&mut self, id: &DispatchId, worker: WorkerId) {
        if let Some(life) = self.lives.get_mut(id) {
            life.told.insert(worker);
        }
    }

    /// Whether a worker's report allows this change of a record. `before` belongs to the same dispatch; `ended`: that
    /// had ended before.
    pub(super) fn is_attested(
        &self,
        key: &JobKey,
        before: Option<&Record>,
        record: &Record,
        said: Said<'_>,
        ended: bool,
    ) -> bool {
        let begun = self.begun.get(&(key.clone(), record.token));
        let runs = |item: &AttestItem| {
            let its_own = begun.is_some_and(|(by, id)| *by == said.worker && id.is_same(&record.id));
            let stops = ended || self.lives.get(&record.id).is_none_or(|life| life.to_stop);
            item.token == record.token
                && record.owner == Some(said.worker)
                && its_own
                && (record.state == JobState::Running || record.state == JobState::Stopping && stops)
        };
        let handed_off = |token: Token, on: &HandedOff| {
            let owned = |before: &&Record| before.owner.is_some() && before.token == record.token;
            let parks = on.mode == ReleaseMode::Park || on.attempts >= self.max_attempts;
            before.filter(owned).is_some_and(|before| before.state != JobState::Stopping)
                && record.token <= token
                && record.owner.is_none()
                && record.attempts == on.attempts
                && (record.state == JobState::Queued || record.state == JobState::Parked && parks)
        };
        said.items.iter().filter(|item| item.key == *key && item.id.is_same(&record.id)).any(|item| {
            match &item.what {
                Attest::Runs { .. } => runs(item),
                Attest::HandedOff(on) => handed_off(item.token, on),
                // It goes on with a later payload.
                Attest::Ended { unless: Some(unless), .. } => {
                    record.generation() > unless.than && handed_off(item.token, &unless.handed_off())
                }
                Attest::Ended { unless: None, .. } => false,
            }
        })
    }
}

impl World {
    /// The store has lost data, and tells no node.
    pub(super) fn lost(&mut self) {
        self.judge.forget(self.now);
        let reach = nanos(REACH);
        let ended = |life: &Life| life.ended.filter(|(at, ..)| self.now < at.saturating_add(reach));
        let known: Vec<(DispatchId, Option<WorkerId>)> = self
            .judge
            .lives
            .values()
            .map(|life| (life.id.clone(), ended(life).map(|(_, by, _)| by).filter(|by| self.lives_on(*by))))
            .collect();
        for (id, by) in known {
            if let Some(life) = self.judge.lives.get_mut(&id) {
                life.in_journal = by;
                life.notes.lost(Vec::new());
            }
        }
        let (judge, now) = (&mut self.judge, self.now);
        let stops = judge.stops.clone();
        self.server.each_record(|key, record| {
            judge.records.insert(key.clone(), record.cloned());
            // An ended job may be back.
            if let Some(record) = record
                && let Some(life) = judge.lives.get_mut(&record.id)
            {
                // So may an update that was lost before the job ended without it. It goes on with that, unless it was told
                // to end.
                let ran = judge.ran.get(&(key.clone(), record.token));
                if ran.is_some_and(|ran| record.generation() > *ran) {
                    life.in_journal = life.in_journal.filter(|by| life.told.contains(by));
                }
                life.from.get_or_insert(now);
                life.returned |= life.to.take().is_some();
                life.to_stop |= stops.get(key).is_some_and(|&open| open > 0);
            }
        });
        self.lost_states();
        for (key, record) in &self.judge.records {
            if let Some(life) = record.as_ref().and_then(|record| self.judge.lives.get_mut(&record.id)) {
                life.notes.lost(self.server.mail(key));
            }
        }
    }

    /// The pool is open again. Every worker has reported its jobs, and an absent job is lost.
    pub(super) fn repaired(&mut self) {
        let ids: Vec<DispatchId> = self.judge.lives.ids();
        for id in ids {
            let Some(life) = self.judge.lives.get(&id).filter(|life| life.tainted && life.from.is_some())
            else {
                continue;
            };
            let by = life.in_journal.filter(|by| self.lives_on(*by));
            let record = self.judge.records.get(&life.key).and_then(Option::as_ref);
            let state = record.filter(|record| record.id.is_same(&id)).map(|record| record.state);
            let key = life.key.clone();
            if let (Some(by), Some(state)) = (by, state.filter(|state| *state != JobState::Stopping)) {
                let what =
                    format!("S5: {id} of {key} is {state:?} after a loss, and {by} has ended it and lives");
                self.judge.violations.push(what);
            }
            let Some(life) = self.judge.lives.get_mut(&id) else { continue };
            if state.is_some() {
                (life.tainted, life.returned, life.to) = (false, false, None);
            } else {
                life.to.get_or_insert(self.now);
                life.tainted = by.is_none();
            }
        }
    }

    /// A worker reports its jobs: only one that may still act does so.
    pub(super) fn says(&mut self, at: usize, call: &Call) {
        let worker = match call {
            Call::Attest(AttestJobs { worker, items, .. }, _)
                if Said { worker: *worker, items }.runs().next().is_some() =>
            {
                *worker
            }
            Call::Attend(attend, _) => attend.worker,
            _ => return,
        };
        let Some(node) = self.nodes.get(at) else { return };
        if node.clock.read(self.now) >= node.leases.holds_until(worker) {
            self.judge.violations.push(format!("S9: {worker} says what it has, and its lease is over"));
        }
    }

    /// A worker's report was answered. A job that runs under a lease that holds has no other owner.
    pub(super) fn answers(&mut self, said: Said<'_>, done: &Done) {
        let Done::Attest(_, _, Ok(replies)) = done else { return };
        self.judge.remembers(self.now, said, replies);
        for (item, reply) in said.items.iter().zip(replies) {
            if *reply != AttestReply::Outranked || !matches!(item.what, Attest::Runs { .. }) {
                continue;
            }
            let its = |actor: &&super::actor::Actor| {
                actor.worker == said.worker && actor.key == item.key && actor.token == item.token
            };
            let runs = self.actors.values().find(its).filter(|actor| actor.runs()).map(|actor| actor.id);
            if runs.is_some_and(|id| self.holds(id)) {
                let record = self.judge.records.get(&item.key).and_then(Option::as_ref);
                let what = format!(
                    "S4: {} runs {} under {}, its lease holds, and it is outranked: {record:?}",
                    said.worker, item.key, item.token
                );
                self.judge.violations.push(what);
            }
        }
    }

    /// A node gives up a worker: the worker must have lost its lease or its place.
    pub(super) fn given_up(&mut self, at: usize, worker: WorkerId) {
        let Some(node) = self.nodes.get(at) else { return };
        let holds = node.clock.read(self.now) < node.leases.holds_until(worker);
        let lossy = self.judge.is_lossy();
        // A worker that could not finish its report in time, by its own clock, gives up, so that the others can go on.
        let patience = nanos(self.settings.worker_ttl) * 3;
        let patience = patience - patience / 1_000_000_000 * RHO_PPB.unsigned_abs();
        let soon = self.judge.lost_at.is_some_and(|lost| self.now < lost + patience);
        // Without an answer to its final report it does not know that it was heard, and that the pool is open.
        let unheard = node.unheard.contains(&worker) && !soon;
        let known = if lossy {
            soon && !self.server.is_dead(worker)
        } else {
            self.server.is_member(worker) && !unheard
        };
        if holds && known && !self.ending && !self.closing {
            self.judge.violations.push(format!("S4: {worker} is given up, and its lease holds"));
        }
    }
}
