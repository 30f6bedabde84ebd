//! The driver: one task that feeds the engine and does what it says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::actor::{self, Mailbox, Order};
use super::clock;
use super::lease::Leases;
use super::meters::{self, Meters};
use super::perform::perform;
use super::planners::{Part, Planners};
use super::vitals::Vitals;
use crate::breakage::Breakage;
use crate::builder::JobSpanHook;
use crate::core::call::{Call, Done};
use crate::core::ctx::Config;
use crate::core::effect::{Effect, NewJob, Notice};
use crate::core::engine::Engine;
use crate::core::input::{Answer, Command, HandlerEvent, Input, LocalWorker, ReplyTo};
use crate::core::time::Time;
use crate::handler::AnyHandler;
use crate::id::{DispatchId, Incarnation, JobKey, Revision, Token, WorkerId};
use crate::job::{Job, Parts};
use crate::runtime::notice;
use crate::settings::Settings;
use crate::store::Store;

/// The longest time that a notification which is being taken has left when its job comes to its end.
const NOTIFY_GRACE: Duration = Duration::from_secs(1);
/// The most inputs that one step takes, so that effects are never far behind.
const STEP_INPUTS: usize = 1024;
/// The engine is not woken more often than this by its own deadline.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// What a user of the node sends.
pub(crate) enum Message {
    /// Have the engine do something, and answer.
    Command(Command, oneshot::Sender<Answer>),
    /// Nobody waits any more for the answer to a command about this dispatch.
    Withdrawn(DispatchId, ReplyTo),
    /// A new worker's handler and where to publish its id; its command follows.
    Handler(LocalWorker, Arc<dyn AnyHandler>, watch::Sender<Option<WorkerId>>),
    /// Have the node take part in a schedule or ticker, for as long as somebody cares.
    Schedule { part: Part, command: Command, answer: oneshot::Sender<Answer> },
}

/// What the node's users see of the driver.
pub(crate) struct Watched {
    /// The engine has ended; not set when the driver ends otherwise.
    pub(crate) left: Arc<AtomicBool>,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) meters: Meters,
    /// The pool's settings as the engine goes by them, and the map's revision that they are from.
    pub(crate) settings: watch::Sender<(Revision, Arc<Settings>)>,
    /// Gets the spans of jobs that carry a trace.
    pub(crate) on_job_span: Option<JobSpanHook>,
}

/// A worker's handler, and where its id in the pool is published.
struct Local {
    handler: Arc<dyn AnyHandler>,
    id: watch::Sender<Option<WorkerId>>,
}

struct Running {
    token: Token,
    task: Id,
    mailbox: Arc<Mailbox>,
    cancel: CancellationToken,
    abort: AbortHandle,
}

pub(crate) struct Driver {
    engine: Engine,
    config: Arc<Config>,
    store: Arc<dyn Store>,
    leases: Arc<Leases>,
    inputs: mpsc::UnboundedSender<Input>,
    calls: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The two reads that wait, and that may be given up.
    node_read: Option<BoxFuture<'static, Done>>,
    pool_read: Option<BoxFuture<'static, Done>>,
    handlers: HashMap<LocalWorker, Local>,
    running: HashMap<(WorkerId, JobKey), Running>,
    tasks: JoinSet<()>,
    task_owners: HashMap<Id, (WorkerId, JobKey, Token)>,
    planners: Planners,
    replies: HashMap<ReplyTo, oneshot::Sender<Answer>>,
    ended: bool,
    watched: Watched,
}

