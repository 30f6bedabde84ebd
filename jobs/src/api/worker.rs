//! Workers.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::ctx::Ctx;
use super::jobs::Jobs;
use super::outcome::{IntoOutcome, Made, Onward, Outcome};
use super::queue::{Queue, millis};
use crate::core::execution::Execution;
use crate::core::input::{Input, Plan};
use crate::data;
use crate::error::{BoxError, Error, Fatal};
use crate::model::id::{GroupName, InvalidName, QueueName};
use crate::runtime::driver::{Right, Runner, With};
use crate::runtime::handle::Handle;
use crate::store::{Data, Settle};

/// How long the ends of jobs that are given back may take.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a job in hand of a pinned group may go on when its key moves.
#[cfg(feature = "pool")]
const GRACE: Duration = Duration::from_secs(5);
/// How long a job of a flow that its node does not know waits for another node.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// The longest text of an error that is kept.
const LONGEST: usize = 4_096;

type Call = dyn Fn(Ctx) -> BoxFuture<'static, Result<Outcome, BoxError>> + Send + Sync;

/// A handler without its types.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Call>);

impl Handler {
    pub(crate) fn new<T, F, Fut, O>(handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Ctx, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BoxError>> + Send + 'static,
        O: IntoOutcome + Send + 'static,
    {
        Self::of(move |ctx| match data::decode::<T>(&ctx.body()) {
            Ok(payload) => {
                let made = handler(ctx, payload);
                async move { made.await.map(IntoOutcome::into_outcome) }.boxed()
            }
            // No other attempt reads them.
            Err(error) => futures::future::ready(Err(Fatal::new(error).into())).boxed(),
        })
    }

    pub(crate) fn of(
        call: impl Fn(Ctx) -> BoxFuture<'static, Result<Outcome, BoxError>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self, ctx: Ctx) -> BoxFuture<'static, Result<Outcome, BoxError>> {
        (self.0)(ctx)
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

/// The settings of a worker. It begins to work with [`start`](Self::start).
#[must_use = "a worker works when it is started"]
pub struct WorkerBuilder {
    jobs: Jobs,
    queues: Vec<String>,
    pub(crate) handler: Handler,
    slots: u32,
    /// Several jobs share a call of its handler.
    in_batches: bool,
    #[cfg(feature = "pool")]
    pub(crate) grace: Duration,
    pub(crate) owner: Option<Ownership>,
}

/// A group whose jobs the worker takes alone.
pub(crate) struct Ownership {
    pub(crate) group: Result<GroupName, InvalidName>,
    pub(crate) token: u64,
    pub(crate) lasts: Box<dyn Fn() -> bool + Send + Sync>,
}

impl WorkerBuilder {
    pub(crate) fn new(jobs: Jobs, queues: Vec<String>, handler: Handler) -> Self {
        Self {
            jobs,
            queues,
            handler,
            slots: 16,
            in_batches: false,
            #[cfg(feature = "pool")]
            grace: GRACE,
            owner: None,
        }
    }

    /// Several jobs share a call of the handler.
    pub(super) fn in_batches(self) -> Self {
        Self { in_batches: true, ..self }
    }

    /// The most jobs that run at once; 16 by default. A worker that owns a group of a pinned queue has one slot: no job begins
    /// while the future of an earlier one is there.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Begins to work. Handlers run on the runtime of this call. When that is shut down, the worker gives its jobs back and
    /// takes no more. A runtime that is kept, but that nobody drives, keeps them.
    ///
    /// # Errors
    /// [`Error::Name`], and [`Error::Setting`] for a worker without queues or slots. The same for one of a pinned queue
    /// that does not own a group, for an owner of another queue, and for an owner that takes [`batches`](Jobs::batches).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> Result<Worker, Error> {
        let queues = self.queues.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>()?;
        if queues.is_empty() || self.slots == 0 {
            return Err(Error::Setting("a worker needs a queue and a slot"));
        }
        let jobs = self.jobs;
        let config = |queue| jobs.config(queue).map(Queue::is_pinned);
        let owner = match self.owner {
            None if queues.iter().any(|queue| config(queue) == Some(true)) => {
                return Err(Error::Setting("the jobs of a pinned queue go to the owners of their groups"));
            }
            None => None,
            Some(_) if self.in_batches => {
                return Err(Error::Setting(
                    "the jobs of a pinned group run one at a time, so not in batches",
                ));
            }
            Some(_) if queues.len() > 1 || config(&queues[0]) == Some(false) => {
                return Err(Error::Setting("an owner takes from one queue, which is pinned"));
            }
            Some(Ownership { group, token, lasts }) => {
                Some(((group?, token), Right { lasts, over: CancellationToken::new() }))
            }
        };
        let (owner, right) = owner.unzip();
        let over = right.as_ref().map(|right| right.over.clone());
        let owned = over.map(|over| Owned { over, handlers: TaskTracker::new() });
        let handlers = owned.as_ref().map(|owned| owned.handlers.clone());
        let runner = runner(jobs.clone(), self.handler, Runtime::current(), handlers);
        let slots = if owner.is_some() { 1 } else { self.slots };
        jobs.shared.own.works_on(&queues);
        let number = jobs.next_number();
        let plan = Plan { queues, slots, owner };
        jobs.tell(Input::Worker(number, plan), Some((number, With::Worker(runner, right))));
        Ok(Worker { number, jobs, owned })
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queues, slots) = (&self.queues, &self.slots);
        f.debug_struct("WorkerBuilder").field("queues", queues).field("slots", slots).finish_non_exhaustive()
    }
}

/// A worker. When this is dropped it takes no more jobs, and ends with those that run.
#[derive(Debug)]
pub struct Worker {
    number: u64,
    jobs: Jobs,
    owned: Option<Owned>,
}

/// What is known of the handlers of a worker that owns a group.
#[derive(Debug)]
struct Owned {
    #[cfg_attr(not(feature = "pool"), expect(dead_code, reason = "whoever owns a group waits for it"))]
    over: CancellationToken,
    handlers: TaskTracker,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.owned.is_some() {
            // The group may have another owner at once.
            drop(self.give_back());
        }
        self.jobs.tell(Input::Unowned(self.number), None);
    }
}

/// The jobs that a worker has left when it was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The jobs that still ran when the time was over. Their handlers were aborted, and other workers may run them at
    /// once.
    pub given_back: usize,
}

