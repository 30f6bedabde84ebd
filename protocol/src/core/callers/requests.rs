//! What users want of single jobs: stops, notifications, steers, other payloads and asks. Each request takes one step after
//! the other until its caller has an answer, or its deadline has passed. The engine guesses a job's owner, and the answer
//! corrects a wrong guess.

use std::collections::{BTreeMap, BTreeSet};

use super::asking::Asks;
use super::line::{Kind, Line};
use super::request::{Look, Request, Stop, Want};
use super::steering::Steering;
use super::updating::Update;
use crate::core::batcher::Batcher;
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::{Answer, Command, NewUpdate, ReplyTo};
use crate::core::one_call::Timers;
use crate::core::ring::Ring;
use crate::core::time::{Time, earliest};
use crate::error::{AskError, Error, NotHandled};
use crate::model::id::{DispatchId, JobKey, WorkerId};
use crate::step;
use crate::step::{LookUp, Refusal, StopItem, StoreError};

/// The bytes of an item without a payload: the limit of items in a call counts.
pub(super) const SMALL: fn(&Request) -> usize = |_| 512;

/// The open requests of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Requests {
    pub(super) open: BTreeMap<ReplyTo, Request>,
    pub(super) lines: [Line; Kind::COUNT],
    timers: Timers<ReplyTo>,
    /// Stops that a sweep found unfinished.
    pub(super) again: Batcher<StopItem>,
    /// The callers that wait for the end of each dispatch.
    pub(super) watched: BTreeMap<DispatchId, BTreeSet<ReplyTo>>,
    pub(super) asks: Asks,
    /// The store finds this node's reading of its clock wrong.
    pub(in crate::core) is_late: bool,
}

impl Requests {
    /// Takes a request of a user.
    pub(in crate::core) fn add(&mut self, ctx: &Ctx, ring: &Ring, command: Command) {
        let (to, key, want, deadline) = match command {
            Command::StopJob { reply, key, id, until, deadline } => {
                let stop = Stop { id, until, watched: false, heard: false, failed: None };
                (reply, key, Want::Stop(stop), deadline)
            }
            Command::Unpark { reply, key, deadline } => (reply, key, Want::Unpark(None), deadline),
            Command::Notify { reply, key, body, start, deadline } => {
                (reply, key, Want::Notify { body, start }, deadline)
            }
            Command::Steer { reply, key, way, reason, deadline } => {
                (reply, key, Want::Steer(Box::new(Steering::new(way, reason))), deadline)
            }
            Command::Update { reply, new } => {
                let NewUpdate { key, payload, of, expected, deadline } = new;
                let update = Update { payload, of, expected, follows: None };
                (reply, key, Want::Update(Box::new(update)), deadline)
            }
            Command::Ask { reply, ask } => {
                let (key, deadline) = (ask.key.clone(), ask.deadline);
                (reply, key, Want::Ask(Box::new(self.asks.question(ctx, reply, ask))), deadline)
            }
            _ => return,
        };
        let is_note = matches!(want, Want::Notify { .. });
        let owner = if is_note { ring.home(key.as_bytes()) } else { None };
        self.timers.set(deadline, to);
        self.open.insert(to, Request::new(key, want, owner, deadline));
        self.go_on(to);
    }

    /// Takes the next step of a request.
    pub(super) fn go_on(&mut self, to: ReplyTo) {
        let Some(request) = self.open.get(&to) else { return };
        match &request.want {
            Want::Stop(Stop { id: Some(_), watched: false, .. }) => self.push(Kind::Stop, to),
            Want::Notify { start: None, .. } => self.push(Kind::Notify, to),
            Want::Notify { start: Some(_), .. } => self.push(Kind::Start, to),
            Want::Unpark(Some(_)) if !request.in_doubt => self.push(Kind::Unpark, to),
            // The job may have been parked again since: looks again.
            Want::Stop(_) | Want::Steer(_) | Want::Unpark(_) => self.find(to),
            Want::Update(update) if update.follows.is_some() => self.push(Kind::Update, to),
            Want::Update(_) => self.push(Kind::FindToUpdate, to),
            Want::Ask(question) if question.sent => self.enter(Kind::FindAsked, to),
            Want::Ask(_) => self.enter(Kind::Ask, to),
        }
    }

