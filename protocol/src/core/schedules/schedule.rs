//! One schedule or ticker of this node. It is created in the store, then watched while another node has the turn, or
//! ticked.

use std::time::Duration;

use super::planning::Planning;
use crate::core::call::{Call, OfSchedule};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, NewTick, Notice};
use crate::core::input::{Answer, LocalSchedule, NewSchedule, Planned, ReplyTo};
use crate::core::one_call::OneCall;
use crate::core::time::Time;
use crate::error::Error;
use crate::model::id::Term;
use crate::step::{
    ChangeSchedule, Refusal, Result, ScheduleChange, ScheduleEntry, ScheduleKind, ScheduleState, StoreError,
    TakeTick, TermItem, TermReply, TickReply, Turn,
};

/// A plan starts at most this much after its tick is due, so that not all plans start at once.
const LONGEST_JITTER: Duration = Duration::from_secs(30);

/// How long a planner that was told to end may delay the leaving.
const LEAVE_GRACE: Duration = Duration::from_secs(2);

/// The fate of a schedule after an answer.
#[derive(Debug)]
pub(super) enum Fate {
    Stays,
    /// The node must soon ask which node has the turn.
    Asks,
    /// Other nodes must look at it.
    Tells,
    Goes(Error),
}

/// The turn of this node.
#[derive(Debug)]
struct HeldTurn {
    term: Term,
    /// The server time of the next tick in ms, and when this node asks for it.
    next: u64,
    due: Time,
    /// A tick that was asked for without an answer. The node asks again, since the store may have given it out.
    asked: Option<u64>,
}

/// Whether the schedule must end on all nodes, and by whose order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToEnd {
    No,
    ByUser,
    /// In this turn only.
    ByPlanner(Term),
}

/// A schedule of this node.
#[derive(Debug)]
pub(super) struct Schedule {
    new: NewSchedule,
    /// The caller that waits for its creation.
    adder: Option<ReplyTo>,
    /// A new period, set by a user.
    to_change: Option<(ReplyTo, Duration)>,
    to_end: ToEnd,
    enders: Vec<ReplyTo>,
    /// This node leaves the schedule.
    pub(super) leaving: bool,
    /// When it leaves its turn even if its planner has not ended.
    leave_at: Time,
    leavers: Vec<ReplyTo>,
    /// The last renewal of its term has no answer: it may have the turn without knowing.
    pub(super) unsure: bool,
    /// The unreadable entry was reported.
    bad: bool,
    /// Its entry in the store, in this incarnation.
    entry: Option<ScheduleEntry>,
    /// When its turn was last seen to move.
    still_since: Time,
    held: Option<HeldTurn>,
    call: OneCall,
    pub(super) planning: Planning,
}

impl Schedule {
    pub(super) fn new(ctx: &Ctx, to: ReplyTo, new: NewSchedule) -> Self {
        Self {
            new,
            adder: Some(to),
            to_change: None,
            to_end: ToEnd::No,
            enders: Vec::new(),
            leaving: false,
            leave_at: ctx.now,
            leavers: Vec::new(),
            unsure: false,
            bad: false,
            entry: None,
            still_since: ctx.now,
            held: None,
            call: OneCall::default(),
            planning: Planning::default(),
        }
    }

    pub(super) fn change(&mut self, ctx: &mut Ctx, to: ReplyTo, period: Duration) {
        if let Some((before, _)) = self.to_change.replace((to, period)) {
            told(ctx, before, Ok(()));
        }
    }

    pub(super) fn end(&mut self, to: ReplyTo) {
        self.enders.push(to);
        self.to_end = ToEnd::ByUser;
    }

    pub(super) fn leave(&mut self, ctx: &mut Ctx, local: LocalSchedule, to: Option<ReplyTo>) {
        self.leavers.extend(to);
        if !self.leaving {
            self.leaving = true;
            self.leave_at = ctx.now + LEAVE_GRACE.min(ctx.config.timing.ttl / 2);
        }
        self.planning.drop_all(ctx, local);
    }

    /// The pool refuses this node: its users are told, and nothing that they asked for is done later.
    pub(super) fn refuse(&mut self, ctx: &mut Ctx, why: &Error) {
        if let Some((to, _)) = self.to_change.take() {
            told(ctx, to, Err(why.clone()));
        }
        if self.to_end == ToEnd::ByUser {
            self.to_end = ToEnd::No;
        }
        for to in self.enders.drain(..) {
            told(ctx, to, Err(why.clone()));
        }
    }

