//! A worker: jobs begin in its slots, and the store is told of ends. Both go in one round trip. Ends during a call are
//! the next call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Time;
use super::effect::{About, Call, Effect, Level};
use super::ends::{Ends, Said};
use super::engine::Ctx;
use super::execution::{End, Execution};
use super::input::{Kept, Number, Plan};
use super::journal::{Journal, Page};
use crate::error::Error;
use crate::model::id::Incarnation;
use crate::store::{
    Breakage, Data, Lane, MOST, Settle, SettleReply, StoreError, TakeReply, TakenJob, Taking,
};

/// The pause after a call that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// An owner takes at least so often: the store remembers for an hour whose turn it is.
const UPKEEP: Duration = Duration::from_secs(30 * 60);
/// Any other worker with a free slot looks at least so often: the store may have forgotten the worker.
const IDLE: Duration = Duration::from_secs(10);
/// How long after a loss of data a worker repeats recent ends to damaged data.
const REPEATS: Duration = Duration::from_secs(60);

/// The call on its way.
#[derive(Debug)]
enum Flight {
    /// Ends are said, and jobs are taken by this wish, sent at this time.
    Work(Said, Option<(Taking, Time)>),
    /// Ends are repeated to the data of an incarnation.
    Repeat(Repeat, Page),
}

/// Ends that are repeated after a loss of data.
#[derive(Debug)]
struct Repeat {
    to: Incarnation,
    since: Time,
    later: VecDeque<Page>,
    /// Damaged data have refused some.
    has_failed: bool,
}

#[derive(Debug)]
pub(super) struct Worker {
    number: Number,
    plan: Plan,
    take_lane: Lane,
    settle_lane: Lane,
    journal_lane: Lane,
    journal: Journal,
    ends: Ends,
    flight: Option<Flight>,
    /// How many handlers are there.
    busy: u32,
    registration: Option<Box<str>>,
    /// The incarnation to whose data the recent ends were repeated.
    repeated_in: Incarnation,
    /// The data may have forgotten recent ends: since when, and when the worker says the ends again.
    behind: Option<(Time, Time)>,
    /// There may be jobs to take.
    looks: bool,
    /// The time of the last take.
    looked: Time,
    /// No jobs are taken until then.
    rests: Option<Time>,
    /// The queue that is named first.
    turn: usize,
    /// Somebody may give it more orders.
    is_owned: bool,
    /// Questions that are answered when nothing runs any more.
    awaited: Vec<Number>,
    is_draining: bool,
    /// When the engine lets the worker act at the latest.
    pub(super) alarm: Option<Time>,
}

impl Worker {
    pub(super) fn new(now: Time, inc: Incarnation, number: Number, lanes: &str, plan: Plan) -> Self {
        let lane = |of: &str| Lane::new(format!("{lanes}{of}{number}"));
        let take_lane = match (&plan.owner, plan.queues.first()) {
            (Some((group, token)), Some(queue)) => Lane::of_owner(queue, group, *token),
            _ => lane("take"),
        };
        Self {
            number,
            plan,
            take_lane,
            settle_lane: lane("settle"),
            journal_lane: lane("journal"),
            journal: Journal::default(),
            ends: Ends::default(),
            flight: None,
            busy: 0,
            registration: None,
            repeated_in: inc,
            behind: None,
            looks: true,
            looked: now,
            rests: None,
            turn: 0,
            is_owned: true,
            awaited: Vec::new(),
            is_draining: false,
            alarm: None,
        }
    }

    /// There may be jobs to take.
    pub(super) fn wake(&mut self) {
        self.looks = true;
    }

    /// The worker takes no more. A question is answered when nothing runs any more.
    pub(super) fn drain(&mut self, question: Option<Number>) {
        self.is_draining = true;
        self.awaited.extend(question);
    }

    /// Nobody has the worker any more.
    pub(super) fn leave(&mut self) {
        (self.is_draining, self.is_owned) = (true, false);
    }

