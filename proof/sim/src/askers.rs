//! Users that ask, and handlers that are asked: in some runs. The judge's book of asks is in `asks`.

use std::time::Duration;

use bytes::Bytes;

use super::actor::{Order, State};
use super::asks::End;
use super::node::nanos;
use super::rng::Rng;
use super::users::{Ask, Asked};
use super::world::{Event, MS, World};
use tenure_protocol::core::effect::HandedAsk;
use tenure_protocol::core::input::{Command, HandlerEvent, Input, NewAsk, Until};
use tenure_protocol::core::time::Time;
use tenure_protocol::error::{AskError, DispatchError, NotHandled};
use tenure_protocol::model::id::{JobKey, Token, WorkerId};
use tenure_protocol::step::{DispatchItem, Said};

/// How many asks a healed pool is to answer.
const AT_REST: u64 = 3;
/// How long a healed pool may wait for answers that were lost before.
const SETTLES: u64 = 8_000 * MS;

/// The source of asks. It is their own, so that other draws do not depend on them.
#[derive(Debug)]
pub(super) struct Askers {
    rng: Rng,
    happen: bool,
    asked: u64,
    pub(super) answers: u64,
    asked_healed: u64,
    /// From when on nothing disturbs the healed pool.
    calm_from: Option<u64>,
}

impl Askers {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(!seed.rotate_left(56));
        let happen = rng.chance(5_000);
        Self { rng, happen, asked: 0, answers: 0, asked_healed: 0, calm_from: None }
    }
}

/// A user's question, until it has its answer.
#[derive(Clone, Debug)]
pub(super) struct Question {
    name: String,
    key: JobKey,
    idempotent: bool,
    /// A job is started if there is none.
    starts: bool,
    /// Nothing had disturbed the pool, or all was healed, when it was asked.
    calm: bool,
}

/// The way in which a handler takes an ask.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    Answers,
    /// Its answer comes from a task of its own, this much later.
    AnswersLater(u64),
    Refuses,
    Drops,
    /// It sends it on to the next owner, perhaps from a task of its own and this much later.
    SendsOn(Option<u64>),
    /// It keeps it, and says nothing.
    Keeps,
}

impl World {
    fn undisturbed(&self) -> bool {
        self.report.faults.is_empty()
    }

    /// Nothing disturbs the pool, and nothing that was lost before is waited for.
    fn is_calm(&self) -> bool {
        self.undisturbed() || self.askers.calm_from.is_some_and(|from| from <= self.now)
    }

    /// A user asks now and then. A healed pool is asked, too.
    pub(super) fn ask_owner(&mut self) {
        let many = if self.healed { 10_000 } else { 2_500 };
        let enough = self.healed && (self.ending || self.askers.asked_healed >= AT_REST);
        let calm_from = self.healed.then(|| *self.askers.calm_from.get_or_insert(self.now + SETTLES));
        let early = calm_from.is_some_and(|from| self.now < from);
        if !self.askers.happen || enough || early || !self.askers.rng.chance(many) {
            return;
        }
        let usable = self.usable();
        let (Some(at), Some(key)) = (self.askers.rng.pick(&usable), self.key_to_ask()) else { return };
        self.askers.asked_healed += u64::from(self.healed);
        let ttl = nanos(self.settings.worker_ttl);
        let patience = if self.healed { 5_000 * MS } else { self.askers.rng.between(ttl / 5, 3 * ttl) };
        let deadline = self.local(at) + Duration::from_nanos(patience);
        if self.askers.rng.chance(4_000) && !self.healed {
            self.notify_first(at, &key, deadline);
        }
        let (idempotent, starts) = (self.askers.rng.chance(3_333), self.askers.rng.chance(2_000));
        self.put(at, key.clone(), idempotent, starts, deadline);
        if self.askers.rng.chance(500) && !self.healed {
            self.judge.stop_wanted(&key);
            let (until, what) = (Until::Recorded, Ask::Stop { key: key.clone(), until: Until::Recorded });
            let command = |reply| Command::StopJob { reply, key, id: None, until, deadline };
            self.ask(at, what, Some(deadline), command);
        }
        if self.askers.rng.chance(500) && !self.healed {
            self.drop_an_ask(at);
        }
    }

