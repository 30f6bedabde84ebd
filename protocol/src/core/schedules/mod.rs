//! The turns of this node's schedules and tickers.
//!
//! A schedule's turn has one holder at a time. The holder renews its term every T/4. The others watch that, and take
//! the turn if the term stands still for T by their own clock. The steps refuse actions of a holder that has lost its
//! turn. The store gives out ticks by the server's clock: the holder sleeps until the next one is due.

mod planning;
mod replacing;
mod schedule;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::call::{Call, Done, OfSchedule, OfSchedules};
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::{LocalSchedule, NewSchedule, Planned, ReplyTo};
use crate::core::one_call::OneCall;
use crate::core::time::{Time, earliest};
use crate::error::Error;
use crate::step::{BATCH_MAX, HoldTurns, Result, ScheduleState, StoreError, Terms};
use planning::Progress;
use schedule::{Fate, Schedule, told};

/// The longest pause after a call that was not answered.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The schedules of one node.
#[derive(Debug, Default)]
pub(super) struct Scheduling {
    schedules: BTreeMap<LocalSchedule, Schedule>,
    /// Tells the calls of one incarnation from those of another.
    round: u64,
    /// When all terms are renewed next.
    terms: OneCall,
    /// When calls resume after one without an answer, and the length of the next pause. All wait for one call that
    /// tests the store. Zero: the last call was answered.
    retry_at: Time,
    pause: Duration,
    /// The schedule that the next renewal of terms begins with, if one call cannot take all.
    from: Option<LocalSchedule>,
    /// The server's clock in ms, as last read.
    clock: (Time, u64),
    /// Other nodes must look at once: a turn was left, or a schedule was changed or has ended.
    news: bool,
}

impl Scheduling {
    pub(super) fn add(&mut self, ctx: &Ctx, to: ReplyTo, local: LocalSchedule, new: NewSchedule) {
        self.schedules.insert(local, Schedule::new(ctx, to, new));
    }

    /// Changes the period on all nodes.
    pub(super) fn change(&mut self, ctx: &mut Ctx, to: ReplyTo, local: LocalSchedule, period: Duration) {
        match self.schedules.get_mut(&local).filter(|schedule| !schedule.leaving) {
            Some(schedule) => schedule.change(ctx, to, period),
            None => told(ctx, to, Err(Error::ScheduleEnded)),
        }
    }

    /// Ends the schedule on all nodes.
    pub(super) fn end(&mut self, ctx: &mut Ctx, to: ReplyTo, local: LocalSchedule) {
        match self.schedules.get_mut(&local) {
            Some(schedule) => schedule.end(to),
            None => told(ctx, to, Ok(())),
        }
    }

    /// Ends this node's part in the schedule.
    pub(super) fn leave(&mut self, ctx: &mut Ctx, to: Option<ReplyTo>, local: LocalSchedule) {
        self.terms.set(ctx.now);
        match self.schedules.get_mut(&local) {
            Some(schedule) => schedule.leave(ctx, local, to),
            None => to.into_iter().for_each(|to| told(ctx, to, Ok(()))),
        }
    }

    /// The node leaves the pool.
    pub(super) fn leave_all(&mut self, ctx: &mut Ctx) {
        self.terms.set(ctx.now);
        for (&local, schedule) in &mut self.schedules {
            schedule.leave(ctx, local, None);
        }
    }

    /// Another node has news of a schedule.
    pub(super) fn look(&mut self, ctx: &Ctx) {
        self.terms.set(ctx.now);
    }

