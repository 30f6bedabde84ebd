//! The jobs in the hands of a node's handlers.
//!
//! A job has a task while its start, its future, a delivery or its stop runs. A job is idle if its handler returned
//! [`Start::Started`](crate::Start::Started) and no work waits. Most of a node's jobs are idle, and the node keeps
//! only the [`Job`] for them.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::Span;

use super::actor::{self, Came, Mail, Mailbox, Task, panicked};
use super::int_map::IntMap;
use super::lease::Leases;
use crate::clock;
use crate::core::ctx::Config;
use crate::core::effect::{HandedAsk, HandedPayload, NewJob};
use crate::core::input::{HandlerEvent, Input};
use crate::job::asking::Ask;
use crate::job::checkpoint::{OwnEnd, Savers};
use crate::job::handler::AnyHandler;
use crate::job::payload::NewPayload;
use crate::job::serving::Served;
use crate::job::span::JobSpanHook;
use crate::job::{Job, Parts};
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::store::Taken;

/// The longest time that a notification in progress has left when its job ends.
const NOTIFY_GRACE: Duration = Duration::from_secs(1);

/// The requests of code beside the handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Gets the spans of jobs that carry a trace.
    pub(crate) on_job_span: Option<JobSpanHook>,
    /// The index of the started jobs.
    pub(crate) served: Option<Arc<Served>>,
}

/// A worker's job.
type Place = (WorkerId, JobKey);

/// The end of a task.
pub(super) type End = Result<(Id, Came), JoinError>;

pub(super) struct Actors {
    leases: Arc<Leases>,
    inputs: mpsc::UnboundedSender<Input>,
    /// The runtime of the handlers.
    home: Handle,
    beside: Beside,
    savers: Arc<Savers>,
    /// Jobs that end by their own word.
    ends: mpsc::UnboundedReceiver<OwnEnd>,
    recheck: bool,
    grace: Duration,
    tasks: JoinSet<Came>,
    busy: IntMap<Id, Busy>,
    /// The task of each job that has one.
    places: HashMap<Place, Id>,
    idle: IntMap<WorkerId, IdleJobs>,
}

/// A job that a task works for.
struct Busy {
    job: Job,
    handler: Arc<dyn AnyHandler>,
    mailbox: Arc<Mailbox>,
    abort: AbortHandle,
    work: Work,
    /// The task was told to end at once. It may end without hearing of that.
    aborted: bool,
}

/// The work of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// The start, and the future, if the job runs as one.
    Runs,
    /// A message to a job without a future.
    Attends,
    /// The stop of a job that was cut off, for one poll.
    Hears,
    /// Nothing: the handler has ended, and the key is kept back.
    Lingers,
}

/// The idle jobs of a worker.
struct IdleJobs {
    handler: Arc<dyn AnyHandler>,
    jobs: HashSet<IdleJob>,
}

/// A job without work, known by its key.
struct IdleJob {
    job: Job,
    /// Its span, if a subscriber collects it.
    span: Option<Box<Span>>,
}

impl Actors {
    pub(super) fn new(
        config: &Config,
        leases: Arc<Leases>,
        inputs: mpsc::UnboundedSender<Input>,
        beside: Beside,
        (savers, ends): (Arc<Savers>, mpsc::UnboundedReceiver<OwnEnd>),
        home: Handle,
    ) -> Self {
        Self {
            leases,
            inputs,
            home,
            beside,
            savers,
            ends,
            recheck: !config.broken.has(Mutation::NoRecheckAfterBegin),
            grace: notify_grace(config),
            tasks: JoinSet::new(),
            busy: IntMap::default(),
            places: HashMap::new(),
            idle: IntMap::default(),
        }
    }

    /// Applies the node's new settings.
    pub(super) fn go_by(&mut self, config: &Config) {
        self.grace = notify_grace(config);
        self.savers.go_by(config.settings.checkpoint_max as usize);
    }

