//! A plan, from its tick until it is carried out. It compares the wanted jobs with those of the plan, in pages. It
//! dispatches missing jobs and stops surplus ones in batches, each in the planner's turn. No job of the plan delays
//! the start or stop of another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::replacing::{Remembered, Replacing};
use crate::core::batcher::Batcher;
use crate::core::call::{Call, Done, OfPlan, PAGE};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, NewTick, Notice};
use crate::core::input::{LocalSchedule, Planned, Wanted};
use crate::core::one_call::OneCall;
use crate::core::time::{Time, earliest};
use crate::model::id::{JobKey, ScheduleName};
use crate::model::record::{JobState, Record};
use crate::mutation::Mutation;
use crate::step::{
    BATCH_MAX, Dispatch, DispatchItem, DispatchReply, ListPlanned, LookUp, Lookup, Placing, Refusal, Result,
    Stop, StopItem, StopReply, StoreError, Turn, Update,
};

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Going,
    TurnLost,
}

/// The planning of one schedule.
#[derive(Debug, Default)]
pub(super) struct Planning {
    /// Tells one plan from the next.
    run: u64,
    work: Work,
    remembered: Remembered,
}

#[derive(Debug, Default)]
enum Work {
    #[default]
    Idle,
    /// The planner runs; `over`: it was told to end.
    Asked {
        until: Time,
        over: bool,
    },
    Doing(Box<Doing>),
}

/// A plan that is being carried out.
#[derive(Debug)]
struct Doing {
    turn: Turn,
    /// Wanted jobs that were not yet found, while the node reads the jobs of the plan.
    wanted: Option<BTreeMap<JobKey, DispatchItem>>,
    /// Wanted jobs that must not be started.
    kept: BTreeSet<JobKey>,
    /// Where the next page of the plan's jobs begins.
    after: Option<JobKey>,
    /// Keys to stop, whose jobs must be found first.
    to_find: Vec<JobKey>,
    /// Wanted jobs whose keys are taken: a look must show whether the other job lives or is about to go.
    to_check: VecDeque<DispatchItem>,
    /// The part of them that a look is checking.
    checking: Vec<DispatchItem>,
    look: OneCall,
    starts: Batcher<DispatchItem>,
    stops: Batcher<StopItem>,
    /// Its jobs that have another payload get the wanted one.
    replacing: Option<Box<Replacing>>,
    ends: bool,
    /// When the plan is given up without progress.
    until: Time,
    /// The number of jobs that failed to follow the plan, and the error of the first.
    failed: usize,
    first: Option<String>,
}

impl Planning {
    /// The next tick need not wait: there is no work left, or only a wait for jobs that are being stopped. A job that
    /// does not end delays only the next start of its own key.
    pub(super) fn yields(&self) -> bool {
        match &self.work {
            Work::Idle => true,
            Work::Asked { .. } => false,
            Work::Doing(doing) => doing.only_checks(),
        }
    }

