//! Handlers. Each job's handler follows a script from the seed, and reports the events that `runtime/actor.rs` would.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::node::nanos;
use super::saves::Saver;
use super::stalls::Progress;
use super::updates::Reception;
use super::world::{Event, MS, World};
use tenure_protocol::core::effect::{HandedAsk, HandedPayload, NewJob};
use tenure_protocol::core::input::{HandlerEvent, Input};
use tenure_protocol::model::id::{DispatchId, JobKey, Token, WorkerId};
use tenure_protocol::model::wire::ProgressTimeout;
use tenure_protocol::mutation::Mutation;

/// The behaviour of a handler; `None` for a time is for ever.
#[derive(Clone, Debug)]
struct Script {
    start_takes: Option<u64>,
    start: Opening,
    /// When it ends by itself after its start, and its result.
    ends: Option<(u64, End)>,
    stop_takes: Option<u64>,
    stop: Result<(), String>,
    /// A cancellation ends it; otherwise only its stop handler or an abort does.
    heeds: bool,
    note_takes: u64,
    /// It refuses this many notifications for now, one after the other.
    refuses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Succeeds,
    Fails,
    Refuses,
    Elsewhere,
}

/// How it ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Fails,
    /// Others end it.
    Lost,
    /// It says that no attempt can succeed.
    Hopeless,
}

impl End {
    fn event(self) -> HandlerEvent {
        match self {
            Self::Well => HandlerEvent::Ended(Ok(())),
            Self::Fails => HandlerEvent::Ended(Err("it failed".to_owned())),
            Self::Lost => HandlerEvent::Lost("it was killed".to_owned()),
            Self::Hopeless => HandlerEvent::Park("it is hopeless".to_owned()),
        }
    }
}

#[derive(Debug)]
pub(super) enum State {
    Spawned,
    Starting,
    Running,
    /// It takes one notification after the other. The number is of those that it has taken.
    Taking(VecDeque<Bytes>, Option<Bytes>, usize),
    /// It is called with one ask after the other; the last one is in its hands.
    Hearing(VecDeque<HandedAsk>, Option<HandedAsk>),
    /// It has another payload in hand, and will say this about it.
    Updating(HandedPayload, Reception),
    /// It has ended, and waits for the reason of its order to end.
    Asked,
    Stopping,
    Dying,
}

#[derive(Debug)]
pub(super) enum Order {
    Deliver(Vec<Bytes>),
    Hear(Vec<HandedAsk>),
    Update(HandedPayload),
    Stop,
}

/// One running job.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) id: u64,
    pub(super) node: usize,
    pub(super) worker: WorkerId,
    pub(super) key: JobKey,
    pub(super) token: Token,
    pub(super) dispatch: DispatchId,
    pub(super) payload: Bytes,
    script: Script,
    pub(super) state: State,
    pub(super) cancelled: bool,
    pub(super) orders: VecDeque<Order>,
    ends_at: Option<u64>,
    /// For a job with a progress timeout, as the engine knows it.
    pub(super) progress: Option<Progress>,
    /// The progress timeout of the payload that the handler has taken.
    pub(super) timeout: Option<ProgressTimeout>,
    pub(super) saver: Saver,
    /// Events of an earlier generation are void.
    generation: u64,
}

impl Actor {
    /// Its handler was called and has not ended.
    pub(super) fn runs(&self) -> bool {
        !matches!(self.state, State::Spawned)
    }

    /// It runs, and may have another payload in hand.
    pub(super) fn may_have_a_payload_in_hand(&self) -> bool {
        matches!(self.state, State::Running | State::Updating(..)) && !self.cancelled
    }

    /// Its start has succeeded, and no order to end has come.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, State::Running) && !self.cancelled
    }
}

