//! Schedules and tickers. Nodes take part, planners want jobs with keys of their own, and each turn has its time
//! (S12). In some runs the plans' jobs also have wanted payloads, which change: at rest each job has the last one (L10).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::rng::Rng;
use super::users::Ask;
use super::world::{Event, MS, World};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::effect::NewTick;
use tenure_protocol::core::input::{Command, Input, LocalSchedule, NewSchedule, Planned, Wanted};
use tenure_protocol::model::id::{DispatchId, JobKey, ScheduleId, ScheduleName, Term};
use tenure_protocol::model::policy::RestartPolicy;
use tenure_protocol::model::wire::{self, Envelope};
use tenure_protocol::step::{
    Dispatch, DispatchItem, HoldTurns, Placing, ScheduleKey, ScheduleKind, Stop, TermReply, Update,
};

/// The number of keys in plans.
const PLANNED: u64 = 4;

/// The payloads that all planners want for their jobs. Their source is their own, so that other draws do not depend on it.
#[derive(Debug)]
pub(super) struct Wishes {
    rng: Rng,
    /// Plans replace the payloads of jobs that are there.
    replace: bool,
    changes: u64,
    wanted: BTreeMap<JobKey, Bytes>,
}

impl Wishes {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(!seed.rotate_left(23));
        Self { replace: rng.chance(3_000), rng, changes: 0, wanted: BTreeMap::new() }
    }

    /// The payload that is wanted for this job now.
    fn payload(&mut self, key: &JobKey, may_change: bool) -> Bytes {
        if !self.replace {
            return Bytes::from_static(b"planned");
        }
        let is_new = !self.wanted.contains_key(key);
        if is_new || may_change && self.rng.chance(2_000) {
            self.changes += 1;
            // No other payload is like it.
            self.wanted.insert(key.clone(), format!("w{}", self.changes).into());
        }
        self.wanted.get(key).cloned().unwrap_or_default()
    }
}

/// A node's part in a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    kind: ScheduleKind,
    /// The user has an answer, and so a handle to change or end the schedule.
    pub(super) made: bool,
    /// The plan that the planner is making.
    run: Option<u64>,
}

fn planned_key(number: u64) -> Option<JobKey> {
    JobKey::new(format!("p{number}")).ok()
}

impl World {
    /// A user makes a node take part in a schedule, or ends that part.
    pub(super) fn use_schedules(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let own = node.schedules.iter().find(|(_, part)| part.made).map(|(local, _)| *local);
        let period = Duration::from_millis(self.rng.between(200, 3_000));
        let Some(local) = own.filter(|_| self.rng.chance(6_000)) else {
            let Some(node) = self.nodes.get_mut(at) else { return };
            node.last_local += 1;
            let local = LocalSchedule(node.last_local);
            let kind = if self.rng.chance(8_000) { ScheduleKind::Plan } else { ScheduleKind::Ticker };
            node.schedules.insert(local, Part { kind, made: false, run: None });
            let Ok(name) = ScheduleName::new("plan") else { return };
            let new = NewSchedule { key: ScheduleKey { kind, name }, period, life: self.rng.next() };
            return self.ask(at, Ask::Schedule { local }, None, |reply| Command::Schedule {
                reply,
                local,
                new,
            });
        };
        match self.rng.below(10) {
            0..5 => {
                self.ask(at, Ask::Schedule { local }, None, |reply| Command::LeaveSchedule { reply, local });
            }
            5..7 => {
                self.ask(at, Ask::Schedule { local }, None, |reply| Command::EndSchedule { reply, local });
            }
            _ => self.ask(at, Ask::Schedule { local }, None, |reply| Command::SetPeriod {
                reply,
                local,
                period,
            }),
        }
    }

    /// The engine asks a planner.
    pub(super) fn plan(&mut self, at: usize, local: LocalSchedule, run: u64, _: NewTick) {
        let slow = self.rng.chance(500);
        let delay = if slow { self.rng.below(4_000 * MS) } else { self.rng.below(20 * MS) };
        if let Some(part) = self.nodes.get_mut(at).and_then(|node| node.schedules.get_mut(&local)) {
            part.run = Some(run);
            self.after(delay, Event::Planned(at, local, run));
        }
    }

    /// A planner reports its result, unless it was aborted before.
    pub(super) fn planned(&mut self, at: usize, local: LocalSchedule, run: u64) {
        let Some(part) = self.nodes.get_mut(at).and_then(|node| node.schedules.get_mut(&local)) else {
            return;
        };
        if part.run != Some(run) {
            return;
        }
        part.run = None;
        let planned = self.wanted(at);
        self.step(at, Input::Planned { local, run, planned });
    }

