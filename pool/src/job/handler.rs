//! The code that runs jobs: users of the pool write it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::BoxError;
use crate::job::Job;
use crate::job::asking::Ask;
use crate::job::payload::NewPayload;
use crate::job::verdict::{Restart, TakesNone};
use crate::model::stop::StopReason;

/// The result of a start handler.
#[non_exhaustive]
pub enum Start {
    /// The job runs from now on, until it is stopped or says [`Job::end`](crate::Job::end). It has a task only while one of
    /// its handlers runs. With a payload of 100 bytes it takes less than 1 KB of its node's memory, besides the handler's own
    /// data.
    Started,
    /// The job runs as this future. The future must end when the job's cancellation fires, and may end earlier. It
    /// has a task all that time: with the same payload about 2.5 KB, besides the future's own data.
    Running(BoxFuture<'static, Result<(), BoxError>>),
    /// This worker cannot run the job now. The job goes back to the queue, and after some refusals to another worker.
    Refused {
        /// When to try again: 10 ms to 4 min from now. `None`: after a growing pause of 1 s to 60 s, with jitter.
        backoff: Option<Duration>,
    },
    /// Another worker shall run the job: this one lacks what it needs, or has no room for it. The next worker that the
    /// pool would choose for the key is asked at once, without a pause. A job that all have turned away pauses, for 1 s
    /// to 30 s.
    Elsewhere,
    /// As [`Elsewhere`](Self::Elsewhere), with a reason: the worker lacks a program or a machine. [`Inspector::explain`](crate::Inspector::explain),
    /// the listings and a dispatch that waits tell the reason of the last refusal, up to 200 bytes.
    Unable {
        /// The reason.
        why: String,
    },
    /// As [`Refused`](Self::Refused), with a reason like [`Unable`](Self::Unable).
    Declined {
        /// When to try again.
        backoff: Option<Duration>,
        /// The reason.
        why: String,
    },
    /// The start failed; a panic counts as this, too. Under [`RestartPolicy::Never`](crate::RestartPolicy::Never) the
    /// job is gone, and its dispatch gets the error. Under the other policies, or if the job has run before, the pool
    /// retries it with growing pauses, and finally parks it.
    Failed(BoxError),
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("Started"),
            Self::Running(_) => f.write_str("Running"),
            Self::Elsewhere => f.write_str("Elsewhere"),
            Self::Unable { why } => f.debug_struct("Unable").field("why", why).finish(),
            Self::Declined { backoff, why } => {
                f.debug_struct("Declined").field("backoff", backoff).field("why", why).finish()
            }
            Self::Refused { backoff } => f.debug_struct("Refused").field("backoff", backoff).finish(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// Runs the jobs of a worker. Calls for one key come one after the other, and calls for different keys run
/// concurrently.
///
/// A handler that is slow, hangs or panics hurts its own key only. Handlers run on the runtime on which the node was
/// joined. A handler that blocks its thread holds up the others on that thread. So move blocking or long work to
/// `tokio::task::spawn_blocking`.
///
/// While all threads of the runtime are blocked, no handler is told anything. Their jobs keep their leases and are
/// neither aborted nor moved, unless they have a [progress timeout](crate::JobSpec::progress_timeout); they go on when
/// a thread is free again. If a lease is lost meanwhile, the pool cannot
/// end them: [`FencePolicy`](crate::node::FencePolicy) says what happens then.
///
/// Nothing of a job may run any more after `stop` has returned, or after a start that did not succeed: another worker
/// may begin the job at once.
///
/// A node drops a worker's handler when the worker has left. A handler that holds a clone of its own
/// [`Node`](crate::Node) prevents the node from closing when all other clones are dropped. Close such a node
/// explicitly.
///
/// ```
/// use bytes::Bytes;
/// use tenure_pool::{BoxError, Job, JobHandler, Start, StopReason};
///
/// struct Feeds;
///
/// impl JobHandler for Feeds {
///     async fn start(&self, job: Job) -> Start {
///         tracing::info!("open the feed of {} with token {}", job.key(), job.token());
///         Start::Started
///     }
///     async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
///         tracing::info!("close the feed of {}: {why:?}", job.key());
///         Ok(())
///     }
///     async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
///         tracing::info!("{} hears {body:?}", job.key());
///         Ok(())
///     }
/// }
/// ```
pub trait JobHandler: Send + Sync + 'static {
    /// Starts the job. It is called at most once for each (key, token). Return soon when the job's cancellation fires.
    fn start(&self, job: Job) -> impl Future<Output = Start> + Send;

    /// Ends the job. Its cancellation has already fired. When this returns, with or without an error, nothing of the
    /// job may run any more.
    ///
    /// The end of a job by itself is not told: a future that fails or returns, and [`Job::end`], are the job's own word. So what
    /// belongs to a job with a future ([`Start::Running`]) is kept by the future, or by a guard in the future, which is dropped at
    /// every end.
    ///
    /// A job that runs without a future ([`Start::Started`]) hears of its end, unless it ended by its own word, or its
    /// runtime or its node is gone. The call is dropped when it takes too long, or when the lease is over. A call that comes
    /// after the lease is polled once: another worker may have the job by then, and its token refuses this one's writes.
    fn stop(&self, job: &Job, why: StopReason) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (job, why);
        async { Ok(()) }
    }

    /// Takes a notification. Each comes at least once, in the order in which they arrived. An error or a panic is
    /// logged, and the notification counts as delivered. The error [`NotYet`](crate::job::NotYet) refuses it for now: it
    /// comes again after a pause, before any later one. When the job's cancellation fires, undelivered ones go to the
    /// next owner.
    ///
    /// A call that still runs at that moment, or when the job's future ends, is dropped after a second. It is dropped
    /// sooner where the stop time-out or the lease is short, so that it cannot hold up the end of the job.
    fn notify(&self, job: &Job, body: Bytes) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (job, body);
        async { Ok(()) }
    }

