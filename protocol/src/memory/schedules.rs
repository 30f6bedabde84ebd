//! Schedules: the turns to plan, the due ticks, and the jobs of a plan.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use super::state::State;
use crate::model::id::{Incarnation, JobKey, NodeName, ScheduleId, ScheduleName, Term};
use crate::step::{
    Holder, PlannedPage, Refusal, ScheduleChange, ScheduleEntry, ScheduleKey, ScheduleKind, ScheduleState,
    TermItem, TermReply, Terms, TickReply, Turn,
};

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl State {
    /// All schedules and tickers.
    pub(super) fn all_schedules(&self) -> Vec<(ScheduleKey, ScheduleEntry)> {
        self.schedules.iter().map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    /// Creates, changes or ends a schedule.
    pub(super) fn sched(
        &mut self,
        now: u64,
        inc: Incarnation,
        schedule: &ScheduleKey,
        change: &ScheduleChange,
    ) -> Result<ScheduleState, Refusal> {
        self.guard_normal(inc)?;
        match change {
            ScheduleChange::Create { period, first } => {
                if !self.schedules.contains_key(schedule) {
                    if self.settings.contains_key("shutdown") {
                        return Err(Refusal::ShuttingDown);
                    }
                    self.check_tokens()?;
                    let entry = ScheduleEntry {
                        id: ScheduleId(self.mint()),
                        revision: 1,
                        period: *period,
                        next: now + ms(*first),
                        ticks: 0,
                        incarnation: inc,
                        term: Term(0),
                        seq: 0,
                        holder: None,
                        tail: String::new(),
                    };
                    self.schedules.insert(schedule.clone(), entry);
                }
            }
            ScheduleChange::Period { id, revision, period } => {
                let entry = self.schedules.get_mut(schedule).filter(|entry| entry.id == *id);
                if let Some(entry) = entry.filter(|entry| entry.revision == *revision) {
                    entry.revision += 1;
                    entry.period = *period;
                    entry.next = entry.next.min(now + ms(*period));
                }
            }
            ScheduleChange::End { id, term } => {
                if self.schedules.get(schedule).is_some_and(|entry| entry.id == *id) {
                    if term.is_some_and(|term| !self.is_turn(inc, schedule, *id, term)) {
                        return Err(Refusal::StaleTerm);
                    }
                    self.schedules.remove(schedule);
                }
            }
        }
        let wanted = match change {
            ScheduleChange::Create { .. } => None,
            ScheduleChange::Period { id, .. } | ScheduleChange::End { id, .. } => Some(*id),
        };
        let entry = self.schedules.get(schedule).filter(|entry| wanted.is_none_or(|id| id == entry.id));
        Ok(match entry {
            Some(entry) => ScheduleState::Present { now, entry: entry.clone() },
            None => ScheduleState::Ended,
        })
    }

    /// Holds, takes over or leaves turns to plan.
    pub(super) fn term(
        &mut self,
        now: u64,
        inc: Incarnation,
        node: &NodeName,
        items: &[TermItem],
    ) -> Result<Terms, Refusal> {
        self.guard_normal(inc)?;
        let mints = self.check_tokens().is_ok();
        let replies = items.iter().map(|item| self.term_one(now, inc, node, item, mints)).collect();
        Ok(Terms { now, replies })
    }

    /// `mints`: the pool has tokens for this call.
    fn term_one(
        &mut self,
        now: u64,
        inc: Incarnation,
        node: &NodeName,
        item: &TermItem,
        mints: bool,
    ) -> TermReply {
        let own = Holder { node: node.clone(), life: item.life };
        let Some(mut entry) = self.schedules.get(&item.schedule).filter(|e| e.id == item.id).cloned() else {
            return TermReply::Ended;
        };
        let holder = entry.holder.as_ref().filter(|_| entry.incarnation == inc);
        let stands_still = item.seen == Some((entry.term, entry.seq));
        match holder {
            Some(holder) if item.leave && *holder == own => entry.holder = None,
            _ if item.leave => return TermReply::Other(entry),
            Some(holder) if *holder == own => entry.seq += 1,
            Some(_) if !stands_still => return TermReply::Other(entry),
            _ if !mints => return TermReply::OutOfTokens,
            _ => {
                entry.term = Term(self.mint());
                entry.seq = 1;
                entry.incarnation = inc;
                entry.holder = Some(own);
                if item.schedule.kind == ScheduleKind::Plan {
                    entry.next = now;
                }
            }
        }
        entry.next = entry.next.min(now + ms(entry.period));
        self.schedules.insert(item.schedule.clone(), entry.clone());
        if item.leave { TermReply::Other(entry) } else { TermReply::Held(entry) }
    }

    /// Gives out one tick, if it is due.
    pub(super) fn tick(
        &mut self,
        now: u64,
        inc: Incarnation,
        schedule: &ScheduleKey,
        (id, term): (ScheduleId, Term),
        number: u64,
    ) -> Result<TickReply, Refusal> {
        self.guard_normal(inc)?;
        if !self.is_turn(inc, schedule, id, term) {
            return Err(Refusal::StaleTerm);
        }
        if self.settings.contains_key("shutdown") {
            return Err(Refusal::ShuttingDown);
        }
        let Some(entry) = self.schedules.get_mut(schedule) else { return Err(Refusal::StaleTerm) };
        let again = number == entry.ticks && number > 0;
        let due = number == entry.ticks + 1 && entry.next <= now;
        if due {
            entry.ticks = number;
            entry.next = (entry.next + ms(entry.period)).max(now + ms(entry.period) / 2);
        }
        Ok(TickReply { due: due || again, now, entry: entry.clone() })
    }

    /// Whether the caller's turn lasts, in this life of the schedule and of the data.
    fn is_turn(&self, inc: Incarnation, schedule: &ScheduleKey, id: ScheduleId, term: Term) -> bool {
        self.schedules.get(schedule).is_some_and(|entry| {
            entry.id == id && entry.term == term && entry.holder.is_some() && entry.incarnation == inc
        })
    }

    /// Refuses a call in a turn that is over.
    pub(super) fn check_turn(&self, inc: Incarnation, turn: Option<&Turn>) -> Result<(), Refusal> {
        let Some(Turn { plan, id, term }) = turn else { return Ok(()) };
        let schedule = ScheduleKey { kind: ScheduleKind::Plan, name: plan.clone() };
        if self.is_turn(inc, &schedule, *id, *term) { Ok(()) } else { Err(Refusal::StaleTerm) }
    }

    /// Adds a key to a plan's index.
    pub(super) fn plan_job(&mut self, plan: &str, key: JobKey) {
        if !plan.is_empty() {
            self.planned.entry(plan.to_owned()).or_default().insert(key);
        }
    }

    /// Takes a key out of a plan's index.
    pub(super) fn unplan_job(&mut self, plan: &str, key: &JobKey) {
        if let Some(keys) = self.planned.get_mut(plan) {
            keys.remove(key);
            if keys.is_empty() {
                self.planned.remove(plan);
            }
        }
    }

    /// A page of a plan's jobs.
    pub(super) fn planned(
        &self,
        inc: Incarnation,
        plan: &ScheduleName,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<PlannedPage, Refusal> {
        self.guard(inc)?;
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        let keys = self.planned.get(plan.as_str()).into_iter();
        let page = keys.flat_map(|keys| keys.range::<JobKey, _>(range)).take(limit);
        let jobs: Vec<_> = page.map(|key| (key.clone(), self.record(key).cloned())).collect();
        let next = jobs.last().filter(|_| jobs.len() == limit).map(|(key, _)| key.clone());
        Ok(PlannedPage { next, jobs })
    }
}
