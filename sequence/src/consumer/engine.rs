//! The acting part: it looks into the source and runs jobs. A worker that has finished a job looks for the next one itself.
//! So a busy consumer needs neither a task nor a message for each job.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::WaitForCancellationFuture;
use tracing::Instrument;

use crate::consumer::delivery::Delivery;
use crate::consumer::handler::Handler;
use crate::consumer::manual::said;
use crate::consumer::metrics::Metrics;
use crate::consumer::shared::{Run, Shared};
use crate::consumer::throttle::Complaints;
use crate::core::Look;
use crate::error::{
    BoxError, Error, HandlerPanicked, Irrecoverable, NoAnswer, SourceError, TooLong, text_of, whole,
};
use crate::source::Source;

/// A look that takes at most this part of its deadline may be followed by one of twice its size.
const SOON: u32 = 4;

/// Told of an index. It must not block.
pub(crate) type Notification = Box<dyn Fn(u64) + Send + Sync>;

/// Whom a consumer tells of its progress.
#[derive(Default)]
pub(crate) struct Notifications {
    pub(crate) before: Option<Notification>,
    pub(crate) in_order: Option<Notification>,
    pub(crate) after: Option<Notification>,
}

/// A consumer with its types.
pub(crate) struct Engine<S, P, H> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: S,
    pub(crate) progress: P,
    pub(crate) handler: H,
    pub(crate) notifications: Notifications,
    pub(crate) metrics: OnceLock<Metrics>,
    pub(crate) complaints: Complaints,
}

/// A job that has begun.
type Begun<J> = (u64, J);

/// How a call of a user's code has ended.
pub(crate) enum Called<T> {
    Returned(T),
    Panicked(Arc<str>),
}

/// Runs user code that may panic.
pub(crate) async fn called<T>(call: impl Future<Output = T>) -> Called<T> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(value) => Called::Returned(value),
        Err(panic) => Called::Panicked(text_of(&*panic).into()),
    }
}