impl World {
    fn script(&mut self) -> Script {
        let rng = &mut self.rng;
        let quiet = self.healed;
        let start_takes = match rng.below(100) {
            _ if quiet => Some(rng.below(5 * MS)),
            0..3 => None,
            3..15 => Some(rng.below(2_500 * MS)),
            _ => Some(rng.below(10 * MS)),
        };
        let start = match rng.below(100) {
            _ if quiet => Opening::Succeeds,
            0..4 => Opening::Fails,
            4..8 => Opening::Refuses,
            _ => Opening::Succeeds,
        };
        let ends = match rng.below(100) {
            _ if quiet => None,
            0..12 => Some((rng.below(5_000 * MS), End::Well)),
            12..18 => Some((rng.below(5_000 * MS), End::Fails)),
            18..20 => Some((rng.below(5_000 * MS), End::Lost)),
            20..21 => Some((rng.below(5_000 * MS), End::Hopeless)),
            _ => None,
        };
        let stop_takes = match rng.below(100) {
            _ if quiet => Some(rng.below(5 * MS)),
            0..3 => None,
            3..15 => Some(rng.below(2_500 * MS)),
            _ => Some(rng.below(20 * MS)),
        };
        let heeds = quiet || rng.chance(8_000);
        let note_takes = if rng.chance(500) { rng.below(1_000 * MS) } else { rng.below(MS) };
        let stop = if !quiet && rng.chance(500) { Err("it jammed".to_owned()) } else { Ok(()) };
        let refuses = if !quiet && rng.chance(1_000) { rng.between(1, 3) } else { 0 };
        Script { start_takes, start, ends, stop_takes, stop, heeds, note_takes, refuses }
    }

    pub(super) fn start(&mut self, at: usize, worker: WorkerId, job: NewJob) {
        let (id, mut script) = (self.id(), self.script());
        if self.draw_elsewhere() {
            script.start = Opening::Elsewhere;
        }
        if self.is_overtaken(&job.key) {
            script.start = Opening::Refuses;
        }
        let NewJob { key, token, id: dispatch, payload, checkpoint, .. } = job;
        let timeout = payload.progress;
        let progress = self.draw_progress(timeout, at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.running.insert((worker, key.clone()), id);
        let actor = Actor {
            id,
            node: at,
            worker,
            key,
            token,
            dispatch,
            payload: payload.body,
            script,
            state: State::Spawned,
            cancelled: false,
            orders: VecDeque::new(),
            ends_at: None,
            progress,
            timeout,
            saver: Saver::new(checkpoint),
            generation: 0,
        };
        // A worker's fence does not reach a job that is admitted later, so the job hears of it here.
        self.actors.insert(id, actor);
        let delay = if self.rng.chance(300) { self.rng.below(100 * MS) } else { self.rng.below(MS) };
        self.rouse(id, delay);
    }

    /// The actor's next event comes after `delay`, in place of the planned one.
    pub(super) fn rouse(&mut self, id: u64, delay: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        actor.generation += 1;
        let generation = actor.generation;
        self.after(delay, Event::Act(id, generation));
    }

    pub(super) fn act(&mut self, id: u64, generation: u64) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(&id).filter(|actor| actor.generation == generation) else {
            return;
        };
        match &mut actor.state {
            State::Spawned => {
                let (at, worker) = (actor.node, actor.worker);
                let local = self.local(at);
                let holds = self.nodes.get(at).is_some_and(|node| local < node.leases.holds_until(worker));
                let recheck = !self.options.broken.has(Mutation::NoRecheckAfterBegin);
                let Some(actor) = self.actors.get_mut(&id) else { return };
                if recheck && !holds {
                    return self.finish(id, HandlerEvent::NotRun);
                }
                actor.state = State::Starting;
                let takes = actor.script.start_takes;
                self.began(id);
                if let Some(delay) = takes {
                    self.rouse(id, delay);
                }
            }
            State::Starting => {
                let heeded = actor.cancelled && actor.script.heeds;
                match actor.script.start {
                    _ if heeded => self.finish(id, HandlerEvent::Failed("cancelled".into())),
                    Opening::Fails => self.finish(id, HandlerEvent::Failed("no luck".into())),
                    Opening::Refuses => {
                        let backoff = Some(Duration::from_millis(200));
                        self.finish(id, HandlerEvent::Refused { backoff, why: String::new() });
                    }
                    Opening::Elsewhere => self.finish(id, HandlerEvent::Elsewhere { why: String::new() }),
                    Opening::Succeeds => {
                        actor.state = State::Running;
                        let ends_at = actor.script.ends.as_ref().map(|(after, _)| now + after);
                        actor.ends_at = ends_at;
                        self.started(id);
                        if let Some(at) = ends_at {
                            self.will_end(id, at);
                        }
                        self.begins_to_run(id);
                        self.tell(id, HandlerEvent::Started);
                        self.go_on(id);
                    }
                }
            }
            State::Running | State::Asked => self.go_on(id),
            State::Taking(..) => self.take_next(id),
            State::Hearing(..) => self.hear_next(id),
            State::Updating(..) => self.answer_update(id),
            State::Stopping => {
                let result = actor.script.stop.clone();
                self.finish(id, HandlerEvent::Stopped(result));
            }
            State::Dying => self.finish(id, HandlerEvent::Aborted),
        }
    }

