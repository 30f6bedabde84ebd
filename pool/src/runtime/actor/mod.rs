//! The tasks of one job: its handler's calls, one after the other.

mod mailbox;
mod updating;

use std::any::Any;
use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};
use tracing::{Instrument, Span};

pub(super) use self::mailbox::{Mail, Mailbox};
use super::polls::Poll;
use crate::core::input::{HandlerEvent, Input};
use crate::error::{BoxError, cut, whole};
use crate::job::Job;
use crate::job::asking::Ask;
use crate::job::handler::{AnyHandler, Start};
use crate::job::own::calls_of;
use crate::job::serving::Served;
use crate::job::span::JobSpanHook;
use crate::job::verdict::{JobEnd, NotYet};
use crate::model::stop::StopReason;
use crate::model::trace::TraceContext;
use crate::store::Taken;

type Ended = Result<(), Fault>;
type Body = BoxFuture<'static, Ended>;

/// The parts that a task works with.
pub(crate) struct Task {
    pub(crate) job: Job,
    pub(crate) handler: Arc<dyn AnyHandler>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) inputs: mpsc::UnboundedSender<Input>,
    /// The index of the node's started jobs.
    pub(crate) served: Option<Arc<Served>>,
    /// How long a notification in progress may take when the job ends.
    pub(crate) grace: Duration,
}

/// The result of a task, reported after the task's future was dropped.
#[derive(Debug)]
pub(crate) enum Came {
    /// The job goes on without a future or work. The event, if any, must still be reported; the span is the job's.
    Idle(Option<HandlerEvent>, Span),
    /// The job has ended.
    Ended(HandlerEvent),
}

/// The error of a start or of a job's future.
#[derive(Debug)]
enum Fault {
    Failed(String),
    Lost(String),
    Park(String),
}

impl Fault {
    fn of(error: &BoxError) -> Self {
        match error.downcast_ref() {
            Some(JobEnd::Lost(why)) => Self::Lost(cut(why.clone())),
            Some(JobEnd::Park(why)) => Self::Park(cut(why.clone())),
            None => Self::Failed(chain(&**error)),
        }
    }

    fn text(self) -> String {
        let (Self::Failed(text) | Self::Lost(text) | Self::Park(text)) = self;
        text
    }

    /// The event for a job that ends with this error; `failed` makes the one of a plain error.
    fn event(self, failed: impl FnOnce(String) -> HandlerEvent) -> HandlerEvent {
        match self {
            Self::Failed(text) => failed(text),
            Self::Lost(why) => HandlerEvent::Lost(why),
            Self::Park(why) => HandlerEvent::Park(why),
        }
    }
}

/// The result of a delivery.
struct Delivery {
    /// The body's result, if it ended.
    ended: Option<Ended>,
    /// The number of notifications that were taken.
    taken: usize,
    /// The next one was refused for now.
    refused: Option<Refused>,
}

struct Refused {
    pause: Duration,
    refusals: u32,
    why: String,
}

impl Delivery {
    /// The report of the delivery. A job that must end may not have taken all; its next owner gets the rest.
    fn event(&mut self, job: &Job) -> HandlerEvent {
        let taken = self.taken;
        match self.refused.take() {
            Some(Refused { pause, refusals, why }) => HandlerEvent::NotYet { taken, pause, refusals, why },
            None if self.ended.is_some() || job.is_ending() => HandlerEvent::Took(taken),
            None => HandlerEvent::Delivered,
        }
    }
}

impl Task {
    /// The parts that the next task needs as well.
    pub(crate) fn parts(&self) -> (Job, Arc<dyn AnyHandler>, Arc<Mailbox>) {
        (self.job.clone(), self.handler.clone(), self.mailbox.clone())
    }

    /// The job has started.
    fn enter(&self) {
        if let Some(served) = &self.served {
            served.enter(&self.job);
        }
    }

    /// The job has ended by itself.
    fn leave(&self) {
        if let Some(served) = &self.served {
            served.leave(&self.job);
        }
    }

    /// Reports an event that does not end the task.
    fn say(&self, event: HandlerEvent) {
        let (worker, key, token) = (self.job.worker(), self.job.key().clone(), self.job.token());
        // The driver is gone only if no one needs the event.
        let _ = self.inputs.send(Input::Handler { worker, key, token, event });
    }
}

