//! The driver: one task, on an engine thread, that feeds the engine and performs its effects. Handlers and
//! planners run at home: on the runtime that the node was joined on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

use super::actor::panicked;
use super::actors::{Actors, Beside, End};
use super::alarm::Alarm;
use super::health::HealthRecord;
use super::history::Chronicle;
use super::int_map::IntMap;
use super::lease::Leases;
use super::log::{self, Log};
use super::metrics::Metrics;
use super::planners::{Part, Planners};
use super::room::Room;
use super::saving::Saving;
use crate::clock;
use crate::core::call::{Call, Done};
use crate::core::ctx::Config;
use crate::core::effect::{Effect, NewJob, Notice};
use crate::core::engine::Engine;
use crate::core::input::{Answer, Command, HandlerEvent, Input, LocalWorker, ReplyTo};
use crate::core::time::Time;
use crate::job::checkpoint::Savers;
use crate::job::handler::AnyHandler;
use crate::model::event::News;
use crate::model::id::{DispatchId, Incarnation, Revision, WorkerId};
use crate::model::settings::Settings;
use crate::store::{ShutdownMode, Store};

/// Start a step after this many inputs so effects do not fall behind. If the last input is a task's exit, inputs that
/// arrived before it are processed first, in the same step.
const STEP_INPUTS: usize = 1024;

/// A message from a user of the node.
pub(crate) enum Message {
    /// Pass a command to the engine, and answer.
    Command(Command, oneshot::Sender<Answer>),
    /// The caller no longer waits for the answer to a command about this dispatch.
    Withdrawn(DispatchId, ReplyTo),
    /// The caller no longer waits for the answer to its ask.
    Unasked(ReplyTo),
    /// A new worker's handler, where to publish its id, and its room if it has a capacity for several shards; its
    /// command follows.
    Handler(LocalWorker, Arc<dyn AnyHandler>, watch::Sender<Option<WorkerId>>, Option<Room>),
    /// A user of the node has done this.
    News(News),
    /// The other shards of the pool have ended.
    OthersEnded,
    /// Another shard of the pool was shut down in this way.
    OtherShutDown(ShutdownMode),
    /// Take part in a schedule or ticker while its user keeps the handle.
    Schedule { part: Part, command: Command, answer: oneshot::Sender<Answer> },
}

/// The part of the driver that the node's users see.
pub(crate) struct Watched {
    /// The engine has ended; not set if the driver ends otherwise.
    pub(crate) left: Arc<AtomicBool>,
    pub(crate) health: Arc<HealthRecord>,
    pub(crate) metrics: Metrics,
    /// The settings that the engine has adopted, and the revision of their map.
    pub(crate) settings: watch::Sender<(Revision, Arc<Settings>)>,
    pub(crate) beside: Beside,
}

/// A worker's handler, and the channel that publishes its id in the pool.
struct Local {
    handler: Arc<dyn AnyHandler>,
    id: watch::Sender<Option<WorkerId>>,
}

/// Calls under way. A turn of the driver polls those that were woken, and no others.
type Calls = FuturesUnordered<BoxFuture<'static, Done>>;

pub(crate) struct Driver {
    engine: Engine,
    config: Arc<Config>,
    store: Store,
    leases: Arc<Leases>,
    inputs: mpsc::UnboundedSender<Input>,
    calls: Calls,
    /// The two blocking reads, each alone, because the driver may cancel a read.
    node_read: Calls,
    pool_read: Calls,
    /// The runtime of handlers and planners.
    home: Handle,
    handlers: IntMap<LocalWorker, Local>,
    /// The room of those workers whose capacity is for several shards.
    rooms: IntMap<LocalWorker, Room>,
    actors: Actors,
    saving: Saving,
    planners: Planners,
    replies: IntMap<ReplyTo, oneshot::Sender<Answer>>,
    ended: bool,
    log: Log,
    history: Chronicle,
    watched: Watched,
}

impl Driver {
    pub(crate) fn new(
        config: Config,
        seed: u64,
        store: Store,
        leases: Arc<Leases>,
        inputs: mpsc::UnboundedSender<Input>,
        mut watched: Watched,
        home: Handle,
    ) -> Self {
        let planners = Planners::new(config.node.clone(), home.clone());
        let (to, given) = mpsc::unbounded_channel();
        let (to_end, ends) = mpsc::unbounded_channel();
        let on_refused = log::refusals(config.node.clone(), watched.metrics.refused_checkpoints());
        let max = config.settings.checkpoint_max as usize;
        let savers = Arc::new(Savers::new((to, to_end), max, on_refused));
        let beside = watched.beside.clone();
        let actors =
            Actors::new(&config, leases.clone(), inputs.clone(), beside, (savers, ends), home.clone());
        let log = Log::new(config.node.clone());
        let history = Chronicle::new(config.node.clone(), config.nonce, &config.settings);
        Self {
            log,
            history,
            engine: Engine::new(config.clone(), seed),
            config: Arc::new(config),
            store,
            leases,
            inputs,
            calls: Calls::new(),
            node_read: Calls::new(),
            pool_read: Calls::new(),
            home,
            handlers: IntMap::default(),
            rooms: IntMap::default(),
            actors,
            saving: Saving::new(given),
            planners,
            replies: IntMap::default(),
            ended: false,
            watched,
        }
    }