    /// Takes an ask of a node ([`Node::ask`](crate::Node::ask)). Asks come in the order in which the pool took them, and
    /// after the notifications and the updates that it kept before. The calls for one key come one after the other, so move an `Ask`
    /// whose answer takes long into a task of its own. Without this method asks are not handled, and their callers hear
    /// that.
    ///
    /// An ask is given to a handler at most once, unless its caller made it idempotent. A panic is logged, and leaves its
    /// ask without an answer. A call that still runs when the job must end is dropped as one of [`notify`](Self::notify).
    fn ask(&self, job: &Job, ask: Ask) -> impl Future<Output = ()> + Send {
        let _ = job;
        ask.unhandled();
        async {}
    }

    /// Takes another payload of a job that runs ([`Node::update`](crate::Node::update)), instead of a restart. `Ok`: the job
    /// runs on with it, under its token, and [`Job::payload`] gives it from now on. So do its restart policy and progress
    /// timeout. Until then `job` has its former payload.
    ///
    /// An error or a panic is logged. The job is then stopped, with [`StopReason::Updated`], and starts again with the new
    /// payload. The error [`Restart`](crate::job::Restart) does the same and is not logged. Without this method each update does that.
    /// Be ready for `stop` after a half-done update.
    ///
    /// A call that takes longer than [`start_timeout`](crate::NodeBuilder::start_timeout), counted from when the worker has
    /// handed the payload over, ends in a restart, too. A call that still runs when the job must end is dropped as one of
    /// [`notify`](Self::notify), and the next run has the payload.
    ///
    /// Calls for one key come one after the other. A notification that the worker has already fetched comes before the
    /// update, and so does an ask that it has already handed over. All later ones wait for the end of this call. So an ask
    /// that is sent after `Node::update` has returned meets the new payload, or a later one. Of several updates in a row only
    /// the last one may come.
    fn update(&self, job: &Job, new: NewPayload) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (job, new);
        async { Err(TakesNone.into()) }
    }
}