/// Starts the job, and runs a job with a future to its end. `recheck`: checks the lease just before the handler is
/// called. `on_span` gets the job's span before it is entered.
pub(crate) async fn start(task: Task, recheck: bool, on_span: Option<JobSpanHook>) -> Came {
    let span = span_of(&task.job, on_span);
    let live = async {
        if recheck && !task.job.lease().check() {
            return Some(HandlerEvent::NotRun);
        }
        live(&task).await
    };
    match calls_of(task.job.clone(), live).instrument(span.clone()).await {
        Some(event) => Came::Ended(event),
        None => Came::Idle(Some(HandlerEvent::Started), span),
    }
}

/// Handles the next message in the mailbox of a job without a future.
pub(crate) async fn attend(task: Task, span: Span) -> Came {
    let attended = async {
        match task.mailbox.next().await {
            Mail::Deliver(notes) => Ok(Some(deliver(&task, notes, &mut None).await.event(&task.job))),
            Mail::Asks(asks) => {
                hand_over(&task, asks, &mut None).await;
                Ok(None)
            }
            Mail::Update(new) => Ok(updating::update(&task, new, &mut None).await.1),
            Mail::End(result) => Err(end(&task, result.map_err(|error| Fault::of(&error))).await),
            Mail::Stop(why) => Err(HandlerEvent::Stopped(stop(&task, why).await)),
        }
    };
    match calls_of(task.job.clone(), attended).instrument(span.clone()).await {
        Ok(event) => Came::Idle(event, span),
        Err(event) => Came::Ended(event),
    }
}

/// Lets the handler of a job that was cut off hear of its stop, which is polled once, and dropped. Then the job has ended
/// with this event, also when the stop panics.
pub(crate) fn hear(task: &Task, why: StopReason, event: HandlerEvent) -> Came {
    // A panic of the drop: those of the poll are caught in `stop`.
    let _ = catch_unwind(AssertUnwindSafe(|| stop(task, why).now_or_never()));
    Came::Ended(event)
}

/// Keeps back the key of a job that has ended with this event, for this time.
pub(crate) async fn linger(task: Task, time: Duration, event: HandlerEvent) -> Came {
    task.leave();
    sleep(time).await;
    Came::Ended(event)
}

/// The span of a job's calls. It names the dispatcher's trace. The pool carries the trace but does not join it; the
/// user's tracer does.
fn span_of(job: &Job, on_span: Option<JobSpanHook>) -> Span {
    let parent = job.trace().map(TraceContext::traceparent);
    let (key, token, worker, attempt) = (job.key(), job.token().0, job.worker().0, job.attempts());
    let span = tracing::info_span!("job", %key, token, worker, attempt, traceparent = parent);
    if let (Some(hook), Some(trace)) = (on_span, job.trace()) {
        hook.call(&span, trace);
    }
    span
}

/// The span of a job's end.
fn span_of_end(why: StopReason) -> Span {
    match why {
        StopReason::Moved | StopReason::Updated | StopReason::Draining => {
            tracing::info_span!("hand_off", reason = ?why)
        }
        _ => tracing::info_span!("stop", reason = ?why),
    }
}

/// Runs the job from its start to its end, and returns the end. Returns `None` once a job without a future has
/// started.
///
/// A future may run for long. The state of a handler's call is boxed and dropped with the call, so that the rest of
/// the task is small.
async fn live(task: &Task) -> Option<HandlerEvent> {
    let start =
        caught(&task.job, || task.handler.start(task.job.clone())).instrument(tracing::info_span!("start"));
    let body = match Box::pin(start).await {
        Ok(Start::Started) => {
            task.enter();
            return None;
        }
        Ok(Start::Running(future)) => guarded(task.job.clone(), future),
        Ok(Start::Elsewhere) => return Some(HandlerEvent::Elsewhere { why: String::new() }),
        Ok(Start::Unable { why }) => return Some(HandlerEvent::Elsewhere { why: cut(why) }),
        Ok(Start::Refused { backoff }) => {
            return Some(HandlerEvent::Refused { backoff, why: String::new() });
        }
        Ok(Start::Declined { backoff, why }) => {
            return Some(HandlerEvent::Refused { backoff, why: cut(why) });
        }
        Ok(Start::Failed(error)) => return Some(Fault::of(&error).event(HandlerEvent::Failed)),
        Err(panic) => return Some(HandlerEvent::Failed(panicked(&*panic))),
    };
    task.enter();
    task.say(HandlerEvent::Started);
    Some(run(task, body).await)
}

