//! One running job: its handler's calls, one after the other, in a task of its own.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::builder::JobSpanHook;
use crate::core::input::{HandlerEvent, Input};
use crate::error::BoxError;
use crate::handler::{AnyHandler, Start};
use crate::job::Job;
use crate::stop::StopReason;
use crate::trace::TraceContext;

/// What an actor is told.
#[derive(Debug)]
pub(crate) enum Order {
    Deliver(Vec<Bytes>),
    Stop(StopReason),
}

/// An actor's inbox: much smaller than a channel, since there is one for every job held.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    orders: Mutex<Vec<Order>>,
    wake: Notify,
}

impl Mailbox {
    pub(crate) fn put(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.wake.notify_one();
    }

    async fn next(&self) -> Order {
        loop {
            let woken = self.wake.notified();
            {
                let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
                if !orders.is_empty() {
                    return orders.remove(0);
                }
            }
            woken.await;
        }
    }
}

/// The longest error text of a handler that goes further, in bytes: it is kept in the store.
const TEXT_MAX: usize = 1024;

type Outcome = Result<(), String>;
type Body = BoxFuture<'static, Outcome>;

/// What one running job has of its own.
pub(crate) struct Own {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) cancel: CancellationToken,
    pub(crate) inputs: mpsc::UnboundedSender<Input>,
    /// The lease is looked at just before the handler is called.
    pub(crate) recheck: bool,
    /// How long a notification that is being taken when the job comes to its end has to be finished.
    pub(crate) grace: Duration,
    /// Gets the job's span before it is entered.
    pub(crate) on_span: Option<JobSpanHook>,
}

/// Runs the job to its end, and says so as its last act: by then nothing of its future is left.
pub(crate) async fn run(job: Job, handler: Arc<dyn AnyHandler>, own: Own) {
    let Own { mailbox, cancel, inputs, recheck, grace, on_span } = own;
    let say = |event| {
        let (worker, key, token) = (job.worker(), job.key().clone(), job.token());
        // The driver is gone only when nobody wants to know any more.
        let _ = inputs.send(Input::Handler { worker, key, token, event });
    };
    let span = span_of(&job, on_span);
    let live = async {
        if recheck && !job.lease().check() {
            return HandlerEvent::NotRun;
        }
        live(&job, &*handler, &mailbox, &cancel, &say, grace).await
    };
    let live = AssertUnwindSafe(live.instrument(span)).catch_unwind();
    // What is caught here is the panic of a drop: handlers' own have been.
    say(live.await.unwrap_or_else(|panic| HandlerEvent::Failed(panicked(&*panic))));
}

/// What everything that a job does runs in. It names the dispatcher's trace, which the pool carries and does not join:
/// whoever has a tracer does.
fn span_of(job: &Job, on_span: Option<JobSpanHook>) -> Span {
    let parent = job.trace().map(TraceContext::traceparent);
    let (key, token, worker, attempt) = (job.key(), job.token().0, job.worker().0, job.attempts());
    let span = tracing::info_span!("job", %key, token, worker, attempt, traceparent = parent);
    if let (Some(hook), Some(trace)) = (on_span, job.trace()) {
        hook.call(&span, trace);
    }
    span
}

/// What its end runs in.
fn span_of_end(why: StopReason) -> Span {
    match why {
        StopReason::Moved | StopReason::Draining => tracing::info_span!("hand_off", reason = ?why),
        _ => tracing::info_span!("stop", reason = ?why),
    }
}

/// The job from its start to its end, which is returned.
///
/// Most jobs held are idle: what a handler's call needs is boxed and goes with it, so that the rest of the task is small.
async fn live(
    job: &Job,
    handler: &dyn AnyHandler,
    mailbox: &Mailbox,
    cancel: &CancellationToken,
    say: &(impl Fn(HandlerEvent) + Sync),
    grace: Duration,
) -> HandlerEvent {
    let start = caught(|| handler.start(job.clone())).instrument(tracing::info_span!("start"));
    let mut body = match Box::pin(start).await {
        Ok(Start::Started) => None,
        Ok(Start::Running(future)) => Some(guarded(future)),
        Ok(Start::Refused { backoff }) => return HandlerEvent::Refused { backoff },
        Ok(Start::Failed(error)) => return HandlerEvent::Failed(chain(&*error)),
        Err(panic) => return HandlerEvent::Failed(panicked(&*panic)),
    };
    say(HandlerEvent::Started);
    loop {
        // What was said has woken the driver, perhaps to run next on this thread, where nobody can take it over:
        // a handler that blocks its thread must not keep the driver with it.
        tokio::task::yield_now().await;
        let order = tokio::select! {
            biased;
            ended = ended(&mut body) => return Box::pin(end(job, handler, mailbox, cancel, ended)).await,
            order = mailbox.next() => order,
        };
        match order {
            Order::Deliver(bodies) => {
                if let Some(ended) = Box::pin(deliver(job, handler, bodies, &mut body, cancel, grace)).await {
                    return Box::pin(end(job, handler, mailbox, cancel, ended)).await;
                }
                // A job that is to end may not have taken all of them: its next owner gets them again.
                if !cancel.is_cancelled() {
                    say(HandlerEvent::Delivered);
                }
            }
            Order::Stop(why) => {
                let own = match &mut body {
                    Some(future) => future.await,
                    None => Ok(()),
                };
                return HandlerEvent::Stopped(own.and(Box::pin(stop(job, handler, why)).await));
            }
        }
    }
}