    /// It reads its messages, and may end by itself.
    pub(super) fn go_on(&mut self, id: u64) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let asked = matches!(actor.state, State::Asked);
        if !asked && actor.ends_at.is_some_and(|at| at <= now) {
            if !actor.cancelled {
                let end = actor.script.ends.take().map_or(End::Well, |(_, end)| end);
                self.return_all_asks(id);
                return self.finish(id, end.event());
            }
            actor.state = State::Asked;
            return self.go_on(id);
        }
        match actor.orders.pop_front() {
            Some(Order::Deliver(_)) if asked => self.go_on(id),
            Some(Order::Update(_)) if asked || actor.cancelled => self.go_on(id),
            Some(Order::Update(new)) => {
                let reception = self.updates.receive(self.healed);
                if let Some(delay) = reception.takes() {
                    self.rouse(id, delay);
                }
                if let Some(actor) = self.actors.get_mut(&id) {
                    actor.state = State::Updating(new, reception);
                }
            }
            Some(Order::Deliver(bodies)) => {
                actor.state = State::Taking(bodies.into(), None, 0);
                self.take_next(id);
            }
            Some(Order::Hear(asks)) if asked => {
                self.return_asks(id, asks);
                self.go_on(id);
            }
            Some(Order::Hear(asks)) => {
                actor.state = State::Hearing(asks.into(), None);
                self.hear_next(id);
            }
            Some(Order::Stop) => {
                actor.state = State::Stopping;
                if !self.saves_in_stop(id) {
                    self.stops(id);
                }
            }
            None => {
                if let (Some(at), false) = (actor.ends_at, asked) {
                    let delay = at - now;
                    self.rouse(id, delay);
                }
            }
        }
    }

    /// Its stop handler goes on to its end.
    pub(super) fn stops(&mut self, id: u64) {
        let Some(actor) = self.actors.get(&id).filter(|actor| matches!(actor.state, State::Stopping)) else {
            return;
        };
        if let Some(delay) = actor.script.stop_takes {
            self.rouse(id, delay);
        }
    }

    fn take_next(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let State::Taking(_, taken, count) = &mut actor.state else { return };
        if let Some(body) = taken.take() {
            if actor.script.refuses > 0 {
                actor.script.refuses -= 1;
                let (taken, pause, why) = (*count, Duration::from_millis(300), "later".to_owned());
                actor.state = State::Running;
                self.tell(id, HandlerEvent::NotYet { taken, pause, refusals: 1, why });
                return self.go_on(id);
            }
            *count += 1;
            let dispatch = actor.dispatch.clone();
            self.judge.delivered(&dispatch, &body);
        }
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let State::Taking(left, taken, _) = &mut actor.state else { return };
        if actor.cancelled {
            actor.state = State::Running;
            return self.go_on(id);
        }
        if let Some(body) = left.pop_front() {
            *taken = Some(body.clone());
            let (takes, dispatch) = (actor.script.note_takes, actor.dispatch.clone());
            self.judge.taking(&dispatch, &body);
            return self.rouse(id, takes);
        }
        actor.state = State::Running;
        self.tell(id, HandlerEvent::Delivered);
        self.go_on(id);
    }

    /// A message for the actor has come: it reads it at once unless it is busy.
    pub(super) fn nudge(&mut self, id: u64) {
        let idle = self.actors.get(&id).is_some_and(|a| matches!(a.state, State::Running | State::Asked));
        if idle {
            let delay = self.rng.below(MS);
            self.rouse(id, delay);
        }
    }

    pub(super) fn deliver(&mut self, id: u64, bodies: Vec<Bytes>) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.orders.push_back(Order::Deliver(bodies));
            self.nudge(id);
        }
    }

    pub(super) fn order_stop(&mut self, id: u64) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.orders.push_back(Order::Stop);
            self.nudge(id);
        }
    }

    /// Its cancellation fires.
    pub(super) fn cancel(&mut self, id: u64) {
        let now = self.now;
        let Some(actor) = self.actors.get_mut(&id) else { return };
        if std::mem::replace(&mut actor.cancelled, true) {
            return;
        }
        // A call that hangs is dropped after its time.
        if matches!(&actor.state, State::Updating(_, reception) if reception.takes().is_none()) {
            return self.rouse(id, 100 * MS);
        }
        if !actor.script.heeds {
            return;
        }
        match actor.state {
            State::Starting => {
                let delay = self.rng.below(5 * MS);
                self.rouse(id, delay);
            }
            State::Running => {
                actor.ends_at = actor.ends_at.map(|at| at.min(now + MS));
                self.nudge(id);
            }
            _ => {}
        }
    }

    pub(super) fn abort(&mut self, id: u64) {
        let kill = self.nodes.first().map_or(MS, |node| nanos(node.config.timing.kill));
        let Some(actor) = self.actors.get_mut(&id) else { return };
        match actor.state {
            State::Dying => {}
            State::Spawned => self.finish(id, HandlerEvent::Aborted),
            _ => {
                actor.state = State::Dying;
                let delay = if self.rng.chance(1_000) { self.rng.below(kill) } else { self.rng.below(MS) };
                self.rouse(id, delay);
            }
        }
    }

    fn under(&self, at: usize, worker: WorkerId) -> Vec<u64> {
        let own = |actor: &&Actor| actor.node == at && actor.worker == worker;
        self.actors.values().filter(own).map(|actor| actor.id).collect()
    }

    /// All jobs under the worker's lease are asked to end.
    pub(super) fn cancel_all(&mut self, at: usize, worker: WorkerId) {
        for id in self.under(at, worker) {
            self.cancel(id);
        }
    }

    pub(super) fn abort_all(&mut self, at: usize, worker: WorkerId) {
        for id in self.under(at, worker) {
            self.abort(id);
        }
    }

    /// They end at once.
    pub(super) fn end_all(&mut self, at: usize, worker: WorkerId) {
        for id in self.under(at, worker) {
            self.finish(id, HandlerEvent::Aborted);
        }
    }

    pub(super) fn tell(&mut self, id: u64, event: HandlerEvent) {
        let Some(actor) = self.actors.get(&id) else { return };
        let (at, worker, key, token) = (actor.node, actor.worker, actor.key.clone(), actor.token);
        self.say(at, Input::Handler { worker, key, token, event });
    }

    /// It has ended, and reports that.
    fn finish(&mut self, id: u64, event: HandlerEvent) {
        self.ends(id, &event);
        self.tell(id, event);
        self.bury(id);
    }

    /// It has ended.
    pub(super) fn bury(&mut self, id: u64) {
        let Some(actor) = self.actors.remove(&id) else { return };
        if let Some(node) = self.nodes.get_mut(actor.node) {
            let place = (actor.worker, actor.key);
            if node.running.get(&place) == Some(&id) {
                node.running.remove(&place);
            }
        }
    }
}
