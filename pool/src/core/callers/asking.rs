//! Asks on their way to the owners of jobs. The asker keeps the ask: the store has only the events.
//!
//! An ask is sent in attempts, each with an id and a token. Another attempt is made only in two cases, so that an ask
//! that is not idempotent is handed to a handler at most once:
//! - its token is dead, and nothing of the attempt can stand in a stream;
//! - the one worker that may hand it over has refused it, and remembers that.
//!
//! An attempt whose call had no answer may stand in a stream. So it is not sent again: a poke asks what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::refusing::split;
use super::request::bad_record;
use super::requests::send;
use crate::core::batcher::Batcher;
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::{Answer, NewAsk, ReplyTo};
use crate::core::time::{Time, earliest};
use crate::error::{AskError, Error, NotHandled};
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::{JobState, Record};
use crate::mutation::Mutation;
use crate::store;
use crate::store::{AskEvent, AskId, AskItem, AskReply, LookUp, Lookup, Said, StoreError};

/// After this time without a reply the job's record is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The pauses before a job that nobody runs is asked again.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// The most jobs whose owners are remembered.
const KNOWN_MAX: usize = 65_536;

/// The call that an ask waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    None,
    Sends,
    Looks,
}

/// One open ask.
#[derive(Debug)]
struct Question {
    ask: NewAsk,
    /// The name by which its handler knows it.
    name: String,
    /// The number of the present attempt.
    number: u64,
    /// Where the present attempt goes: it never goes anywhere else.
    target: Option<(WorkerId, Token)>,
    /// The present attempt may stand in a stream.
    sent: bool,
    /// A look has found the token of the present attempt dead. Its worker's last word may be on its way.
    dead: bool,
    /// An earlier attempt may have been handled.
    doubtful: bool,
    lane: Lane,
    /// When it goes on, if it waits for a time.
    due: Option<Time>,
    pause: Duration,
}

/// An item of a call under way: the ask, its attempt, and whether it is a poke.
#[derive(Clone, Copy, Debug)]
struct Flying {
    to: ReplyTo,
    number: u64,
    poke: bool,
}

/// The open asks of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Asking {
    last: u64,
    open: BTreeMap<ReplyTo, Question>,
    attempts: BTreeMap<u64, ReplyTo>,
    timers: BTreeSet<(Time, ReplyTo)>,
    sends: Batcher<ReplyTo>,
    looks: Batcher<ReplyTo>,
    flying: Vec<Flying>,
    looking: Vec<(ReplyTo, u64)>,
    /// The incarnation that the records are looked for in, if it was in phase N by then.
    looked_in: Option<Incarnation>,
    /// Owners of jobs, as last heard.
    known: BTreeMap<JobKey, (WorkerId, Token)>,
}

impl Asking {
    pub(in crate::core) fn ask(&mut self, ctx: &Ctx, to: ReplyTo, ask: NewAsk) {
        self.last += 1;
        let number = self.last;
        let name = ask.name.clone().unwrap_or_else(|| AskId { life: ctx.config.nonce, number }.to_string());
        let target = self.known.get(&ask.key).copied();
        self.timers.insert((ask.deadline, to));
        self.attempts.insert(number, to);
        let question = Question {
            ask,
            name,
            number,
            target,
            sent: false,
            dead: false,
            doubtful: false,
            lane: Lane::None,
            due: None,
            pause: PAUSE_MIN,
        };
        self.open.insert(to, question);
        self.send(to);
    }

    /// Its caller waits no longer.
    pub(in crate::core) fn forget(&mut self, to: ReplyTo) {
        self.close(to);
        self.sends.retain(|waiting| *waiting != to);
        self.looks.retain(|waiting| *waiting != to);
    }

