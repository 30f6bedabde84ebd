//! A node: one process's part in a pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::builder::{Backend, FencePolicy, NodeBuilder, join_patience};
use crate::core::ctx::Config;
use crate::core::input::{Answer, Command, LocalWorker, ReplyTo};
use crate::error::{DispatchError, Error};
use crate::handler::JobHandler;
use crate::id::{DispatchId, IdError, JobKey, NodeName, WorkerId};
use crate::listing::{self, JobInfo, WorkerInfo};
use crate::runtime::clock;
use crate::runtime::driver::{Driver, Message};
use crate::runtime::lease::{LeaseThread, Leases};
use crate::settings::Settings;
use crate::store::{DispatchItem, ShutdownMode, Store};
use crate::ticket::Ticket;
use crate::wire;
use crate::worker::Worker;

/// How long a call waits for its answer unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(20);
/// What an answer that went astray is given on top of its deadline.
const MARGIN: Duration = Duration::from_secs(2);
/// How long a shutdown lets what was accepted begin.
const CLOSING: Duration = Duration::from_secs(10);
/// How many commands wait for the node before callers have to.
const QUEUE: usize = 4096;

/// One process's part in a pool: it routes jobs, watches workers, runs workers of its own, and takes jobs in.
///
/// Cheap to clone. When the last clone is dropped the node closes by itself, in the background.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure_pool::{Client, Job, Node};
///
/// let node = Node::builder("feeds", Client::open("redis://127.0.0.1")?).join().await?;
/// node.add_worker(tenure_pool::run(|job: Job| async move {
///     job.cancelled().await;
///     Ok(())
/// }))
/// .await?;
/// node.dispatch("acme", "payload").await?;
/// node.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: NodeName,
    settings: Settings,
    store: StoreHandle,
    messages: mpsc::Sender<Message>,
    replies: AtomicU64,
    locals: AtomicU32,
    driver: AbortHandle,
    leases: Arc<Leases>,
    /// The driver has ended because the node has left its pool.
    left: Arc<AtomicBool>,
}

struct StoreHandle(Arc<dyn Store>);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// What [`Node::close`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The node has left the pool. Otherwise the time was up: it goes on leaving, renews its leases meanwhile, and
    /// `close` can be called again.
    pub complete: bool,
    /// The jobs that it still holds.
    pub left: Vec<JobKey>,
}

/// What [`Node::shutdown`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The pool is gone. Otherwise the time was up, and the shutdown goes on as long as any node lives.
    pub complete: bool,
    /// Jobs that were accepted and had not begun when the pool stopped, as far as this node dropped them.
    pub dropped: u64,
    /// The workers that were still members.
    pub left: Vec<WorkerId>,
}

impl Node {
    /// A node of the pool with this name, on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::store::MemoryStore).
    pub fn builder(pool: &str, backend: impl Into<Backend>) -> NodeBuilder {
        NodeBuilder::new(pool, backend.into())
    }