    /// Looks up the job's record.
    pub(super) fn find(&mut self, to: ReplyTo) {
        self.wait_until(to, None);
        let Some(request) = self.open.get_mut(&to) else { return };
        if request.look == Look::Idle {
            request.look = Look::UnderWay;
            self.push(Kind::Find, to);
        } else {
            request.look = Look::Outdated;
        }
    }

    /// Continues the request at this time only.
    pub(super) fn wait_until(&mut self, to: ReplyTo, at: Option<Time>) {
        let Some(request) = self.open.get_mut(&to) else { return };
        let before = std::mem::replace(&mut request.next, at);
        if let Some(before) = before.filter(|&before| before != request.deadline) {
            self.timers.remove(before, &to);
        }
        if let Some(at) = at {
            self.timers.set(at, to);
        }
    }

    /// What it wants cannot be done now.
    pub(super) fn retry(&mut self, ctx: &Ctx, to: ReplyTo) {
        self.wait_until(to, Some(ctx.now + RETRY));
    }

    /// The job has another owner: sends the call there.
    pub(super) fn redirect(&mut self, kind: Kind, to: ReplyTo, owner: Option<WorkerId>) {
        if let Some(request) = self.open.get_mut(&to) {
            request.owner = owner;
            self.push(kind, to);
        }
    }

    /// The pool lives in another incarnation, which may have forgotten what was sent.
    pub(in crate::core) fn resubmit(&mut self, now: Time) {
        for to in std::mem::take(&mut self.watched).into_values().flatten() {
            if let Some(Request { want: Want::Stop(stop), in_doubt, .. }) = self.open.get_mut(&to) {
                (stop.watched, *in_doubt) = (false, true);
                self.wait_until(to, None);
                self.go_on(to);
            }
        }
        let is_sent = |request: &Request| matches!(&request.want, Want::Ask(question) if question.sent);
        let sent: Vec<_> =
            self.open.iter().filter(|(_, request)| is_sent(request)).map(|(to, _)| *to).collect();
        for to in sent {
            self.wait_until(to, Some(now + RETRY));
        }
    }

    /// Answers with a refusal that names the job.
    pub(super) fn refuse(&mut self, ctx: &mut Ctx, to: ReplyTo, why: impl FnOnce(JobKey) -> Error) {
        if let Some(request) = self.open.get(&to) {
            let answer = request.refused(why(request.key.clone()));
            self.reply(ctx, to, answer);
        }
    }

    /// It has come to pass.
    pub(super) fn done(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        let Some(request) = self.open.get(&to) else { return };
        let answer = match request.want {
            Want::Stop(_) => Answer::Stopped(Ok(())),
            Want::Notify { .. } => Answer::Notified(Ok(())),
            Want::Unpark(_) => Answer::Unparked(Ok(())),
            Want::Steer(_) => Answer::Steered(Ok(())),
            Want::Update(_) | Want::Ask(_) => return,
        };
        self.reply(ctx, to, answer);
    }

    pub(super) fn reply(&mut self, ctx: &mut Ctx, to: ReplyTo, answer: Answer) {
        if self.close(to) {
            ctx.reply(to, answer);
        }
    }

    /// The request's deadline has passed.
    pub(super) fn time_out(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        let Some(request) = self.open.get(&to) else { return };
        let answer = match &request.want {
            Want::Ask(question) => {
                Answer::Asked(Err(question.cut_off(AskError::NotHandled(NotHandled::Late))))
            }
            _ if ctx.pool_is_gone => request.refused(StoreError::Refused(Refusal::NoPool).into()),
            Want::Stop(Stop { watched: true, .. }) => Answer::Late { stopping: Some(request.key.clone()) },
            _ => Answer::Late { stopping: None },
        };
        self.reply(ctx, to, answer);
    }