    /// The pool lives in another incarnation: what was sent may be lost.
    pub(in crate::core) fn resubmit(&mut self, now: Time) {
        let sent: Vec<_> = self.open.iter().filter(|(_, q)| q.sent).map(|(to, _)| *to).collect();
        for to in sent {
            self.wait(to, now + RETRY);
        }
    }

    /// Sends the present attempt, or a poke for it, unless a call of it is under way.
    fn send(&mut self, to: ReplyTo) {
        self.enter(to, Lane::Sends);
    }

    /// Looks at the job's record, unless a call is under way.
    fn look(&mut self, to: ReplyTo) {
        self.enter(to, Lane::Looks);
    }

    fn enter(&mut self, to: ReplyTo, lane: Lane) {
        self.wait_until(to, None);
        let Some(question) = self.open.get_mut(&to).filter(|question| question.lane == Lane::None) else {
            return;
        };
        question.lane = lane;
        if lane == Lane::Looks { self.looks.push(to) } else { self.sends.push(to) }
    }

    fn wait(&mut self, to: ReplyTo, until: Time) {
        self.wait_until(to, Some(until));
    }

    fn wait_until(&mut self, to: ReplyTo, at: Option<Time>) {
        let Some(question) = self.open.get_mut(&to) else { return };
        let deadline = question.ask.deadline;
        let before = std::mem::replace(&mut question.due, at);
        for before in before.into_iter().filter(|before| *before != deadline) {
            self.timers.remove(&(before, to));
        }
        self.timers.extend(at.map(|at| (at, to)));
    }

    /// Nobody runs the job now: the present attempt goes again after a growing pause.
    fn pause(&mut self, now: Time, to: ReplyTo) {
        let Some(question) = self.open.get_mut(&to) else { return };
        let pause = question.pause;
        question.pause = (pause * 2).min(PAUSE_MAX);
        self.wait(to, now + pause);
    }

    /// Makes another attempt. Nothing of the present one is handed over from now on, or the ask is idempotent.
    fn renew(&mut self, to: ReplyTo, target: Option<(WorkerId, Token)>) {
        let Some(question) = self.open.get_mut(&to) else { return };
        self.last += 1;
        self.attempts.remove(&question.number);
        self.attempts.insert(self.last, to);
        (question.number, question.target) = (self.last, target);
        (question.sent, question.dead) = (false, false);
    }