    pub(crate) async fn start(
        config: Config,
        store: Arc<dyn Store>,
        policy: FencePolicy,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        let checks = tokio::time::timeout(timeout, store.server_checks()).await;
        if let Err(error) = checks.unwrap_or(Err(late())) {
            store.close().await;
            return Err(error.into());
        }
        let (inputs, events) = mpsc::unbounded_channel();
        let (messages, inbox) = mpsc::channel(QUEUE);
        let leases = Arc::new(Leases::new(config.timing));
        let thread = LeaseThread {
            leases: leases.clone(),
            store: store.clone(),
            node: config.node.clone(),
            policy,
            inputs: inputs.clone(),
        };
        thread.spawn().map_err(|error| crate::store::StoreError::NotExecuted(Arc::new(error)))?;
        let (name, settings) = (config.node.clone(), config.settings.clone());
        let seed = config.nonce;
        let left = Arc::new(AtomicBool::new(false));
        let driver = Driver::new(config, seed, store.clone(), leases.clone(), inputs, left.clone());
        let driver = tokio::spawn(driver.run(events, inbox)).abort_handle();
        let (replies, locals) = (AtomicU64::new(1), AtomicU32::new(0));
        let store = StoreHandle(store);
        let node = Self {
            shared: Arc::new(Shared {
                name,
                settings,
                store,
                messages,
                replies,
                locals,
                driver,
                leases,
                left,
            }),
        };
        let rest = timeout.saturating_sub(begun.elapsed());
        let attached = tokio::time::timeout(rest, node.ask(|reply| Command::Attach { reply })).await;
        let failed = match attached {
            Ok(Some(Answer::Attached(Ok(())))) => return Ok(node),
            Ok(Some(Answer::Attached(Err(refused)))) => refused.into_error(timeout),
            Ok(_) => Error::NodeClosed,
            Err(_) => Error::Deadline(timeout),
        };
        node.abandon();
        node.shared.store.0.close().await;
        Err(failed)
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        self.shared.name.as_str()
    }

    /// The pool-wide settings that it runs with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    // ---- workers

