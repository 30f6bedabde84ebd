//! Handlers that take several jobs at once.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ctx::Ctx;
use super::jobs::Jobs;
use super::outcome::{IntoOutcome, Outcome};
use super::worker::{Handler, WorkerBuilder};
use crate::error::BoxError;

type Verdict = Result<Outcome, BoxError>;
type Call<T> = dyn Fn(Vec<(Ctx, T)>) -> BoxFuture<'static, Vec<Verdict>> + Send + Sync;

impl Jobs {
    /// A worker whose handler takes up to `most` jobs of a queue at once, and gives an outcome for each, in their order. A
    /// batch begins when it is full, or `linger` after its first job. A worker has slots for two batches, unless you set
    /// them: one runs while the next one gathers.
    ///
    /// Each job keeps its own lease, token, attempts and result. A job without an outcome has failed, and so have all when
    /// the handler panics. When a job is aborted, because its lease or its time is over, its batch is aborted with it. The
    /// other jobs of the batch run again at once, and their attempts do not count.
    ///
    /// The jobs of a pinned group run one at a time, so their owner is no such worker: it does not start.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tenure_jobs::{Ctx, Jobs, MemoryStore, Queue};
    ///
    /// # async fn run() -> Result<(), tenure_jobs::BoxError> {
    /// let jobs = Jobs::in_memory(MemoryStore::new()).queue(Queue::new("rows")).join().await?;
    /// let insert = async |rows: Vec<(Ctx, String)>| rows.iter().map(|_| Ok(())).collect::<Vec<_>>();
    /// let worker = jobs.batches("rows", 100, Duration::from_millis(20), insert).start()?;
    /// # worker.close(Duration::from_secs(1)).await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
    /// ```
    pub fn batches<T, F, Fut, O>(&self, queue: &str, most: u32, linger: Duration, handler: F) -> WorkerBuilder
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Vec<(Ctx, T)>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Result<O, BoxError>>> + Send + 'static,
        O: IntoOutcome + Send + 'static,
    {
        let call: Arc<Call<T>> = Arc::new(move |jobs| {
            let made = handler(jobs);
            let outcomes = async move {
                made.await.into_iter().map(|made| made.map(IntoOutcome::into_outcome)).collect()
            };
            outcomes.boxed()
        });
        let gathering = Gathering { most: most.max(1) as usize, linger, call, batch: Arc::default() };
        let handler = Handler::new(move |ctx: Ctx, payload: T| gathering.clone().join(ctx, payload));
        let builder = WorkerBuilder::new(self.clone(), vec![queue.to_owned()], handler).in_batches();
        builder.slots(most.max(1).saturating_mul(2))
    }
}

/// Jobs that run together.
struct Batch<T> {
    jobs: Vec<(Ctx, T)>,
    replies: Vec<oneshot::Sender<Verdict>>,
    /// Fires when one of its jobs is aborted.
    aborted: CancellationToken,
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self { jobs: Vec::new(), replies: Vec::new(), aborted: CancellationToken::new() }
    }
}

/// The batch that gathers.
struct Gathering<T> {
    most: usize,
    linger: Duration,
    call: Arc<Call<T>>,
    /// With its number.
    batch: Arc<Mutex<(u64, Batch<T>)>>,
}

impl<T> Clone for Gathering<T> {
    fn clone(&self) -> Self {
        let (call, batch) = (self.call.clone(), self.batch.clone());
        Self { most: self.most, linger: self.linger, call, batch }
    }
}

impl<T: Send + 'static> Gathering<T> {
    /// A job waits for its batch to gather and to run.
    async fn join(self, ctx: Ctx, payload: T) -> Verdict {
        let (reply, verdict) = oneshot::channel();
        let aborted = self.enter(ctx, payload, reply);
        // When the job is aborted, this future is dropped.
        let guard = aborted.drop_guard();
        let verdict = verdict.await;
        guard.disarm();
        verdict.unwrap_or_else(|_| Err("the runtime of its batch is gone".into()))
    }

    fn enter(&self, ctx: Ctx, payload: T, reply: oneshot::Sender<Verdict>) -> CancellationToken {
        let mut current = self.current();
        let (number, batch) = &mut *current;
        batch.jobs.push((ctx, payload));
        batch.replies.push(reply);
        let aborted = batch.aborted.clone();
        if batch.jobs.len() >= self.most {
            *number += 1;
            tokio::spawn(run(self.call.clone(), std::mem::take(batch)));
        } else if batch.jobs.len() == 1 {
            tokio::spawn(self.clone().lingers(*number));
        }
        aborted
    }

    /// Runs the batch of this number after a while, if it has not been full before.
    async fn lingers(self, of: u64) {
        tokio::time::sleep(self.linger).await;
        let batch = {
            let mut current = self.current();
            if current.0 != of {
                return;
            }
            current.0 += 1;
            std::mem::take(&mut current.1)
        };
        run(self.call, batch).await;
    }

    fn current(&self) -> MutexGuard<'_, (u64, Batch<T>)> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run<T>(call: Arc<Call<T>>, batch: Batch<T>) {
    let Batch { jobs, replies, aborted } = batch;
    let handled = AssertUnwindSafe(async { call(jobs).await }).catch_unwind();
    let mut verdicts = match aborted.run_until_cancelled(handled).await {
        Some(Ok(verdicts)) => verdicts,
        Some(Err(panic)) => replies.iter().map(|_| Err(panicked(&*panic))).collect(),
        None => replies.iter().map(|_| Ok(again())).collect(),
    }
    .into_iter();
    for reply in replies {
        let verdict = verdicts.next().unwrap_or_else(|| Err("the handler gave no outcome for it".into()));
        // The one that was aborted does not wait any more.
        let _ = reply.send(verdict);
    }
}

fn again() -> Outcome {
    Outcome::later(Duration::from_millis(1), "another job of its batch was aborted")
}

fn panicked(panic: &(dyn Any + Send)) -> BoxError {
    format!("the handler panicked: {}", super::worker::panicked(panic)).into()
}
