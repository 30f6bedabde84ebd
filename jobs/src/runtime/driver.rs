//! The driver: one task, on the node's own thread, that feeds the engine and performs its effects. Handlers run at home:
//! on the runtimes that their workers were started on.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::iter::from_fn;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tenure_connection::since_boot;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::attesting::{Behind, Told};
use super::handle::{Handle, Handles};
use super::incarnations::Incarnations;
use super::link::{In, Link};
use super::report;
use crate::core::effect::{Call, Effect, Heard};
use crate::core::engine::{Config, Engine};
use crate::core::execution::{End, Execution, Key};
use crate::core::input::{Done, HandlerEvent, Input, Kept, Number, Plan};
use crate::model::id::{JobId, QueueName};
use crate::store::{
    AttestJobs, ExtendJobs, Hint, Lane, SettleJobs, StoreError, TakeJobs, Taking, WatchJobs, Watching,
};

/// How long the store may take to renew leases: then the executions of another call have their turn.
const RENEWAL: Duration = Duration::from_secs(2);
/// How long the store may take to hear that nobody watches a job any more.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs a job. It is given the execution, and must call its `leave` or `vanish` when the handler is gone.
pub(crate) type Runner = Arc<dyn Fn(Arc<Handle>) + Send + Sync>;

/// What a worker brings that the engine does not see.
pub(crate) struct Local {
    pub(crate) runner: Runner,
    pub(crate) owner: Option<Right>,
    drained: Vec<oneshot::Sender<()>>,
    given_back: VecDeque<oneshot::Sender<usize>>,
}

impl Local {
    pub(crate) fn new(runner: Runner, owner: Option<Right>) -> Self {
        Self { runner, owner, drained: Vec::new(), given_back: VecDeque::new() }
    }
}

/// The right of an owner to the jobs of its group.
pub(crate) struct Right {
    /// Whether the right lasts, by the clock of this node.
    pub(crate) lasts: Box<dyn Fn() -> bool + Send + Sync>,
    /// Fires when the right is over: a later owner has taken, or the node is closed.
    pub(crate) over: CancellationToken,
}

/// A message from a user or a handler.
pub(crate) enum Message {
    /// A worker begins to work.
    Worker(Number, Plan, Local),
    /// The worker takes no more; answer when nothing runs any more.
    Drain(Number, oneshot::Sender<()>),
    /// The worker ends all handlers, and gives their jobs back; answer how many there were.
    GiveBack(Number, oneshot::Sender<usize>),
    /// Nobody has the worker any more.
    Unowned(Number),
    /// A handler is gone.
    Handler(Key, HandlerEvent),
    /// The store says that the execution is another's by now.
    Halted(Key),
    /// Tell news of a job; answer the number of the call that watches the job.
    Watch(Number, JobId, mpsc::UnboundedSender<Heard>, oneshot::Sender<u64>),
    /// Wake a caller when a queue has ready jobs.
    Seek(Number, QueueName, Arc<Notify>),
    /// Nobody watches or waits any more.
    Unsubscribe(Number),
}

/// Who is told of messages beside the workers.
enum Listener {
    Watcher(mpsc::UnboundedSender<Heard>, Option<oneshot::Sender<u64>>),
    Seeker(Arc<Notify>),
}

