//! Handlers: each runs alone, under a token that its record names (S1, S2), and never after its job's end (S5).

use super::world::World;
use tenure_protocol::core::input::HandlerEvent;
use tenure_protocol::model::id::{DispatchId, WorkerId};
use tenure_protocol::model::policy::RestartPolicy;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::stop::StopReason;

impl World {
    /// A start handler is called.
    pub(super) fn began(&mut self, actor: u64) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (id, key, token, dispatch) = (actor.id, actor.key.clone(), actor.token, actor.dispatch.clone());
        let worker = actor.worker;
        self.judge.starts += 1;
        self.note(|| format!("handler {id} of {key} starts, token {token}"));
        if !self.judge.begun.contains_key(&(key.clone(), token)) {
            self.judge
                .violations
                .push(format!("S2: {key} starts under token {token}, which did not begin it"));
        }
        if !self.judge.called.insert((key.clone(), token)) {
            self.judge.violations.push(format!("S7: {key} starts under token {token} once more"));
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
        self.brought(id);
        self.judge_crowd(worker);
    }

    /// A handler of the dispatch runs under a lease that holds.
    pub(super) fn is_active(&self, id: &DispatchId) -> bool {
        self.actors
            .values()
            .any(|actor| actor.dispatch.is_same(id) && actor.is_settled() && self.holds(actor.id))
    }

    /// A worker's lease holds, by the clock of its node, and the node acts.
    pub(super) fn lives_on(&self, worker: WorkerId) -> bool {
        self.nodes.iter().any(|node| {
            node.alive
                && !node.paused
                && node.locals.values().any(|local| *local == Some(worker))
                && node.clock.read(self.now) < node.leases.holds_until(worker)
        })
    }

    /// A handler is told to end. That is for good only after a request, even if the store has lost data since. It is
    /// because of the lease only when the lease is over, and because of a stall only when there is one.
    pub(super) fn told_to_end(&mut self, id: u64, why: StopReason) {
        let Some(actor) = self.actors.get(&id) else { return };
        let wanted = || self.judge.was_to_stop(&actor.dispatch) || self.judge.is_stop_open(&actor.key);
        let wrong = match why {
            StopReason::Stopped if !wanted() => "nobody asked for that",
            StopReason::Parked | StopReason::Paused | StopReason::Bounced
                if !self.steered.contains(&actor.key) =>
            {
                "no operator asked for that"
            }
            StopReason::LeaseLost if self.holds(id) => "its lease holds",
            StopReason::Stalled if !self.has_stalled(id) => {
                let what =
                    format!("L11: {} of {} makes progress, and is told to end", actor.dispatch, actor.key);
                return self.judge.violations.push(what);
            }
            _ => return,
        };
        let what = format!("S4: {} of {} is told to end, and {wrong}", actor.dispatch, actor.key);
        self.judge.violations.push(what);
    }

    /// No other handler of the key is active. Handlers of a paused node do not count.
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

    /// A handler ends with this event. Some events end the job.
    pub(super) fn ends(&mut self, actor: u64, event: &HandlerEvent) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (id, key) = (actor.id, actor.key.clone());
        self.judge.ended_with(&key, actor.token, &actor.payload);
        if let Some(life) = self.judge.lives.get_mut(&actor.dispatch) {
            let never = life.may_have(|policy| policy == RestartPolicy::Never);
            let ends = life.may_have(|policy| policy != RestartPolicy::Always);
            match event {
                HandlerEvent::Ended(Ok(())) => life.may_end |= ends,
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
    pub(super) fn holds(&self, id: u64) -> bool {
        let Some(actor) = self.actors.get(&id) else { return false };
        let Some(node) = self.nodes.get(actor.node) else { return false };
        node.alive && !node.paused && node.clock.read(self.now) < node.leases.holds_until(actor.worker)
    }

    /// A paused node goes on: handlers of it that still run must be alone.
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

    /// A node has crashed: its requests get no answer.
    pub(super) fn crashed(&mut self, at: usize) {
        let Some(node) = self.nodes.get(at) else { return };
        for asked in node.asked.values() {
            if let super::users::Ask::Stop { key, .. } = &asked.what {
                self.judge.stop_over(key);
            }
        }
    }

    /// Checks after every event: while a lease holds, the record names the worker that runs the job.
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
}