    /// Whether a caller waits for its creation.
    pub(super) fn is_new(&self) -> bool {
        self.adder.is_some()
    }

    /// Another incarnation: the stored entry is unknown.
    pub(super) fn reset(&mut self, ctx: &mut Ctx, local: LocalSchedule) {
        self.lose_turn(ctx, local);
        self.entry = None;
        self.unsure = false;
        self.call = OneCall::default();
        self.forget_planners_end();
    }

    /// A planner may end its schedule only in its turn, and a user at any time.
    fn forget_planners_end(&mut self) {
        if let ToEnd::ByPlanner(_) = self.to_end {
            self.to_end = ToEnd::No;
        }
    }

    pub(super) fn has_turn(&self) -> bool {
        self.held.is_some()
    }

    /// The turn in which its planner acts.
    fn turn(&self) -> Option<Turn> {
        let (entry, held) = (self.entry.as_ref()?, self.held.as_ref()?);
        (!self.leaving).then(|| Turn { plan: self.new.key.name.clone(), id: entry.id, term: held.term })
    }

    pub(super) fn lose_turn(&mut self, ctx: &mut Ctx, local: LocalSchedule) {
        self.held = None;
        self.planning.drop_all(ctx, local);
    }

    /// It has no turn to leave.
    pub(super) fn has_left(&self) -> bool {
        self.leaving && self.held.is_none() && !self.unsure
    }

    /// It leaves, and its planner has ended or had its time to.
    pub(super) fn may_leave(&self, now: Time) -> bool {
        self.leaving && (!self.planning.is_stuck() || now >= self.leave_at)
    }

    /// When it leaves its turn, even if its planner has not ended.
    pub(super) fn leaves_at(&self) -> Option<Time> {
        (self.leaving && !self.has_left()).then_some(self.leave_at)
    }

    /// Its planner reports a result.
    pub(super) fn on_planned(&mut self, ctx: &mut Ctx, run: u64, planned: Planned) {
        let turn = self.turn();
        self.planning.on_planned(ctx, &self.new.key.name, run, planned, turn);
    }

    pub(super) fn on_time(&mut self, ctx: &mut Ctx, local: LocalSchedule) {
        self.planning.on_time(ctx, local, &self.new.key.name);
    }

    /// Continues its plan at this server time.
    pub(super) fn carry_on(&mut self, ctx: &mut Ctx, local: LocalSchedule, server: u64) {
        if self.planning.flush(ctx, local, &self.new.key.name, server) {
            self.end_as_planner();
        }
    }

    /// Its planner ends the schedule.
    fn end_as_planner(&mut self) {
        if let (ToEnd::No, Some(held)) = (self.to_end, &self.held) {
            self.to_end = ToEnd::ByPlanner(held.term);
        }
    }

    /// When it next makes a call of its own.
    pub(super) fn acts_at(&self) -> Option<Time> {
        let may_act = self.call.deadline().filter(|_| !self.leaving)?;
        let at = match (&self.entry, &self.held) {
            (None, _) => Time(0),
            _ if self.to_end != ToEnd::No || self.to_change.is_some() => Time(0),
            // The store may have given it out, so it does not wait for news of the next one.
            (Some(_), Some(HeldTurn { asked: Some(_), .. })) if self.planning.yields() => Time(0),
            (Some(_), Some(held)) if self.planning.yields() => held.due,
            _ => return None,
        };
        Some(at.max(may_act))
    }

    pub(super) fn act(&mut self, ctx: &mut Ctx, local: LocalSchedule, round: u64) {
        self.call.start();
        let of = OfSchedule { local, round };
        let schedule = self.new.key.clone();
        let period = self.to_change.map_or(self.new.period, |(_, period)| period);
        let change = match (&self.entry, self.to_end, self.to_change) {
            (None, ..) => {
                let first = match schedule.kind {
                    ScheduleKind::Plan => Duration::ZERO,
                    ScheduleKind::Ticker => period,
                };
                ScheduleChange::Create { period, first }
            }
            (Some(entry), ToEnd::ByUser, _) => ScheduleChange::End { id: entry.id, term: None },
            (Some(entry), ToEnd::ByPlanner(term), _) => {
                ScheduleChange::End { id: entry.id, term: Some(term) }
            }
            (Some(entry), ToEnd::No, Some((_, period))) => {
                ScheduleChange::Period { id: entry.id, revision: entry.revision, period }
            }
            (Some(entry), ToEnd::No, None) => {
                let Some(held) = &mut self.held else { return };
                let number = *held.asked.get_or_insert(entry.ticks + 1);
                let turn = (entry.id, held.term);
                return ctx.call(Call::Tick(TakeTick { schedule, turn, number }, of));
            }
        };
        ctx.call(Call::Sched(ChangeSchedule { schedule, change }, of));
    }