    fn wanted(&mut self, at: usize) -> Planned {
        if !self.healed && self.rng.chance(500) {
            return Planned::Failed("no idea".to_owned());
        }
        let exactly = self.healed || self.rng.chance(7_000);
        let mut wanted = Wanted { exactly, replaces: self.wishes.replace, ..Wanted::default() };
        let Some(name) = self.nodes.get(at).map(|node| node.config.node.clone()) else {
            return Planned::Made(wanted);
        };
        for number in 0..PLANNED {
            let Some(key) = planned_key(number) else { continue };
            let starts = if self.healed { number < 2 } else { self.rng.chance(5_000) };
            if starts {
                let unique = format!("p{}", self.id());
                let Ok(id) = DispatchId::of_node(&name, &unique) else { continue };
                let body = self.wishes.payload(&key, !self.healed);
                let Ok(payload) = Envelope::new(&body).seal() else { continue };
                self.judge.submitted(&key, &id, RestartPolicy::Never);
                self.judge.may_be_stopped(&id);
                wanted.start.push(DispatchItem {
                    key,
                    id,
                    not_after: 0,
                    hash: String::new(),
                    payload,
                    worker: None,
                    awaited: true,
                });
            } else if !wanted.exactly && self.rng.chance(3_000) {
                wanted.stop.push(key);
            }
        }
        wanted.ends = !self.healed && self.rng.chance(100);
        Planned::Made(wanted)
    }

    /// While a node takes part in the plan: its jobs that do not have the payloads that are wanted.
    pub(super) fn unreplaced(&self) -> Vec<JobKey> {
        let plans = |part: &Part| part.made && part.kind == ScheduleKind::Plan;
        let goes_on =
            self.nodes.iter().any(|node| node.alive && !node.closing && node.schedules.values().any(plans));
        if !self.wishes.replace || !goes_on {
            return Vec::new();
        }
        let differs = |(key, wanted): (&JobKey, &Bytes)| {
            let record = self.judge.records.get(key)?.as_ref()?;
            // Plans replace nothing of jobs that a user has dispatched.
            if record.plan.is_empty() {
                return None;
            }
            let kept = self.server.payload_of(key)?;
            let kept = wire::open(&kept).ok()?;
            (kept.body != *wanted).then(|| key.clone())
        };
        self.wishes.wanted.iter().filter_map(differs).collect()
    }

    pub(super) fn abort_plan(&mut self, at: usize, local: LocalSchedule) {
        let Some(part) = self.nodes.get_mut(at).and_then(|node| node.schedules.get_mut(&local)) else {
            return;
        };
        if let Some(run) = part.run.take() {
            self.say(at, Input::Planned { local, run, planned: Planned::Aborted });
        }
    }

    pub(super) fn schedule_ended(&mut self, at: usize, local: LocalSchedule) {
        self.abort_plan(at, local);
        if let Some(node) = self.nodes.get_mut(at) {
            node.schedules.remove(&local);
        }
    }

    /// A step for schedules was executed: it must have been in its turn.
    pub(super) fn saw_turn(&mut self, call: &Call, done: &Done) {
        match (call, done) {
            (Call::Term(HoldTurns { items, .. }, _), Done::Term(_, _, Ok(terms))) => {
                for (item, reply) in items.iter().zip(&terms.replies) {
                    if let TermReply::Held(entry) = reply {
                        self.judge.turn(entry.id, entry.term, &item.schedule.to_string());
                    }
                }
            }
            (
                Call::PlanDispatch(Dispatch { by: Placing::Turn(turn), .. }, _),
                Done::PlanDispatch(_, _, Ok(_)),
            )
            | (Call::PlanStop(Stop { turn: Some(turn), .. }, _), Done::PlanStop(_, _, Ok(_)))
            | (Call::PlanUpdate(Update { turn: Some(turn), .. }, _), Done::PlanUpdate(_, _, Ok(_))) => {
                self.judge.turn(turn.id, turn.term, "a plan");
            }
            (Call::Tick(..), Done::Tick(_, _, Ok(tick))) if tick.due => {
                self.judge.tick(tick.entry.id, tick.entry.ticks, tick.entry.term);
            }
            _ => {}
        }
    }
}

impl super::judge::Judge {
    /// A step happened in this turn: no later one may have begun.
    fn turn(&mut self, schedule: ScheduleId, term: Term, what: &str) {
        let latest = self.turns.entry(schedule).or_insert(term);
        if term < *latest {
            let latest = *latest;
            self.violations
                .push(format!("S12: {what} is done in turn {term}, after turn {latest} has begun"));
        } else {
            *latest = term;
        }
    }

    /// A tick was given out: it may go once, to one turn.
    fn tick(&mut self, schedule: ScheduleId, number: u64, term: Term) {
        let given = *self.ticks.entry((schedule, number)).or_insert(term);
        if given != term {
            self.violations.push(format!("S12: tick {number} is given to turn {given} and to turn {term}"));
        }
    }
}