    /// Often that of a job that is there.
    fn key_to_ask(&mut self) -> Option<JobKey> {
        let rng = &mut self.askers.rng;
        let (there, number) = (rng.chance(7_000), rng.below(self.options.keys));
        let some =
            there.then(|| self.judge.records.keys().nth(rng.below(self.judge.records.len() as u64) as usize));
        some.flatten().cloned().or_else(|| JobKey::new(format!("k{number}")).ok())
    }

    fn notify_first(&mut self, at: usize, key: &JobKey, deadline: Time) {
        let (key, body) = (key.clone(), Bytes::from(format!("before q{}", self.askers.asked)));
        let what = Ask::Notify { key: key.clone(), body: body.clone(), start: None };
        let command = |reply| Command::Notify { reply, key, body, start: None, deadline };
        self.ask(at, what, Some(deadline), command);
    }

    fn put(&mut self, at: usize, key: JobKey, idempotent: bool, starts: bool, deadline: Time) {
        self.askers.asked += 1;
        let name = format!("q{}", self.askers.asked);
        self.judge.asks(&name, &key, idempotent, self.now);
        let calm = self.is_calm();
        let question = Question { name: name.clone(), key: key.clone(), idempotent, starts, calm };
        let body = Bytes::from(name.clone());
        let ask = NewAsk { key, body, name: Some(name), idempotent, deadline };
        let command = |reply| Command::Ask { reply, ask };
        self.ask(at, Ask::Question(question), Some(deadline), command);
    }

    /// A user waits no longer for an answer.
    fn drop_an_ask(&mut self, at: usize) {
        // One that was asked in this moment has not reached its node.
        let waits = |asked: &Asked| matches!(asked.what, Ask::Question(_)) && asked.since < self.now;
        let mut open = self.nodes[at].asked.iter();
        let Some(reply) = open.find(|(_, asked)| waits(asked)).map(|(to, _)| *to) else { return };
        self.step(at, Input::Unasked(reply));
        self.nodes[at].asked.remove(&reply);
    }

    /// Asks that a healed pool is still to answer.
    pub(super) fn asks_to_come(&self) -> bool {
        self.askers.happen && self.askers.asked_healed < AT_REST
    }

    /// An asker hears how its ask has ended.
    pub(super) fn ask_ends(
        &mut self,
        at: usize,
        question: Question,
        deadline: Option<Time>,
        result: &Result<Bytes, AskError>,
    ) {
        self.askers.answers += u64::from(result.is_ok());
        let in_time = deadline.is_some_and(|deadline| self.local(at) < deadline);
        let stays = !self.nodes[at].closing && !self.closing && !self.ending;
        let calm = question.calm && self.is_calm();
        let end = End { now: self.now, in_time, undisturbed: self.undisturbed(), calm, stays };
        self.judge.ask_ended(&question.name, result, end);
        let Some(by) = deadline.filter(|_| in_time && question.starts && self.is_usable(at)) else { return };
        if matches!(result, Err(AskError::NotHandled(NotHandled::NoJob)))
            && let Some(item) = self.startable(at, &question.key)
        {
            let what = Ask::Start { item: item.clone(), question };
            self.ask(at, what, Some(by), |reply| Command::Submit {
                reply,
                item,
                started: true,
                deadline: by,
            });
        }
    }

    /// The job that was missing is there, perhaps by somebody else: it is asked.
    pub(super) fn started_to_ask(
        &mut self,
        at: usize,
        (item, since): (&DispatchItem, u64),
        question: Question,
        deadline: Option<Time>,
        answer: &Result<(), DispatchError>,
    ) {
        self.fits(at, item, true, since, answer);
        let there = matches!(answer, Ok(()) | Err(DispatchError::JobExists { .. }));
        if let Some(by) = deadline.filter(|_| there && self.is_usable(at)) {
            let Question { key, idempotent, .. } = question;
            self.put(at, key, idempotent, false, by);
        }
    }

    // ---- handlers