    pub(super) fn start(&mut self, handler: Arc<dyn AnyHandler>, worker: WorkerId, job: NewJob) {
        let NewJob { key, token, id, payload, attempts, created_ms, begun_ms, checkpoint, .. } = job;
        let lease = self.leases.admit(worker);
        let savers = self.savers.clone();
        let parts = Parts {
            key,
            payload,
            token,
            id,
            worker,
            attempts,
            created_ms,
            begun_ms,
            lease,
            savers,
            checkpoint,
        };
        let own = self.task(Job::new(parts), handler, Arc::default());
        let parts = own.parts();
        let start = actor::start(own, self.recheck, self.beside.on_job_span.clone());
        self.work(parts, Work::Runs, start);
    }

    /// Fires the job's cancellation. Runs the stop handler after the present handler.
    pub(super) fn stop(&mut self, place: &Place, token: Token, why: StopReason) {
        self.cancel(place, token, why);
        self.mail(place, token, Mail::Stop(why));
    }

    /// Fires the job's cancellation.
    pub(super) fn cancel(&self, place: &Place, token: Token, why: StopReason) {
        if let Some(job) = self.job(place, token) {
            job.cancel(why);
        }
    }

    /// Reports when the job last made progress. A job that is not here has ended, and its end is on its way.
    pub(super) fn look(&self, place: &Place, token: Token) {
        if let Some((job, at)) = self.job(place, token).and_then(|job| Some((job, job.progressed_at()?))) {
            self.say(job, HandlerEvent::Progressed(at));
        }
    }

    pub(super) fn deliver(&mut self, place: &Place, token: Token, taken: Taken) {
        self.mail(place, token, Mail::Deliver(taken));
    }

    /// Gives the handler another payload. A job that is not here has ended, and its end is on its way.
    pub(super) fn update(&mut self, place: &Place, token: Token, new: HandedPayload) {
        self.mail(place, token, Mail::Update(NewPayload::new(new)));
    }

    /// Ends a job by its own word, after its calls in progress. A job that is not here has ended.
    fn end(&mut self, (job, result): OwnEnd) {
        self.mail(&(job.worker(), job.key().clone()), job.token(), Mail::End(result));
    }

    /// Hands asks over. Those for a job that is not here are sent back.
    pub(super) fn hand_over(&mut self, place: &Place, token: Token, asks: Vec<HandedAsk>) {
        let ask = |asked| Ask::new(asked, (place.0, place.1.clone(), token), self.inputs.clone());
        let asks = asks.into_iter().map(ask).collect();
        self.mail(place, token, Mail::Asks(asks));
    }

    /// Aborts the job's running handler.
    pub(super) fn abort(&mut self, place: &Place, token: Token) {
        if let Some(busy) = self.busy_mut(place, token) {
            if matches!(busy.work, Work::Runs | Work::Attends) {
                busy.aborted = true;
                busy.abort.abort();
            }
        } else if let Some((IdleJob { job, .. }, handler)) = self.rouse(place, token) {
            self.hear(job, handler, Arc::default(), HandlerEvent::Aborted);
        }
    }

