//! A node of a set of queues.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_connection::{Client, Thread};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::add::{Add, Added, add_all, added, fresh_id, moment};
use super::builder::{Backend, JobsBuilder};
use super::ctx::Ctx;
use super::failures::Failures;
use super::flow::Flow;
use super::handle::QueueHandle;
use super::outcome::IntoOutcome;
use super::queue::Queue;
use super::worker::{Handler, WorkerBuilder};
use crate::core::effect::Heard;
use crate::core::execution::Execution;
use crate::core::filling::one_call;
use crate::core::input::{Input, Number};
use crate::core::subscribers::Topic;
use crate::data;
use crate::error::{BoxError, Error};
use crate::model::id::{JobId, NodeName, QueueName};
use crate::model::record::Record;
use crate::runtime::batcher::Request as Adding;
use crate::runtime::driver::{Message, With};
#[cfg(feature = "test-util")]
use crate::runtime::handle::Handles;
use crate::runtime::link::{Call, Link};
#[cfg(feature = "cron")]
use crate::store::ReadTime;
#[cfg(feature = "sim")]
use crate::store::Store;
use crate::store::{
    AddMode, Kind, Lane, MemoryStore, NewJob, Request, ScanJobs, Steer, SteerJobs, SteerReply,
};

/// How long a call waits for the store.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The jobs of a page of a scan, about.
const PAGE: u32 = 500;

/// A node warns so often at most of flows that it does not know.
const AGAIN: Duration = Duration::from_secs(30);

/// A node of a set of queues: it adds jobs, runs workers, and looks. Cheap to clone.
///
/// Calls to the store end within 10 s with an error. Jobs that are added wait for as long as it takes.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// For calls on the caller's runtime.
    pub(crate) link: Link,
    /// For what runs on the engine thread.
    pub(crate) own: Link,
    pub(crate) thread: Thread,
    pub(crate) batcher: mpsc::UnboundedSender<Adding>,
    pub(crate) driver: mpsc::UnboundedSender<Message>,
    #[cfg(feature = "test-util")]
    pub(crate) handles: Handles,
    pub(crate) configs: HashMap<QueueName, Queue>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) numbers: AtomicU64,
    pub(crate) failures: Mutex<Failures>,
    /// When it last warned of a flow that it does not know.
    pub(crate) warned: Mutex<Option<Instant>>,
    /// Lanes for calls of users, while no call is in them.
    pub(crate) lanes: Mutex<Vec<Lane>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.own.closed().cancel();
    }
}

impl Jobs {
    /// Settings of a node for the set of this name on Redis.
    pub fn builder(set: impl Into<String>, client: Client) -> JobsBuilder {
        JobsBuilder::over(set.into(), Backend::Redis(client))
    }

    /// Settings of a node for a set in memory, for tests. Nodes with clones of one store work together.
    pub fn in_memory(store: MemoryStore) -> JobsBuilder {
        JobsBuilder::over("memory".to_owned(), Backend::Memory(store))
    }

    /// Settings of a node over any store, which runs on the caller's runtime: for proofs, whose time is not the clock's.
    #[cfg(feature = "sim")]
    pub fn over(store: Arc<dyn Store>) -> JobsBuilder {
        JobsBuilder::over("given".to_owned(), Backend::Given(store))
    }

    /// The name of this node.
    pub fn node(&self) -> &NodeName {
        self.shared.link.node()
    }

    pub(crate) fn config(&self, queue: &QueueName) -> Option<&Queue> {
        self.shared.configs.get(queue)
    }

    pub(crate) fn flow(&self, name: &str) -> Option<&Flow> {
        self.shared.flows.iter().find(|flow| flow.name == name)
    }

    /// Whether it is time to warn of a flow that it does not know, again.
    pub(crate) fn may_warn(&self) -> bool {
        let mut warned = self.shared.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = warned.is_none_or(|at| at.elapsed() >= AGAIN);
        if is_time {
            *warned = Some(Instant::now());
        }
        is_time
    }