    /// The engine hands a job asks. One that is not here sends them back.
    pub(super) fn hand_over(
        &mut self,
        at: usize,
        (worker, key, token): (WorkerId, JobKey, Token),
        asks: Vec<HandedAsk>,
    ) {
        let actor = self.running(at, worker, key.clone(), token);
        if let Some((id, actor)) = actor.and_then(|id| Some((id, self.actors.get_mut(&id)?))) {
            actor.orders.push_back(Order::Hear(asks));
            return self.nudge(id);
        }
        for ask in asks {
            let event = HandlerEvent::Answered(ask.id, Said::Moved);
            self.say(at, Input::Handler { worker, key: key.clone(), token, event });
        }
    }

    /// Its call with an ask has ended, and the next one comes.
    pub(super) fn hear_next(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let State::Hearing(_, in_hand) = &mut actor.state else { return };
        if let Some(ask) = in_hand.take() {
            self.reacts(id, &ask);
        }
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let State::Hearing(left, in_hand) = &mut actor.state else { return };
        if actor.cancelled {
            let left = std::mem::take(left).into();
            actor.state = State::Running;
            self.return_asks(id, left);
            return self.go_on(id);
        }
        let Some(ask) = left.pop_front() else {
            actor.state = State::Running;
            return self.go_on(id);
        };
        let (at, token, asked) = (actor.node, actor.token, ask.clone());
        if self.nodes.get(at).is_some_and(|node| node.clock.read(self.now) >= ask.deadline) {
            self.tell(id, HandlerEvent::Answered(ask.id, Said::Late));
            return self.hear_next(id);
        }
        *in_hand = Some(ask);
        self.judge.handed(&asked, token, self.now);
        let takes = self.draw_hearing();
        self.rouse(id, takes);
    }

    /// It was not called with these asks.
    pub(super) fn return_asks(&mut self, id: u64, asks: Vec<HandedAsk>) {
        for ask in asks {
            self.tell(id, HandlerEvent::Answered(ask.id, Said::Moved));
        }
    }

    /// It ends by itself, and the asks that it has not read are sent back.
    pub(super) fn return_all_asks(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        for order in std::mem::take(&mut actor.orders) {
            if let Order::Hear(asks) = order {
                self.return_asks(id, asks);
            }
        }
    }

    /// How long the handler's call with an ask takes.
    fn draw_hearing(&mut self) -> u64 {
        let long = !self.healed && self.askers.rng.chance(500);
        self.askers.rng.below(if long { 500 * MS } else { MS })
    }

    fn draw_reaction(&mut self) -> Reaction {
        let rng = &mut self.askers.rng;
        match rng.below(100) {
            _ if self.healed => Reaction::Answers,
            0..60 => Reaction::Answers,
            60..75 => Reaction::AnswersLater(rng.below(2_000 * MS)),
            75..85 => Reaction::Refuses,
            85..90 => Reaction::Drops,
            90..95 => {
                let later = rng.chance(3_000).then(|| rng.below(2_000 * MS));
                Reaction::SendsOn(later)
            }
            _ => Reaction::Keeps,
        }
    }

    /// The handler's call with an ask has come to its end.
    fn reacts(&mut self, id: u64, ask: &HandedAsk) {
        let Some(actor) = self.actors.get(&id) else { return };
        let (at, worker, key, token) = (actor.node, actor.worker, actor.key.clone(), actor.token);
        let words = Bytes::from(format!("{} under {token} by {worker}", ask.name));
        let (said, later) = match self.draw_reaction() {
            Reaction::Answers => (Said::Answer(words), None),
            Reaction::AnswersLater(delay) => (Said::Answer(words), Some(delay)),
            Reaction::Refuses => (Said::Refused(words), None),
            Reaction::Drops => (Said::Dropped, None),
            Reaction::SendsOn(later) => (Said::Moved, later),
            Reaction::Keeps => return,
        };
        self.judge.says_to_ask(ask, token, said.clone(), self.now + later.unwrap_or_default());
        let event = HandlerEvent::Answered(ask.id, said);
        match later {
            // Nobody stops a task of the handler's own: its word may come after the job's end.
            Some(delay) => {
                let input = Input::Handler { worker, key, token, event };
                self.after(delay, Event::Said(at, Box::new(input)));
            }
            None => self.tell(id, event),
        }
    }
}