    /// Its item in the next renewal of terms.
    pub(super) fn term_item(&self, now: Time, ttl: Duration) -> Option<TermItem> {
        let entry = self.entry.as_ref()?;
        // No other node may plan beside a planner that has not ended.
        if self.planning.is_stuck() && !self.may_leave(now) {
            return None;
        }
        Some(TermItem {
            schedule: self.new.key.clone(),
            id: entry.id,
            life: self.new.life,
            leave: self.leaving,
            seen: self
                .watched_since()
                .filter(|since| now.since(*since) >= ttl)
                .map(|_| (entry.term, entry.seq)),
        })
    }

    /// Since when another node's turn has stood still.
    pub(super) fn watched_since(&self) -> Option<Time> {
        let watched = self.entry.as_ref().is_some_and(|entry| entry.holder.is_some());
        (watched && self.held.is_none() && !self.leaving && !self.planning.is_stuck())
            .then_some(self.still_since)
    }

    pub(super) fn on_changed(
        &mut self,
        ctx: &mut Ctx,
        local: LocalSchedule,
        answered: Result<ScheduleState>,
    ) -> Result<Fate> {
        self.call.is_back();
        match answered {
            Ok(ScheduleState::Present { now, entry }) => {
                let fate = if self.entry.is_none() { Fate::Asks } else { Fate::Tells };
                // The last caller that adds it sets the period, unless a user has set the period since.
                match self.adder.take() {
                    Some(to) if self.to_change.is_some() => told(ctx, to, Ok(())),
                    Some(to) => self.to_change = Some((to, self.new.period)),
                    None => {}
                }
                if let Some((to, _)) = self.to_change.take_if(|(_, period)| *period == entry.period) {
                    told(ctx, to, Ok(()));
                }
                self.note(ctx, now, entry);
                Ok(fate)
            }
            Ok(ScheduleState::Ended) => Ok(Fate::Goes(Error::ScheduleEnded)),
            Ok(ScheduleState::Bad { newer }) => {
                self.report_bad(ctx);
                Ok(Fate::Goes(match newer {
                    Some(version) => Error::NewerVersion {
                        what: "the schedule's entry",
                        version,
                        known: ScheduleEntry::VERSION,
                    },
                    None => Error::BadRecord { of: format!("the schedule {}", self.new.key) },
                }))
            }
            Err(StoreError::Refused(Refusal::StaleTerm)) => {
                self.forget_planners_end();
                self.lose_turn(ctx, local);
                Ok(Fate::Asks)
            }
            Err(StoreError::Refused(Refusal::ShuttingDown)) => Ok(Fate::Goes(Error::ShuttingDown)),
            Err(StoreError::Refused(Refusal::OutOfTokens)) => Ok(Fate::Goes(Error::OutOfTokens)),
            Err(error @ StoreError::Refused(Refusal::Level(_))) if self.adder.is_some() => {
                Ok(Fate::Goes(error.into()))
            }
            Err(error) => {
                self.call.again(ctx.now);
                Err(error)
            }
        }
    }

    pub(super) fn on_term(
        &mut self,
        ctx: &mut Ctx,
        local: LocalSchedule,
        now: u64,
        reply: TermReply,
    ) -> Fate {
        self.unsure = false;
        match reply {
            TermReply::Held(entry) => {
                let term = entry.term;
                if self.held.as_ref().is_some_and(|held| held.term != term) {
                    self.lose_turn(ctx, local);
                }
                if self.held.is_none() {
                    self.held = Some(HeldTurn { term, next: u64::MAX, due: ctx.now, asked: None });
                }
                self.note(ctx, now, entry);
                if self.leaving { Fate::Asks } else { Fate::Stays }
            }
            TermReply::Other(entry) => {
                self.lose_turn(ctx, local);
                self.note(ctx, now, entry);
                Fate::Stays
            }
            TermReply::Ended => Fate::Goes(Error::ScheduleEnded),
            TermReply::Bad => {
                self.lose_turn(ctx, local);
                self.still_since = ctx.now;
                self.report_bad(ctx);
                Fate::Stays
            }
            TermReply::OutOfTokens => {
                self.lose_turn(ctx, local);
                self.still_since = ctx.now;
                ctx.report(Notice::Trouble(StoreError::Refused(Refusal::OutOfTokens)));
                Fate::Stays
            }
        }
    }