    /// The planner was told to end but has not.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self.work, Work::Asked { over: true, .. })
    }

    /// Asks the planner. Reports it if the former plan is unfinished.
    pub(super) fn begin(&mut self, ctx: &mut Ctx, local: LocalSchedule, plan: &ScheduleName, tick: NewTick) {
        let left = if let Work::Doing(doing) = &self.work { doing.unfinished() } else { None };
        if let Some(error) = left {
            ctx.report(Notice::PlanFailed { plan: plan.clone(), error });
        }
        self.run += 1;
        self.work = Work::Asked { until: ctx.now + ctx.config.plan_timeout, over: false };
        ctx.out.push(Effect::Plan { local, run: self.run, tick });
    }

    /// Ends all work on the plan, and tells a running planner to end.
    pub(super) fn drop_all(&mut self, ctx: &mut Ctx, local: LocalSchedule) {
        match &mut self.work {
            Work::Idle | Work::Asked { over: true, .. } => {}
            Work::Asked { over, .. } => {
                *over = true;
                ctx.out.push(Effect::AbortPlan { local });
            }
            Work::Doing(_) => {
                self.run += 1;
                self.work = Work::Idle;
            }
        }
    }

    /// Tells a planner that takes too long to end, and gives up a plan without progress.
    pub(super) fn on_time(&mut self, ctx: &mut Ctx, local: LocalSchedule, plan: &ScheduleName) {
        if self.times_out_at().is_none_or(|until| ctx.now < until) {
            return;
        }
        let timeout = ctx.config.plan_timeout;
        let error = match &self.work {
            Work::Doing(doing) => doing.stalled(timeout),
            _ => format!("the plan took longer than {timeout:?}"),
        };
        ctx.report(Notice::PlanFailed { plan: plan.clone(), error });
        self.drop_all(ctx, local);
    }

    pub(super) fn times_out_at(&self) -> Option<Time> {
        match &self.work {
            Work::Asked { until, over: false } => Some(*until),
            Work::Doing(doing) => Some(doing.until),
            _ => None,
        }
    }

    /// The planner reports its result; `turn`: this node still has the turn.
    pub(super) fn on_planned(
        &mut self,
        ctx: &mut Ctx,
        plan: &ScheduleName,
        run: u64,
        planned: Planned,
        turn: Option<Turn>,
    ) {
        let Work::Asked { over, .. } = self.work else { return };
        if run != self.run {
            return;
        }
        self.work = match (planned, turn) {
            (Planned::Made(wanted), Some(turn)) if !over => {
                let remembered = std::mem::take(&mut self.remembered);
                Work::Doing(Box::new(Doing::new(ctx, turn, wanted, remembered)))
            }
            (Planned::Failed(error), _) if !over => {
                ctx.report(Notice::PlanFailed { plan: plan.clone(), error });
                Work::Idle
            }
            _ => Work::Idle,
        };
    }

    pub(super) fn on_done(&mut self, ctx: &mut Ctx, run: u64, done: Done) -> Result<Progress> {
        let Work::Doing(doing) = &mut self.work else { return Ok(Progress::Going) };
        if run != self.run {
            return Ok(Progress::Going);
        }
        match doing.on_done(ctx, done) {
            Ok(()) => Ok(Progress::Going),
            Err(StoreError::Refused(Refusal::StaleTerm)) => Ok(Progress::TurnLost),
            Err(error) => Err(error),
        }
    }

    /// Continues the plan at this server time. True if the whole plan is done and ends its schedule.
    pub(super) fn flush(
        &mut self,
        ctx: &mut Ctx,
        local: LocalSchedule,
        plan: &ScheduleName,
        server: u64,
    ) -> bool {
        let Work::Doing(doing) = &mut self.work else { return false };
        doing.flush(ctx, local, self.run, server);
        if !doing.is_done() {
            return false;
        }
        if let Some(first) = doing.first.take() {
            let error = format!("{} of its jobs are not as it wants them, the first: {first}", doing.failed);
            ctx.report(Notice::PlanFailed { plan: plan.clone(), error });
        }
        let ends = doing.ends && doing.failed == 0;
        if let Some(replacing) = &mut doing.replacing {
            self.remembered = replacing.remembered(&doing.turn);
        }
        self.work = Work::Idle;
        ends
    }

    pub(super) fn acts_at(&self) -> Option<Time> {
        let Work::Doing(doing) = &self.work else { return None };
        let look = doing.look.deadline().filter(|_| doing.has_to_look());
        let updates = doing.replacing.as_ref().and_then(|replacing| replacing.deadline());
        [doing.starts.deadline(), doing.stops.deadline(), updates].into_iter().fold(look, earliest)
    }
}

impl Doing {
    fn new(ctx: &Ctx, turn: Turn, wanted: Wanted, remembered: Remembered) -> Self {
        let Wanted { exactly, replaces, start, stop, kept, ends, errors } = wanted;
        let replaces = replaces && !ctx.config.broken.has(Mutation::PlanReplacesNothing);
        let mut doing = Self {
            replacing: replaces.then(|| Box::new(Replacing::new(&turn, remembered))),
            turn,
            wanted: None,
            kept: kept.into_iter().collect(),
            after: None,
            to_find: stop,
            to_check: VecDeque::new(),
            checking: Vec::new(),
            look: OneCall::default(),
            starts: Batcher::default(),
            stops: Batcher::default(),
            ends,
            until: ctx.now + ctx.config.plan_timeout,
            failed: errors.len(),
            first: errors.into_iter().next(),
        };
        if exactly {
            doing.wanted = Some(start.into_iter().map(|item| (item.key.clone(), item)).collect());
        } else {
            for item in start {
                doing.starts.push(item);
            }
        }
        doing
    }

    fn has_to_look(&self) -> bool {
        self.wanted.is_some() || !self.to_find.is_empty() || !self.to_check.is_empty()
    }

    /// Only looks at jobs in the way of wanted ones are left. A plan that ends its schedule waits for them.
    fn only_checks(&self) -> bool {
        let looks = !self.to_check.is_empty() || !self.checking.is_empty();
        let acts = self.wanted.is_some() || !self.to_find.is_empty();
        looks && !acts && !self.ends && self.are_idle()
    }

    fn are_idle(&self) -> bool {
        let updates = self.replacing.as_ref().is_none_or(|replacing| replacing.is_idle());
        self.starts.is_idle() && self.stops.is_idle() && updates
    }

