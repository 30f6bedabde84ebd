//! Pinned queues on a pool: the jobs of a group go to the worker that has the key of that name.

use std::fmt::Display;
use std::time::Duration;

use tenure_pool::{Job, JobEnd, JobHandler, LeaseGuard, Start};
use tokio::time::sleep;

use crate::api::worker::{Ownership, WorkerBuilder};
use crate::error::BoxError;
use crate::model::id::{GroupName, JobId};

/// The handler of a pool's worker that takes, for each key, the jobs of the group of that name. `make` builds the worker
/// of jobs without starting it: for one pinned queue ([`Queue::pinned`](crate::Queue::pinned)), with a handler that holds the
/// key's state in memory.
///
/// - The jobs of a key run one at a time and in order, where the key is pinned. A key without a job of the pool has none
///   that takes its jobs: they wait.
/// - Only the owner takes. Each call to the store names the token of the pool's job, and the store refuses one that is lower
///   than it has seen for the group. So a process that was paused takes nothing after it.
/// - When the key moves, the worker takes no more. The job in hand may end within the
///   [grace](WorkerBuilder::grace), and is given back otherwise. Then the key moves, and the next owner goes on.
/// - When the lease of the pool is lost, the job in hand is aborted and given back at once.
/// - When a node dies, its job in hand runs again when the lease of that job is over, and the later ones of the key wait for
///   it. So give the queue a lease that is about as long as the pool's time-out of workers.
/// - It takes single jobs. A worker of [`Jobs::batches`](crate::Jobs::batches) is refused, as if `make` had failed.
/// - A key whose `make` fails goes by the restart policy of its job in the pool.
///
/// The jobs of a queue belong to one pool: tokens of two pools do not compare.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tenure_jobs::{Backoff, BoxError, Client, Ctx, Groups, Jobs, Queue, on_pool};
/// use tenure_pool::{Job, Node};
///
/// # async fn example() -> Result<(), BoxError> {
/// let client = Client::open("redis://127.0.0.1")?;
/// let orders = Queue::new("orders").pinned(Groups::new()).backoff(Backoff::none());
/// let jobs = Jobs::builder("shop", client.clone()).queue(orders).join().await?;
/// let node = Node::builder("shops", client).join().await?;
/// let own = jobs.clone();
/// node.add_worker(on_pool(move |_: Job| {
///     let jobs = own.clone();
///     async move {
///         // The state of this key, which only this worker has.
///         let sum = Arc::new(AtomicU64::new(0));
///         Ok(jobs.worker("orders", move |_: Ctx, price: u64| {
///             let sum = sum.clone();
///             async move {
///                 sum.fetch_add(price, Ordering::Relaxed);
///                 Ok(())
///             }
///         }))
///     }
/// }))
/// .await?;
/// node.ensure(("acme", "")).await?;
/// jobs.add("orders", &12u64).group("acme").await?;
/// # Ok(())
/// # }
/// ```
pub fn on_pool<F, Fut>(make: F) -> impl JobHandler
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<WorkerBuilder, BoxError>> + Send + 'static,
{
    OnPool { make }
}

struct OnPool<F> {
    make: F,
}

impl<F, Fut> JobHandler for OnPool<F>
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<WorkerBuilder, BoxError>> + Send + 'static,
{
    async fn start(&self, job: Job) -> Start {
        let builder = match (self.make)(job.clone()).await {
            Ok(builder) => builder.owned_by(&job),
            Err(error) => return Start::Failed(error),
        };
        let grace = builder.grace;
        let worker = match builder.start() {
            Ok(worker) => worker,
            // No other attempt, and no other worker, mends it.
            Err(error) => return Start::Failed(parked(&error)),
        };
        Start::Running(Box::pin(async move {
            // When this future is dropped, the worker is: that ends its handlers.
            tokio::select! {
                biased;
                () = job.cancelled() => {}
                () = worker.over() => {
                    worker.abandon().await;
                    let why = "a later owner takes the jobs of its group, the node of the jobs is closed, or their runtime is gone";
                    return Err(JobEnd::Lost(why.to_owned()).into());
                }
            }
            tokio::select! {
                biased;
                () = lost(job.lease()) => {}
                // Nobody else takes its jobs, whether it could give one back or not.
                _ = worker.close(grace) => {}
            }
            worker.abandon().await;
            Ok(())
        }))
    }
}

fn parked(error: &impl Display) -> BoxError {
    JobEnd::Park(error.to_string()).into()
}

/// Waits until the lease has ended: another worker may begin the job.
async fn lost(lease: &LeaseGuard) {
    while lease.check() {
        sleep(lease.remaining()).await;
    }
}

impl WorkerBuilder {
    /// Takes the jobs of one group of a pinned queue only: that of the key of this job of a pool, for as long as the job has
    /// its token. For handlers of a pool that do more than [`on_pool`] does. The worker must be closed before the job's
    /// `stop` returns, and [`Worker::close`](crate::Worker::close) within the pool's `stop_timeout`. A worker that is dropped
    /// ends its handlers at once.
    ///
    /// A key with characters that no group may have is percent-encoded, as [`Add::group`](crate::Add::group) does it.
    pub fn owned_by(mut self, job: &Job) -> Self {
        let lease = job.lease().clone();
        let encoded = JobId::encoded(job.key().as_bytes());
        self.owner = Some(Ownership {
            group: encoded.and_then(|name| GroupName::new(name.as_str())),
            token: job.token().0,
            lasts: Box::new(move || lease.check()),
        });
        self
    }

    /// How long a job in hand may go on when its key moves, with [`on_pool`]: 5 s by default. Shorter than the pool's
    /// `stop_timeout`.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}