pub(crate) struct Driver {
    engine: Engine,
    link: Link,
    incarnations: Incarnations,
    handles: Handles,
    /// For handlers.
    messages: mpsc::UnboundedSender<Message>,
    workers: BTreeMap<Number, Local>,
    listeners: BTreeMap<Number, Listener>,
    calls: FuturesUnordered<BoxFuture<'static, Option<Done>>>,
    tick: Arc<Notify>,
    /// Told when it hears for the first time, or that it may not: what happens before is missed.
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
        let mut incarnations = link.incarnations();
        Self {
            engine: Engine::new(config, incarnations.see()),
            link,
            incarnations,
            handles,
            messages,
            workers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            calls: FuturesUnordered::new(),
            tick,
            hears: Some(hears),
        }
    }

    /// Runs for as long as the node's thread: also while the node closes, for what still runs.
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
                () = self.incarnations.changed() => {}
                () = passed(wait) => {}
            }
            // Each source is read before those whose words it may need, and those are taken in first: a message precedes the
            // call that it is about, and an order holds for the jobs of a call that was on its way.
            let heard = hint.into_iter().chain(from_fn(|| hints.as_mut()?.try_recv().ok()));
            let heard: Vec<_> = heard.inspect(|hint| self.first_heard(hint)).map(Input::Hint).collect();
            let back = done.into_iter().chain(from_fn(|| self.calls.next().now_or_never()?));
            let back: Vec<_> = back.flatten().map(Input::Done).collect();
            for message in said.into_iter().chain(from_fn(|| messages.try_recv().ok())) {
                batch.extend(self.take(message));
            }
            if self.incarnations.has_changed() {
                batch.push(Input::Follows(self.incarnations.see()));
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

    /// Says once that the node hears, or that it may not.
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

    fn take(&mut self, message: Message) -> Option<Input> {
        Some(match message {
            Message::Worker(number, plan, local) => {
                self.workers.insert(number, local);
                Input::Worker(number, plan)
            }
            Message::Drain(number, drained) => {
                self.workers.get_mut(&number)?.drained.push(drained);
                Input::Drain(number)
            }
            Message::GiveBack(number, given_back) => {
                self.workers.get_mut(&number)?.given_back.push_back(given_back);
                Input::GiveBack(number)
            }
            Message::Unowned(number) => Input::Unowned(number),
            Message::Handler(key, event) => {
                self.link.metrics().leaves();
                Input::Handler(key, event)
            }
            Message::Halted(key) => Input::Halted(key),
            Message::Watch(number, id, watcher, watches) => {
                self.listeners.insert(number, Listener::Watcher(watcher, Some(watches)));
                Input::Watch(number, id)
            }
            Message::Seek(number, queue, woken) => {
                self.listeners.insert(number, Listener::Seeker(woken));
                Input::Seek(number, queue)
            }
            Message::Unsubscribe(number) => {
                self.listeners.remove(&number);
                Input::Unsubscribe(number)
            }
        })
    }

    /// Does one thing, and returns what the engine wants to know of it. Nobody may wait for an answer any more.
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
            Effect::Forget(key) => self.handles.forget(&key),
            Effect::Ended(execution, reply, after) => report::ended(&self.link, &execution, reply, after),
            Effect::Drained(worker) => {
                for drained in self.workers.get_mut(&worker)?.drained.drain(..) {
                    let _ = drained.send(());
                }
            }
            Effect::GivenBack(worker, jobs) => {
                let _ = self.workers.get_mut(&worker)?.given_back.pop_front()?.send(jobs);
            }
            Effect::Over(worker) => self.workers.get(&worker)?.owner.as_ref()?.over.cancel(),
            Effect::Gone(worker) => drop(self.workers.remove(&worker)),
            Effect::Wake(number) => {
                if let Listener::Seeker(woken) = self.listeners.get(&number)? {
                    woken.notify_one();
                }
            }
            Effect::Watches(number, call) => {
                if let Listener::Watcher(_, watches) = self.listeners.get_mut(&number)? {
                    let _ = watches.take()?.send(call);
                }
            }
            Effect::Tell(number, heard) => {
                if let Listener::Watcher(watcher, _) = self.listeners.get(&number)? {
                    let _ = watcher.send(heard);
                }
            }
            Effect::Tick => self.tick.notify_one(),
            Effect::Report(notice) => report::notice(&self.link, notice),
        }
        None
    }

    fn begin(&self, worker: Option<Number>, execution: Arc<Execution>, kept: Kept) {
        let handle = Arc::new(Handle::new(execution, kept, self.messages.clone()));
        self.link.see(handle.token);
        self.handles.add(handle.clone());
        if let Some(local) = worker.and_then(|worker| self.workers.get(&worker)) {
            self.link.metrics().begins(&handle.record.queue);
            (local.runner)(handle);
        }
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Option<Done>> {
        let (link, node) = (self.link.clone(), self.link.node().clone());
        match call {
            Call::Work { worker, ends, take } => self.work(worker, ends, take),
            Call::Repeat { worker, lane, executions, ends } => {
                let (executions, ends) = (AttestJobs(executions), SettleJobs(lane, ends));
                let told = Told { known_in: Arc::default(), executions, ends };
                async move { Some(Done::Repeated(worker, link.call(&told).await.map(drop))) }.boxed()
            }
            Call::Renew(keys) => {
                let running: Vec<_> = keys.iter().filter_map(|key| self.handles.get(key)).collect();
                let call = Behind::running(running, ExtendJobs(keys));
                async move { Some(Done::Renewed(link.call_within(RENEWAL, &call).await)) }.boxed()
            }
            Call::WatchAgain(number, ids) => {
                let call = WatchJobs { node, watching: Watching::Again, number, ids };
                async move { Some(Done::WatchedAgain(link.call(&call).await.is_ok())) }.boxed()
            }
            Call::Unwatch(number, id) => {
                let call = WatchJobs { node, watching: Watching::End, number, ids: vec![id] };
                async move {
                    if let Err(error) = link.call_within(FAREWELL, &call).await {
                        report::still_watched(&error);
                    }
                    None
                }
                .boxed()
            }
        }
    }

    /// Says ends and takes jobs, in one round trip. An owner whose right is over takes as little as one with a successor.
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
        let right = self.workers.get(&worker).and_then(|local| local.owner.as_ref());
        let lasts = right.is_none_or(|right| (right.lasts)());
        let take = take.map(|(lane, taking)| In(TakeJobs(lane, taking)));
        let link = self.link.clone();
        async move {
            let settled = async {
                match &settle {
                    Some(settle) => Some(link.call(settle).await),
                    None => None,
                }
            };
            let taken = async {
                match &take {
                    Some(take) if lasts => Some(link.call(take).await),
                    Some(_) => Some(Err(StoreError::Late.into())),
                    None => None,
                }
            };
            let (settled, taken) = tokio::join!(settled, taken);
            Some(Done::Worked { worker, settled, taken })
        }
        .boxed()
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
        Some(wait) => tokio::time::sleep(wait).await,
        None => pending().await,
    }
}
