//! The engine of a node: hands each input to the part that it concerns, then lets every part do what is due.

use std::collections::{BTreeMap, BTreeSet};

use super::Time;
use super::effect::Effect;
use super::execution::{End, Key};
use super::input::{Done, HandlerEvent, Input, Number, Plan};
use super::leases::Leases;
use super::subscribers::{Subscribers, Topic};
use super::worker::Worker;
use crate::model::id::{Incarnation, NodeName};
use crate::store::{Breakage, Hint, Settle};

/// The configuration of a node.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) node: NodeName,
    /// The beginning of the names of its lanes: it tells this life of the node from any other.
    pub(crate) lanes: String,
    /// Its calls that watch have numbers above this one, which is above those of earlier lives.
    pub(crate) watches: u64,
    /// The line that a proof has left out.
    pub(crate) broken: Option<Breakage>,
}

/// What a worker sees of the rest.
pub(super) struct Ctx<'a> {
    pub(super) now: Time,
    pub(super) incarnation: Incarnation,
    pub(super) config: &'a Config,
    pub(super) leases: &'a mut Leases,
    pub(super) out: &'a mut Vec<Effect>,
}

/// All decisions of a node.
#[derive(Debug)]
pub(crate) struct Engine {
    config: Config,
    incarnation: Incarnation,
    leases: Leases,
    workers: BTreeMap<Number, Worker>,
    subscribers: Subscribers,
    /// Workers with something to do in this step.
    touched: BTreeSet<Number>,
    /// When each worker has something to do, if nothing happens before.
    due: BTreeMap<Number, Time>,
    timers: BTreeSet<(Time, Number)>,
}

impl Engine {
    pub(crate) fn new(config: Config, incarnation: Incarnation) -> Self {
        let leases = Leases::new(config.broken == Some(Breakage::NoAbort));
        Self {
            subscribers: Subscribers::new(config.watches),
            config,
            incarnation,
            leases,
            workers: BTreeMap::new(),
            touched: BTreeSet::new(),
            due: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }

    /// Takes in the inputs, and returns the effects. `now` is taken after the last of the inputs.
    pub(crate) fn step(&mut self, now: Time, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
        let mut out = Vec::new();
        for input in inputs {
            self.take(now, input, &mut out);
        }
        for (worker, end) in self.leases.step(now, &mut out) {
            self.end(worker, end);
        }
        while let Some((_, number)) = self.timers.first().filter(|(at, _)| *at <= now).copied() {
            self.set_timer(number, None);
            self.touched.insert(number);
        }
        for number in std::mem::take(&mut self.touched) {
            self.with(now, number, &mut out, Worker::act);
            if self.workers.get(&number).is_some_and(Worker::has_ended) {
                self.workers.remove(&number);
                self.subscribers.remove(number, &mut out);
                out.push(Effect::Gone(number));
            }
            self.set_timer(number, self.workers.get(&number).and_then(Worker::deadline));
        }
        self.touched.clear();
        out
    }

    /// When [`step`](Self::step) must be called again without an input. Right after a step this is in the future.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.leases.deadline().into_iter().chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// When each handler is aborted, unless its lease is renewed.
    #[cfg(feature = "sim")]
    pub(crate) fn aborts(&self) -> impl Iterator<Item = (&Key, Time)> {
        self.leases.aborts()
    }

    fn set_timer(&mut self, number: Number, at: Option<Time>) {
        if let Some(before) = self.due.remove(&number) {
            self.timers.remove(&(before, number));
        }
        if let Some(at) = at {
            self.due.insert(number, at);
            self.timers.insert((at, number));
        }
    }

    /// Lets a worker act.
    fn with(
        &mut self,
        now: Time,
        number: Number,
        out: &mut Vec<Effect>,
        act: impl FnOnce(&mut Worker, &mut Ctx<'_>),
    ) {
        let Self { incarnation, config, leases, workers, touched, .. } = self;
        if let Some(worker) = workers.get_mut(&number) {
            act(worker, &mut Ctx { now, incarnation: *incarnation, config, leases, out });
            touched.insert(number);
        }
    }

    fn end(&mut self, number: Number, end: End) {
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.end(end);
            self.touched.insert(number);
        }
    }

    fn take(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Worker(number, plan) => self.on_worker(now, number, plan, out),
            Input::Drain(number) => self.with(now, number, out, |worker, _| worker.drain(true)),
            Input::GiveBack(number) => {
                let ends = self.leases.give_back(number, out);
                out.push(Effect::GivenBack(number, ends.len()));
                self.with(now, number, out, |worker, _| {
                    worker.drain(false);
                    ends.into_iter().for_each(|end| worker.end(end));
                });
            }
            Input::Unowned(number) => self.with(now, number, out, |worker, _| worker.leave()),
            Input::Handler(key, event) => self.on_handler(now, &key, event, out),
            Input::Beat(key, beat) => {
                if let Some((worker, end)) = self.leases.beat(now, &key, beat, out) {
                    self.end(worker, end);
                }
            }
            Input::Halted(key) => self.leases.halt(&key, out),
            Input::Hint(hint) => self.on_hint(now, hint, out),
            Input::Follows(incarnation) => {
                self.incarnation = incarnation;
                self.look_again(now, out);
                // An owner, and a worker without a free slot, repeats its recent ends.
                self.touched.extend(self.workers.keys());
            }
            Input::Watch(number, id) => self.subscribers.add(number, Topic::Job(id), out),
            Input::Seek(number, queue) => self.subscribers.add(number, Topic::Queues(vec![queue]), out),
            Input::Unsubscribe(number) => self.subscribers.remove(number, out),
            Input::Done(Done::Worked { worker, settled, taken }) => {
                self.with(now, worker, out, |worker, ctx| worker.worked(ctx, settled, taken));
            }
            Input::Done(Done::Repeated(worker, answer)) => {
                self.with(now, worker, out, |worker, ctx| worker.repeated(ctx, answer));
            }
            Input::Done(Done::Renewed(answer)) => self.leases.renewed(now, answer, out),
            Input::Done(Done::WatchedAgain(done)) => self.subscribers.watched_again(done, out),
        }
    }