    /// The next task that ends. Never returns while there is none.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub(super) async fn next(&mut self) -> End {
        loop {
            tokio::select! {
                biased;
                Some(end) = self.tasks.join_next_with_id() => return end,
                Some(end) = self.ends.recv() => self.end(end),
                else => std::future::pending().await,
            }
        }
    }

    /// A task that has ended.
    pub(super) fn try_next(&mut self) -> Option<End> {
        for _ in 0..self.ends.len() {
            if let Ok(end) = self.ends.try_recv() {
                self.end(end);
            }
        }
        self.tasks.try_join_next_with_id()
    }

    /// The input for the engine after a task's end.
    pub(super) fn ended(&mut self, end: End) -> Option<Input> {
        let (id, came, cut_off) = match end {
            Ok((id, came)) => (id, came, false),
            Err(error) => (error.id(), Came::Ended(told(error)), true),
        };
        let busy = self.busy.remove(&id)?;
        let worker = busy.job.worker();
        self.leases.leave(worker, id);
        let place = (worker, busy.job.key().clone());
        if let Some(other) = self.places.remove(&place).filter(|other| *other != id) {
            self.places.insert(place.clone(), other);
        }
        let token = busy.job.token();
        let event = match came {
            Came::Ended(event) => self.over(busy, event, cut_off)?,
            // A start that succeeded nevertheless must be stopped: the engine does that.
            Came::Idle(event, _) if busy.aborted && !matches!(event, Some(HandlerEvent::Started)) => {
                // Its call may have ended just before the abort, with a stop behind it.
                self.over(busy, HandlerEvent::Aborted, true)?
            }
            Came::Idle(event, span) => {
                self.rest(busy, span);
                event?
            }
        };
        Some(Input::Handler { worker, key: place.1, token, event })
    }

    /// The job is over, unless its handler has yet to hear of that, or something may still run it: then a task sees to that.
    fn over(&mut self, busy: Busy, event: HandlerEvent, cut_off: bool) -> Option<HandlerEvent> {
        let Busy { job, handler, mailbox, work, .. } = busy;
        if cut_off && work == Work::Attends && !mailbox.gave_stop() {
            self.hear(job, handler, mailbox, event);
            return None;
        }
        let runs_on = job.runs_on();
        if runs_on.is_zero() {
            self.left(&job);
            return Some(event);
        }
        let own = self.task(job, handler, mailbox);
        let parts = own.parts();
        // No end of the lease aborts it: it runs nothing of the handler.
        let abort = self.tasks.spawn_on(actor::linger(own, runs_on, event), &self.home);
        self.works(parts, Work::Lingers, abort);
        None
    }

    /// Lets the handler of a job without a future hear of the job's end, which is then reported as this event.
    fn hear(&mut self, job: Job, handler: Arc<dyn AnyHandler>, mailbox: Arc<Mailbox>, event: HandlerEvent) {
        let why = mailbox.take_stop().or_else(|| job.stop_reason()).unwrap_or(StopReason::Stopped);
        job.cancel(why);
        let own = self.task(job, handler, mailbox);
        let parts = own.parts();
        let abort = self.tasks.spawn_on(async move { actor::hear(&own, why, event) }, &self.home);
        self.leases.enter_last(clock::now(), &parts.0, &abort);
        self.works(parts, Work::Hears, abort);
    }

    /// Aborts all tasks, and waits until none runs.
    pub(super) async fn shut_down(&mut self) {
        self.tasks.shutdown().await;
        self.all_left();
    }

    /// Aborts all tasks, and forgets the handlers.
    pub(super) fn let_go(&mut self) {
        self.tasks.abort_all();
        self.busy.clear();
        self.idle.clear();
        self.all_left();
    }

    /// The job is over.
    fn left(&self, job: &Job) {
        if let Some(served) = &self.beside.served {
            served.leave(job);
        }
    }

    fn all_left(&self) {
        if let Some(served) = &self.beside.served {
            served.close();
        }
    }

    /// Handles the job's next message, or makes the job idle.
    fn rest(&mut self, busy: Busy, span: Span) {
        let Busy { job, handler, mailbox, .. } = busy;
        if !mailbox.is_empty() {
            return self.attend(job, span, handler, mailbox);
        }
        let idle = self.idle.entry(job.worker()).or_insert(IdleJobs { handler, jobs: HashSet::new() });
        let span = (!span.is_disabled()).then(|| Box::new(span));
        idle.jobs.replace(IdleJob { job, span });
    }

    /// The job is no longer idle.
    fn rouse(&mut self, place: &Place, token: Token) -> Option<(IdleJob, Arc<dyn AnyHandler>)> {
        let idle = self.idle.get_mut(&place.0)?;
        if idle.jobs.get(&place.1)?.job.token() != token {
            return None;
        }
        let roused = (idle.jobs.take(&place.1)?, idle.handler.clone());
        if idle.jobs.is_empty() {
            self.idle.remove(&place.0);
        }
        Some(roused)
    }

    fn mail(&mut self, place: &Place, token: Token, mail: Mail) {
        if let Some(busy) = self.busy(place, token) {
            busy.mailbox.put(mail);
        } else if let Some((IdleJob { job, span }, handler)) = self.rouse(place, token) {
            let mailbox = Arc::new(Mailbox::default());
            mailbox.put(mail);
            self.attend(job, span.map_or_else(Span::none, |span| *span), handler, mailbox);
        }
    }

    /// Spawns a task for the next message in the mailbox.
    fn attend(&mut self, job: Job, span: Span, handler: Arc<dyn AnyHandler>, mailbox: Arc<Mailbox>) {
        let own = self.task(job, handler, mailbox);
        let parts = own.parts();
        self.work(parts, Work::Attends, actor::attend(own, span));
    }

    /// Spawns a task for the job. If none of its worker's handlers may run any more, a job that has started hears of its
    /// end, and any other has not run.
    fn work(
        &mut self,
        (job, handler, mailbox): (Job, Arc<dyn AnyHandler>, Arc<Mailbox>),
        work: Work,
        task: impl Future<Output = Came> + Send + 'static,
    ) {
        let Some(abort) = self.leases.enter(&job, || self.tasks.spawn_on(task, &self.home)) else {
            if work == Work::Attends {
                return self.hear(job, handler, mailbox, HandlerEvent::Aborted);
            }
            self.left(&job);
            return self.say(&job, HandlerEvent::NotRun);
        };
        self.works((job, handler, mailbox), work, abort);
    }

    /// A task works for the job from now on.
    fn works(
        &mut self,
        (job, handler, mailbox): (Job, Arc<dyn AnyHandler>, Arc<Mailbox>),
        work: Work,
        abort: AbortHandle,
    ) {
        let id = abort.id();
        self.places.insert((job.worker(), job.key().clone()), id);
        self.busy.insert(id, Busy { job, handler, mailbox, abort, work, aborted: false });
    }

    fn task(&self, job: Job, handler: Arc<dyn AnyHandler>, mailbox: Arc<Mailbox>) -> Task {
        let (inputs, served) = (self.inputs.clone(), self.beside.served.clone());
        Task { job, handler, mailbox, inputs, served, grace: self.grace }
    }

    /// The number of jobs with a task.
    pub(super) fn tasks(&self) -> usize {
        self.busy.len()
    }

    /// A job that is here, with or without a task.
    fn job(&self, place: &Place, token: Token) -> Option<&Job> {
        let idle = || self.idle.get(&place.0)?.jobs.get(&place.1).map(|idle| &idle.job);
        let busy = self.busy(place, token).map(|busy| &busy.job);
        busy.or_else(|| idle().filter(|job| job.token() == token))
    }

    fn busy(&self, place: &Place, token: Token) -> Option<&Busy> {
        self.busy.get(self.places.get(place)?).filter(|busy| busy.job.token() == token)
    }

    fn busy_mut(&mut self, place: &Place, token: Token) -> Option<&mut Busy> {
        self.busy.get_mut(self.places.get(place)?).filter(|busy| busy.job.token() == token)
    }

    fn say(&self, job: &Job, event: HandlerEvent) {
        let (worker, key, token) = (job.worker(), job.key().clone(), job.token());
        // The driver itself holds the other end.
        let _ = self.inputs.send(Input::Handler { worker, key, token, event });
    }
}

impl Borrow<JobKey> for IdleJob {
    fn borrow(&self) -> &JobKey {
        self.job.key()
    }
}

impl Hash for IdleJob {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.job.key().hash(state);
    }
}

impl PartialEq for IdleJob {
    fn eq(&self, other: &Self) -> bool {
        self.job.key() == other.job.key()
    }
}

impl Eq for IdleJob {}

/// The event for a task that ended without reporting it. The task was aborted, or a drop panicked.
fn told(error: JoinError) -> HandlerEvent {
    match error.try_into_panic() {
        Ok(panic) => HandlerEvent::Failed(panicked(&*panic)),
        Err(_) => HandlerEvent::Aborted,
    }
}

/// How long a notification in progress may delay the end of its job. It must leave the stop handler some of its own
/// time and of the lease.
fn notify_grace(config: &Config) -> Duration {
    let of_the_lease = config.timing.hard.saturating_sub(config.timing.soft) / 2;
    NOTIFY_GRACE.min(config.stop_timeout / 2).min(of_the_lease)
}

#[cfg(test)]
mod tests;