/// Runs the job's future to its end, and handles messages meanwhile.
async fn run(task: &Task, body: Body) -> HandlerEvent {
    let mut body = Some(body);
    loop {
        let mail = tokio::select! {
            biased;
            ended = ended(&mut body) => return Box::pin(end(task, ended)).await,
            mail = task.mailbox.next() => mail,
        };
        match mail {
            Mail::Deliver(notes) => {
                let mut delivery = Box::pin(deliver(task, notes, &mut body)).await;
                // The notifications that it took may have ended it.
                task.say(delivery.event(&task.job));
                if let Some(ended) = delivery.ended {
                    return Box::pin(end(task, ended)).await;
                }
            }
            Mail::Asks(asks) => {
                if let Some(ended) = Box::pin(hand_over(task, asks, &mut body)).await {
                    return Box::pin(end(task, ended)).await;
                }
            }
            Mail::Update(new) => {
                let (ended, event) = Box::pin(updating::update(task, new, &mut body)).await;
                if let Some(event) = event {
                    task.say(event);
                }
                if let Some(ended) = ended {
                    return Box::pin(end(task, ended)).await;
                }
            }
            // Its future says when it ends.
            Mail::End(_) => {
                tracing::warn!(key = %task.job.key(), "a job that runs as a future said Job::end, it runs on");
            }
            Mail::Stop(why) => {
                let ended = ended(&mut body).await.map_err(Fault::text);
                return HandlerEvent::Stopped(ended.and(Box::pin(stop(task, why)).await));
            }
        }
    }
}

/// Hands notifications over, one after the other, while the body goes on. A refused one is the last.
async fn deliver(task: &Task, notes: Taken, body: &mut Option<Body>) -> Delivery {
    let Task { job, handler, grace, .. } = task;
    let mut count = 0;
    for (number, note) in (notes.first..).zip(notes.bodies) {
        if job.is_ending() {
            break;
        }
        job.is_given(number);
        let delivery = caught(job, || handler.notify(job, note)).instrument(tracing::debug_span!("notify"));
        let (ended, taken) = beside(body, delivery, job, *grace).await;
        let is_dropped = taken.is_none();
        match taken {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                if let Some(not_yet) = error.downcast_ref::<NotYet>() {
                    let (pause, refusals, why) = (not_yet.pause(), job.refuses(), cut(not_yet.why()));
                    return Delivery { ended, taken: count, refused: Some(Refused { pause, refusals, why }) };
                }
                tracing::warn!(key = %job.key(), error = chain(&*error), "a notification's handler returned an error, it counts as delivered");
            }
            Some(Err(panic)) => {
                tracing::error!(key = %job.key(), error = panicked(&*panic), "a notification's handler failed");
            }
            None => {
                tracing::warn!(key = %job.key(), "a notification's handler did not end with its job, it was dropped");
            }
        }
        if job.has_withdrawn() || is_dropped {
            return Delivery { ended, taken: count, refused: None };
        }
        count += 1;
        if ended.is_some() {
            return Delivery { ended, taken: count, refused: None };
        }
    }
    Delivery { ended: None, taken: count, refused: None }
}

/// Hands asks over, one after the other, while the body goes on. Returns the body's result, if it ended. Those that are
/// left then, or when the job must end, are sent back.
async fn hand_over(task: &Task, asks: Vec<Ask>, body: &mut Option<Body>) -> Option<Ended> {
    let Task { job, handler, grace, .. } = task;
    for ask in asks {
        if job.is_ending() {
            return None;
        }
        let Some(ask) = ask.handed() else { continue };
        let id = ask.id().to_owned();
        let asking = caught(job, || handler.ask(job, ask)).instrument(tracing::debug_span!("ask", id));
        let (ended, done) = beside(body, asking, job, *grace).await;
        match done {
            Some(Ok(())) => {}
            Some(Err(panic)) => {
                tracing::error!(key = %job.key(), id, error = panicked(&*panic), "the handler of an ask failed");
            }
            None => {
                tracing::warn!(key = %job.key(), id, "the handler of an ask did not end with its job, it was dropped");
            }
        }
        if ended.is_some() {
            return ended;
        }
    }
    None
}

