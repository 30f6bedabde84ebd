//! Asks on their way to the owners of jobs. The asker keeps the ask: the store has only the events.
//!
//! An ask is sent in attempts, each with an id and a token. Another attempt is made only in two cases, so that an ask
//! that is not idempotent is handed to a handler at most once:
//! - its token is dead, and nothing of the attempt can stand in a stream;
//! - the one worker that may hand it over has refused it, and remembers that.
//!
//! An attempt whose call had no answer may stand in a stream. So it is not sent again: a poke asks what became of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::line::Kind;
use super::request::{Request, Want, bad_record};
use super::requests::{Requests, SMALL};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::{Answer, NewAsk, ReplyTo};
use crate::core::time::Time;
use crate::error::{AskError, NotHandled};
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::member::Members;
use crate::model::record::{JobState, Record};
use crate::mutation::Mutation;
use crate::step;
use crate::step::{AskEvent, AskId, AskItem, AskReply, LookUp, Lookup, Said};

/// After this time without a reply the job's record is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The pauses before a job that nobody runs is asked again.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// The most jobs whose owners are remembered.
const KNOWN_MAX: usize = 65_536;

/// One open ask.
#[derive(Debug)]
pub(super) struct Question {
    body: Bytes,
    /// It may be handled more than once.
    idempotent: bool,
    /// The name by which its handler knows it.
    name: String,
    /// The number of the present attempt.
    number: u64,
    /// Where the present attempt goes: it never goes anywhere else.
    target: Option<(WorkerId, Token)>,
    /// The present attempt may stand in a stream.
    pub(super) sent: bool,
    /// A look has found the token of the present attempt dead. Its worker's last word may be on its way.
    dead: bool,
    /// The worker of the present attempt is no member any more. Its job is about to be taken from it.
    orphaned: bool,
    /// An earlier attempt may have been handled.
    doubtful: bool,
    /// It is in a line.
    under_way: bool,
    /// The attempt that the call in flight is about, and whether the call only asks what became of the attempt.
    in_flight: Option<(u64, bool)>,
    pause: Duration,
}

/// What the asks of one node share.
#[derive(Debug, Default)]
pub(super) struct Asks {
    last: u64,
    attempts: BTreeMap<u64, ReplyTo>,
    /// Owners of jobs, as last heard.
    known: BTreeMap<JobKey, (WorkerId, Token)>,
}

impl Asks {
    fn attempt(&mut self, to: ReplyTo) -> u64 {
        self.last += 1;
        self.attempts.insert(self.last, to);
        self.last
    }

    pub(super) fn question(&mut self, ctx: &Ctx, to: ReplyTo, ask: NewAsk) -> Question {
        let number = self.attempt(to);
        let own = || AskId { life: ctx.config.nonce, number }.to_string();
        Question {
            body: ask.body,
            idempotent: ask.idempotent,
            name: ask.name.unwrap_or_else(own),
            number,
            target: self.known.get(&ask.key).copied(),
            sent: false,
            dead: false,
            orphaned: false,
            doubtful: false,
            under_way: false,
            in_flight: None,
            pause: PAUSE_MIN,
        }
    }

    pub(super) fn close(&mut self, question: &Question) {
        self.attempts.remove(&question.number);
    }

    fn saw_owner(&mut self, key: &JobKey, owner: (WorkerId, Token)) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(key.clone(), owner);
    }
}

impl Question {
    fn unknown(&self) -> AskError {
        AskError::Unknown { id: self.name.clone() }
    }

    /// The error that it ends with, if nothing of the present attempt can have been handled.
    pub(super) fn or_unknown(&self, error: AskError) -> AskError {
        if self.doubtful { self.unknown() } else { error }
    }

    /// The error that it ends with now. The present attempt may have been handled, or may be.
    pub(super) fn cut_off(&self, error: AskError) -> AskError {
        let flies = self.in_flight == Some((self.number, false)) && self.target.is_some();
        if self.sent || flies { self.unknown() } else { self.or_unknown(error) }
    }

    /// The call in flight has failed.
    pub(super) fn failed(&mut self, unanswered: bool) {
        let flew = self.in_flight.take() == Some((self.number, false));
        self.sent |= unanswered && flew && self.target.is_some();
    }
}

impl Requests {
    fn question(&mut self, to: ReplyTo) -> Option<(&JobKey, &mut Question)> {
        let Request { key, want: Want::Ask(question), .. } = self.open.get_mut(&to)? else { return None };
        Some((key, question))
    }

    fn asked(&mut self, ctx: &mut Ctx, to: ReplyTo, result: Result<Bytes, AskError>) {
        self.reply(ctx, to, Answer::Asked(result));
    }