    pub(super) fn on_tick(
        &mut self,
        ctx: &mut Ctx,
        local: LocalSchedule,
        number: u64,
        answered: Result<TickReply>,
    ) -> Result<Fate> {
        self.call.is_back();
        match answered {
            Ok(TickReply { due, now, entry }) => {
                let term = entry.term;
                let Some(held) = self.held.as_mut().filter(|held| held.term == term) else {
                    return Ok(Fate::Stays);
                };
                held.asked = None;
                if !due {
                    // Even if the next tick is unchanged: the server's clock may have stepped back.
                    let wait = Duration::from_millis(entry.next.saturating_sub(now).max(1));
                    (held.next, held.due) = (entry.next, ctx.now + wait);
                }
                self.note(ctx, now, entry);
                if due && !self.leaving {
                    let tick = NewTick { number, term, at_ms: now };
                    match self.new.key.kind {
                        ScheduleKind::Ticker => ctx.out.push(Effect::Tick { local, tick }),
                        ScheduleKind::Plan => self.planning.begin(ctx, local, &self.new.key.name, tick),
                    }
                }
                Ok(Fate::Stays)
            }
            Err(StoreError::Refused(Refusal::StaleTerm)) => {
                self.lose_turn(ctx, local);
                Ok(Fate::Asks)
            }
            Err(error) => {
                self.call.again(ctx.now);
                if matches!(error, StoreError::Refused(Refusal::ShuttingDown)) {
                    Ok(Fate::Stays)
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Reports once, until the entry is readable again.
    fn report_bad(&mut self, ctx: &mut Ctx) {
        if !std::mem::replace(&mut self.bad, true) {
            ctx.report(Notice::BadSchedule { schedule: self.new.key.clone() });
        }
    }

    /// Takes the entry as read at this server time. Ignores an older entry: two answers may overtake each other.
    fn note(&mut self, ctx: &mut Ctx, now: u64, entry: ScheduleEntry) {
        self.bad = false;
        let is_older = |known: &ScheduleEntry| {
            (entry.term, entry.seq) < (known.term, known.seq)
                || entry.ticks < known.ticks
                || entry.revision < known.revision
        };
        if self.entry.as_ref().is_some_and(|known| known.id == entry.id && is_older(known)) {
            return;
        }
        if self.entry.as_ref().is_none_or(|e| (e.term, e.seq) != (entry.term, entry.seq)) {
            self.still_since = ctx.now;
        }
        if self.to_change.is_none() {
            self.new.period = entry.period;
        }
        if let Some(held) = self.held.as_mut().filter(|held| held.next != entry.next) {
            let wait = Duration::from_millis(entry.next.saturating_sub(now));
            held.next = entry.next;
            held.due = ctx.now + wait;
            if self.new.key.kind == ScheduleKind::Plan && !wait.is_zero() {
                let spread = (entry.period).min(LONGEST_JITTER * 10);
                held.due = held.due + ctx.jitter.stretch(spread).saturating_sub(spread);
            }
        }
        self.entry = Some(entry);
    }

    /// Tells every waiting caller that the schedule has gone.
    pub(super) fn go(mut self, ctx: &mut Ctx, local: LocalSchedule, why: &Error) {
        self.planning.drop_all(ctx, local);
        let ended = matches!(why, Error::ScheduleEnded);
        for to in self.adder.into_iter().chain(self.to_change.map(|(to, _)| to)) {
            told(ctx, to, Err(why.clone()));
        }
        for to in self.enders {
            told(ctx, to, if ended { Ok(()) } else { Err(why.clone()) });
        }
        for to in self.leavers {
            told(ctx, to, Ok(()));
        }
        ctx.out.push(Effect::ScheduleEnded { local });
    }
}

pub(super) fn told(ctx: &mut Ctx, to: ReplyTo, result: std::result::Result<(), Error>) {
    ctx.reply(to, Answer::Scheduled(result));
}
