//! Schedules and tickers. Nodes take part, planners want jobs with keys of their own, and each turn has its time
//! (S12).

use std::time::Duration;

use super::users::Ask;
use super::world::{Event, MS, World};
use crate::core::call::{Call, Done, PlanCall, PlanStep};
use crate::core::effect::NewTick;
use crate::core::input::{Command, Input, LocalSchedule, NewSchedule, Planned, Wanted};
use crate::model::id::{DispatchId, JobKey, ScheduleId, ScheduleName, Term};
use crate::model::policy::RestartPolicy;
use crate::model::wire::Envelope;
use crate::store::{DispatchItem, ScheduleKey, ScheduleKind, TermReply};

/// The number of keys in plans.
const PLANNED: u64 = 4;

/// A node's part in a schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
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
            node.schedules.insert(local, Part::default());
            let kind = if self.rng.chance(8_000) { ScheduleKind::Plan } else { ScheduleKind::Ticker };
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
        let mut wanted = Wanted { exactly: self.healed || self.rng.chance(7_000), ..Wanted::default() };
        let Some(name) = self.nodes.get(at).map(|node| node.config.node.clone()) else {
            return Planned::Made(wanted);
        };
        for number in 0..PLANNED {
            let Some(key) = planned_key(number) else { continue };
            let starts = if self.healed { number < 2 } else { self.rng.chance(5_000) };
            if starts {
                let unique = format!("p{}", self.id());
                let Ok(id) = DispatchId::of_node(&name, &unique) else { continue };
                let Ok(payload) = Envelope::new(b"planned").seal() else { continue };
                self.judge.submitted(&key, &id, RestartPolicy::Never);
                self.judge.may_be_stopped(&id);
                wanted.start.push(DispatchItem {
                    key,
                    id,
                    not_after: 0,
                    hash: String::new(),
                    payload,
                    worker: None,
                });
            } else if !wanted.exactly && self.rng.chance(3_000) {
                wanted.stop.push(key);
            }
        }
        wanted.ends = !self.healed && self.rng.chance(100);
        Planned::Made(wanted)
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
            (Call::Term { items, .. }, Done::Term { answer: Ok(terms), .. }) => {
                for (item, reply) in items.iter().zip(&terms.replies) {
                    if let TermReply::Held(entry) = reply {
                        self.judge.turn(entry.id, entry.term, &item.schedule.to_string());
                    }
                }
            }
            (Call::Plan { step, .. }, Done::Plan { step: done, .. }) => {
                let ((PlanCall::Dispatch { turn, .. }, PlanStep::Dispatched { answer: Ok(_), .. })
                | (PlanCall::Stop { turn, .. }, PlanStep::Stopped { answer: Ok(_), .. })) = (step, done)
                else {
                    return;
                };
                self.judge.turn(turn.id, turn.term, "a plan");
            }
            (Call::Tick { .. }, Done::Tick { answer: Ok(tick), .. }) if tick.due => {
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