    /// Executions have come to an end.
    pub(super) fn end(&mut self, ends: impl IntoIterator<Item = End>) {
        ends.into_iter().for_each(|end| self.ends.push(end));
    }

    /// A handler is gone, maybe with its runtime: its slot is free.
    pub(super) fn free(&mut self, end: Option<End>, is_stranded: bool, out: &mut Vec<Effect>) {
        self.busy = self.busy.saturating_sub(1);
        if is_stranded && end.is_some() && !self.is_draining {
            let gone = "the runtime of a worker is gone, it takes no more jobs";
            out.push(Effect::Report(Level::Warn, gone, About::Node));
            self.is_over(out);
        }
        self.end(end);
    }

    /// The worker takes no more: its right to the group is over, its node is closed, or its runtime is gone.
    fn is_over(&mut self, out: &mut Vec<Effect>) {
        self.is_draining = true;
        out.push(Effect::Over(self.number));
    }

    /// Nobody has the worker any more, and nothing is left to do.
    pub(super) fn has_ended(&self) -> bool {
        !self.is_owned && self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.flight.is_none() && self.busy == 0 && self.ends.is_empty()
    }

    fn free_slots(&self) -> u32 {
        self.plan.slots.saturating_sub(self.busy.saturating_add(self.ends.slots()))
    }

    /// The latest time of the next take: an owner always, others with a free slot.
    fn upkeep(&self) -> Option<Time> {
        let may = !self.is_draining && self.rests.is_none();
        let after = match &self.plan.owner {
            Some(_) => UPKEEP,
            None if self.free_slots() > 0 => IDLE,
            None => return None,
        };
        may.then(|| self.looked + after)
    }