    /// Whether the log tells of this failure. Returns the number of failures to tell of.
    pub(crate) fn tells(&self, execution: &Execution, cause: &str) -> Option<u64> {
        let mut failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.add(execution.record.queue.as_str(), cause, Instant::now())
    }

    /// Tells the driver something. A driver that is gone has nothing left to do.
    pub(crate) fn tell(&self, input: Input, with: Option<(Number, With)>) {
        let _ = self.shared.driver.send((input, with));
    }

    /// Asks the driver something.
    pub(crate) fn ask(&self, question: impl FnOnce(Number) -> Input) -> oneshot::Receiver<usize> {
        let ((answer, answered), number) = (oneshot::channel(), self.next_number());
        self.tell(question(number), Some((number, With::Answer(answer))));
        answered
    }

    /// Subscribes to something, until the number unsubscribes.
    pub(crate) fn subscribe(&self, topic: Topic) -> (Number, mpsc::UnboundedReceiver<Heard>) {
        let ((ear, heard), number) = (mpsc::unbounded_channel(), self.next_number());
        self.tell(Input::Subscribe(number, topic), Some((number, With::Ear(ear))));
        (number, heard)
    }

    /// A number that nothing else on this node has.
    pub(crate) fn next_number(&self) -> Number {
        self.shared.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The present time by which delays count, ms.
    #[cfg(feature = "cron")]
    pub(crate) async fn now(&self) -> Result<u64, Error> {
        self.call(&ReadTime()).await
    }

    pub(crate) async fn call<C: Call>(&self, step: &C) -> Result<C::Answer, Error> {
        if self.shared.own.closed().is_cancelled() {
            return Err(Error::Closed);
        }
        self.shared.link.call_within(PATIENCE, step).await
    }

    /// A step that takes effect once, though it may be sent several times. A lane is used again when its call was answered:
    /// so there are as many as calls at once.
    pub(crate) async fn call_once<C: Call>(
        &self,
        link: &Link,
        step: impl FnOnce(Lane) -> C,
    ) -> Result<C::Answer, Error> {
        if self.shared.own.closed().is_cancelled() {
            return Err(Error::Closed);
        }
        let free = self.lanes().pop();
        let mut lane =
            free.unwrap_or_else(|| Lane::new(self.shared.link.lane(&format!("call{}", self.next_number()))));
        let answer = link.call_within(PATIENCE, &step(lane.clone())).await?;
        lane.advance();
        self.lanes().push(lane);
        Ok(answer)
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.shared.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job for a queue; awaiting it adds it.
    pub fn add<T: Serialize + ?Sized>(&self, queue: &str, payload: &T) -> Add<'_> {
        Add::new(self, queue, data::encode(payload))
    }

    /// Marks a job to run once more; awaiting the call does it. The call never makes a job: one that was removed stays
    /// removed. The job needs its [`id`](Add::id).
    ///
    /// A job that runs is marked, and keeps its data. A job that has ended is added anew, with the given data or its
    /// own. A waiting job gets the new time and data; with the same time the job stays unchanged. The call fails with
    /// [`Error::NotFound`] where there is no job.
    pub fn resubmit<T: Serialize + ?Sized>(&self, queue: &str, data: Option<&T>) -> Add<'_> {
        // Encoded data are never empty: empty ones leave the job its own.
        Add::resubmitting(self, queue, data.map(data::encode).transpose().map(Option::unwrap_or_default))
    }