impl Worker {
    /// Ends the handlers, and gives their jobs back, also while Redis is away. The answer is how many there were; no job
    /// begins after the answer.
    fn give_back(&self) -> oneshot::Receiver<usize> {
        self.jobs.ask(|question| Input::GiveBack(self.number, question))
    }

    /// The same, and waits until the handlers are gone.
    #[cfg(feature = "pool")]
    pub(crate) async fn abandon(&self) {
        let _ = self.give_back().await;
        if let Some(owned) = &self.owned {
            owned.handlers.close();
            owned.handlers.wait().await;
        }
    }

    /// Waits until its right to the group is over, or its node is closed.
    #[cfg(feature = "pool")]
    pub(crate) async fn over(&self) {
        match &self.owned {
            Some(owned) => owned.over.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Takes no more jobs, and lets those that run end within this time. The rest is given back.
    ///
    /// # Errors
    /// [`Error::Closed`] when the node is closed.
    ///
    /// # Cancel safety
    /// A dropped call has begun to close; another one goes on.
    pub async fn close(&self, within: Duration) -> Result<CloseReport, Error> {
        let mut drained = self.jobs.ask(|question| Input::Drain(self.number, question));
        if let Ok(end) = tokio::time::timeout(within, &mut drained).await {
            return end.map(|_| CloseReport::default()).map_err(|_| Error::Closed);
        }
        let given_back = self.give_back().await.map_err(|_| Error::Closed)?;
        // An end that cannot be said now is found when its lease is over.
        let _ = tokio::time::timeout(LAST_WORDS, drained).await;
        Ok(CloseReport { given_back })
    }
}

/// Frees the slot when the handler is gone: it has ended, was aborted, or its runtime is no more.
struct Slot {
    execution: Arc<Handle>,
    home: Runtime,
    is_free: bool,
}

impl Slot {
    fn leave(mut self, settle: Settle) {
        self.is_free = true;
        self.execution.leave(settle);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_free {
            self.execution.vanish(|| {
                // A runtime that is shut down drops what it is given.
                let probe = self.home.spawn(std::future::pending::<()>());
                let is_finished = probe.is_finished();
                probe.abort();
                is_finished
            });
        }
    }
}

fn runner(jobs: Jobs, handler: Handler, home: Runtime, handlers: Option<TaskTracker>) -> Runner {
    Arc::new(move |execution: Arc<Handle>| {
        let (id, record) = (&execution.id, &execution.record);
        let (jobs, handler) = (jobs.clone(), handler.clone());
        let slot = Slot { execution: execution.clone(), home: home.clone(), is_free: false };
        let correlation = Some(&*record.correlation).filter(|id| !id.is_empty());
        let span = tracing::info_span!("job", id = %id, queue = %record.queue, token = %record.token, attempt = record.attempts, correlation_id = correlation);
        let running = execution.clone();
        let work = async move {
            let slot = slot;
            let ctx = Ctx::new(jobs.clone(), slot.execution.clone());
            if let Some(settle) = unknown_flow(&jobs, &ctx) {
                return slot.leave(settle);
            }
            let handled = AssertUnwindSafe(async { handler.call(ctx.clone()).await }).catch_unwind().await;
            let settle = match handled {
                Ok(Ok(Outcome(made))) => went(&jobs, &ctx, made),
                Ok(Err(error)) => failed(&jobs, &slot.execution, &error),
                Err(panic) => {
                    let why = format!("the handler panicked: {}", panicked(&*panic));
                    if let Some(failures) = jobs.tells(&slot.execution, &why) {
                        tracing::warn!(job = %slot.execution.id, why, failures, "a job failed");
                    }
                    slot.execution.retry(cut(why))
                }
            };
            slot.leave(settle);
        };
        let work = work.instrument(span);
        let task = match &handlers {
            Some(handlers) => handlers.spawn_on(work, &home),
            None => home.spawn(work),
        };
        running.runs_as(task.abort_handle());
    })
}

/// A job whose flow this node does not know is left to one that does, before its handler runs: nobody here could tell
/// whether it goes on.
fn unknown_flow(jobs: &Jobs, ctx: &Ctx) -> Option<Settle> {
    let flow = ctx.flow().filter(|flow| jobs.flow(flow).is_none())?;
    if jobs.may_warn() {
        tracing::warn!(
            flow,
            "this node has a worker for a flow that it does not know, it leaves the jobs to others"
        );
    }
    let why = format!("its node does not know the flow {flow}");
    Some(Settle::Later(millis(LEFT_ALONE), cut(why)))
}

fn went(jobs: &Jobs, ctx: &Ctx, made: Made) -> Settle {
    match made {
        Made::Done(result) => Settle::Done(result, Data::Keep),
        Made::Wait => Settle::Wait(ctx.execution().pause(), Data::Keep),
        Made::Later { after, why } => Settle::Later(millis(after).max(1), cut(why)),
        Made::Limited { until } => {
            let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
            Settle::Limited(millis(since))
        }
        Made::Next { queue, data: more } => {
            let body = match more {
                Onward::Same => Data::Keep,
                Onward::Other(body) => Data::Replace(body),
                Onward::More(more) => match data::merged(&ctx.body(), &more) {
                    Ok(body) => Data::Replace(body),
                    Err(error) => return failed(jobs, ctx.execution(), &error.into()),
                },
            };
            match next(jobs, ctx, queue) {
                Ok(Some((queue, priority))) => Settle::MoveOn { queue, priority, group: None, data: body },
                Ok(None) => Settle::Done(Bytes::new(), body),
                Err(error) => Settle::Fail(cut(error.to_string()), Data::Keep),
            }
        }
    }
}

/// The queue that a job goes on to, and its priority there: by the result, by its queue, by its flow.
fn next(jobs: &Jobs, ctx: &Ctx, named: Option<String>) -> Result<Option<(QueueName, Option<i8>)>, Error> {
    let flow = ctx.flow().and_then(|flow| jobs.flow(flow));
    let by_queue = || ctx.execution().terms.next.as_ref().map(QueueName::to_string);
    let queue = match (named.or_else(by_queue), flow) {
        (Some(queue), _) => queue,
        (None, Some(flow)) => match flow.after(ctx.queue())? {
            Some((queue, _)) => queue.clone(),
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let stage = flow.and_then(|flow| flow.stages.iter().find(|(stage, _)| *stage == queue));
    Ok(Some((QueueName::new(&queue)?, stage.and_then(|(_, priority)| *priority))))
}

fn failed(jobs: &Jobs, execution: &Execution, error: &BoxError) -> Settle {
    let text = chain(&**error);
    if error.is::<Fatal>() {
        if let Some(failures) = jobs.tells(execution, &text) {
            let queue = &execution.record.queue;
            tracing::warn!(job = %execution.id, %queue, error = text, failures, "a job failed for good");
        }
        return Settle::Fail(cut(text), Data::Keep);
    }
    tracing::debug!(error = text, "a job failed");
    execution.retry(cut(text))
}

/// An error with its sources.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        // A wrapper that shows its source has said it.
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}

fn cut(text: String) -> Bytes {
    match text.char_indices().find(|(at, _)| *at >= LONGEST) {
        Some((at, _)) => Bytes::copy_from_slice(&text.as_bytes()[..at]),
        None => text.into(),
    }
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
