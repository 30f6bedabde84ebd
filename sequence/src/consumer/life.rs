//! The start and the end of a consumer. All tasks that run are listed here: the workers, the scout, the keeper, and the
//! supervisor, which joins the others.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::consumer::engine::{Called, Engine, called};
use crate::consumer::handler::Handler;
use crate::consumer::metrics::Metrics;
use crate::consumer::shared::{Life, Shared};
use crate::error::{Error, NoAnswer, ProgressError, SourceError};
use crate::progress::Progress;
use crate::source::Source;

/// How often the supervisor looks at the figures.
const BEAT: Duration = Duration::from_secs(5);

/// A consumer without its types.
pub(crate) trait Runs: Send + Sync {
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<u64, Error>>;
    fn head(&self) -> BoxFuture<'_, Result<u64, SourceError>>;
}

/// Takes a start back that has not succeeded.
struct Starting<'a>(&'a Shared);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.life.send_if_modified(|life| {
            let is_back = *life == Life::Starting;
            if is_back {
                *life = Life::New;
            }
            is_back
        });
    }
}

impl<S, P, H> Runs for Engine<S, P, H>
where
    S: Source,
    P: Progress,
    H: Handler<S::Job>,
{
    fn start(self: Arc<Self>) -> BoxFuture<'static, Result<u64, Error>> {
        async move {
            let mut before = Life::New;
            self.shared.life.send_if_modified(|life| {
                before = *life;
                if before == Life::New {
                    *life = Life::Starting;
                }
                before == Life::New
            });
            match before {
                Life::New => {}
                Life::Starting | Life::Ready => return Err(Error::AlreadyStarted),
                Life::Stopping | Life::Ended => return Err(Error::Ended),
            }
            let starting = Starting(&self.shared);
            let stored = self.init().await?;
            let _ = self.metrics.set(Metrics::register(&self.shared.settings.name));
            {
                // Under the lock, under which a stop comes before this or after it.
                let mut state = self.shared.lock();
                if *self.shared.life.borrow() != Life::Starting {
                    return Err(Error::Ended);
                }
                state.core.start(stored);
                self.shared.life.send_replace(Life::Ready);
            }
            drop(starting);
            // Boxed: a task's code is compiled for each type of future, and each consumer's futures have types of their own.
            let keeper = tokio::spawn(self.clone().keep().boxed());
            self.shared.tasks.spawn(self.clone().scout().boxed());
            // It joins the others, and says when they have ended.
            drop(tokio::spawn(self.clone().supervise(keeper).boxed()));
            Ok(stored)
        }
        .boxed()
    }

    fn head(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        let patience = self.shared.settings.call_deadline;
        let head = timeout(patience, self.source.head());
        head.map(move |head| head.unwrap_or_else(|_| Err(SourceError::timed_out(NoAnswer(patience))))).boxed()
    }
}

impl<S, P, H> Engine<S, P, H>
where
    S: Source,
    P: Progress,
    H: Handler<S::Job>,
{
    async fn init(&self) -> Result<u64, Error> {
        let settings = &self.shared.settings;
        match called(timeout(settings.call_deadline, self.progress.init(settings.default_index))).await {
            Called::Returned(Ok(stored)) => stored.map_err(Error::Progress),
            Called::Returned(Err(_)) => {
                Err(Error::Progress(ProgressError::unavailable(NoAnswer(settings.call_deadline))))
            }
            Called::Panicked(text) => Err(Error::Panicked { who: "the store of progress", text }),
        }
    }

    /// Watches until the consumer has ended, and says so.
    async fn supervise(self: Arc<Self>, keeper: JoinHandle<()>) {
        tokio::select! {
            biased;
            () = self.join(keeper) => {}
            never = self.watch() => match never {},
        }
        if let Some(metrics) = self.metrics.get() {
            metrics.leave(&self.shared.lock());
        }
        self.shared.end();
    }

    /// Waits for the end, and then for all tasks, in the order in which they depend on each other.
    async fn join(&self, keeper: JoinHandle<()>) {
        let shared = &self.shared;
        shared.stopping.cancelled().await;
        shared.tasks.close();
        tokio::select! {
            () = shared.tasks.wait() => {}
            () = self.grace() => {
                shared.kill.cancel();
                shared.tasks.wait().await;
            }
        }
        shared.closing.cancel();
        if let Err(error) = keeper.await {
            // Its code catches all panics of users.
            tracing::error!(consumer = &*shared.settings.name, "the keeper has failed: {error}");
        }
    }

    /// Waits until the jobs that run have had their grace.
    fn grace(&self) -> impl Future<Output = ()> {
        let shared = &self.shared;
        async {
            tokio::select! {
                () = shared.kill.cancelled() => {}
                () = async {
                    shared.asked.cancelled().await;
                    sleep(shared.settings.grace).await;
                } => {}
            }
        }
    }

    /// Shows the figures now and then, and says once when the head does not end.
    async fn watch(&self) -> Infallible {
        let shared = &self.shared;
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut said = 0;
        loop {
            beats.tick().await;
            let now = Instant::now();
            let state = shared.lock();
            if let Some(metrics) = self.metrics.get() {
                metrics.show(&state, now);
            }
            let head = state.core.running().next().map(|(index, run)| (index, now - run.begun));
            let held_up = state.core.done_ahead();
            drop(state);
            if let Some((index, age)) = head
                && age >= shared.settings.stuck_after
                && said != index
            {
                said = index;
                let (consumer, seconds) = (&*shared.settings.name, age.as_secs());
                tracing::warn!(
                    consumer,
                    index,
                    seconds,
                    held_up,
                    "the job at the head does not end, and nothing further is stored"
                );
            }
        }
    }
}