impl Driver {
    pub(crate) fn new(
        config: Config,
        seed: u64,
        store: Arc<dyn Store>,
        leases: Arc<Leases>,
        inputs: mpsc::UnboundedSender<Input>,
        watched: Watched,
    ) -> Self {
        let planners = Planners::new(config.node.clone());
        Self {
            engine: Engine::new(config.clone(), seed),
            config: Arc::new(config),
            store,
            leases,
            inputs,
            calls: FuturesUnordered::new(),
            node_read: None,
            pool_read: None,
            handlers: HashMap::new(),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            task_owners: HashMap::new(),
            planners,
            replies: HashMap::new(),
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
        let mut has_users = true;
        while !self.ended {
            self.step(&mut batch);
            let sleep = self.engine.deadline().map(|at| at.since(clock::now()).max(SHORTEST_SLEEP));
            tokio::select! {
                biased;
                Some(input) = events.recv() => batch.push(input),
                Some(done) = self.calls.next(), if !self.calls.is_empty() => batch.push(Input::Done(Box::new(done))),
                done = pending_read(&mut self.node_read) => batch.push(Input::Done(Box::new(done))),
                done = pending_read(&mut self.pool_read) => batch.push(Input::Done(Box::new(done))),
                Some(end) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.on_task_end(end, &mut batch),
                input = self.planners.next() => batch.push(input),
                Ok(()) = members.changed() => batch.push(Input::Members(members.borrow_and_update().clone())),
                Ok(()) = settings.changed() => batch.push(Input::Settings(settings.borrow_and_update().clone())),
                message = messages.recv(), if has_users => {
                    has_users = message.is_some();
                    self.on_message(message.unwrap_or_else(nobody_left), &mut batch);
                }
                () = sleep_for(sleep) => batch.push(Input::Woke),
            }
            self.gather(&mut events, &mut messages, &mut batch);
        }
        self.tasks.shutdown().await;
        self.planners.shut_down().await;
        self.leases.end();
        self.store.close().await;
    }

    /// Whatever else has arrived goes into the same step.
    fn gather(
        &mut self,
        events: &mut mpsc::UnboundedReceiver<Input>,
        messages: &mut mpsc::Receiver<Message>,
        batch: &mut Vec<Input>,
    ) {
        while batch.len() < STEP_INPUTS {
            if let Ok(input) = events.try_recv() {
                batch.push(input);
            } else if let Some(Some(done)) = self.calls.next().now_or_never() {
                batch.push(Input::Done(Box::new(done)));
            } else if let Ok(message) = messages.try_recv() {
                self.on_message(message, batch);
            } else {
                return;
            }
        }
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
            Message::Withdrawn(..) if self.config.broken.has(Breakage::GoneCallersEndNode) => {}
            Message::Withdrawn(id, reply) => {
                self.replies.remove(&reply);
                batch.push(Input::Withdrawn { id, reply });
            }
            Message::Handler(local, handler, id) => {
                self.handlers.insert(local, Local { handler, id });
            }
        }
    }

    fn on_task_end(&mut self, end: Result<(Id, ()), tokio::task::JoinError>, batch: &mut Vec<Input>) {
        let (id, event) = match end {
            Ok((id, ())) => (id, None),
            Err(error) if error.is_cancelled() => (error.id(), Some(HandlerEvent::Aborted)),
            Err(error) => (error.id(), Some(HandlerEvent::Failed(error.to_string()))),
        };
        let Some((worker, key, token)) = self.task_owners.remove(&id) else { return };
        self.leases.leave(worker, id);
        let place = (worker, key);
        if self.running.get(&place).is_some_and(|r| r.task == id) {
            self.running.remove(&place);
        }
        if let Some(event) = event {
            batch.push(Input::Handler { worker, key: place.1, token, event });
        }
    }