    /// Whether other nodes must be told to look.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    pub(super) fn has_left(&self) -> bool {
        self.schedules.is_empty()
    }

    /// Another incarnation: all turns end, and the stored schedules are unknown.
    pub(super) fn reset(&mut self, ctx: &mut Ctx) {
        self.round += 1;
        self.terms = OneCall::default();
        self.terms.set(ctx.now);
        self.pause = Duration::ZERO;
        self.retry_at = ctx.now;
        for (&local, schedule) in &mut self.schedules {
            schedule.reset(ctx, local);
        }
    }

    /// The pool refuses this node: its users are told. A schedule that is not yet made goes. So does one that leaves:
    /// the others notice that its turn stands still. All others wait.
    pub(super) fn refuse(&mut self, ctx: &mut Ctx, why: &Error) {
        for (local, mut schedule) in std::mem::take(&mut self.schedules) {
            if schedule.is_new() || schedule.may_leave(ctx.now) {
                schedule.go(ctx, local, why);
            } else {
                schedule.refuse(ctx, why);
                self.schedules.insert(local, schedule);
            }
        }
    }

    /// The node or its pool has ended.
    pub(super) fn close(&mut self, ctx: &mut Ctx, why: &Error) {
        for (local, schedule) in std::mem::take(&mut self.schedules) {
            schedule.go(ctx, local, why);
        }
    }

    /// A planner reports its result.
    pub(super) fn on_planned(&mut self, ctx: &mut Ctx, local: LocalSchedule, run: u64, planned: Planned) {
        if let Some(schedule) = self.schedules.get_mut(&local) {
            schedule.on_planned(ctx, run, planned);
            let soon = if schedule.leaving { Duration::ZERO } else { ctx.config.timing.ttl / 4 };
            self.terms.set_by(ctx.now + soon);
        }
    }

    pub(super) fn on_done(&mut self, ctx: &mut Ctx, done: Done) -> Result<()> {
        match done {
            Done::Sched(_, OfSchedule { local, round }, answer) if round == self.round => {
                self.heard(ctx, answer.as_ref().err());
                self.news |= matches!(answer, Ok(ScheduleState::Ended));
                self.settle(ctx, local, |schedule, ctx| schedule.on_changed(ctx, local, answer))
            }
            Done::Tick(step, OfSchedule { local, round }, answer) if round == self.round => {
                self.heard(ctx, answer.as_ref().err());
                if let Ok(reply) = &answer {
                    self.clock = (ctx.now, reply.now);
                }
                self.settle(ctx, local, |schedule, ctx| schedule.on_tick(ctx, local, step.number, answer))
            }
            Done::Term(_, OfSchedules { locals, round }, answer) if round == self.round => {
                self.on_terms(ctx, &locals, answer)
            }
            Done::PlanList(_, of, _)
            | Done::PlanFind(_, of, _)
            | Done::PlanDispatch(_, of, _)
            | Done::PlanStop(_, of, _)
            | Done::PlanUpdate(_, of, _) => self.settle(ctx, of.local, |schedule, ctx| {
                Ok(match schedule.planning.on_done(ctx, of.run, done)? {
                    Progress::Going => Fate::Stays,
                    Progress::TurnLost => {
                        schedule.lose_turn(ctx, of.local);
                        Fate::Asks
                    }
                })
            }),
            // The answer belongs to an earlier incarnation.
            _ => Ok(()),
        }
    }

    fn on_terms(&mut self, ctx: &mut Ctx, locals: &[LocalSchedule], answered: Result<Terms>) -> Result<()> {
        self.terms.is_back();
        self.heard(ctx, answered.as_ref().err());
        let Terms { now, replies } = answered.inspect_err(|_| {
            for local in locals {
                if let Some(schedule) = self.schedules.get_mut(local) {
                    schedule.unsure = true;
                }
            }
        })?;
        self.clock = (ctx.now, now);
        self.terms.set(match self.from {
            Some(_) => ctx.now,
            None => ctx.now + ctx.jitter.stretch(ctx.config.timing.ttl / 4),
        });
        for (&local, reply) in locals.iter().zip(replies) {
            let leaves =
                self.schedules.get(&local).is_some_and(|schedule| schedule.leaving && schedule.has_turn());
            self.settle(ctx, local, |schedule, ctx| Ok(schedule.on_term(ctx, local, now, reply)))?;
            self.news |= leaves && !self.schedules.get(&local).is_some_and(Schedule::has_turn);
        }
        Ok(())
    }

    /// A call has come back, with or without an answer.
    fn heard(&mut self, ctx: &Ctx, error: Option<&StoreError>) {
        match error {
            None | Some(StoreError::Refused(_)) if self.pause.is_zero() => {}
            None | Some(StoreError::Refused(_)) => (self.pause, self.retry_at) = (Duration::ZERO, ctx.now),
            // Other calls were under way with it.
            Some(_) if ctx.now < self.retry_at => {}
            Some(_) => self.wait(ctx),
        }
    }

    /// Makes no call for a while, and for longer the next time.
    fn wait(&mut self, ctx: &Ctx) {
        self.pause = self.pause.max(RETRY);
        self.retry_at = ctx.now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn settle(
        &mut self,
        ctx: &mut Ctx,
        local: LocalSchedule,
        answer: impl FnOnce(&mut Schedule, &mut Ctx) -> Result<Fate>,
    ) -> Result<()> {
        let Some(schedule) = self.schedules.get_mut(&local) else { return Ok(()) };
        match answer(schedule, ctx)? {
            Fate::Stays => {}
            Fate::Asks => self.terms.set(ctx.now),
            Fate::Tells => self.news = true,
            Fate::Goes(why) => {
                if let Some(schedule) = self.schedules.remove(&local) {
                    schedule.go(ctx, local, &why);
                }
            }
        }
        Ok(())
    }

    /// `may_hold`: the pool is in phase N. `may_act`: it is not being shut down either.
    pub(super) fn flush(&mut self, ctx: &mut Ctx, may_hold: bool, may_act: bool) {
        // Most nodes have no schedule.
        if self.schedules.is_empty() {
            return;
        }
        let in_flight = self.terms.is_busy();
        for (&local, schedule) in &mut self.schedules {
            schedule.on_time(ctx, local);
        }
        let gone: Vec<_> = self
            .schedules
            .iter()
            .filter(|(_, schedule)| schedule.has_left() && !in_flight)
            .map(|(local, _)| *local)
            .collect();
        for local in gone {
            if let Some(schedule) = self.schedules.remove(&local) {
                schedule.go(ctx, local, &Error::NodeClosed);
            }
        }
        let says = may_hold && self.says_at(ctx.config.timing.ttl).is_some_and(|at| ctx.now >= at);
        if may_act {
            let server = self.clock.1 + ctx.now.since(self.clock.0).as_millis() as u64;
            for (&local, schedule) in &mut self.schedules {
                schedule.carry_on(ctx, local, server);
            }
            self.act(ctx);
        }
        if says {
            self.say(ctx);
        }
    }

    /// Makes the due calls; after one without an answer, a single call tests the store for all.
    fn act(&mut self, ctx: &mut Ctx) {
        let now = ctx.now;
        if now < self.retry_at {
            return;
        }
        let due = |schedule: &Schedule| schedule.acts_at().filter(|at| now >= *at);
        let finds_out = !self.pause.is_zero();
        if finds_out
            && let Some((&local, schedule)) = self
                .schedules
                .iter_mut()
                .filter(|(_, schedule)| due(schedule).is_some())
                .min_by_key(|(_, schedule)| due(schedule))
        {
            schedule.act(ctx, local, self.round);
            self.wait(ctx);
        } else {
            for (&local, schedule) in
                self.schedules.iter_mut().filter(|(_, schedule)| due(schedule).is_some())
            {
                schedule.act(ctx, local, self.round);
            }
        }
    }

    /// Renews or watches all terms, as many as one call takes.
    fn say(&mut self, ctx: &mut Ctx) {
        let (now, ttl) = (ctx.now, ctx.config.timing.ttl);
        let begin = self.from.take().unwrap_or(LocalSchedule(0));
        let mut items = self
            .schedules
            .range(begin..)
            .filter_map(|(local, schedule)| Some((*local, schedule.term_item(now, ttl)?)));
        let (locals, batch): (Vec<_>, Vec<_>) = items.by_ref().take(BATCH_MAX).unzip();
        self.from = items.next().map(|(local, _)| local);
        if batch.is_empty() {
            self.terms.set(now + ttl / 4);
        } else {
            self.terms.start();
            let of = OfSchedules { locals, round: self.round };
            ctx.call(Call::Term(HoldTurns { node: ctx.config.node.clone(), items: batch }, of));
        }
    }

    /// When the next renewal of terms is due.
    fn says_at(&self, ttl: Duration) -> Option<Time> {
        let next = self.terms.deadline().filter(|_| !self.schedules.is_empty())?;
        let watched =
            self.schedules.values().filter_map(Schedule::watched_since).map(|since| since + ttl).min();
        let leaves = self.schedules.values().filter_map(Schedule::leaves_at).min();
        [watched, leaves].into_iter().fold(Some(next), earliest).map(|at| at.max(self.retry_at))
    }

    /// `is_refused`: the pool refuses this node.
    pub(super) fn deadline(
        &self,
        ttl: Duration,
        may_hold: bool,
        may_act: bool,
        is_refused: bool,
    ) -> Option<Time> {
        if self.schedules.is_empty() {
            return None;
        }
        let plans = self.schedules.values().filter_map(|schedule| schedule.planning.times_out_at()).min();
        let acts =
            self.schedules.values().filter_map(Schedule::acts_at).min().map(|at| at.max(self.retry_at));
        let goes_on = self.schedules.values().filter_map(|schedule| schedule.planning.acts_at()).min();
        let acts = earliest(acts, goes_on).filter(|_| may_act);
        let says = self.says_at(ttl).filter(|_| may_hold);
        let leaves = self.schedules.values().filter_map(Schedule::leaves_at).min().filter(|_| is_refused);
        [plans, acts, says, leaves].into_iter().fold(None, earliest)
    }
}