/// Hands notifications over, one after the other, while the body goes on. Returns how that ended, if it did.
async fn deliver(
    job: &Job,
    handler: &dyn AnyHandler,
    bodies: Vec<Bytes>,
    body: &mut Option<Body>,
    cancel: &CancellationToken,
    grace: Duration,
) -> Option<Outcome> {
    for note in bodies {
        if cancel.is_cancelled() {
            break;
        }
        let delivery = caught(|| handler.notify(job, note)).instrument(tracing::debug_span!("notify"));
        let (ended, taken) = beside(body, delivery, cancel, grace).await;
        match taken {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(key = %job.key(), error = %chain(&*error), "a notification was refused");
            }
            Some(Err(panic)) => {
                tracing::error!(key = %job.key(), error = %panicked(&*panic), "a notification's handler failed");
            }
            None => {
                tracing::warn!(key = %job.key(), "a notification's handler did not end with its job, it was dropped");
            }
        }
        if ended.is_some() {
            return ended;
        }
    }
    None
}

/// What the end of the body means. One whose cancellation has fired was asked to end: the order that says why is
/// on its way, and the job is not at its own end.
async fn end(
    job: &Job,
    handler: &dyn AnyHandler,
    mailbox: &Mailbox,
    cancel: &CancellationToken,
    ended: Outcome,
) -> HandlerEvent {
    if !cancel.is_cancelled() {
        return HandlerEvent::Ended(ended);
    }
    loop {
        if let Order::Stop(why) = mailbox.next().await {
            return HandlerEvent::Stopped(ended.and(stop(job, handler, why).await));
        }
    }
}