    fn saw_owner(&mut self, key: &JobKey, owner: (WorkerId, Token)) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key.clone(), owner);
    }

    /// A call about it has come back, and concerned an earlier attempt: goes on with the present one.
    fn go_on(&mut self, now: Time, to: ReplyTo) {
        let Some(question) = self.open.get(&to) else { return };
        match question.due {
            Some(_) => {}
            None if question.sent => self.wait(to, now + LOOK),
            None => self.send(to),
        }
    }

    /// Returns whether the store finds this node's clock wrong.
    pub(in crate::core) fn on_asked(&mut self, ctx: &mut Ctx, replies: &[AskReply]) -> bool {
        self.sends.answered();
        let mut late = false;
        for (Flying { to, number, poke }, reply) in std::mem::take(&mut self.flying).into_iter().zip(replies)
        {
            let Some(question) = self.open.get_mut(&to) else { continue };
            question.lane = Lane::None;
            if question.number != number {
                self.go_on(ctx.now, to);
                continue;
            }
            late |= *reply == AskReply::Late;
            match reply {
                AskReply::Sent => {
                    question.sent = true;
                    self.wait(to, ctx.now + LOOK);
                }
                // Only the record says what became of the attempt.
                _ if poke => self.wait(to, ctx.now + RETRY),
                AskReply::Owner(Some(owner)) => self.on_owner(ctx.now, to, *owner),
                AskReply::Owner(None) | AskReply::Bad => {
                    let error = bad_record(&question.ask.key);
                    self.end_with(ctx, to, error.into());
                }
                AskReply::Waiting | AskReply::Gone | AskReply::Recovering | AskReply::Late => {
                    self.pause(ctx.now, to);
                }
                AskReply::Absent => self.not_handled(ctx, to, NotHandled::NoJob),
                AskReply::Stopping => self.not_handled(ctx, to, NotHandled::Stopping),
                AskReply::Parked => self.not_handled(ctx, to, NotHandled::Parked),
                AskReply::Paused => self.not_handled(ctx, to, NotHandled::Paused),
                AskReply::Crowded => self.not_handled(ctx, to, NotHandled::Busy),
            }
        }
        late
    }

    /// The job has another owner than the attempt names, which is in no stream.
    fn on_owner(&mut self, now: Time, to: ReplyTo, owner: (WorkerId, Token)) {
        let Some(question) = self.open.get_mut(&to) else { return };
        let key = question.ask.key.clone();
        match question.target {
            // The data went back: the token that is named may live again.
            Some((_, ours)) if owner.1 < ours => return self.pause(now, to),
            Some(_) => self.renew(to, Some(owner)),
            None => question.target = Some(owner),
        }
        self.saw_owner(&key, owner);
        self.send(to);
    }

    /// A worker of the pool has said this.
    pub(in crate::core) fn on_said(&mut self, ctx: &mut Ctx, id: AskId, said: Said) {
        let of_this_life = id.life == ctx.config.nonce;
        let Some(to) = self.attempts.get(&id.number).copied().filter(|_| of_this_life) else { return };
        let Some(question) = self.open.get_mut(&to) else { return };
        match said {
            Said::Answer(body) => self.finish(ctx, to, Ok(body)),
            Said::Refused(words) => {
                self.finish(ctx, to, Err(AskError::Refused(String::from_utf8_lossy(&words).into_owned())));
            }
            Said::Busy => self.not_handled(ctx, to, NotHandled::Busy),
            Said::Unhandled => self.not_handled(ctx, to, NotHandled::TakesNone),
            Said::Moved | Said::Missed | Said::Late => {
                let key = question.ask.key.clone();
                self.known.remove(&key);
                self.renew(to, None);
                self.pause(ctx.now, to);
            }
            Said::Dropped | Said::Forgotten if question.ask.idempotent => {
                question.doubtful = true;
                self.renew(to, None);
                self.pause(ctx.now, to);
            }
            Said::Dropped | Said::Forgotten => self.unknown(ctx, to),
        }
    }

    /// `normal`: the pool is in phase N. In phase R a job without a record may still be running.
    pub(in crate::core) fn on_looked(&mut self, ctx: &mut Ctx, found: Vec<Lookup>, normal: bool) {
        self.looks.answered();
        let settled = normal && self.looked_in == Some(ctx.incarnation);
        for ((to, number), found) in std::mem::take(&mut self.looking).into_iter().zip(found) {
            let Some(question) = self.open.get_mut(&to) else { continue };
            question.lane = Lane::None;
            let Some((owner, token)) = question.target.filter(|_| question.number == number && question.sent)
            else {
                self.go_on(ctx.now, to);
                continue;
            };
            match found.record {
                Some(record) if record.token == token && record.owner == Some(owner) => {
                    question.dead = false;
                    // A job that stops may still answer, and takes no pokes.
                    if record.state == JobState::Running {
                        self.send(to);
                    } else {
                        self.wait(to, ctx.now + LOOK);
                    }
                }
                None if found.bad => self.wait(to, ctx.now + LOOK),
                Some(record) if !settled || record.token < token => self.wait(to, ctx.now + RETRY),
                None if !settled => self.wait(to, ctx.now + RETRY),
                record => self.token_is_dead(ctx, to, record.as_ref()),
            }
        }
    }

    /// The attempt may have been handled. Its worker has said its last word, or will say none: an ask that ends here
    /// waits for that until the next look.
    fn token_is_dead(&mut self, ctx: &mut Ctx, to: ReplyTo, record: Option<&Record>) {
        let Some(question) = self.open.get_mut(&to) else { return };
        if ctx.config.broken.has(Mutation::DoubtfulAskSentAgain) {
            question.ask.idempotent = true;
        }
        let goes_on = record.is_some_and(|record| {
            matches!(record.state, JobState::Queued | JobState::Assigned | JobState::Running)
        });
        if !question.ask.idempotent || !goes_on {
            if std::mem::replace(&mut question.dead, true) {
                self.unknown(ctx, to);
            } else {
                self.wait(to, ctx.now + LOOK);
            }
            return;
        }
        question.doubtful = true;
        self.known.remove(&question.ask.key);
        self.renew(to, None);
        self.send(to);
    }

    /// The calls under way have no answer. `unanswered`: they may have been carried out. Returns whether the error is
    /// news, and the key of the first job.
    pub(in crate::core) fn send_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
        unanswered: bool,
    ) -> (bool, Option<JobKey>) {
        let flying = std::mem::take(&mut self.flying);
        let items: Vec<_> = flying.iter().map(|flying| flying.to).collect();
        let (whole, key) = (items.len(), self.first(&items));
        // A refused ask stands in no stream.
        let items = self.refused(ctx, items, error);
        for Flying { to, number, .. } in flying.iter().filter(|_| unanswered) {
            if let Some(question) = self.open.get_mut(to).filter(|question| question.number == *number) {
                question.sent |= question.target.is_some();
            }
        }
        (self.sends.failed(ctx.now, items, whole, error), key)
    }

    /// The store refuses these asks. Answers the asks that no handler can have, and returns the rest.
    fn refused(&mut self, ctx: &mut Ctx, items: Vec<ReplyTo>, error: &StoreError) -> Vec<ReplyTo> {
        let is_sent = |to: &ReplyTo| self.open.get(to).is_some_and(|question| question.sent);
        let (again, refused) = split(items, error, is_sent);
        for to in refused {
            self.end_with(ctx, to, Error::from(error.clone()).into());
        }
        again
    }

    /// The same for looks, which change nothing.
    pub(in crate::core) fn look_again(&mut self, now: Time, error: &StoreError) -> (bool, Option<JobKey>) {
        let items: Vec<_> = std::mem::take(&mut self.looking).into_iter().map(|(to, _)| to).collect();
        let (whole, key) = (items.len(), self.first(&items));
        (self.looks.failed(now, items, whole, error), key)
    }

    fn first(&self, items: &[ReplyTo]) -> Option<JobKey> {
        Some(self.open.get(items.first()?)?.ask.key.clone())
    }

    fn unknown(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        if let Some(question) = self.open.get(&to) {
            let id = question.name.clone();
            self.finish(ctx, to, Err(AskError::Unknown { id }));
        }
    }

    fn not_handled(&mut self, ctx: &mut Ctx, to: ReplyTo, why: NotHandled) {
        self.end_with(ctx, to, AskError::NotHandled(why));
    }

    /// Ends it with this error, if nothing of it can have been handled.
    fn end_with(&mut self, ctx: &mut Ctx, to: ReplyTo, error: AskError) {
        let Some(question) = self.open.get(&to) else { return };
        if question.doubtful { self.unknown(ctx, to) } else { self.finish(ctx, to, Err(error)) }
    }

    /// Ends it with this error, unless something of it may have been handled, or may be.
    fn cut_off(&mut self, ctx: &mut Ctx, to: ReplyTo, error: AskError) {
        let Some(question) = self.open.get(&to) else { return };
        let mut flying = self.flying.iter().filter(|flying| !flying.poke && question.target.is_some());
        if question.sent || flying.any(|flying| flying.to == to && flying.number == question.number) {
            self.unknown(ctx, to);
        } else {
            self.end_with(ctx, to, error);
        }
    }

    fn finish(&mut self, ctx: &mut Ctx, to: ReplyTo, result: Result<Bytes, AskError>) {
        if self.close(to) {
            ctx.reply(to, Answer::Asked(result));
        }
    }

    fn close(&mut self, to: ReplyTo) -> bool {
        let Some(question) = self.open.remove(&to) else { return false };
        self.attempts.remove(&question.number);
        self.timers.remove(&(question.ask.deadline, to));
        if let Some(due) = question.due {
            self.timers.remove(&(due, to));
        }
        true
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, why: &Error) {
        while let Some((&to, _)) = self.open.first_key_value() {
            self.cut_off(ctx, to, why.clone().into());
        }
        self.sends.clear();
        self.looks.clear();
    }

    pub(in crate::core) fn flush(
        &mut self,
        ctx: &mut Ctx,
        not_after: impl Fn(Time) -> u64,
        may_send: bool,
        clock_known: bool,
    ) {
        if self.open.is_empty() && self.timers.is_empty() {
            // Nobody waits for an ask that would be sent again.
            self.sends.clear();
            self.looks.clear();
            return;
        }
        let mut some_ended = false;
        while let Some((at, to)) = self.timers.first().copied().filter(|(at, _)| *at <= ctx.now) {
            self.timers.remove(&(at, to));
            let Some(question) = self.open.get_mut(&to) else { continue };
            if ctx.now >= question.ask.deadline {
                self.cut_off(ctx, to, AskError::NotHandled(NotHandled::Late));
                some_ended = true;
            } else {
                question.due = None;
                if question.sent { self.look(to) } else { self.send(to) }
            }
        }
        if some_ended {
            self.sends.retain(|to| self.open.contains_key(to));
            self.looks.retain(|to| self.open.contains_key(to));
        }
        if may_send && clock_known {
            self.flush_sends(ctx, not_after);
        }
        if may_send && let Some(batch) = self.looks.batch(ctx.now, |_| 512) {
            let key = |to: &ReplyTo| self.open.get(to).map(|q| ((*to, q.number), q.ask.key.clone()));
            let (looking, keys): (_, Vec<_>) = batch.iter().filter_map(key).unzip();
            (self.looking, self.looked_in) = (looking, ctx.settled_in());
            send(ctx, &mut self.looks, keys, |keys| Call::LookAtAsked(LookUp::of_keys(keys)));
        }
    }

    fn flush_sends(&mut self, ctx: &mut Ctx, not_after: impl Fn(Time) -> u64) {
        let bytes = |q: &Question| 128 + q.ask.key.as_bytes().len() + q.ask.body.len();
        let size = |to: &ReplyTo| self.open.get(to).map_or(0, bytes);
        let Some(batch) = self.sends.batch(ctx.now, size) else { return };
        let life = ctx.config.nonce;
        let item = |to: &ReplyTo| {
            let question = self.open.get(to)?;
            let (number, poke) = (question.number, question.sent);
            let body = if poke { Bytes::new() } else { question.ask.body.clone() };
            let ask = AskEvent {
                id: AskId { life, number },
                name: question.name.clone(),
                token: question.target.map_or(Token(0), |(_, token)| token),
                not_after: not_after(question.ask.deadline),
                poke,
                body,
            };
            let (key, guess) = (question.ask.key.clone(), question.target.map(|(worker, _)| worker));
            Some((Flying { to: *to, number, poke }, AskItem { key, guess, ask }))
        };
        let (flying, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(item).unzip();
        self.flying = flying;
        let asker = ctx.config.node.clone();
        send(ctx, &mut self.sends, items, |items| Call::Ask(store::Ask { asker, items }));
    }

    pub(in crate::core) fn deadline(&self, may_send: bool, clock_known: bool) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let sends = (may_send && clock_known).then(|| self.sends.deadline()).flatten();
        let looks = may_send.then(|| self.looks.deadline()).flatten();
        [sends, looks].into_iter().fold(timer, earliest)
    }
}