    fn close(&mut self, to: ReplyTo) -> bool {
        let Some(request) = self.open.remove(&to) else { return false };
        for at in [Some(request.deadline), request.next].into_iter().flatten() {
            self.timers.remove(at, &to);
        }
        match &request.want {
            Want::Stop(Stop { id: Some(id), watched: true, .. }) => {
                if let Some(waiting) = self.watched.get_mut(id) {
                    waiting.remove(&to);
                    if waiting.is_empty() {
                        self.watched.remove(id);
                    }
                }
            }
            Want::Ask(question) => self.asks.close(question),
            _ => {}
        }
        true
    }

    /// The caller of an ask waits no longer.
    pub(in crate::core) fn forget(&mut self, to: ReplyTo) {
        self.close(to);
        self.drop_closed();
    }

    fn drop_closed(&mut self) {
        let Self { open, lines, .. } = self;
        for line in lines {
            line.waiting.retain(|to| open.contains_key(to));
        }
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, why: &Error) {
        while let Some((&to, request)) = self.open.first_key_value() {
            let answer = match &request.want {
                Want::Ask(question) => Answer::Asked(Err(question.cut_off(why.clone().into()))),
                _ => request.refused(why.clone()),
            };
            self.reply(ctx, to, answer);
        }
        self.lines.iter_mut().for_each(|line| line.waiting.clear());
    }

    fn on_time(&mut self, ctx: &mut Ctx) {
        let mut some_ended = false;
        while let Some((_, to)) = self.timers.due(ctx.now) {
            let Some(request) = self.open.get_mut(&to) else { continue };
            if ctx.now >= request.deadline {
                self.time_out(ctx, to);
                some_ended = true;
            } else {
                request.next = None;
                self.go_on(to);
            }
        }
        if some_ended {
            self.drop_closed();
        }
    }

    /// `may_send`: the pool's phase and incarnation are known. `not_after`: a deadline by the server's clock, if that is
    /// known.
    pub(in crate::core) fn flush(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        not_after: Option<impl Fn(Time) -> u64>,
        may_send: bool,
    ) {
        self.on_time(ctx);
        if !may_send {
            return;
        }
        // Most nodes have none.
        if !self.open.is_empty() {
            self.flush_open(ctx, ring, not_after);
        }
        if let Some(items) = self.again.batch(ctx.now, |_| 512) {
            ctx.call(Call::Stop(step::Stop { turn: None, repeat: true, waiting: None, items }));
        }
    }

    fn flush_open(&mut self, ctx: &mut Ctx, ring: &Ring, not_after: Option<impl Fn(Time) -> u64>) {
        let key = |request: &mut Request| Some(request.key.clone());
        self.send(ctx, Kind::Find, SMALL, key, |_, keys| Call::FindOwners(LookUp::of_keys(keys)));
        self.send(ctx, Kind::FindToUpdate, SMALL, key, |_, keys| Call::LookToUpdate(LookUp::of_keys(keys)));
        self.flush_stops(ctx);
        self.flush_notes(ctx);
        self.flush_steers(ctx);
        self.flush_updates(ctx);
        if let Some(not_after) = not_after {
            self.flush_asks(ctx, &not_after);
            self.flush_starts(ctx, ring, &not_after);
        }
        self.flush_looks_at_asked(ctx);
    }

    pub(in crate::core) fn deadline(&self, may_send: bool, clock_known: bool) -> Option<Time> {
        let timer = self.timers.deadline();
        if !may_send {
            return timer;
        }
        let first = earliest(timer, self.again.deadline());
        if self.open.is_empty() {
            return first;
        }
        let waits = |kind: usize| !clock_known && [Kind::Ask as usize, Kind::Start as usize].contains(&kind);
        let lines = self.lines.iter().enumerate().filter(|(kind, _)| !waits(*kind));
        lines.map(|(_, line)| line.waiting.deadline()).fold(first, earliest)
    }
}
