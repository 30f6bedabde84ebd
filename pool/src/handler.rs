//! What runs jobs: written by the pool's users.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::BoxError;
use crate::job::Job;
use crate::stop::StopReason;

/// What a start handler came to.
#[non_exhaustive]
pub enum Start {
    /// The job runs from now on, until it is stopped. It has a task only while a handler of it is called: with a payload
    /// of 100 bytes it takes less than 1 KB of its node's memory, and what the handler keeps for it.
    Started,
    /// The job runs as this future, which ends when the job's cancellation fires, or when the job ends by itself. It has
    /// a task for as long: with the same payload about 2.5 KB, and what the future keeps.
    Running(BoxFuture<'static, Result<(), BoxError>>),
    /// Not here, not now: the job goes back to the queue, and after some refusals to another worker.
    Refused {
        /// When to try again, from 10 ms to 4 min ahead; `None`: after a pause that grows from 1 s to 60 s, with jitter.
        backoff: Option<Duration>,
    },
    /// The start failed, as by a panic. Under [`RestartPolicy::Never`](crate::RestartPolicy::Never) the dispatch learns
    /// the error and the job is gone; under the others, and when the job had run before, it is tried again after a pause
    /// that grows, and parked in the end.
    Failed(BoxError),
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("Started"),
            Self::Running(_) => f.write_str("Running"),
            Self::Refused { backoff } => f.debug_struct("Refused").field("backoff", backoff).finish(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

/// Runs the jobs of a worker: each key's calls come one after the other, different keys' concurrently.
///
/// A handler that is slow, hangs or panics hurts its own key only. Handlers run on the runtime that the node was joined on.
/// One that blocks its thread holds up the others on that thread: what blocks, or computes for long, belongs in
/// `tokio::task::spawn_blocking`. While every thread of the runtime is blocked, its handlers hear nothing. Their jobs keep
/// their leases, are neither cut nor moved, and go on when a thread is free again. If a lease is lost meanwhile, they cannot
/// be ended: [`FencePolicy`](crate::FencePolicy) says what happens then.
///
/// After `stop` has returned, or a start that did
/// not succeed, nothing of the job may run any more: another worker may begin it at once.
///
/// A node lets go of a worker's handler when the worker has left. A handler that holds a clone of its own
/// [`Node`](crate::Node) keeps that node from closing by itself when all others are dropped: close it then.
///
/// ```
/// use bytes::Bytes;
/// use tenure_pool::{BoxError, Job, JobHandler, Start, StopReason};
///
/// struct Feeds;
///
/// impl JobHandler for Feeds {
///     async fn start(&self, job: Job) -> Start {
///         println!("open the feed of {} with token {}", job.key(), job.token());
///         Start::Started
///     }
///     async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
///         println!("close the feed of {}: {why:?}", job.key());
///         Ok(())
///     }
///     async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
///         println!("{} hears {body:?}", job.key());
///         Ok(())
///     }
/// }
/// ```
pub trait JobHandler: Send + Sync + 'static {
    /// Starts the job. Not called again for this (key, token). When the job's cancellation fires meanwhile, return.
    fn start(&self, job: Job) -> impl Future<Output = Start> + Send;

    /// Ends the job; nothing of it runs when this returns, whatever it returns. The job's cancellation has fired.
    fn stop(&self, job: &Job, why: StopReason) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (job, why);
        async { Ok(()) }
    }

    /// Takes a notification, in the order of their arrival, at least once each. An error or a panic is logged, and
    /// the notification counts as delivered; one that is not delivered when the job's cancellation fires goes to
    /// the next owner. What is still being taken when that happens, or when the job's future ends, is dropped after
    /// a second, or sooner where the stop time-out or the lease is short: it must not keep the job from its end.
    fn notify(&self, job: &Job, body: Bytes) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (job, body);
        async { Ok(()) }
    }
}

/// A handler from one async closure: the job runs as the future that it returns, until that ends by itself or the
/// job's cancellation fires. Notifications come from [`Job::notified`]. A function whose error has a type of its own is for
/// [`handler_fn`].
///
/// The job counts as started when the closure has returned its future, before any of it has run: so a dispatch answers `Ok`
/// also where the first line of the future fails. A job that has to connect before it counts as started is a
/// [`JobHandler`] whose `start` connects and returns [`Start::Running`].
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
///             body = job.notified() => println!("{} hears {body:?}", job.key()),
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

/// As [`run`], from an async function whose error is its own type, such as `anyhow::Error`.
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
}

/// The object-safe form of [`JobHandler`].
pub(crate) trait AnyHandler: Send + Sync + 'static {
    fn start(&self, job: Job) -> BoxFuture<'_, Start>;
    fn stop<'a>(&'a self, job: &'a Job, why: StopReason) -> BoxFuture<'a, Result<(), BoxError>>;
    fn notify<'a>(&'a self, job: &'a Job, body: Bytes) -> BoxFuture<'a, Result<(), BoxError>>;
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
}