    fn not_handled(&mut self, ctx: &mut Ctx, to: ReplyTo, why: NotHandled) {
        if let Some((_, question)) = self.question(to) {
            let error = question.or_unknown(AskError::NotHandled(why));
            self.asked(ctx, to, Err(error));
        }
    }

    /// These are the pool's members now. Asks that may be made anew follow the jobs of workers that have left: they look at
    /// once, and then after short pauses. All others wait for the last word of their worker. After a loss of data a worker may
    /// come back with its jobs, and is asked again.
    pub(in crate::core) fn on_members(&mut self, members: &Members) {
        let changes = |request: &mut Request| match &mut request.want {
            Want::Ask(question) if question.idempotent => {
                let left = |(worker, _): (WorkerId, Token)| !members.entries.contains_key(&worker);
                let orphaned = question.target.is_some_and(left);
                std::mem::replace(&mut question.orphaned, orphaned) != orphaned && question.sent
            }
            _ => false,
        };
        let changed = self.open.iter_mut().filter_map(|(to, request)| changes(request).then_some(*to));
        for to in changed.collect::<Vec<_>>() {
            self.go_on(to);
        }
    }

    /// Sends the present attempt, or looks at the job's record, unless a call is under way.
    pub(super) fn enter(&mut self, kind: Kind, to: ReplyTo) {
        self.wait_until(to, None);
        if let Some((_, question)) = self.question(to).filter(|(_, question)| !question.under_way) {
            question.under_way = true;
            self.push(kind, to);
        }
    }

    /// Nobody runs the job now: the present attempt goes again after a growing pause.
    fn pause(&mut self, now: Time, to: ReplyTo) {
        if let Some((_, question)) = self.question(to) {
            let pause = question.pause;
            question.pause = (pause * 2).min(PAUSE_MAX);
            self.wait_until(to, Some(now + pause));
        }
    }

    /// Makes another attempt. Nothing of the present one is handed over from now on, or the ask is idempotent.
    fn renew(&mut self, to: ReplyTo, target: Option<(WorkerId, Token)>) {
        let Some(Request { want: Want::Ask(question), .. }) = self.open.get_mut(&to) else { return };
        self.asks.close(question);
        (question.number, question.target) = (self.asks.attempt(to), target);
        (question.sent, question.dead, question.orphaned) = (false, false, false);
    }

    /// A call about it has come back. Returns whether the call was only a look or a poke; `None` if it concerned an earlier
    /// attempt.
    fn is_back(&mut self, now: Time, to: ReplyTo) -> Option<bool> {
        let (_, question) = self.question(to)?;
        question.under_way = false;
        let (number, poke) = question.in_flight.take()?;
        if number != question.number {
            self.catch_up(now, to);
            return None;
        }
        Some(poke)
    }

    /// Goes on with the present attempt.
    fn catch_up(&mut self, now: Time, to: ReplyTo) {
        match self.open.get(&to) {
            Some(Request { next: None, want: Want::Ask(question), .. }) if question.sent => {
                self.wait_until(to, Some(now + LOOK));
            }
            Some(Request { next: None, .. }) => self.enter(Kind::Ask, to),
            _ => {}
        }
    }