    fn on_worker(&mut self, now: Time, number: Number, plan: Plan, out: &mut Vec<Effect>) {
        let topic = match &plan.owner {
            Some(owner) => Topic::Group(owner.queue.clone(), owner.group.clone()),
            None => Topic::Queues(plan.queues.clone()),
        };
        self.subscribers.add(number, topic, out);
        let worker = Worker::new(now, self.incarnation, number, &self.config.lanes, plan);
        self.workers.insert(number, worker);
        self.touched.insert(number);
    }

    fn on_handler(&mut self, now: Time, key: &Key, event: HandlerEvent, out: &mut Vec<Effect>) {
        let (settle, is_stranded) = match event {
            HandlerEvent::Ended(settle) => (Some(settle), false),
            HandlerEvent::Gone => (None, false),
            HandlerEvent::Stranded => (Some(Settle::GiveBack), true),
        };
        let Some((number, end)) = self.leases.gone(key, settle, out) else { return };
        self.with(now, number, out, |worker, ctx| {
            worker.free();
            if is_stranded && end.is_some() {
                worker.strand(ctx.out);
            }
            if let Some(end) = end {
                worker.end(end);
            }
        });
    }

    fn on_hint(&mut self, now: Time, hint: Hint, out: &mut Vec<Effect>) {
        match hint {
            Hint::Ready(queue, group) => {
                let waiting = self.subscribers.waiting(queue, group);
                self.wake(now, waiting, out);
            }
            Hint::Earlier => out.push(Effect::Tick),
            Hint::Halted(id, token) => self.leases.halt(&(id, token), out),
            Hint::Cancel(id, token) => self.leases.cancel(&(id, token), out),
            Hint::Extend => self.leases.renew_all(now),
            Hint::News(news) => self.subscribers.tell(&news, out),
            Hint::Refused(why) => self.subscribers.refused(why, out),
            Hint::Subscribed => {
                self.subscribers.heard(out);
                self.look_again(now, out);
            }
        }
    }

    fn wake(&mut self, now: Time, numbers: Vec<Number>, out: &mut Vec<Effect>) {
        for number in numbers {
            if self.workers.contains_key(&number) {
                self.with(now, number, out, |worker, _| worker.wake());
            } else {
                out.push(Effect::Wake(number));
            }
        }
    }

    /// Messages may have been missed: everybody looks for himself.
    fn look_again(&mut self, now: Time, out: &mut Vec<Effect>) {
        let all = self.subscribers.all_waiting();
        self.wake(now, all, out);
        self.leases.renew_all(now);
        self.subscribers.watch_again(out);
    }
}