    /// Plain jobs for a queue. A call has 128 at most, and ends with the one that fills 1 MiB. Each gets an id of its own.
    ///
    /// # Errors
    /// As for one job. Those before the first one that failed are there.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which of the jobs were added.
    pub async fn add_many<T: Serialize>(
        &self,
        queue: &str,
        payloads: impl IntoIterator<Item = T> + Send,
    ) -> Result<Vec<Added>, Error> {
        let kind = Arc::new(Kind::new(QueueName::new(queue)?));
        let encode = |payload: T| Ok(NewJob::new(fresh_id("")?, data::encode(&payload)?, kind.clone()));
        let new = payloads.into_iter().map(encode).collect::<Result<Vec<_>, Error>>()?;
        let mut all = Vec::with_capacity(new.len());
        let mut rest = &new[..];
        while !rest.is_empty() {
            let (jobs, later) = rest.split_at(one_call(rest.iter().map(NewJob::size)));
            rest = later;
            let replies = add_all(self, AddMode::Keep, None, jobs.to_vec()).await?;
            for (job, reply) in jobs.iter().zip(replies) {
                all.push(added(job.id.clone(), &kind.queue, reply)?);
            }
        }
        Ok(all)
    }

    /// A job that begins a flow; awaiting it adds it. The flow was named to the builder.
    pub fn start<T: Serialize + ?Sized>(&self, flow: &str, payload: &T) -> Add<'_> {
        let Some((flow, (queue, priority))) =
            self.flow(flow).and_then(|flow| Some((flow, flow.stages.first()?)))
        else {
            return Add::new(self, "", Err(Error::Setting("there is no such flow, or it has no stage")));
        };
        Add::new(self, queue, data::encode(payload))
            .of_flow(&flow.name, *priority, flow.life)
            .by_fields(&flow.lookups)
    }

    /// A worker for jobs of one queue. It begins to work with [`start`](WorkerBuilder::start).
    pub fn worker<T, F, Fut, O>(&self, queue: &str, handler: F) -> WorkerBuilder
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Ctx, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BoxError>> + Send + 'static,
        O: IntoOutcome + Send + 'static,
    {
        self.worker_of([queue], handler)
    }

    /// A worker for jobs of several queues, whose jobs share its slots.
    pub fn worker_of<'a, T, F, Fut, O>(
        &self,
        queues: impl IntoIterator<Item = &'a str>,
        handler: F,
    ) -> WorkerBuilder
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Ctx, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BoxError>> + Send + 'static,
        O: IntoOutcome + Send + 'static,
    {
        let queues = queues.into_iter().map(str::to_owned).collect();
        WorkerBuilder::new(self.clone(), queues, Handler::new(handler))
    }

    /// Cancels a job. One that runs is asked to end: its handler's [`Ctx::cancelled`](crate::Ctx::cancelled) fires. True
    /// when it was cancelled at once.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it has ended; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was cancelled.
    pub async fn cancel(&self, id: &JobId, reason: &str) -> Result<bool, Error> {
        Ok(self.steer(id, Steer::Cancel(reason.to_owned())).await? == SteerReply::Done)
    }

    /// Removes a job with all that belongs to it. A handler that runs it is ended.
    ///
    /// Its children go in the same way, and theirs, in the ticks that follow: those that wait, those that run, and those
    /// that have ended and are kept. A tick removes 128 at most. Children that were made for an earlier life of the job, as
    /// before a replay, have ended by themselves and stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was removed.
    pub async fn remove(&self, id: &JobId) -> Result<(), Error> {
        self.steer(id, Steer::Remove).await.map(drop)
    }

    /// Pauses a job: it does not begin until it is resumed. One that runs ends this run first.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it has ended; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was paused; do it again.
    pub async fn pause(&self, id: &JobId) -> Result<(), Error> {
        self.steer(id, Steer::Pause).await.map(drop)
    }

    /// Resumes a paused job.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it is not paused; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was resumed; do it again.
    pub async fn resume(&self, id: &JobId) -> Result<(), Error> {
        self.steer(id, Steer::Resume).await.map(drop)
    }

    /// Lets a dead letter, or a cancelled job, run again, with all its attempts.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it is neither; [`Error::Full`] when its queue has no room; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was replayed.
    pub async fn replay(&self, id: &JobId) -> Result<(), Error> {
        self.steer(id, Steer::Replay(0)).await.map(drop)
    }

    /// Lets a job that waits for its time run now.
    ///
    /// # Errors
    /// [`Error::NotFound`], also when it does not wait; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was moved; do it again.
    pub async fn run_now(&self, id: &JobId) -> Result<(), Error> {
        self.steer(id, Steer::At(0)).await.map(drop)
    }

    /// Lets a job that waits run at another time.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NotFound`], also when it does not wait; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was moved; do it again.
    pub async fn run_at(&self, id: &JobId, time: SystemTime) -> Result<(), Error> {
        self.steer(id, Steer::At(moment(time.max(UNIX_EPOCH))?.max(1))).await.map(drop)
    }

    /// Gives a job that waits another priority, from -9 to 9.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NotFound`], also when it does not wait; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was changed; do it again.
    pub async fn prioritize(&self, id: &JobId, priority: i8) -> Result<(), Error> {
        if !(-9..=9).contains(&priority) {
            return Err(Error::Setting("a priority is from -9 to 9"));
        }
        self.steer(id, Steer::Priority(priority)).await.map(drop)
    }

    async fn steer(&self, id: &JobId, steer: Steer) -> Result<SteerReply, Error> {
        match self.request(Request::Job(id.clone(), steer)).await? {
            SteerReply::NotFound | SteerReply::NotInState => Err(Error::NotFound(id.clone())),
            SteerReply::Bad => Err(Error::Damaged(id.clone())),
            SteerReply::Full => match self.get(id).await? {
                Some(job) => Err(Error::Full(job.queue().clone())),
                None => Err(Error::NotFound(id.clone())),
            },
            reply => Ok(reply),
        }
    }

    pub(crate) async fn request(&self, request: Request) -> Result<SteerReply, Error> {
        let replies = self.call(&SteerJobs(vec![request])).await?;
        Ok(replies.into_iter().next().unwrap_or(SteerReply::Bad))
    }

    /// Declares a queue for all nodes, as [`JobsBuilder::queue`] does at the join.
    ///
    /// # Errors
    /// [`Error::Name`] and [`Error::Setting`] for what cannot be, [`Error::Groups`], and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the queue was declared; do it again.
    pub async fn declare(&self, queue: &Queue) -> Result<(), Error> {
        let (name, settings) = queue.checked()?;
        super::builder::declare(&self.shared.link, name, Some(settings)).await
    }

    /// A page of all jobs of the set, in no order: ids and records. Begin with the cursor 0, and go on with the returned
    /// one until it is 0 again. A job that is there all the time is on a page at least once; one that comes or goes
    /// meanwhile may be missed.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn scan(&self, cursor: u64) -> Result<(u64, Vec<(JobId, Record)>), Error> {
        self.call(&ScanJobs(cursor, PAGE)).await
    }

    /// A queue: its counts, its dead letters, its pauses and groups.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn queue(&self, name: &str) -> Result<QueueHandle, Error> {
        Ok(QueueHandle::new(self.clone(), QueueName::new(name)?))
    }

    /// Ends this node as a crash would: no job of the node ends in the store, and no handler hears of anything. For
    /// tests.
    #[cfg(feature = "test-util")]
    pub fn abandon(&self) {
        self.shared.thread.stop();
        self.shared.handles.abort_all();
    }

    /// Whether an execution of this node has so much time until it is aborted for its lease, by the node's clock: for tests.
    #[cfg(feature = "sim")]
    pub fn has_time(&self, id: &JobId, token: crate::Token, time: Duration) -> bool {
        self.shared.handles.has_time(&(id.clone(), token), time)
    }

    /// Ends the node: its workers that are still there lose their jobs to other nodes when their leases end. Close the
    /// workers first.
    pub fn close(&self) {
        self.shared.own.closed().cancel();
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("node", self.node()).finish_non_exhaustive()
    }
}
