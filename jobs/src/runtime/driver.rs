//! The driver: one task, on an engine thread, that feeds the engine and performs its effects. Handlers run at home:
//! on the runtimes that their workers were started on.

use std::collections::BTreeMap;
use std::future::pending;
use std::iter::from_fn;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use tenure_connection::since_boot;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::attesting::{Behind, Told};
use super::handle::{Handle, Handles};
use super::link::{In, Link};
use crate::core::effect::{About, Call, Effect, Heard, Level};
use crate::core::engine::{Config, Engine};
use crate::core::execution::{End, Execution};
use crate::core::input::{Done, Input, Kept, Number};
use crate::model::id::Incarnation;
use crate::store::{
    AttestJobs, Attesting, ExtendJobs, Hint, Lane, SettleJobs, StoreError, TakeJobs, Taking, WatchJobs,
    Watching,
};

/// How long the store may take to renew leases: then the executions of another call have their turn.
const RENEWAL: Duration = Duration::from_secs(2);
/// How long the store may take to hear that nobody watches a job any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs a job. The runner must call `leave` or `vanish` of the handle when the handler is gone.
pub(crate) type Runner = Arc<dyn Fn(Arc<Handle>) + Send + Sync>;

/// The right of an owner to the jobs of its group.
pub(crate) struct Right {
    /// Whether the right lasts, by the clock of this node.
    pub(crate) lasts: Box<dyn Fn() -> bool + Send + Sync>,
    /// Fires when the right is over: a later owner has taken, or the node is closed.
    pub(crate) over: CancellationToken,
}

/// The things behind a number, unseen by the engine.
pub(crate) enum With {
    /// The means of a worker.
    Worker(Runner, Option<Right>),
    /// The answer to a question.
    Answer(oneshot::Sender<usize>),
    /// The ear of a subscriber.
    Ear(mpsc::UnboundedSender<Heard>),
}

/// An input of a user or a handler, and what comes with a number.
pub(crate) type Message = (Input, Option<(Number, With)>);

pub(crate) struct Driver {
    engine: Engine,
    link: Link,
    incarnation: watch::Receiver<Incarnation>,
    handles: Handles,
    /// For handlers.
    messages: mpsc::UnboundedSender<Message>,
    with: BTreeMap<Number, With>,
    calls: FuturesUnordered<BoxFuture<'static, Option<Done>>>,
    tick: Arc<Notify>,
    /// Answered with the first message or refusal: earlier messages were missed.
    hears: Option<oneshot::Sender<Result<(), StoreError>>>,
}

impl Driver {
    pub(crate) fn new(
        link: Link,
        handles: Handles,
        messages: mpsc::UnboundedSender<Message>,
        tick: Arc<Notify>,
        hears: oneshot::Sender<Result<(), StoreError>>,
    ) -> Self {
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        let config = Config {
            node: link.node().clone(),
            lanes: link.lane(""),
            watches: u64::try_from(since.as_micros()).unwrap_or_default(),
            broken: link.broken(),
        };
        let mut incarnation = link.incarnations();
        let first = *incarnation.borrow_and_update();
        Self {
            engine: Engine::new(config, first),
            link,
            incarnation,
            handles,
            messages,
            with: BTreeMap::new(),
            calls: FuturesUnordered::new(),
            tick,
            hears: Some(hears),
        }
    }