    /// Runs until the engine ends.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::UnboundedReceiver<Input>,
        mut messages: mpsc::Receiver<Message>,
    ) {
        let (mut members, mut settings) = (self.store.members(), self.store.settings());
        members.mark_changed();
        settings.mark_changed();
        let mut batch = vec![Input::Woke];
        let (mut has_users, mut alarm) = (true, Alarm::default());
        loop {
            // A task's end may give no input.
            if !batch.is_empty() {
                self.step(&mut batch);
            }
            // No more input may ever come.
            if self.ended {
                break;
            }
            let wait = self.engine.deadline().map(|at| at.since(clock::now()));
            tokio::select! {
                biased;
                Some(input) = events.recv() => batch.push(input),
                Some(done) = self.calls.next(), if !self.calls.is_empty() => batch.push(Input::Done(Box::new(done))),
                Some(done) = self.node_read.next(), if !self.node_read.is_empty() => batch.push(Input::Done(Box::new(done))),
                Some(done) = self.pool_read.next(), if !self.pool_read.is_empty() => batch.push(Input::Done(Box::new(done))),
                end = self.actors.next() => self.on_task_end(end, &mut events, &mut batch),
                input = self.planners.next() => batch.push(input),
                Ok(()) = members.changed() => batch.push(Input::Members(members.borrow_and_update().clone())),
                Ok(()) = settings.changed() => batch.push(Input::Settings(settings.borrow_and_update().clone())),
                message = messages.recv(), if has_users => {
                    has_users = message.is_some();
                    self.on_message(message.unwrap_or_else(nobody_left), &mut batch);
                }
                input = self.saving.next() => batch.push(input),
                () = alarm.after(wait) => batch.push(Input::Woke),
                () = self.history.write(&self.store) => {}
            }
            if self.has_company() {
                tokio::task::yield_now().await;
            }
            self.gather(&mut events, &mut messages, &mut batch);
            // The driver hands news of the maps to the engine before later commands of users who have seen it.
            if members.has_changed().is_ok_and(|changed| changed) {
                batch.push(Input::Members(members.borrow_and_update().clone()));
            }
            if settings.has_changed().is_ok_and(|changed| changed) {
                batch.push(Input::Settings(settings.borrow_and_update().clone()));
            }
        }
        self.actors.shut_down().await;
        self.planners.shut_down().await;
        self.leases.end();
        self.history.finish(&self.store).await;
        self.store.close().await;
        // The drop closes all unanswered commands.
        drop(self);
        messages.close();
        // Messages in the middle of being sent must be received, too: a dropped receiver would keep them, and their
        // senders would get no answer.
        while messages.recv().await.is_some() {}
    }

    /// Other tasks on this thread may be about to send inputs. The driver yields so that they join the same step:
    /// fewer and larger calls. Yielding costs a system call, so a driver alone on its thread does not.
    fn has_company(&self) -> bool {
        self.replies.len() > 1 || self.actors.tasks() > 1 || !self.calls.is_empty()
    }

    /// Takes all other inputs that have arrived into the same step.
    fn gather(
        &mut self,
        events: &mut mpsc::UnboundedReceiver<Input>,
        messages: &mut mpsc::Receiver<Message>,
        batch: &mut Vec<Input>,
    ) {
        // Drains each source before the next: a look at all of them costs more than most inputs.
        let mut came = true;
        while std::mem::take(&mut came) {
            while batch.len() < STEP_INPUTS
                && let Ok(input) = events.try_recv()
            {
                batch.push(input);
                came = true;
            }
            while batch.len() < STEP_INPUTS
                && let Some(end) = self.actors.try_next()
            {
                self.on_task_end(end, events, batch);
                came = true;
            }
            while batch.len() < STEP_INPUTS
                && let Some(Some(done)) = self.calls.next().now_or_never()
            {
                batch.push(Input::Done(Box::new(done)));
                came = true;
            }
            while batch.len() < STEP_INPUTS
                && let Ok(message) = messages.try_recv()
            {
                self.on_message(message, batch);
                came = true;
            }
        }
        // Once, and last: handlers that save without end hold up nothing else.
        batch.extend(self.saving.present().take(STEP_INPUTS));
    }

    fn on_message(&mut self, message: Message, batch: &mut Vec<Input>) {
        match message {
            Message::Command(command, answer) => {
                self.replies.insert(command.reply_to(), answer);
                batch.push(Input::Command(command));
            }
            Message::Schedule { part, command, answer } => {
                self.planners.add(part);
                self.on_message(Message::Command(command, answer), batch);
            }
            Message::Withdrawn(id, reply) => {
                self.replies.remove(&reply);
                batch.push(Input::Withdrawn { id, reply });
            }
            Message::Unasked(reply) => {
                self.replies.remove(&reply);
                batch.push(Input::Unasked(reply));
            }
            Message::News(news) => self.history.add(clock::now(), news),
            Message::OthersEnded => batch.push(Input::OthersEnded),
            Message::OtherShutDown(mode) => batch.push(Input::OtherShutDown(mode)),
            Message::Handler(local, handler, id, room) => {
                self.rooms.extend(room.map(|room| (local, room)));
                self.handlers.insert(local, Local { handler, id });
            }
        }
    }

    /// Inputs that a task sent before its end come before the end.
    fn on_task_end(&mut self, end: End, events: &mut mpsc::UnboundedReceiver<Input>, batch: &mut Vec<Input>) {
        batch.extend(std::iter::from_fn(|| events.try_recv().ok()));
        batch.extend(self.saving.present());
        batch.extend(self.actors.ended(end));
    }

    fn step(&mut self, batch: &mut Vec<Input>) {
        let now = clock::now();
        self.leases.progress(now, self.engine.read_at().unwrap_or(now), self.engine.seen());
        for input in batch.iter() {
            if let Input::Renewed { answer, .. } = input {
                let ends_in = self.leases.soft_deadlines().values().min().map(|end| end.since(now));
                self.log.renewed(now, answer, ends_in);
            }
            self.watched.health.hear(input);
            self.watched.metrics.hear(input);
            self.history.hear(now, input);
            tracing::trace!(?input, "input");
        }
        self.history.nudge(now, &self.store);
        self.engine.set_leases(self.leases.soft_deadlines());
        for (local, room) in &self.rooms {
            self.engine.set_taken_beside(*local, room.taken_beside());
        }
        for effect in self.engine.step(now, batch.drain(..)) {
            tracing::trace!(?effect, "effect");
            self.watched.metrics.see(&effect);
            self.history.see(now, &effect);
            self.perform(effect);
        }
        for (local, room) in &mut self.rooms {
            room.take(self.engine.taken(*local));
        }
        let status = self.engine.status();
        self.watched.metrics.show(&status);
        self.watched.health.show(status);
        for (step, long, error) in self.watched.health.failing(now) {
            self.log.failing(now, step, long, &error);
        }
    }

    fn start(&mut self, local: LocalWorker, worker: WorkerId, job: NewJob) {
        let Some(Local { handler, .. }) = self.handlers.get(&local) else {
            // A worker is never added without its handler.
            let (key, token, event) = (job.key, job.token, HandlerEvent::NotRun);
            return drop(self.inputs.send(Input::Handler { worker, key, token, event }));
        };
        self.actors.start(handler.clone(), worker, job);
    }

    fn seated(&mut self, local: LocalWorker, worker: Option<WorkerId>) {
        if let Some(Local { id, .. }) = self.handlers.get(&local) {
            id.send_replace(worker);
        }
        if worker.is_none() {
            // It has left for good, and none of its handlers runs.
            self.rooms.remove(&local);
            if let Some(Local { handler, .. }) = self.handlers.remove(&local) {
                drop_at(&self.home, handler);
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Call { incarnation, call } => self.call(incarnation, call),
            Effect::StopReadingPool => self.pool_read.clear(),
            Effect::Bless(run_id) => self.store.bless(&run_id),
            Effect::Expect { incarnation, members, settings } => {
                self.store.expect(incarnation, members, settings);
            }
            Effect::Reread { members } => self.store.reread(members),
            Effect::Renew { incarnation } => self.leases.renew(incarnation),
            Effect::Hold { incarnation, worker, from } => self.leases.hold(incarnation, worker, from),
            Effect::Keep { incarnation, worker } => self.leases.keep(incarnation, worker),
            Effect::Drop { worker } => self.leases.drop_worker(worker),
            Effect::Fence { worker } => self.leases.fence(worker),
            Effect::Start { local, worker, job } => self.start(local, worker, *job),
            Effect::Stop { worker, key, token, why } => self.actors.stop(&(worker, key), token, why),
            Effect::Cancel { worker, key, token, why } => self.actors.cancel(&(worker, key), token, why),
            Effect::Deliver { worker, key, token, taken } => {
                self.actors.deliver(&(worker, key), token, taken);
            }
            Effect::HandOver { worker, key, token, asks } => {
                self.actors.hand_over(&(worker, key), token, asks);
            }
            Effect::Update { worker, key, token, new } => self.actors.update(&(worker, key), token, *new),
            Effect::Look { worker, key, token } => self.actors.look(&(worker, key), token),
            Effect::Saved { worker, key, token, number } => self.saving.keep(worker, key, token, number),
            Effect::NotSaved { worker, key, token, number, why } => {
                self.saving.lose(&(worker, key, token), number, why);
            }
            Effect::Abort { worker, key, token } => self.actors.abort(&(worker, key), token),
            Effect::Seated { local, worker } => self.seated(local, worker),
            Effect::Settings { revision, settings, timing } => {
                let config = Arc::make_mut(&mut self.config);
                config.settings.clone_from(&settings);
                config.timing = timing;
                self.leases.go_by(timing);
                self.history.go_by(&config.settings);
                self.actors.go_by(config);
                self.watched.settings.send_replace((revision, Arc::from(settings)));
            }
            Effect::Plan { local, run, tick } => {
                let payload_max = self.config.settings.payload_max as usize;
                self.planners.plan(local, run, tick, payload_max);
            }
            Effect::AbortPlan { local } => self.planners.abort(local),
            Effect::Tick { local, tick } => {
                if !self.planners.tick(local, tick) {
                    let _ = self.inputs.send(Input::Unheard(local));
                }
            }
            Effect::ScheduleEnded { local } => self.planners.end(local),
            Effect::Reply { to, answer } => {
                if let Some(waiting) = self.replies.remove(&to) {
                    // The caller may have gone.
                    let _ = waiting.send(answer);
                }
            }
            Effect::Report(report) => {
                if let Notice::Trouble(error) = &report {
                    self.watched.health.trouble(error);
                }
                self.log.log(clock::now(), &report);
            }
            Effect::End => {
                self.ended = true;
                self.watched.left.store(true, Ordering::Release);
            }
        }
    }

    fn call(&mut self, incarnation: Incarnation, call: Call) {
        let store = self.store.clone();
        let reads = (matches!(call, Call::ReadNode(..)), matches!(call, Call::ReadPool(..)));
        let leases = matches!(call, Call::ForgetNode(..)).then(|| self.leases.clone());
        let step = call.metric().map(|step| (step, self.watched.metrics.call(step)));
        let health = self.watched.health.clone();
        let span = match &call {
            Call::Route(route, _) => {
                tracing::debug_span!("route", node = %self.config.node, jobs = route.jobs.len())
            }
            _ => tracing::Span::none(),
        };
        let future = async move {
            if let Some(leases) = leases {
                leases.rest().await;
            }
            let begun = Instant::now();
            let done = call.perform(&store, incarnation).await;
            if let Done::ForgetNode(_, Err(error)) = &done {
                tracing::debug!(%error, "the node's stream was left to expire");
            }
            if let Some((step, histogram)) = step {
                histogram.record(begun.elapsed());
                health.stepped(step, done.failure());
            }
            done
        }
        .instrument(span)
        .boxed();
        let calls = match reads {
            (true, _) => &mut self.node_read,
            (_, true) => &mut self.pool_read,
            _ => return self.calls.push(future),
        };
        // A new read takes the place of one that waits.
        calls.clear();
        calls.push(future);
    }
}

impl Drop for Driver {
    /// The driver may end by an abort, by a panic, or with its runtime. Then no lease is renewed for it, and its last
    /// state is no longer true.
    fn drop(&mut self) {
        self.leases.end();
        self.watched.metrics.rest();
        self.actors.let_go();
        for (_, Local { handler, .. }) in self.handlers.drain() {
            drop_at(&self.home, handler);
        }
    }
}

/// Drops a user's value on the runtime where it ran: the drop may need that runtime, take long, or panic. Nobody waits
/// for it, so a panic is logged there.
pub(super) fn drop_at(home: &Handle, what: impl Send + 'static) {
    home.spawn(async move {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(move || drop(what))) {
            tracing::error!(error = panicked(&*panic), "a handler or planner panicked while it was dropped");
        }
    });
}

/// The node has no handle left: it leaves its pool, and no caller waits for that.
fn nobody_left() -> Message {
    let (nobody, _) = oneshot::channel();
    Message::Command(Command::Close { reply: ReplyTo(u64::MAX), deadline: Time(u64::MAX) }, nobody)
}
