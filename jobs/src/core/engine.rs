//! The engine of a node: hands each input to the part concerned, then lets every part do what is due.

use std::collections::{BTreeMap, BTreeSet};

use super::Time;
use super::effect::{About, Effect, Heard, Level};
use super::input::{Done, Input, Number};
use super::leases::Leases;
use super::subscribers::{Subscribers, Topic};
use super::worker::Worker;
use crate::model::id::{Incarnation, NodeName};
use crate::store::{Breakage, Hint, TakeReply};

/// The configuration of a node.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) node: NodeName,
    /// The beginning of the names of lanes: a prefix of this life of the node alone.
    pub(crate) lanes: String,
    /// The number before that of the first watching call. Earlier lives had lower numbers.
    pub(crate) watches: u64,
    /// The line that a proof has left out.
    pub(crate) broken: Option<Breakage>,
}

/// The part of the engine behind its workers.
pub(super) struct Ctx<'a> {
    pub(super) now: Time,
    pub(super) incarnation: Incarnation,
    pub(super) config: &'a Config,
    pub(super) leases: &'a mut Leases,
    pub(super) out: &'a mut Vec<Effect>,
}

impl Ctx<'_> {
    /// Tells the operator of lasting damage.
    pub(super) fn rarely(&mut self, text: &'static str, about: About) {
        self.out.push(Effect::Report(Level::Rarely, text, about));
    }
}

/// All decisions of a node.
#[derive(Debug)]
pub(crate) struct Engine {
    config: Config,
    incarnation: Incarnation,
    leases: Leases,
    workers: BTreeMap<Number, Worker>,
    subscribers: Subscribers,
    /// Workers with something to do in this step, and in the next.
    touched: BTreeSet<Number>,
    later: BTreeSet<Number>,
    /// When workers may have something to do, if nothing happens before.
    timers: BTreeSet<(Time, Number)>,
}

impl Engine {
    pub(crate) fn new(config: Config, incarnation: Incarnation) -> Self {
        Self {
            subscribers: Subscribers::new(config.watches),
            leases: Leases::new(config.broken == Some(Breakage::NoAbort)),
            config,
            incarnation,
            workers: BTreeMap::new(),
            touched: BTreeSet::new(),
            later: BTreeSet::new(),
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
            self.with(now, worker, &mut out, |worker, _| worker.end([end]));
        }
        while let Some((_, number)) = self.timers.first().filter(|(at, _)| *at <= now).copied() {
            self.timers.pop_first();
            self.with(now, number, &mut out, |worker, _| worker.alarm = None);
        }
        for number in std::mem::take(&mut self.touched) {
            self.with(now, number, &mut out, Worker::act);
            let Some(worker) = self.workers.get_mut(&number) else { continue };
            if worker.has_ended() {
                self.workers.remove(&number);
                self.subscribers.remove(number, &mut out);
                out.push(Effect::Gone(number));
            } else if let Some(at) =
                worker.deadline().filter(|at| worker.alarm.is_none_or(|alarm| *at < alarm))
            {
                // A former alarm rings in vain.
                worker.alarm = Some(at);
                self.timers.insert((at, number));
            }
        }
        self.touched = std::mem::take(&mut self.later);
        out
    }

    /// When [`step`](Self::step) must be called again without an input: at once after a step in which jobs begin, and in
    /// the future after any other.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.touched.is_empty() {
            return Some(Time::ZERO);
        }
        self.leases.deadline().into_iter().chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// When each handler is aborted, unless its lease is renewed.
    #[cfg(feature = "sim")]
    pub(crate) fn aborts(&self) -> impl Iterator<Item = (&super::execution::Key, Time)> {
        self.leases.aborts()
    }

    /// Lets a worker do something, if the worker is there.
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

    fn take(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Worker(number, plan) => {
                for queue in &plan.queues {
                    let group = plan.owner.as_ref().map(|(group, _)| group.clone());
                    self.subscribers.add(number, Topic::Ready(queue.clone(), group), out);
                }
                let worker = Worker::new(now, self.incarnation, number, &self.config.lanes, plan);
                self.workers.insert(number, worker);
                self.touched.insert(number);
            }
            Input::Drain(number, question) => {
                self.with(now, number, out, |worker, _| worker.drain(Some(question)));
            }
            Input::GiveBack(number, question) => {
                let ends = self.leases.give_back(number, out);
                out.push(Effect::Answer(question, ends.len()));
                self.with(now, number, out, |worker, _| {
                    worker.drain(None);
                    worker.end(ends);
                });
            }
            Input::Unowned(number) => self.with(now, number, out, |worker, _| worker.leave()),
            Input::Left(key, settle, is_stranded) => {
                if let Some((number, end)) = self.leases.gone(&key, settle, out) {
                    self.with(now, number, out, |worker, ctx| worker.free(end, is_stranded, ctx.out));
                }
            }
            Input::Beat(key, beat) => {
                if let Some((worker, end)) = self.leases.beat(now, &key, beat, out) {
                    self.with(now, worker, out, |worker, _| worker.end([end]));
                }
            }
            Input::Hint(hint) => self.on_hint(now, hint, out),
            Input::Follows(incarnation) => {
                self.incarnation = incarnation;
                self.look_again(now, out);
                // Also a worker that is not woken repeats its recent ends.
                self.touched.extend(self.workers.keys());
            }
            Input::Subscribe(number, topic) => self.subscribers.add(number, topic, out),
            Input::Unsubscribe(number) => self.subscribers.remove(number, out),
            Input::Done(Done::Worked { worker, settled, taken }) => {
                let taken_jobs = taken.as_ref().and_then(|taken| match taken {
                    Ok((_, TakeReply::Taken { jobs, .. })) => Some(jobs.len()),
                    _ => None,
                });
                self.with(now, worker, out, |worker, ctx| worker.worked(ctx, settled, taken));
                if taken_jobs > Some(0) {
                    // A short job has ended by the next step, and its end goes with the next call.
                    self.touched.remove(&worker);
                    self.later.insert(worker);
                }
            }
            Input::Done(Done::Renewed(answer)) => self.leases.renewed(now, answer, out),
            Input::Done(Done::WatchedAgain(done)) => self.subscribers.watched_again(done, out),
        }
    }

    fn on_hint(&mut self, now: Time, hint: Hint, out: &mut Vec<Effect>) {
        match hint {
            Hint::Ready(queue, group) => self.wake(now, self.subscribers.waiting(queue, group), out),
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
                out.push(Effect::Tell(number, Heard::Ready));
            }
        }
    }

    /// Messages may have been missed: everybody looks for himself.
    fn look_again(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.wake(now, self.subscribers.all_waiting(), out);
        self.leases.renew_all(now);
        self.subscribers.watch_again(out);
    }
}