    /// Runs for as long as the node keeps its place on a thread: also while the node closes, for running jobs.
    pub(crate) async fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        let closed = self.link.closed().clone();
        let mut hints = Some(self.link.store.listen(self.link.node()));
        let mut batch = Vec::new();
        loop {
            self.step(&mut batch);
            let wait = self.engine.deadline().map(|at| at.saturating_sub(since_boot()));
            let (mut said, mut done, mut hint) = (None, None, None);
            tokio::select! {
                biased;
                message = messages.recv() => said = message,
                back = self.calls.next(), if !self.calls.is_empty() => done = back,
                () = closed.cancelled(), if hints.is_some() => hints = None,
                next = hear(&mut hints) => hint = next,
                Ok(()) = self.incarnation.changed() => self.incarnation.mark_changed(),
                () = passed(wait) => {}
            }
            // Messages are read last and taken in first: a subscription precedes its wake-up, and an order to take no more
            // holds for the jobs of a call on its way.
            let heard = hint.into_iter().chain(from_fn(|| hints.as_mut()?.try_recv().ok()));
            let heard: Vec<_> = heard.inspect(|hint| self.first_heard(hint)).map(Input::Hint).collect();
            let back = done.into_iter().chain(from_fn(|| self.calls.next().now_or_never()?));
            let back: Vec<_> = back.flatten().map(Input::Done).collect();
            for (input, with) in said.into_iter().chain(from_fn(|| messages.try_recv().ok())) {
                self.with.extend(with);
                match &input {
                    Input::Left(..) => self.link.metrics().leaves(),
                    Input::Unsubscribe(number) => drop(self.with.remove(number)),
                    _ => {}
                }
                batch.push(input);
            }
            if self.incarnation.has_changed().is_ok_and(|changed| changed) {
                batch.push(Input::Follows(*self.incarnation.borrow_and_update()));
            }
            batch.extend(back.into_iter().chain(heard));
        }
    }

    fn step(&mut self, batch: &mut Vec<Input>) {
        loop {
            for input in &*batch {
                tracing::trace!(?input, "input");
            }
            for effect in self.engine.step(since_boot(), batch.drain(..)) {
                tracing::trace!(?effect, "effect");
                batch.extend(self.perform(effect));
            }
            if batch.is_empty() {
                break;
            }
        }
        #[cfg(feature = "sim")]
        self.handles.note(self.engine.aborts());
    }

    /// Says once whether the node hears.
    fn first_heard(&mut self, hint: &Hint) {
        let first = match hint {
            Hint::Subscribed => Ok(()),
            Hint::Refused(why) => Err(StoreError::unusable(why)),
            _ => return,
        };
        if let Some(hears) = self.hears.take() {
            // Nobody may wait for it any more.
            let _ = hears.send(first);
        }
    }

    /// Does one thing, and returns an input if the engine has asked. Nobody may wait for an answer any more.
    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Call(call) => {
                let call = self.call(call);
                self.calls.push(call);
            }
            Effect::Begin(worker, execution, kept) => self.begin(worker, execution, kept),
            Effect::Cancel(key) => self.handles.get(&key)?.cancel.cancel(),
            Effect::Abort(key) => self.handles.get(&key)?.abort(),
            Effect::Look(key) => {
                let beat = self.handles.get(&key)?.last_beat();
                return Some(Input::Beat(key, beat));
            }
            Effect::Forget(key) => drop(self.handles.all().remove(&key)),
            Effect::Ended(of, reply, after) => self.link.metrics().ends(&of.record.queue, reply, after),
            Effect::Answer(question, jobs) => {
                if let With::Answer(answer) = self.with.remove(&question)? {
                    let _ = answer.send(jobs);
                }
            }
            Effect::Over(worker) => self.right(worker)?.over.cancel(),
            Effect::Gone(worker) => drop(self.with.remove(&worker)),
            Effect::Tell(number, heard) => {
                if let With::Ear(ear) = self.with.get(&number)? {
                    let _ = ear.send(heard);
                }
            }
            Effect::Tick => self.tick.notify_one(),
            Effect::Report(level, text, about) => report(&self.link, level, text, &about),
        }
        None
    }

    fn begin(&self, worker: Option<Number>, execution: Arc<Execution>, kept: Kept) {
        let handle = Arc::new(Handle::new(execution, kept, self.messages.clone()));
        self.link.see(handle.token);
        self.handles.all().insert(handle.key(), handle.clone());
        if let Some(With::Worker(runner, _)) = worker.and_then(|worker| self.with.get(&worker)) {
            self.link.metrics().begins(&handle.record.queue);
            runner(handle);
        }
    }

    fn right(&self, worker: Number) -> Option<&Right> {
        match self.with.get(&worker)? {
            With::Worker(_, right) => right.as_ref(),
            _ => None,
        }
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Option<Done>> {
        let (link, node) = (self.link.clone(), self.link.node().clone());
        match call {
            Call::Work { worker, again: true, ends, .. } => repeat(link, worker, ends),
            Call::Work { worker, again: false, ends, take } => self.work(worker, ends, take),
            Call::Renew(keys) => {
                let running: Vec<_> = keys.iter().filter_map(|key| self.handles.get(key)).collect();
                let call = Behind::running(running, ExtendJobs(keys));
                async move { Some(Done::Renewed(link.call_within(RENEWAL, &call).await)) }.boxed()
            }
            Call::Watch(watching, number, ids) => async move {
                let call = WatchJobs { node, watching, number, ids };
                if watching == Watching::Again {
                    return Some(Done::WatchedAgain(link.call(&call).await.is_ok()));
                }
                if let Err(error) = link.call_within(FAREWELL, &call).await {
                    tracing::debug!(error = &error as &dyn std::error::Error, "a job goes on to be watched");
                }
                None
            }
            .boxed(),
        }
    }

    /// Says ends and takes jobs, in one round trip. An owner whose right is over takes as little as an owner with a successor.
    fn work(
        &self,
        worker: Number,
        ends: Option<(Lane, Arc<[End]>)>,
        take: Option<(Lane, Taking)>,
    ) -> BoxFuture<'static, Option<Done>> {
        let settle = ends.map(|(lane, ends)| {
            let handle =
                |end: &End| Some((self.handles.get(&end.execution.key())?, Some(end.settle.needs_its_job())));
            let executions = ends.iter().filter_map(handle).collect();
            In(Behind { executions, step: SettleJobs(lane, ends.iter().map(End::settling).collect()) })
        });
        let lasts = self.right(worker).is_none_or(|right| (right.lasts)());
        let take = take.map(|(lane, taking)| In(TakeJobs(lane, taking)));
        let link = self.link.clone();
        async move {
            let settled = OptionFuture::from(settle.as_ref().map(|settle| link.call(settle)));
            let taken =
                OptionFuture::from(take.as_ref().map(async |take| {
                    if lasts { link.call(take).await } else { Err(StoreError::Late.into()) }
                }));
            let (settled, taken) = tokio::join!(settled, taken);
            Some(Done::Worked { worker, settled, taken })
        }
        .boxed()
    }
}

