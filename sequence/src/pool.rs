//! Consumers as the jobs of a pool: one for each key, wherever the key is pinned.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_pool::{Ask, Job, JobEnd, JobHandler, JobKey, LeaseGuard, Start};
use tokio::time::sleep;

use crate::consumer::Consumer;
use crate::consumer::throttle::Throttle;
use crate::error::{BoxError, Error, ProgressError, whole};

/// The handler of a pool's worker that runs a consumer for each key. `make` builds it, without starting it: its source and
/// its progress are those of the job's key.
///
/// Give it a progress that only the owner of the key can save:
/// [`RedisProgress::fenced`](crate::RedisProgress::fenced) with `job.token()`, or
/// [`CheckpointProgress`](crate::CheckpointProgress).
///
/// - A job counts as started when its consumer has read its progress.
/// - A notification to the key is a check: [`Node::notify`](tenure_pool::Node::notify). An ask is answered with the
///   consumer's explanation.
/// - When the key moves, the consumer shuts down: jobs are asked to end, have the consumer's grace, and the last progress is
///   stored. Then the next owner goes on behind it.
/// - A consumer that has not ended within the pool's `stop_timeout` is ended with its job, whoever else has a handle of it.
/// - When the lease is lost, the consumer ends at once: its jobs are dropped, and nothing is stored any more.
/// - A consumer that a later owner has fenced ends its job as lost. One that can never go on, such as by a job that is
///   irrecoverable, has its key parked. Any other failure goes by the job's restart policy: dispatch it with
///   `RestartPolicy::OnFailure`, or the key is without a consumer then.
///
/// ```no_run
/// use tenure_pool::{Client, Job, Node, RestartPolicy};
/// use tenure_sequence::{BoxError, Consumer, Delivery, RedisLogs, on_pool};
///
/// # async fn example() -> Result<(), BoxError> {
/// let client = Client::open("redis://127.0.0.1")?;
/// let logs = RedisLogs::open(&client, "events")?;
/// let node = Node::builder("projections", client).join().await?;
/// node.add_worker(on_pool(move |job: Job| {
///     let logs = logs.clone();
///     async move {
///         let tenant = job.key().to_string();
///         let progress = logs.progress(&*tenant)?.fenced(job.token().0);
///         let consumer = Consumer::builder(logs.log(&*tenant)?, progress).name(tenant);
///         Ok(consumer.build(async |event: Delivery<bytes::Bytes>| {
///             tracing::info!("{}: {:?}", event.index(), event.job());
///             Ok::<_, BoxError>(())
///         })?)
///     }
/// }))
/// .await?;
/// node.ensure(("acme", "")).restart(RestartPolicy::OnFailure).await?;
/// # Ok(())
/// # }
/// ```
pub fn on_pool<F, Fut>(make: F) -> impl JobHandler
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Consumer, BoxError>> + Send + 'static,
{
    OnPool { make, running: Running::default(), refusals: Throttle::default() }
}

/// The consumers that run, by key.
type Running = Arc<Mutex<HashMap<JobKey, Consumer>>>;

fn lock(running: &Running) -> MutexGuard<'_, HashMap<JobKey, Consumer>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

struct OnPool<F> {
    make: F,
    running: Running,
    refusals: Throttle,
}

/// Ends and forgets a consumer when its job's future has ended, or is dropped.
struct Registered {
    running: Running,
    key: JobKey,
    consumer: Consumer,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The pool may have dropped the job, and begins it elsewhere, whoever has another handle of the consumer.
        self.consumer.kill();
        let mut running = lock(&self.running);
        // A later start of the key may have taken the place.
        if running.get(&self.key).is_some_and(|consumer| consumer.is(&self.consumer)) {
            running.remove(&self.key);
        }
    }
}

impl Registered {
    fn new(running: &Running, key: &JobKey, consumer: Consumer) -> Self {
        lock(running).insert(key.clone(), consumer.clone());
        Self { running: running.clone(), key: key.clone(), consumer }
    }
}

/// Waits until the lease has ended: another worker may begin the job.
async fn lost(lease: &LeaseGuard) {
    while lease.check() {
        sleep(lease.remaining()).await;
    }
}

impl<F> OnPool<F> {
    fn consumer(&self, job: &Job) -> Option<Consumer> {
        lock(&self.running).get(job.key()).cloned()
    }
}

impl<F, Fut> JobHandler for OnPool<F>
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Consumer, BoxError>> + Send + 'static,
{
    async fn start(&self, job: Job) -> Start {
        let consumer = match (self.make)(job.clone()).await {
            Ok(consumer) => consumer,
            Err(error) => return Start::Failed(error),
        };
        match consumer.start().await {
            Ok(_) => {}
            Err(Error::Progress(error @ ProgressError::Unavailable(_))) => {
                if let Some(unsaid) = self.refusals.say() {
                    let (key, error) = (job.key(), whole(&error));
                    tracing::warn!(%key, unsaid, "the consumer does not start yet: {error}");
                }
                return Start::Refused { backoff: None };
            }
            Err(error) => return Start::Failed(ending(error)),
        }
        let registered = Registered::new(&self.running, job.key(), consumer);
        Start::Running(Box::pin(async move {
            let consumer = &registered.consumer;
            let ended = tokio::select! {
                ended = consumer.ended() => ended,
                () = job.cancelled() => tokio::select! {
                    biased;
                    () = lost(job.lease()) => consumer.lose().await,
                    ended = consumer.shutdown() => ended,
                },
            };
            ended.map(drop).map_err(ending)
        }))
    }

    async fn notify(&self, job: &Job, _: Bytes) -> Result<(), BoxError> {
        if let Some(consumer) = self.consumer(job) {
            consumer.check();
        }
        Ok(())
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        match self.consumer(job) {
            Some(consumer) => ask.answer(consumer.explain().to_string()),
            None => ask.refuse("the consumer has ended"),
        }
    }
}

/// The consumer's error in the words of the pool.
fn ending(error: Error) -> BoxError {
    match &error {
        Error::Progress(ProgressError::Fenced { .. }) => JobEnd::Lost(whole(&error)).into(),
        Error::Job { irrecoverable: true, .. }
        | Error::Source(_)
        | Error::Progress(ProgressError::Broken(_)) => JobEnd::Park(whole(&error)).into(),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Delivery, MemoryLog, MemoryProgress};

    fn consumer() -> Consumer {
        let builder = Consumer::builder(MemoryLog::<u64>::new(), MemoryProgress::new());
        builder.build(async |_: Delivery<u64>| Ok::<_, BoxError>(())).unwrap()
    }

    #[test]
    fn the_end_of_a_former_run_leaves_the_consumer_of_the_next() {
        let (running, key) = (Running::default(), JobKey::new("acme").unwrap());
        let former = Registered::new(&running, &key, consumer());
        let next = Registered::new(&running, &key, consumer());
        drop(former);
        assert!(lock(&running).get(&key).unwrap().is(&next.consumer));
        drop(next);
        assert!(lock(&running).is_empty());
    }
}