async fn stop(job: &Job, handler: &dyn AnyHandler, why: StopReason) -> Outcome {
    match caught(|| handler.stop(job, why)).instrument(span_of_end(why)).await {
        Ok(result) => result.map_err(|error| chain(&*error)),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// Calls a handler; a panic of the call itself and one of its future end here alike.
async fn caught<'a, T>(call: impl FnOnce() -> BoxFuture<'a, T>) -> Result<T, Box<dyn Any + Send>> {
    AssertUnwindSafe(async { call().await }).catch_unwind().await
}

/// The job's own end; never, for a job without a body.
async fn ended(body: &mut Option<Body>) -> Outcome {
    match body {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Does the work while the body goes on. When the body ends, or the job is to end, the work may still be finished, but
/// what hangs does not keep the job from its end. Returns how the body ended, if it did, and what the work came to.
async fn beside<T>(
    body: &mut Option<Body>,
    work: impl Future<Output = T>,
    cancel: &CancellationToken,
    grace: Duration,
) -> (Option<Outcome>, Option<T>) {
    let mut work = pin!(work);
    let mut end = None;
    let mut limit: Option<Pin<Box<Sleep>>> = None;
    loop {
        tokio::select! {
            biased;
            outcome = ended(body), if end.is_none() => end = Some(outcome),
            done = &mut work => return (end, Some(done)),
            () = cancel.cancelled(), if limit.is_none() => {}
            () = over(&mut limit) => return (end, None),
        }
        limit.get_or_insert_with(|| Box::pin(sleep(grace)));
    }
}

/// The end of the time; never, while it has not begun.
async fn over(limit: &mut Option<Pin<Box<Sleep>>>) {
    match limit {
        Some(limit) => limit.await,
        None => std::future::pending().await,
    }
}

fn guarded(future: BoxFuture<'static, Result<(), BoxError>>) -> Body {
    let caught = AssertUnwindSafe(future).catch_unwind();
    Box::pin(caught.map(|end| match end {
        Ok(result) => result.map_err(|error| chain(&*error)),
        Err(panic) => Err(panicked(&*panic)),
    }))
}

/// An error and all its sources, in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    cut(text)
}

/// Shortens a text to [`TEXT_MAX`], between two characters.
fn cut(mut text: String) -> String {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// What a panic said.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> String {
    let what =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    cut(format!("panicked: {}", what.unwrap_or("with no message")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::task::Poll;

    use super::*;
    use crate::core::lease::Timing;
    use crate::id::{Incarnation, JobKey, NodeName, Token, WorkerId};
    use crate::job::Parts;
    use crate::runtime::clock;
    use crate::runtime::lease::Leases;
    use crate::wire::{self, Envelope};

    #[test]
    fn a_long_error_text_is_cut_between_two_characters() {
        let error = std::io::Error::other("x".to_owned() + &"ä".repeat(TEXT_MAX));
        let text = chain(&error);
        assert_eq!(text.len(), TEXT_MAX - 1);
        assert!(text.ends_with('ä'));
        assert_eq!(panicked(&"y".repeat(2 * TEXT_MAX)).len(), TEXT_MAX);
        assert_eq!(panicked(&"short"), "panicked: short");
    }

    /// A future that is over at once; when it is dropped it writes down what has been said by then.
    struct Witness {
        inputs: Arc<Mutex<mpsc::UnboundedReceiver<Input>>>,
        said: Arc<Mutex<Vec<String>>>,
        panics: bool,
    }

    impl Future for Witness {
        type Output = Result<(), BoxError>;

        fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Self::Output> {
            Poll::Ready(Ok(()))
        }
    }

    impl Drop for Witness {
        fn drop(&mut self) {
            self.said.lock().unwrap().extend(events(&mut self.inputs.lock().unwrap()));
            assert!(!self.panics, "in drop");
        }
    }

    fn events(inputs: &mut mpsc::UnboundedReceiver<Input>) -> Vec<String> {
        let next = || match inputs.try_recv().ok()? {
            Input::Handler { event, .. } => Some(format!("{event:?}")),
            input => Some(format!("{input:?}")),
        };
        std::iter::from_fn(next).collect()
    }

    struct Runs(Mutex<Option<Witness>>);

    impl crate::handler::JobHandler for Runs {
        async fn start(&self, _: Job) -> Start {
            let witness = self.0.lock().unwrap().take();
            witness.map_or(Start::Started, |witness| Start::Running(Box::pin(witness)))
        }
    }

    /// A job under a lease that holds.
    fn job() -> (Job, CancellationToken) {
        let worker = WorkerId(1);
        let leases = Leases::new(
            NodeName::new("n").unwrap(),
            Timing::of(Duration::from_secs(600)),
            crate::breakage::Breakages::default(),
        );
        leases.hold(Incarnation(1), worker, clock::now());
        let (lease, cancel) = leases.admit(worker);
        let parts = Parts {
            key: JobKey::new("key").unwrap(),
            payload: wire::open(&Envelope::new(b"").seal().unwrap()).unwrap(),
            token: Token(1),
            id: "node.id".parse().unwrap(),
            worker,
            attempts: 1,
            created_ms: 0,
            begun_ms: 0,
            cancel: cancel.clone(),
            lease,
        };
        (Job::new(parts), cancel)
    }

    /// What is said until the job's future has been dropped, and afterwards.
    async fn said_around_the_drop(panics: bool) -> (Vec<String>, Vec<String>) {
        let (send, receive) = mpsc::unbounded_channel();
        let (inputs, said) = (Arc::new(Mutex::new(receive)), Arc::default());
        let witness = Witness { inputs: Arc::clone(&inputs), said: Arc::clone(&said), panics };
        let handler = Arc::new(Runs(Mutex::new(Some(witness))));
        let (job, cancel) = job();
        let (mailbox, grace) = (Arc::default(), Duration::ZERO);
        run(job, handler, Own { mailbox, cancel, inputs: send, recheck: true, grace, on_span: None }).await;
        let before = said.lock().unwrap().clone();
        let after = events(&mut inputs.lock().unwrap());
        (before, after)
    }

    #[tokio::test]
    async fn the_end_of_a_job_is_told_when_nothing_of_its_future_is_left() {
        let (before, after) = said_around_the_drop(false).await;
        assert_eq!((before, after), (vec!["Started".to_owned()], vec!["Ended(Ok(()))".to_owned()]));
    }

    #[tokio::test]
    async fn a_future_that_panics_when_it_is_dropped_has_failed() {
        let (_, after) = said_around_the_drop(true).await;
        assert_eq!(after, ["Failed(\"panicked: in drop\")"]);
    }
}