    fn is_done(&self) -> bool {
        !self.look.is_busy() && !self.has_to_look() && self.are_idle()
    }

    fn on_done(&mut self, ctx: &mut Ctx, done: Done) -> Result<()> {
        match done {
            Done::PlanList(_, _, answer) => {
                let page = self.look.answered(ctx.now, answer)?;
                self.came_forward(ctx);
                self.after.clone_from(&page.next);
                for (key, record) in page.jobs {
                    let Some(record) = record.filter(|record| record.plan == self.turn.plan.as_str()) else {
                        continue;
                    };
                    if let Some(item) = self.wanted.as_mut().and_then(|wanted| wanted.remove(&key)) {
                        self.check(item, record);
                    } else if !self.kept.contains(&key) {
                        self.stop(key, record);
                    }
                }
                if page.next.is_none() {
                    let missing = self.wanted.take().into_iter().flatten();
                    missing.for_each(|(_, item)| self.starts.push(item));
                }
            }
            Done::PlanFind(look, _, answer) => match self.look.answered(ctx.now, answer) {
                Ok(found) if !self.checking.is_empty() => self.on_checked(ctx, found),
                Ok(found) => {
                    self.came_forward(ctx);
                    for ((key, _), found) in look.items.into_iter().zip(found) {
                        if let Some(record) = found.record.filter(|r| r.plan == self.turn.plan.as_str()) {
                            self.stop(key, record);
                        }
                    }
                }
                Err(error) => {
                    if self.checking.is_empty() {
                        self.to_find.extend(look.items.into_iter().map(|(key, _)| key));
                    }
                    self.to_check.extend(self.checking.drain(..));
                    return Err(error);
                }
            },
            Done::PlanDispatch(Dispatch { items, .. }, _, answer) => {
                return self.on_starts(ctx, items, answer);
            }
            Done::PlanUpdate(Update { items, .. }, _, answer) => {
                let Some(replacing) = &mut self.replacing else { return Ok(()) };
                for (key, why) in replacing.on_answer(ctx.now, items, answer)? {
                    self.fail(&key, why);
                }
                self.came_forward(ctx);
            }
            Done::PlanStop(Stop { items, .. }, _, answer) => return self.on_stops(ctx, items, answer),
            _ => {}
        }
        Ok(())
    }

    fn on_starts(
        &mut self,
        ctx: &Ctx,
        items: Vec<DispatchItem>,
        answer: Result<Vec<DispatchReply>>,
    ) -> Result<()> {
        let replies = match answer {
            Ok(replies) => replies,
            Err(error) => return self.starts.failed_whole(ctx.now, items, error),
        };
        let mut late = Vec::new();
        for (item, reply) in items.into_iter().zip(replies) {
            if matches!(reply, DispatchReply::Late) {
                late.push(DispatchItem { not_after: 0, ..item });
            } else {
                self.came_forward(ctx);
                self.on_dispatched(item, &reply);
            }
        }
        if late.is_empty() {
            self.starts.answered();
        } else {
            self.starts.put_back(ctx.now, late);
        }
        Ok(())
    }

    fn on_stops(&mut self, ctx: &Ctx, items: Vec<StopItem>, answer: Result<Vec<StopReply>>) -> Result<()> {
        let replies = match answer {
            Ok(replies) => replies,
            Err(error) => return self.stops.failed_whole(ctx.now, items, error),
        };
        self.stops.answered();
        self.came_forward(ctx);
        for (item, reply) in items.into_iter().zip(replies) {
            match reply {
                StopReply::Owner(guess) => self.stops.push(StopItem { guess, ..item }),
                StopReply::Later => self.stops.push(item),
                StopReply::Bad => self.fail(&item.key, "its record cannot be read"),
                _ => {}
            }
        }
        Ok(())
    }

    fn stop(&mut self, key: JobKey, record: Record) {
        self.stops.push(StopItem { key, id: record.id, guess: record.owner, forbid: false });
    }

    fn on_dispatched(&mut self, item: DispatchItem, reply: &DispatchReply) {
        if let (DispatchReply::Accepted, Some(replacing)) = (reply, &mut self.replacing) {
            replacing.dispatched(&item);
        }
        let why = match reply {
            DispatchReply::Accepted | DispatchReply::Ended | DispatchReply::Late => return,
            DispatchReply::Exists | DispatchReply::Paused => return self.to_check.push_back(item),
            DispatchReply::Parked => "it is parked",
            DispatchReply::Full => "the pool's queue is full",
            DispatchReply::OutOfTokens => "the pool has no tokens left",
            DispatchReply::ShuttingDown => "the pool is shutting down",
            DispatchReply::Recovering => "the pool is recovering",
            DispatchReply::Bad => "its record cannot be read",
            DispatchReply::Conflict | DispatchReply::Outcome(_) => "its id was used before",
        };
        self.fail(&item.key, why);
    }