    pub(super) fn on_asked(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: AskReply) {
        let Some(poke) = self.is_back(ctx.now, to) else { return };
        let Some((key, question)) = self.question(to) else { return };
        let is_late = reply == AskReply::Late;
        match reply {
            AskReply::Sent => {
                question.sent = true;
                if question.orphaned {
                    self.pause(ctx.now, to);
                } else {
                    self.wait_until(to, Some(ctx.now + LOOK));
                }
            }
            // Only the record says what became of the attempt.
            _ if poke => self.retry(ctx, to),
            AskReply::Owner(Some(owner)) => self.on_owner(ctx.now, to, owner),
            AskReply::Owner(None) | AskReply::Bad => {
                let error = question.or_unknown(bad_record(key).into());
                self.asked(ctx, to, Err(error));
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
        self.is_late |= is_late;
    }

    /// The job has another owner than the attempt names, which is in no stream.
    fn on_owner(&mut self, now: Time, to: ReplyTo, owner: (WorkerId, Token)) {
        let Some((key, question)) = self.question(to) else { return };
        let key = key.clone();
        match question.target {
            // The data went back: the token that is named may live again.
            Some((_, ours)) if owner.1 < ours => return self.pause(now, to),
            Some(_) => self.renew(to, Some(owner)),
            None => question.target = Some(owner),
        }
        self.asks.saw_owner(&key, owner);
        self.enter(Kind::Ask, to);
    }

    /// A worker of the pool has said this.
    pub(in crate::core) fn on_said(&mut self, ctx: &mut Ctx, id: AskId, said: Said) {
        let of_this_life = id.life == ctx.config.nonce;
        let Some(to) = self.asks.attempts.get(&id.number).copied().filter(|_| of_this_life) else { return };
        let Some((key, question)) = self.question(to) else { return };
        match said {
            Said::Answer(body) => self.asked(ctx, to, Ok(body)),
            Said::Refused(words) => {
                let words = String::from_utf8_lossy(&words).into_owned();
                self.asked(ctx, to, Err(AskError::Refused(words)));
            }
            Said::Busy => self.not_handled(ctx, to, NotHandled::Busy),
            Said::Unhandled => self.not_handled(ctx, to, NotHandled::TakesNone),
            Said::Moved | Said::Missed | Said::Late => {
                let key = key.clone();
                self.asks.known.remove(&key);
                self.renew(to, None);
                self.pause(ctx.now, to);
            }
            Said::Dropped | Said::Forgotten if question.idempotent => {
                question.doubtful = true;
                self.renew(to, None);
                self.pause(ctx.now, to);
            }
            Said::Dropped | Said::Forgotten => {
                let unknown = question.unknown();
                self.asked(ctx, to, Err(unknown));
            }
        }
    }

    /// In phase R a job without a record may still be running.
    pub(super) fn on_found_asked(&mut self, ctx: &mut Ctx, to: ReplyTo, found: Lookup, settled: bool) {
        if self.is_back(ctx.now, to).is_none() {
            return;
        }
        let Some((_, question)) = self.question(to) else { return };
        let Some((owner, token)) = question.target.filter(|_| question.sent) else {
            return self.catch_up(ctx.now, to);
        };
        match found.record {
            Some(record) if record.token == token && record.owner == Some(owner) => {
                question.dead = false;
                // A job that stops may still answer, and takes no pokes.
                if question.orphaned {
                    self.pause(ctx.now, to);
                } else if record.state == JobState::Running {
                    self.enter(Kind::Ask, to);
                } else {
                    self.wait_until(to, Some(ctx.now + LOOK));
                }
            }
            None if found.bad => self.wait_until(to, Some(ctx.now + LOOK)),
            Some(record) if !settled || record.token < token => self.retry(ctx, to),
            None if !settled => self.retry(ctx, to),
            record => self.token_is_dead(ctx, to, record.as_ref()),
        }
    }

    /// The attempt may have been handled. Its worker has said its last word, or will say none: an ask that ends here
    /// waits for that until the next look.
    fn token_is_dead(&mut self, ctx: &mut Ctx, to: ReplyTo, record: Option<&Record>) {
        let Some((key, question)) = self.question(to) else { return };
        question.idempotent |= ctx.config.broken.has(Mutation::DoubtfulAskSentAgain);
        let goes_on = record.is_some_and(|record| {
            matches!(record.state, JobState::Queued | JobState::Assigned | JobState::Running)
        });
        if question.idempotent && goes_on {
            question.doubtful = true;
            let key = key.clone();
            self.asks.known.remove(&key);
            self.renew(to, None);
            self.enter(Kind::Ask, to);
        } else if std::mem::replace(&mut question.dead, true) {
            let unknown = question.unknown();
            self.asked(ctx, to, Err(unknown));
        } else {
            self.wait_until(to, Some(ctx.now + LOOK));
        }
    }

    pub(super) fn flush_asks(&mut self, ctx: &mut Ctx, not_after: impl Fn(Time) -> u64) {
        let bytes = |request: &Request| match &request.want {
            Want::Ask(question) => 128 + request.key.as_bytes().len() + question.body.len(),
            _ => 0,
        };
        let life = ctx.config.nonce;
        let item = |request: &mut Request| {
            let Want::Ask(question) = &mut request.want else { return None };
            let (number, poke) = (question.number, question.sent);
            question.in_flight = Some((number, poke));
            let ask = AskEvent {
                id: AskId { life, number },
                name: question.name.clone(),
                token: question.target.map_or(Token(0), |(_, token)| token),
                not_after: not_after(request.deadline),
                poke,
                body: if poke { Bytes::new() } else { question.body.clone() },
            };
            let (key, guess) = (request.key.clone(), question.target.map(|(worker, _)| worker));
            Some(AskItem { key, guess, ask })
        };
        self.send(ctx, Kind::Ask, bytes, item, |ctx, items| {
            Call::Ask(step::Ask { asker: ctx.config.node.clone(), items })
        });
    }

    pub(super) fn flush_looks_at_asked(&mut self, ctx: &mut Ctx) {
        let item = |request: &mut Request| {
            let Want::Ask(question) = &mut request.want else { return None };
            question.in_flight = Some((question.number, true));
            Some(request.key.clone())
        };
        self.send(ctx, Kind::FindAsked, SMALL, item, |_, keys| Call::LookAtAsked(LookUp::of_keys(keys)));
    }
}