/// The event for the end of the body, or for a job's own word. A body whose cancellation has fired was asked to end. The
/// mail with the reason is on its way, and the job has not ended by itself.
async fn end(task: &Task, ended: Ended) -> HandlerEvent {
    if !task.job.is_ending() {
        task.leave();
        task.mailbox.send_asks_back();
        return match ended {
            Ok(()) => HandlerEvent::Ended(Ok(())),
            Err(fault) => fault.event(|text| HandlerEvent::Ended(Err(text))),
        };
    }
    loop {
        if let Mail::Stop(why) = task.mailbox.next().await {
            return HandlerEvent::Stopped(ended.map_err(Fault::text).and(stop(task, why).await));
        }
    }
}

async fn stop(task: &Task, why: StopReason) -> Result<(), String> {
    match caught(&task.job, || task.handler.stop(&task.job, why)).instrument(span_of_end(why)).await {
        Ok(result) => result.map_err(|error| chain(&*error)),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// Calls a handler of the job. Catches a panic of the call and of its future alike.
async fn caught<'a, T>(job: &Job, call: impl FnOnce() -> BoxFuture<'a, T>) -> Result<T, Box<dyn Any + Send>> {
    let called = async {
        let future = {
            let _poll = Poll::of(job);
            call()
        };
        polled(job, future).await
    };
    AssertUnwindSafe(called).catch_unwind().await
}

/// A future of the job's handler, with its polls recorded.
fn polled<T>(job: impl Borrow<Job>, mut future: BoxFuture<'_, T>) -> impl Future<Output = T> {
    poll_fn(move |context| {
        let _poll = Poll::of(job.borrow());
        future.poll_unpin(context)
    })
}

/// The job's own end; never, for a job without a body.
async fn ended(body: &mut Option<Body>) -> Ended {
    match body {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Runs the work while the body goes on. If the body ends, or the job must end, the work may still finish within its
/// limit. Returns the body's result, if it ended, and the result of the work.
async fn beside<T>(
    body: &mut Option<Body>,
    work: impl Future<Output = T>,
    job: &Job,
    grace: Duration,
) -> (Option<Ended>, Option<T>) {
    let mut work = pin!(work);
    let mut end = None;
    let mut limit: Option<Pin<Box<Sleep>>> = None;
    loop {
        tokio::select! {
            biased;
            outcome = ended(body), if end.is_none() => end = Some(outcome),
            done = &mut work => return (end, Some(done)),
            () = job.ending(), if limit.is_none() => {}
            () = over(&mut limit) => return (end, None),
        }
        limit.get_or_insert_with(|| Box::pin(sleep(grace)));
    }
}

/// The end of the time limit; never, while the limit has not begun.
async fn over(limit: &mut Option<Pin<Box<Sleep>>>) {
    match limit {
        Some(limit) => limit.await,
        None => std::future::pending().await,
    }
}

fn guarded(job: Job, future: BoxFuture<'static, Result<(), BoxError>>) -> Body {
    let caught = AssertUnwindSafe(polled(job, future)).catch_unwind();
    Box::pin(caught.map(|end| match end {
        Ok(result) => result.map_err(|error| Fault::of(&error)),
        Err(panic) => Err(Fault::Failed(panicked(&*panic))),
    }))
}

/// An error and all its sources. It is logged as a quoted value, so that a line break makes no new line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    cut(whole(error))
}

/// The message of a panic.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> String {
    let what =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    cut(format!("panicked: {}", what.unwrap_or("with no message")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TEXT_MAX;

    #[test]
    fn a_long_error_text_is_cut_between_two_characters() {
        let error = std::io::Error::other("x".to_owned() + &"ä".repeat(TEXT_MAX));
        let text = chain(&error);
        assert_eq!(text.len(), TEXT_MAX - 1);
        assert!(text.ends_with('ä'));
        assert_eq!(panicked(&"y".repeat(2 * TEXT_MAX)).len(), TEXT_MAX);
        assert_eq!(panicked(&"short"), "panicked: short");
    }
}