    /// Decides about a wanted job whose key has this job.
    fn check(&mut self, item: DispatchItem, record: Record) {
        match record.state {
            // It makes room for the wanted job.
            JobState::Stopping => return self.to_check.push_back(item),
            JobState::Parked if !record.is_paused() => self.fail(&item.key, "it is parked"),
            // A job that lives is as wanted, whichever caller dispatched it. So is one that an operator has paused.
            _ => {}
        }
        if let Some(replacing) = &mut self.replacing
            && record.plan == self.turn.plan.as_str()
        {
            replacing.compare(item, record);
        }
    }

    fn on_checked(&mut self, ctx: &Ctx, found: Vec<Lookup>) {
        for (item, found) in std::mem::take(&mut self.checking).into_iter().zip(found) {
            match found.record {
                Some(Record { state: JobState::Stopping, .. }) => {
                    self.look.again(ctx.now);
                    self.to_check.push_back(item);
                    continue;
                }
                Some(record) => self.check(item, record),
                None if found.bad => self.fail(&item.key, "its record cannot be read"),
                None => self.starts.push(DispatchItem { not_after: 0, ..item }),
            }
            self.came_forward(ctx);
        }
    }

    fn came_forward(&mut self, ctx: &Ctx) {
        self.until = ctx.now + ctx.config.plan_timeout;
    }

    /// The unfinished part of a plan when the next one replaces it.
    fn unfinished(&self) -> Option<String> {
        let stopping = self.to_check.iter().chain(&self.checking).map(|item| &item.key).next();
        let first = stopping.map(|key| format!("{key}: it is still being stopped"));
        let failed = self.failed + self.to_check.len() + self.checking.len();
        let first = self.first.clone().or(first)?;
        Some(format!("{failed} of its jobs are not as it wants them, the first: {first}"))
    }

    /// The reason for giving the plan up.
    fn stalled(&self, timeout: Duration) -> String {
        let stopping = self.to_check.iter().chain(&self.checking).next();
        match (stopping, &self.first) {
            (Some(item), _) => {
                format!(
                    "nothing more of it could be done within {timeout:?}: {} is there or being stopped",
                    item.key
                )
            }
            (None, Some(first)) => format!("nothing more of it could be done within {timeout:?}: {first}"),
            (None, None) => format!("nothing more of it could be done within {timeout:?}"),
        }
    }

    fn fail(&mut self, key: &JobKey, why: &str) {
        self.failed += 1;
        self.first.get_or_insert_with(|| format!("{key}: {why}"));
    }

    fn flush(&mut self, ctx: &mut Ctx, local: LocalSchedule, run: u64, server: u64) {
        let of = OfPlan { local, run };
        if self.has_to_look() && self.look.begin(ctx.now) {
            if self.wanted.is_some() {
                let (plan, after) = (self.turn.plan.clone(), self.after.clone());
                ctx.call(Call::PlanList(ListPlanned { plan, after, limit: PAGE }, of));
            } else if !self.to_find.is_empty() {
                let from = self.to_find.len().saturating_sub(BATCH_MAX);
                ctx.call(Call::PlanFind(LookUp::of_keys(self.to_find.split_off(from)), of));
            } else {
                self.checking = self.to_check.drain(..self.to_check.len().min(BATCH_MAX)).collect();
                let keys = self.checking.iter().map(|item| item.key.clone());
                ctx.call(Call::PlanFind(LookUp::of_keys(keys), of));
            }
        }
        let bytes = |item: &DispatchItem| item.payload.len() + item.key.as_bytes().len();
        if let Some(mut items) = self.starts.batch(ctx.now, bytes) {
            let longest = ctx.config.settings.max_dispatch_deadline.as_millis() as u64;
            for item in items.iter_mut().filter(|item| item.not_after == 0) {
                item.not_after = server + longest / 2;
            }
            let by = Placing::Turn(self.turn.clone());
            ctx.call(Call::PlanDispatch(Dispatch { by, items }, of));
        }
        if let Some(items) = self.stops.batch(ctx.now, |_| JobKey::MAX_LEN) {
            let turn = Some(self.turn.clone());
            ctx.call(Call::PlanStop(Stop { turn, repeat: false, waiting: None, items }, of));
        }
        if let Some(items) = self.replacing.as_mut().and_then(|replacing| replacing.next(ctx.now)) {
            ctx.call(Call::PlanUpdate(Update { turn: Some(self.turn.clone()), items }, of));
        }
    }
}