    /// Adds a worker that runs jobs with this handler. Returns when it is a member of the pool; it gets its share
    /// of the keys at once when it takes over a leaving worker's slot, else after `join_settle`.
    ///
    /// # Errors
    /// The pool runs with other settings or is shutting down; the node is closing; it is no member within 60 s, or
    /// twice the worker TTL and 10 s where that is longer. The worker is then left in place, as by a dropped call.
    ///
    /// # Cancel safety
    /// A dropped call leaves the worker in place; it leaves with the node.
    pub async fn add_worker(&self, handler: impl JobHandler) -> Result<Worker, Error> {
        let local = LocalWorker(self.shared.locals.fetch_add(1, Ordering::Relaxed));
        let (publish, id) = watch::channel(None);
        let patience = join_patience(self.shared.settings.worker_ttl);
        let added = async {
            self.send(Message::Handler(local, Arc::new(handler), publish)).await.ok()?;
            self.ask(|reply| Command::AddWorker { reply, local, meta: String::new() }).await
        };
        match tokio::time::timeout(patience, added).await {
            Ok(Some(Answer::WorkerAdded(Ok(())))) => Ok(Worker::new(self.clone(), local, id)),
            Ok(Some(Answer::WorkerAdded(Err(refused)))) => Err(refused.into_error(patience)),
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(patience)),
        }
    }

    pub(crate) async fn drain(&self, local: LocalWorker, budget: Duration) -> Result<(), Error> {
        let drained = self.ask(|reply| Command::DrainWorker { reply, local });
        match tokio::time::timeout(budget, drained).await {
            Ok(Some(Answer::Drained(result))) => result.map_err(|refused| refused.into_error(budget)),
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(budget)),
        }
    }

    // ---- jobs

    /// Dispatches a job and returns when its worker has started it.
    ///
    /// # Errors
    /// The key is not valid or lives; the pool is full or shutting down; the start handler failed; no answer
    /// within 20 s, in which case an accepted job stays accepted.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job was accepted.
    pub async fn dispatch<K>(&self, key: K, payload: impl Into<Bytes>) -> Result<(), DispatchError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.send_job(key, payload.into(), true, PATIENCE).await.map(|_| ())
    }

    /// Like [`dispatch`](Self::dispatch), but a job with this key that lives already is fine.
    ///
    /// # Errors
    /// As `dispatch`, but for `JobExists`.
    ///
    /// # Cancel safety
    /// As `dispatch`.
    pub async fn ensure<K>(&self, key: K, payload: impl Into<Bytes>) -> Result<(), DispatchError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        match self.dispatch(key, payload).await {
            Err(DispatchError::JobExists) => Ok(()),
            other => other,
        }
    }

    /// Hands a job in and returns as soon as the pool has accepted it: it will run, whatever becomes of this node.
    ///
    /// # Errors
    /// The key is not valid or lives; the pool is full or shutting down; no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job was accepted.
    pub async fn submit<K>(&self, key: K, payload: impl Into<Bytes>) -> Result<Ticket, DispatchError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.send_job(key, payload.into(), false, PATIENCE).await
    }

    /// Waits until a submitted job has been started; from any node of the pool.
    ///
    /// # Errors
    /// What else became of it; no answer within 20 s.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn wait(&self, ticket: &Ticket) -> Result<(), DispatchError> {
        let deadline = clock::now() + PATIENCE;
        let wait = self.ask(|reply| Command::Wait { reply, ticket: ticket.clone(), deadline });
        match tokio::time::timeout(PATIENCE + MARGIN, wait).await {
            Ok(Some(Answer::Submitted(result))) => result.map(|_| ()),
            Ok(_) => Err(DispatchError::NodeClosed),
            Err(_) => Err(DispatchError::Deadline { ticket: ticket.clone(), accepted: true }),
        }
    }

    async fn send_job<K>(
        &self,
        key: K,
        payload: Bytes,
        started: bool,
        patience: Duration,
    ) -> Result<Ticket, DispatchError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let max = self.shared.settings.payload_max as usize;
        let envelope = wire::seal(&payload).unwrap_or_default();
        if envelope.len() > max || envelope.is_empty() {
            return Err(DispatchError::PayloadTooLong { len: envelope.len().max(payload.len()), max });
        }
        let id = DispatchId::of_node(&self.shared.name, &ulid::Ulid::generate().to_string())?;
        let ticket = Ticket { key: key.clone(), id: id.clone() };
        let item = DispatchItem { key, id, not_after: 0, hash: String::new(), payload: envelope };
        let deadline = clock::now() + patience;
        let call = self.ask(|reply| Command::Submit { reply, item, started, deadline });
        match tokio::time::timeout(patience + MARGIN, call).await {
            Ok(Some(Answer::Submitted(result))) => result,
            Ok(_) => Err(DispatchError::NodeClosed),
            Err(_) => Err(DispatchError::Deadline { ticket, accepted: false }),
        }
    }

    /// Stops the job, wherever it is in its life, and keeps it from coming back. Returns when that is recorded;
    /// the handler may still be on its way out. Stopping a job that is being stopped is fine.
    ///
    /// # Errors
    /// No such job; no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the job is being stopped.
    pub async fn stop_job<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let deadline = clock::now() + PATIENCE;
        self.request(|reply| Command::StopJob { reply, key, deadline }).await
    }

    /// Keeps a notification for the job; its owner, now or later, hands it to the handler, in order, at least
    /// once.
    ///
    /// # Errors
    /// No such job; too many wait; too long; no answer within 20 s.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether the notification was kept.
    pub async fn notify<K>(&self, key: K, body: impl Into<Bytes>) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        let (body, max) = (body.into(), self.shared.settings.notify_bytes as usize);
        if body.len() > max {
            return Err(Error::TooLong { what: "the notification", len: body.len(), max });
        }
        let deadline = clock::now() + PATIENCE;
        self.request(|reply| Command::Notify { reply, key, body, deadline }).await
    }

    // ---- what there is

    /// The workers of the pool, as this node knows them.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        listing::workers(&self.shared.store.0.members().borrow())
    }

    /// All jobs of the pool, ordered by key. Reads in pages; a job that moves meanwhile is listed once.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        listing::jobs(&*self.shared.store.0).await
    }

    /// One job.
    ///
    /// # Errors
    /// The key is not valid; its record cannot be read; the store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn job<K>(&self, key: K) -> Result<Option<JobInfo>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        listing::job(&*self.shared.store.0, key.try_into().map_err(Into::into)?).await
    }

    /// The payload that a job was dispatched with.
    ///
    /// # Errors
    /// The key is not valid; the payload cannot be read; the store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn payload<K>(&self, key: K) -> Result<Option<Bytes>, Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        listing::payload(&*self.shared.store.0, &key.try_into().map_err(Into::into)?).await
    }

    // ---- ends

    /// Leaves the pool: every worker of this node hands its jobs on, each stopped here before it begins elsewhere.
    /// Waits up to 30 s; a node that holds jobs then goes on, renews, and can be closed again.
    ///
    /// # Errors
    /// The node's end was not a leaving: it was abandoned, or its runtime ended. Closing a closed node is fine.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the closing.
    pub async fn close(&self) -> Result<CloseReport, Error> {
        self.close_within(Duration::from_secs(30)).await
    }

    /// Like [`close`](Self::close), with this much time.
    ///
    /// # Errors
    /// As `close`.
    ///
    /// # Cancel safety
    /// As `close`.
    pub async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let deadline = clock::now() + budget;
        match self.ask(|reply| Command::Close { reply, deadline }).await {
            Some(Answer::Closed { complete, left }) => Ok(CloseReport { complete, left }),
            _ if self.shared.left.load(Ordering::Acquire) => {
                Ok(CloseReport { complete: true, left: Vec::new() })
            }
            _ => Err(Error::NodeClosed),
        }
    }

    /// Shuts the whole pool down: nothing new is accepted, what was accepted is begun for up to 10 s more, then
    /// every worker of every node ends its jobs and leaves, and nothing is left but a tombstone. Waits up to 60 s.
    ///
    /// # Errors
    /// The node is closed.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the shutdown.
    pub async fn shutdown(&self) -> Result<ShutdownReport, Error> {
        let budget = Duration::from_secs(60);
        let (mode, deadline) = (ShutdownMode::Closing(CLOSING), clock::now() + budget);
        match self.ask(|reply| Command::Shutdown { reply, mode, deadline }).await {
            Some(Answer::ShutDown { result: Ok(()), complete, dropped, left }) => {
                Ok(ShutdownReport { complete, dropped, left })
            }
            Some(Answer::ShutDown { result: Err(refused), .. }) => Err(refused.into_error(budget)),
            _ => Err(Error::NodeClosed),
        }
    }

    /// Waits until the node has left its pool, for whatever reason.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn closed(&self) {
        self.shared.messages.closed().await;
    }

    /// Drops everything at once, and tells the pool nothing: handlers are aborted where they stand, and the jobs
    /// start elsewhere when the leases have run out. What a crash does, without ending the process.
    pub fn abandon(&self) {
        self.shared.driver.abort();
        self.shared.leases.end();
    }

    // ---- to the driver

    async fn send(&self, message: Message) -> Result<(), Error> {
        self.shared.messages.send(message).await.map_err(|_| Error::NodeClosed)
    }

    /// Has the engine do something. `None`: the node is closed.
    async fn ask(&self, command: impl FnOnce(ReplyTo) -> Command) -> Option<Answer> {
        let reply = ReplyTo(self.shared.replies.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        self.send(Message::Command(command(reply), answer)).await.ok()?;
        answered.await.ok()
    }

    async fn request(&self, command: impl FnOnce(ReplyTo) -> Command) -> Result<(), Error> {
        match tokio::time::timeout(PATIENCE + MARGIN, self.ask(command)).await {
            Ok(Some(Answer::Stopped(result) | Answer::Notified(result))) => {
                result.map_err(|refused| refused.into_error(PATIENCE))
            }
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(PATIENCE)),
        }
    }

    pub(crate) fn workers_of(&self, id: WorkerId) -> Option<WorkerInfo> {
        self.workers().into_iter().find(|w| w.id == id)
    }
}

fn late() -> crate::store::StoreError {
    let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "the server checks took too long");
    crate::store::StoreError::NotExecuted(Arc::new(late))
}