/// A handler from one async closure. The job runs as the returned future, until the future ends or the job's
/// cancellation fires. [`Job::notified`] gives it the notifications, [`Job::asked`] the asks, and [`Job::updated`] other
/// payloads; without a call of that an update restarts the job. Use [`handler_fn`] for a function with its own error type.
///
/// The job counts as started when the closure returns its future, before the future runs. So a dispatch returns `Ok`
/// even if the first line of the future fails. If a job must connect before it counts as started, write a
/// [`JobHandler`]: its `start` connects and returns [`Start::Running`].
///
/// The future must not block its thread: see [`JobHandler`].
///
/// ```
/// use tenure_pool::Job;
///
/// let handler = tenure_pool::run(|job: Job| async move {
///     loop {
///         tokio::select! {
///             () = job.cancelled() => return Ok(()),
///             body = job.notified() => tracing::info!("{} hears {body:?}", job.key()),
///             new = job.updated() => tracing::info!("{} runs on with {:?}", job.key(), new.payload()),
///         }
///     }
/// });
/// # let _ = handler;
/// ```
pub fn run<F, Fut>(body: F) -> impl JobHandler
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    Running(body)
}

/// Like [`run`], for an async function with its own error type, such as `anyhow::Error`.
///
/// ```
/// use tenure_pool::Job;
///
/// async fn work(job: Job) -> Result<(), std::io::Error> {
///     job.cancelled().await;
///     Ok(())
/// }
/// let handler = tenure_pool::handler_fn(work);
/// # let _ = handler;
/// ```
pub fn handler_fn<F, Fut, E>(body: F) -> impl JobHandler
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    run(move |job| {
        let body = body(job);
        async move { body.await.map_err(Into::into) }
    })
}

struct Running<F>(F);

impl<F, Fut> JobHandler for Running<F>
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    async fn start(&self, job: Job) -> Start {
        let listening = job.listening();
        let body = (self.0)(job);
        Start::Running(Box::pin(async move {
            let _listening = listening;
            body.await
        }))
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        job.hand_over(body).await;
        Ok(())
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        job.give_ask(ask);
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        // Another job of this handler may take its own.
        if job.hand_update(new).await { Ok(()) } else { Err(Restart.into()) }
    }
}

/// The object-safe form of [`JobHandler`].
pub(crate) trait AnyHandler: Send + Sync + 'static {
    fn start(&self, job: Job) -> BoxFuture<'_, Start>;
    fn stop<'a>(&'a self, job: &'a Job, why: StopReason) -> BoxFuture<'a, Result<(), BoxError>>;
    fn notify<'a>(&'a self, job: &'a Job, body: Bytes) -> BoxFuture<'a, Result<(), BoxError>>;
    fn ask<'a>(&'a self, job: &'a Job, ask: Ask) -> BoxFuture<'a, ()>;
    fn update<'a>(&'a self, job: &'a Job, new: NewPayload) -> BoxFuture<'a, Result<(), BoxError>>;
}

impl<H: JobHandler> AnyHandler for H {
    fn start(&self, job: Job) -> BoxFuture<'_, Start> {
        Box::pin(JobHandler::start(self, job))
    }

    fn stop<'a>(&'a self, job: &'a Job, why: StopReason) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(JobHandler::stop(self, job, why))
    }

    fn notify<'a>(&'a self, job: &'a Job, body: Bytes) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(JobHandler::notify(self, job, body))
    }

    fn ask<'a>(&'a self, job: &'a Job, ask: Ask) -> BoxFuture<'a, ()> {
        Box::pin(JobHandler::ask(self, job, ask))
    }

    fn update<'a>(&'a self, job: &'a Job, new: NewPayload) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(JobHandler::update(self, job, new))
    }
}