impl<S, P, H> Engine<S, P, H>
where
    S: Source,
    P: Send + Sync + 'static,
    H: Handler<S::Job>,
{
    pub(crate) fn count(&self, counter: impl FnOnce(&Metrics) -> &metrics::Counter) {
        if let Some(metrics) = self.metrics.get() {
            counter(metrics).increment(1);
        }
    }

    /// Takes a look, and those that are wanted meanwhile. Each job that is found begins in a task of its own. A caller
    /// that keeps one is given the lowest job of the last look instead.
    pub(crate) async fn look(self: &Arc<Self>, mut look: Look, keeps_one: bool) -> Option<Begun<S::Job>> {
        loop {
            let began = Instant::now();
            let (jobs, next) = match self.read(look).await {
                Ok(jobs) => self.found(look, jobs, began),
                Err(error) => (Vec::new(), self.failed(look, error)),
            };
            self.shared.changed.notify_waiters();
            let mut begun = (look.first..=u64::MAX).zip(jobs);
            let kept = if next.is_none() && keeps_one { begun.next() } else { None };
            for (index, job) in begun {
                self.begin(index, job);
            }
            look = match next {
                Some(next) => next,
                None => return kept,
            };
        }
    }

    /// Begins a job, in a task of its own.
    fn begin(self: &Arc<Self>, index: u64, job: S::Job) {
        self.shared.tasks.spawn(self.clone().work(index, job));
    }

    /// Reads what there is room for; nothing when the consumer stops meanwhile.
    async fn read(&self, look: Look) -> Result<Vec<S::Job>, Error> {
        let patience = self.shared.settings.call_deadline;
        let read = called(timeout(patience, self.source.read(look.first, look.most)));
        let read = tokio::select! {
            biased;
            read = read => read,
            () = self.shared.stopping.cancelled() => return Ok(Vec::new()),
        };
        match read {
            Called::Returned(Ok(result)) => result.map_err(Error::Source),
            Called::Returned(Err(_)) => Err(Error::Source(SourceError::timed_out(NoAnswer(patience)))),
            Called::Panicked(text) => Err(Error::Panicked { who: "the source", text }),
        }
    }

    /// The jobs that begin, and the next look.
    fn found(&self, look: Look, mut jobs: Vec<S::Job>, began: Instant) -> (Vec<S::Job>, Option<Look>) {
        let (begin, next, scout_must_watch) = {
            let now = Instant::now();
            let was_soon = now - began <= self.shared.settings.call_deadline / SOON;
            let mut state = self.shared.lock();
            (state.source_trouble, state.failed_at) = (None, None);
            state.look_pauses.reset();
            let run = |_| Run { begun: now, attempts: 1, last_error: None, word: None };
            let begin = state.core.found(look, jobs.len(), run);
            if was_soon && begin == look.most {
                state.core.widen(look);
            }
            let next = state.core.look();
            (begin, next, next.is_none() && begin < look.most && !state.scout_watches)
        };
        jobs.truncate(begin);
        self.count(|metrics| &metrics.looks[usize::from(begin == 0)]);
        if scout_must_watch {
            self.shared.scout.notify_one();
        }
        (jobs, next)
    }

    /// Nothing begins; the scout looks again after a pause.
    fn failed(&self, look: Look, error: Error) -> Option<Look> {
        self.count(|metrics| &metrics.looks[2]);
        let trouble = match &error {
            Error::Source(trouble) if trouble.is_transient() => Some(trouble.clone()),
            _ => None,
        };
        {
            let mut state = self.shared.lock();
            state.core.failed();
            if matches!(trouble, Some(SourceError::TimedOut(_))) {
                state.core.narrow(look);
            }
            state.look_pauses.fail();
            state.failed_at = Some(Instant::now());
            state.source_trouble.clone_from(&trouble);
        }
        match trouble {
            Some(trouble) => {
                if let Some(unsaid) = self.complaints.looks.say() {
                    let (consumer, error) = (&*self.shared.settings.name, whole(&trouble));
                    tracing::warn!(consumer, unsaid, "nothing new begins: {error}");
                }
                self.shared.scout.notify_one();
            }
            None => self.shared.fail(error),
        }
        None
    }

    /// Runs a job, and then those that it finds.
    async fn work(self: Arc<Self>, index: u64, job: S::Job) {
        if let Called::Panicked(text) = called(self.work_on(index, job)).await {
            self.shared.fail(Error::Panicked { who: "a notification", text });
        }
    }

    async fn work_on(self: &Arc<Self>, index: u64, job: S::Job) {
        let mut killed = pin!(self.shared.kill.cancelled());
        let mut next = Some((index, job));
        while let Some((index, job)) = next.take() {
            if !self.run(index, Arc::new(job), killed.as_mut()).await {
                return;
            }
            if let Some(before) = &self.notifications.before {
                before(index);
            }
            self.count(|metrics| &metrics.done);
            if let Some(look) = self.shared.finish(index) {
                next = self.look(look, true).await;
            }
            // Jobs that are done at once must leave time to the other tasks.
            tokio::task::consume_budget().await;
        }
    }

    /// Whether the job is done. If not, the consumer ends.
    async fn run(
        &self,
        index: u64,
        job: Arc<S::Job>,
        mut killed: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> bool {
        let shared = &self.shared;
        let retry = &shared.settings.retry;
        let mut pauses = retry.pauses();
        for attempt in 1.. {
            let delivery = Delivery::new(index, attempt, job.clone(), shared.clone());
            let attempted = tokio::select! {
                biased;
                () = killed.as_mut() => return false,
                attempted = self.attempt(delivery) => attempted,
            };
            let Err(error) = attempted else { return true };
            self.count(|metrics| &metrics.failures);
            let irrecoverable = Irrecoverable::is_in(&*error);
            if !irrecoverable && shared.asked.is_cancelled() {
                // It was told to end.
                return false;
            }
            if irrecoverable || !retry.allows_after(attempt) {
                shared.fail(Error::Job { index, attempts: attempt, irrecoverable, source: error.into() });
                return false;
            }
            let word = self.note(index, attempt, &whole(&*error));
            pauses.fail();
            tokio::select! {
                biased;
                () = said(word) => return true,
                // It is not done, and the next life begins with it.
                () = shared.stopping.cancelled() => return false,
                () = sleep(pauses.pause()) => {}
            }
        }
        false
    }

    /// Keeps what is told of an attempt that has failed. Returns where the word that the job is done may come all the
    /// same.
    fn note(&self, index: u64, attempt: u32, error: &str) -> Option<watch::Receiver<bool>> {
        let word = self.shared.lock().core.running_mut(index).and_then(|run| {
            (run.attempts, run.last_error) = (attempt + 1, Some(error.into()));
            run.word.as_ref().map(watch::Sender::subscribe)
        });
        if let Some(unsaid) = self.complaints.attempts.say() {
            let consumer = &*self.shared.settings.name;
            tracing::warn!(
                consumer,
                index,
                attempt,
                unsaid,
                "an attempt has failed, and another follows: {error}"
            );
        }
        word
    }

    async fn attempt(&self, delivery: Delivery<S::Job>) -> Result<(), BoxError> {
        let (index, attempt) = (delivery.index(), delivery.attempt());
        let span =
            tracing::debug_span!("sequence_job", consumer = &*self.shared.settings.name, index, attempt);
        // In an async block, so that a panic of the call itself is caught, too.
        let handled = called(async { self.handler.handle(delivery).await }).instrument(span);
        let handled = match self.shared.settings.deadline {
            None => handled.await,
            Some(deadline) => match timeout(deadline, handled).await {
                Ok(handled) => handled,
                Err(_) => return Err(TooLong(deadline).into()),
            },
        };
        match handled {
            Called::Returned(result) => result,
            Called::Panicked(text) => Err(HandlerPanicked(text.to_string()).into()),
        }
    }
}