    /// When [`act`](Self::act) has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        let behind = self.behind.map(|(_, next)| next);
        let times = [self.ends.next(), behind, self.rests, self.upkeep()];
        times.into_iter().flatten().min().filter(|_| self.flight.is_none())
    }

    /// Does what is due, unless a call is on its way.
    pub(super) fn act(&mut self, ctx: &mut Ctx<'_>) {
        if self.flight.is_some() {
            return;
        }
        if self.repeated_in != ctx.incarnation {
            self.behind = Some((ctx.now, ctx.now));
        }
        if let Some((since, _)) = self.behind.filter(|(_, next)| *next <= ctx.now) {
            self.repeat(ctx, since);
            if self.flight.is_some() {
                return;
            }
        }
        self.rests = self.rests.filter(|until| *until > ctx.now);
        let is_time = self.upkeep().is_some_and(|at| at <= ctx.now);
        self.looks |= is_time;
        let (free, may) = (self.free_slots(), self.rests.is_none());
        let takes = !self.is_draining && self.looks && free > 0 && may;
        // A registration that nobody will use is taken back. An owner says from time to time: here I am.
        let says = self.is_draining && self.registration.is_some() && may || is_time;
        if takes || says || self.ends.are_due(ctx.now) {
            let want = if takes { free.min(MOST as u32) } else { 0 };
            self.call(ctx, (takes || says).then_some(want));
        } else if self.is_draining && self.is_idle() {
            ctx.out.extend(self.awaited.drain(..).map(|question| Effect::Answer(question, 0)));
        }
    }

    /// The data were lost, or went back: the data learn the latest ends before other nodes take the jobs.
    fn repeat(&mut self, ctx: &mut Ctx<'_>, since: Time) {
        self.repeated_in = ctx.incarnation;
        let later = match ctx.config.broken {
            Some(Breakage::NoJournal) => VecDeque::new(),
            _ => self.journal.unknown_in(ctx.incarnation),
        };
        self.next_page(ctx, Repeat { to: ctx.incarnation, since, later, has_failed: false });
    }

    fn next_page(&mut self, ctx: &mut Ctx<'_>, mut repeat: Repeat) {
        let Some(page) = repeat.later.pop_front() else {
            let again = repeat.has_failed && ctx.now.saturating_sub(repeat.since) < REPEATS;
            self.behind = again.then(|| (repeat.since, ctx.now + PAUSE));
            return;
        };
        let ends = Some((self.journal_lane.clone(), page.0.clone()));
        self.journal_lane.advance();
        ctx.out.push(Effect::Call(Call::Work { worker: self.number, again: true, ends, take: None }));
        self.flight = Some(Flight::Repeat(repeat, page));
    }

    /// Ends were repeated, or damaged data have refused them. Ends behind a refused page are said all the same.
    fn repeated(&mut self, ctx: &mut Ctx<'_>, mut repeat: Repeat, page: &Page, refusal: Option<Error>) {
        match refusal {
            // Another loss meanwhile is another change.
            None => self.journal.knows(repeat.to, page),
            Some(error) => {
                self.journal_lane.renew();
                ctx.rarely("ends were not said again", About::Error(error));
                repeat.has_failed = true;
            }
        }
        self.next_page(ctx, repeat);
    }

    /// Says what has ended, and takes this many jobs for free slots.
    fn call(&mut self, ctx: &mut Ctx<'_>, want: Option<u32>) {
        let said = self.ends.next_call(ctx.now);
        let ends = (!said.ends.is_empty()).then(|| (self.settle_lane.clone(), said.ends.clone()));
        let taking = want.map(|want| {
            // A wake-up during the call is for the next one.
            (self.looks, self.looked) = (false, ctx.now);
            (self.taking(ctx, want), ctx.now)
        });
        let take = taking.as_ref().map(|(taking, _)| (self.take_lane.clone(), taking.clone()));
        ctx.out.push(Effect::Call(Call::Work { worker: self.number, again: false, ends, take }));
        self.flight = Some(Flight::Work(said, taking));
    }

    fn taking(&mut self, ctx: &Ctx<'_>, want: u32) -> Taking {
        let queues = &self.plan.queues;
        self.turn = (self.turn + 1) % queues.len().max(1);
        let order = queues[self.turn..].iter().chain(&queues[..self.turn]);
        Taking {
            node: ctx.config.node.clone(),
            registration: self.registration.take(),
            want,
            slots: want,
            until: None,
            queues: order.map(|queue| (queue.clone(), want)).collect(),
            group: self.plan.owner.as_ref().map(|(group, _)| group.clone()),
        }
    }

    /// The call is back.
    pub(super) fn worked(
        &mut self,
        ctx: &mut Ctx<'_>,
        settled: Option<Result<(Incarnation, Vec<SettleReply>), Error>>,
        taken: Option<Result<(Incarnation, TakeReply), Error>>,
    ) {
        let (said, taking) = match self.flight.take() {
            Some(Flight::Work(said, taking)) => (said, taking),
            Some(Flight::Repeat(repeat, page)) => {
                return self.repeated(ctx, repeat, &page, settled.and_then(Result::err));
            }
            None => return,
        };
        if let Some(settled) = settled {
            self.settle_lane.advance();
            self.settled(ctx, &said, settled);
        }
        if let Some(((taking, sent), taken)) = taking.zip(taken) {
            self.take_lane.advance();
            self.taken(ctx, &taking, sent, taken);
        }
    }

    fn settled(
        &mut self,
        ctx: &mut Ctx<'_>,
        said: &Said,
        replies: Result<(Incarnation, Vec<SettleReply>), Error>,
    ) {
        let (inc, replies) = match replies {
            Ok(answer) => answer,
            // Only this worker uses the lane: a late call means damaged data. Nothing was done, and the ends go once more.
            Err(Error::Store(StoreError::Late)) => {
                self.settle_lane.renew();
                return self.ends.put_back(said, ctx.now);
            }
            Err(error) => {
                let damaged = matches!(error, Error::Store(StoreError::Damaged(_)));
                // Where the worker repeats no ends, the leases run out, and the jobs run again.
                let again = damaged && self.ends.refuse(said, ctx.now);
                if !again {
                    said.ends.iter().for_each(|end| ctx.leases.told(&end.execution.key(), ctx.out));
                }
                let text = if again { "ends were not said, they will be" } else { "ends were not said" };
                return ctx.rarely(text, About::Error(error));
            }
        };
        self.journal.note(ctx.now, inc, said, &replies);
        for (end, reply) in said.ends.iter().zip(replies) {
            let (execution, after) = (end.execution.clone(), ctx.now.saturating_sub(end.began));
            let key = execution.key();
            ctx.out.push(Effect::Ended(execution, reply, after));
            let cannot = matches!(reply, SettleReply::NoQueue | SettleReply::NoGroup | SettleReply::Bad);
            if cannot && !matches!(end.settle, Settle::Fail(..)) {
                let fails = "the job cannot go on as its handler says, it fails";
                ctx.out.push(Effect::Report(Level::Warn, fails, About::Job(key)));
                let why = if reply == SettleReply::NoGroup {
                    "its handler named a pinned queue, and it has no group"
                } else {
                    "its handler named a queue that does not exist, or another argument that is none"
                };
                self.ends.push(End { settle: Settle::Fail(why.into(), Data::Keep), ..end.clone() });
                continue;
            }
            if matches!((reply, &end.settle), (SettleReply::Pending | SettleReply::Delayed, Settle::Wait(..)))
            {
                let vain = "the job waits again, and no child is open or has ended: an attempt has failed";
                ctx.rarely(vain, About::Job(key.clone()));
            }
            ctx.leases.told(&key, ctx.out);
        }
    }

    fn taken(
        &mut self,
        ctx: &mut Ctx<'_>,
        taking: &Taking,
        sent: Time,
        reply: Result<(Incarnation, TakeReply), Error>,
    ) {
        match reply {
            Ok((inc, TakeReply::Taken { jobs, registration, more })) => {
                self.registration = registration;
                self.looks |= more || jobs.len() >= taking.want as usize;
                for job in jobs {
                    self.begin(ctx, job, inc, sent);
                }
            }
            Ok((_, TakeReply::Hold(ms))) => self.rest(ctx, taking, Duration::from_millis(ms)),
            Err(Error::Closed) => self.is_over(ctx.out),
            Err(Error::Store(StoreError::Late)) if self.plan.owner.is_some() => {
                let over = "a later owner of the group takes its jobs, or may do so";
                ctx.out.push(Effect::Report(Level::Debug, over, About::Node));
                self.is_over(ctx.out);
            }
            Err(error) => {
                if matches!(error, Error::Store(StoreError::Late)) {
                    self.take_lane.renew();
                }
                ctx.rarely("no jobs could be taken", About::Error(error));
                self.rest(ctx, taking, PAUSE);
            }
        }
    }

    /// Takes nothing for a while. Ends are said meanwhile.
    fn rest(&mut self, ctx: &Ctx<'_>, taking: &Taking, time: Duration) {
        self.looks = true;
        self.registration.clone_from(&taking.registration);
        self.rests = Some(ctx.now + time);
    }

    /// A job begins. An order to take no more may have come while the call was on its way: then the job is given back.
    fn begin(&mut self, ctx: &mut Ctx<'_>, job: TakenJob, inc: Incarnation, sent: Time) {
        let TakenJob { id, record, body, notes, lease, terms } = job;
        let execution = Arc::new(Execution { id, token: record.token, record, terms });
        let (kept, runs) = (Kept { body, notes, known_in: inc }, !self.is_draining);
        ctx.out.push(Effect::Begin(runs.then_some(self.number), execution.clone(), kept));
        let end =
            ctx.leases.begin((ctx.now, sent), (self.number, runs), execution, Duration::from_millis(lease));
        self.busy += u32::from(runs);
        self.end(end);
        // Its data were lost while the answer was on its way.
        if inc != ctx.incarnation {
            ctx.leases.renew_all(ctx.now);
        }
    }
}
