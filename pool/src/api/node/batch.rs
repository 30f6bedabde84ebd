//! Dispatches of many jobs at once.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use super::Node;
use super::dispatching::{Dispatch, How, Result};
use crate::error::DispatchError;
use crate::job::spec::JobSpec;
use crate::model::ticket::Ticket;

/// The most jobs of a batch that are under way at a time in a shard.
const WINDOW: usize = 1_024;
/// The most bytes of payloads that they have. A single job may have more.
const WINDOW_BYTES: usize = 16 << 20;

impl Node {
    /// Dispatches many jobs. Awaited, it returns when each job has been started or has failed. It returns one result
    /// per job, in the order of the jobs. A job that fails does not affect the others.
    ///
    /// Jobs go to the store in large batches. For each shard at most 1,024 jobs and about 16 MiB are under way at a
    /// time, and the iterator is asked for more as jobs are answered. If most keys belong to one shard, its server
    /// gets most of the load.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) {
    /// use tenure_pool::JobSpec;
    ///
    /// let jobs = (0..10_000).map(|i| JobSpec::new(format!("tenant-{i}"), "payload"));
    /// for result in node.dispatch_many(jobs).await {
    ///     if let Err(error) = result {
    ///         eprintln!("{error}");
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Each result has the errors of [`dispatch`](Self::dispatch).
    pub fn dispatch_many<I>(&self, jobs: I) -> DispatchMany
    where
        I: IntoIterator<Item = JobSpec>,
        I::IntoIter: Send + 'static,
    {
        DispatchMany::new(self.clone(), jobs, true)
    }

    /// Like [`dispatch_many`](Self::dispatch_many), but each job is answered as soon as the pool has accepted it.
    ///
    /// It does not wait for room. While the pool holds [`max_queued`](crate::Settings::max_queued) jobs that have
    /// never begun, a job is answered with [`PoolFull`](DispatchError::PoolFull). So a batch that is larger than the
    /// room is accepted in part.
    ///
    /// # Errors
    /// Each result has the errors of [`submit`](Self::submit).
    pub fn submit_many<I>(&self, jobs: I) -> DispatchMany<Ticket>
    where
        I: IntoIterator<Item = JobSpec>,
        I::IntoIter: Send + 'static,
    {
        DispatchMany::new(self.clone(), jobs, false)
    }
}

/// Many dispatches, made by [`Node::dispatch_many`] and [`Node::submit_many`]. Await it for one result per job, in
/// the order of the jobs.
///
/// # Cancel safety
/// After a dropped future it is not known which jobs were accepted.
#[must_use = "nothing is dispatched until it is awaited"]
pub struct DispatchMany<T = ()> {
    node: Node,
    jobs: Box<dyn Iterator<Item = JobSpec> + Send>,
    how: How,
    answer: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Debug for DispatchMany<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DispatchMany").field("how", &self.how).finish_non_exhaustive()
    }
}

impl<T> DispatchMany<T> {
    fn new<I>(node: Node, jobs: I, started: bool) -> Self
    where
        I: IntoIterator<Item = JobSpec>,
        I::IntoIter: Send + 'static,
    {
        let how = How::new(started);
        Self { node, jobs: Box::new(jobs.into_iter()), how, answer: PhantomData }
    }

    /// Like [`Dispatch::deadline`], for each job. Its time begins when the job is handed to the node.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { how: How { patience: deadline, ..self.how }, ..self }
    }

    /// Like [`Dispatch::cancel_on_deadline`], for each job.
    pub fn cancel_on_deadline(self) -> Self {
        Self { how: How { cancel: true, ..self.how }, ..self }
    }

    /// Keeps the jobs and bytes under way below their limits, and asks the iterator for more as jobs are answered.
    async fn send(self) -> Vec<Result<Ticket>> {
        let Self { node, jobs, how, .. } = self;
        let (most, most_bytes) = (WINDOW * node.shards.len(), WINDOW_BYTES * node.shards.len());
        let mut jobs = jobs.enumerate();
        let mut under_way = FuturesUnordered::new();
        let mut bytes = 0;
        let mut results = Vec::new();
        loop {
            let room = under_way.is_empty() || (under_way.len() < most && bytes < most_bytes);
            if room && let Some((at, job)) = jobs.next() {
                let len = job.len();
                bytes += len;
                let dispatch = Dispatch::<Ticket>::new(&node, job, how);
                under_way.push(async move { (at, len, dispatch.send().await.map(|(ticket, _)| ticket)) });
                continue;
            }
            let Some((at, len, result)) = under_way.next().await else { break };
            bytes -= len;
            if results.len() <= at {
                results.resize_with(at + 1, || Err(DispatchError::NodeClosed));
            }
            results[at] = result;
        }
        results
    }
}

impl IntoFuture for DispatchMany<()> {
    type Output = Vec<Result<()>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.send().await.into_iter().map(|result| result.map(|_| ())).collect() }.boxed()
    }
}

impl IntoFuture for DispatchMany<Ticket> {
    type Output = Vec<Result<Ticket>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