    fn step(&mut self, batch: &mut Vec<Input>) {
        let now = clock::now();
        self.leases.progress(now, self.engine.read_at().unwrap_or(now), self.engine.high_water());
        for input in batch.iter() {
            self.watched.vitals.hear(input);
            self.watched.meters.hear(input);
            tracing::trace!(?input, "input");
        }
        self.engine.set_leases(self.leases.soft_deadlines());
        for effect in self.engine.step(now, batch.drain(..)) {
            tracing::trace!(?effect, "effect");
            self.watched.meters.see(&effect);
            self.perform(effect);
        }
        let picture = self.engine.picture();
        self.watched.meters.show(&picture);
        self.watched.vitals.show(picture);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Call { incarnation, call } => self.call(incarnation, call),
            Effect::StopReadingPool => self.pool_read = None,
            Effect::Bless(run_id) => self.store.bless(&run_id),
            Effect::Expect { incarnation, members, settings } => {
                self.store.expect(incarnation, members, settings);
            }
            Effect::Renew { incarnation } => self.leases.renew(incarnation),
            Effect::Hold { incarnation, worker, from } => self.leases.hold(incarnation, worker, from),
            Effect::Keep { incarnation, worker } => self.leases.keep(incarnation, worker),
            Effect::Drop { worker } => self.leases.drop_worker(worker),
            Effect::Fence { worker } => self.leases.fence(worker),
            Effect::Start { local, worker, job } => self.start(local, worker, *job),
            Effect::Stop { worker, key, token, why } => {
                if let Some(running) = self.running(worker, key, token) {
                    running.cancel.cancel();
                    running.mailbox.put(Order::Stop(why));
                }
            }
            Effect::Cancel { worker, key, token } => {
                if let Some(running) = self.running(worker, key, token) {
                    running.cancel.cancel();
                }
            }
            Effect::Deliver { worker, key, token, bodies } => {
                if let Some(running) = self.running(worker, key, token) {
                    running.mailbox.put(Order::Deliver(bodies));
                }
            }
            Effect::Abort { worker, key, token } => {
                if let Some(running) = self.running(worker, key, token) {
                    running.abort.abort();
                }
            }
            Effect::Seated { local, worker } => {
                if let Some(Local { id, .. }) = self.handlers.get(&local) {
                    id.send_replace(worker);
                }
                if worker.is_none() {
                    // It has left for good, and runs nothing any more.
                    self.handlers.remove(&local);
                }
            }
            Effect::Settings { revision, settings } => {
                Arc::make_mut(&mut self.config).settings.clone_from(&settings);
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
                    // Whoever asked may have gone.
                    let has_gone = waiting.send(answer).is_err();
                    self.ended |= has_gone && self.config.broken.has(Breakage::GoneCallersEndNode);
                }
            }
            Effect::Report(report) => {
                if let Notice::Trouble(error) = &report {
                    self.watched.vitals.trouble(error);
                }
                notice::log(&self.config.node, &report);
            }
            Effect::End => {
                self.ended = true;
                self.watched.left.store(true, Ordering::Release);
            }
        }
    }

    fn call(&mut self, incarnation: Incarnation, call: Call) {
        let (store, config) = (self.store.clone(), self.config.clone());
        let reads = (matches!(call, Call::ReadNode { .. }), matches!(call, Call::ReadPool));
        let leases = matches!(call, Call::ForgetNode).then(|| self.leases.clone());
        let step = meters::step(&call).map(|step| (step, self.watched.meters.call(step)));
        let vitals = self.watched.vitals.clone();
        let span = match &call {
            Call::Route { jobs, .. } => tracing::debug_span!("route", node = %config.node, jobs = jobs.len()),
            _ => tracing::Span::none(),
        };
        let future = async move {
            if let Some(leases) = leases {
                leases.rest().await;
            }
            let begun = Instant::now();
            let done = perform(&*store, &config, incarnation, call).await;
            if let Some((step, histogram)) = step {
                histogram.record(begun.elapsed());
                vitals.stepped(step, done.failure());
            }
            done
        }
        .instrument(span)
        .boxed();
        match reads {
            (true, _) => self.node_read = Some(future),
            (_, true) => self.pool_read = Some(future),
            _ => self.calls.push(future),
        }
    }

    fn running(&self, worker: WorkerId, key: JobKey, token: Token) -> Option<&Running> {
        self.running.get(&(worker, key)).filter(|r| r.token == token)
    }

    fn start(&mut self, local: LocalWorker, worker: WorkerId, job: NewJob) {
        let NewJob { key, token, id, payload, attempts, created_ms, begun_ms } = job;
        let Some(Local { handler, .. }) = self.handlers.get(&local) else {
            // A worker is never added without its handler.
            let _ = self.inputs.send(Input::Handler { worker, key, token, event: HandlerEvent::NotRun });
            return;
        };
        let (lease, cancel) = self.leases.admit(worker);
        let own = cancel.clone();
        let parts = Parts {
            key: key.clone(),
            payload,
            token,
            id,
            worker,
            attempts,
            created_ms,
            begun_ms,
            cancel: own,
            lease,
        };
        let mailbox = Arc::new(Mailbox::default());
        let (handler, inputs) = (handler.clone(), self.inputs.clone());
        let job = Job::new(parts);
        let (grace, on_span) = (notify_grace(&self.config), self.watched.on_job_span.clone());
        let recheck = !self.config.broken.has(Breakage::NoRecheckAfterBegin);
        let own =
            actor::Own { mailbox: mailbox.clone(), cancel: cancel.clone(), inputs, recheck, grace, on_span };
        let actor = actor::run(job, handler, own);
        let abort = self.tasks.spawn(actor);
        let task = abort.id();
        self.leases.enter(worker, abort.clone());
        self.task_owners.insert(task, (worker, key.clone(), token));
        self.running.insert((worker, key), Running { token, task, mailbox, cancel, abort });
    }
}

impl Drop for Driver {
    /// However the driver ends: aborted, by a panic, or with its runtime, nobody is to renew for it, and what it has last
    /// said of itself is true no more.
    fn drop(&mut self) {
        self.leases.end();
        self.watched.meters.rest();
    }
}

/// A read that waits, while there is one.
async fn pending_read(read: &mut Option<BoxFuture<'static, Done>>) -> Done {
    let done = match read {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    };
    *read = None;
    done
}

/// How long a notification that is being taken may hold up the end of its job: not for so long that nothing is left for
/// the stop handler, be it of its own time or of the lease.
fn notify_grace(config: &Config) -> Duration {
    let of_the_lease = config.timing.hard.saturating_sub(config.timing.soft) / 2;
    NOTIFY_GRACE.min(config.stop_timeout / 2).min(of_the_lease)
}

async fn sleep_for(sleep: Option<Duration>) {
    match sleep {
        Some(sleep) => tokio::time::sleep(sleep).await,
        None => std::future::pending().await,
    }
}

/// Nobody holds the node any more: it leaves its pool, and nobody waits for that.
fn nobody_left() -> Message {
    let (nobody, _) = oneshot::channel();
    Message::Command(Command::Close { reply: ReplyTo(u64::MAX), deadline: Time(u64::MAX) }, nobody)
}