/// Says ends again, behind their executions: their jobs are not made again.
fn repeat(link: Link, worker: Number, ends: Option<(Lane, Arc<[End]>)>) -> BoxFuture<'static, Option<Done>> {
    async move {
        let (lane, ends) = ends?;
        let of = |end: &End| Attesting::new(end.execution.id.clone(), end.execution.record.clone(), None);
        let executions = AttestJobs(ends.iter().map(of).collect());
        let ends = SettleJobs(lane, ends.iter().map(End::settling).collect());
        let told = In(Told { known_in: Arc::default(), executions, ends });
        Some(Done::Worked { worker, settled: Some(link.call(&told).await), taken: None })
    }
    .boxed()
}

fn report(link: &Link, level: Level, text: &'static str, about: &About) {
    let node = link.node();
    let (job, error) = match about {
        About::Node => (None, None),
        About::Job((id, _)) => (Some(id.as_str()), None),
        About::Error(error) => (None, Some(error as &(dyn std::error::Error + 'static))),
    };
    match level {
        Level::Rarely if !link.may_warn(text) => {}
        Level::Warn | Level::Rarely => tracing::warn!(%node, job, error, "{text}"),
        Level::Info => tracing::info!(%node, job, error, "{text}"),
        Level::Debug => tracing::debug!(%node, job, error, "{text}"),
    }
}

/// The next message of the store; never without a subscription.
async fn hear(hints: &mut Option<mpsc::UnboundedReceiver<Hint>>) -> Option<Hint> {
    let heard = match hints {
        Some(hints) => hints.recv().await,
        None => pending().await,
    };
    if heard.is_none() {
        *hints = None;
    }
    heard
}

/// Waits this long; for ever without a time.
async fn passed(wait: Option<Duration>) {
    match wait {
        Some(Duration::ZERO) => {}
        Some(wait) => tokio::time::sleep(wait).await,
        None => pending().await,
    }
}
