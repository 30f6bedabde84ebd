//! A node: one process's part in a pool.

mod batch;
mod calls;
mod dispatching;
mod ends;
mod health;
mod joining;
mod listings;
mod notifications;
mod overseen;
mod parking;
mod schedules;
mod settings;
mod stopping;
mod waiting;

pub use batch::DispatchMany;
pub(crate) use calls::PATIENCE;
pub use dispatching::Dispatch;
pub(crate) use ends::CLOSING;
pub use ends::{CloseReport, Shutdown, ShutdownReport};
use joining::Waiting;
pub(crate) use joining::check_server;
pub(crate) use overseen::Overseen;
pub use stopping::StopJob;
pub use waiting::Wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::builder::{Backend, FencePolicy, JobSpanHook, NodeBuilder, join_patience};
use crate::core::ctx::Config;
use crate::core::input::{Answer, Command, LocalWorker, Refused, ReplyTo};
use crate::error::Error;
use crate::handler::{AnyHandler, JobHandler};
use crate::id::{DispatchId, Incarnation, NodeName, PoolName, Revision, WorkerId, check_meta};
use crate::listing::WorkerInfo;
use crate::runtime::driver::{Driver, Message, Watched};
use crate::runtime::lease::{LeaseThread, Leases};
use crate::runtime::meters::Meters;
use crate::runtime::thread::EngineThread;
use crate::runtime::vitals::Vitals;
use crate::settings::Settings;
use crate::store::{Store, StoreError};
use crate::worker::Worker;

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
    pool: PoolName,
    name: NodeName,
    client_only: bool,
    /// What the engine goes by, and the map's revision that it is from.
    settings: watch::Receiver<(Revision, Arc<Settings>)>,
    /// What users ask themselves, on their own runtime.
    store: StoreHandle,
    messages: mpsc::Sender<Message>,
    replies: AtomicU64,
    locals: AtomicU32,
    driver: AbortHandle,
    leases: Arc<Leases>,
    vitals: Arc<Vitals>,
    /// The driver has ended because the node has left its pool.
    left: Arc<AtomicBool>,
}

struct StoreHandle(Arc<dyn Store>);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Node {
    /// A node of the pool with this name, on a [`Client`](crate::Client) or a
    /// [`MemoryStore`](crate::store::MemoryStore).
    pub fn builder(pool: &str, backend: impl Into<Backend>) -> NodeBuilder {
        NodeBuilder::new(pool, backend.into())
    }

    pub(crate) async fn start(
        pool: PoolName,
        config: Config,
        store: Arc<dyn Store>,
        thread: EngineThread,
        policy: FencePolicy,
        on_job_span: Option<JobSpanHook>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let mut meters = Meters::new(&pool, &config.node);
        let begun = Instant::now();
        let mut waiting = Waiting::new(&pool, &config.node);
        let checked = thread.run({
            let store = store.clone();
            async move {
                let checked = check_server(&*store, begun + timeout, |error| waiting.hear(error)).await;
                checked.map(|()| waiting)
            }
        });
        let checked = checked.await.unwrap_or_else(|panic| Err(StoreError::NotExecuted(Arc::new(panic))));
        let mut waiting = match checked {
            Ok(waiting) => waiting,
            Err(error) => {
                store.close().await;
                return Err(error.into());
            }
        };
        let (inputs, events) = mpsc::unbounded_channel();
        let (messages, inbox) = mpsc::channel(QUEUE);
        let leases = Arc::new(Leases::new(config.node.clone(), config.timing, config.broken.clone()));
        let lease = LeaseThread {
            leases: leases.clone(),
            store: store.clone(),
            node: config.node.clone(),
            policy,
            inputs: inputs.clone(),
            renewals: meters.call("renew"),
            age: meters.lease_age(),
        };
        lease.spawn().map_err(|error| StoreError::NotExecuted(Arc::new(error)))?;
        let (name, client_only) = (config.node.clone(), config.client_only);
        let (publish, settings) = watch::channel((Revision(0), Arc::new(config.settings.clone())));
        let seed = config.nonce;
        let (left, vitals) = (Arc::new(AtomicBool::new(false)), Arc::new(Vitals::default()));
        let watched =
            Watched { left: left.clone(), vitals: vitals.clone(), meters, settings: publish, on_job_span };
        let home = Handle::current();
        let driver = Driver::new(config, seed, store.clone(), leases.clone(), inputs, watched, home);
        let driver = thread.drive(driver.run(events, inbox));
        let (replies, locals) = (AtomicU64::new(1), AtomicU32::new(0));
        let store = StoreHandle(store.apart());
        let node = Self {
            shared: Arc::new(Shared {
                pool,
                name,
                client_only,
                settings,
                store,
                messages,
                replies,
                locals,
                driver,
                leases,
                vitals,
                left,
            }),
        };
        let rest = timeout.saturating_sub(begun.elapsed());
        let attached = async {
            tokio::select! {
                answer = node.ask(|reply| Command::Attach { reply }) => Ok(answer),
                lasting = node.lasting_trouble(&mut waiting) => Err(lasting),
            }
        };
        let failed = match tokio::time::timeout(rest, attached).await {
            Ok(Ok(Some(Answer::Attached(Ok(()))))) => return Ok(node),
            Ok(Ok(Some(Answer::Attached(Err(Refused::NoPool))))) => {
                Error::NoPool { pool: node.pool_name().to_owned() }
            }
            Ok(Ok(Some(Answer::Attached(Err(refused))))) => refused.into_error(timeout),
            Ok(Ok(_)) => Error::NodeClosed,
            Ok(Err(lasting)) => Error::Store(lasting),
            Err(_) => Error::NotJoined { within: timeout, last: node.last_trouble() },
        };
        node.abandon();
        node.shared.store.0.close().await;
        Err(failed)
    }

    /// The pool's name; of a shard, with its number.
    pub fn pool_name(&self) -> &str {
        self.shared.pool.as_str()
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        self.shared.name.as_str()
    }

    /// The pool-wide settings as they are now: they may be [changed](Self::change_settings) while the pool runs.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.borrow().1.clone()
    }

    /// Adds a worker that runs jobs with this handler. Returns when it is a member of the pool; it gets its share
    /// of the keys at once when it takes over a leaving worker's slot, else after `join_settle`.
    ///
    /// # Errors
    /// The pool runs with other settings or is shutting down; the node is client-only or closing; it is no member within 60 s, or
    /// twice the worker TTL and 10 s where that is longer. The worker is then left in place, as by a dropped call.
    ///
    /// # Cancel safety
    /// A dropped call leaves the worker in place; it leaves with the node.
    pub async fn add_worker(&self, handler: impl JobHandler) -> Result<Worker, Error> {
        self.add_worker_as("", handler).await
    }

    /// Like [`add_worker`](Self::add_worker), with a text of `[A-Za-z0-9_:.-]{0,64}` that every node's listing shows
    /// with the worker.
    ///
    /// # Errors
    /// As `add_worker`; and the text is not valid.
    ///
    /// # Cancel safety
    /// As `add_worker`.
    pub async fn add_worker_as(&self, meta: &str, handler: impl JobHandler) -> Result<Worker, Error> {
        self.add_worker_at(self.next_worker(), meta, Arc::new(handler)).await
    }

    /// What a worker to come is called within this node.
    pub(crate) fn next_worker(&self) -> LocalWorker {
        LocalWorker(self.shared.locals.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) async fn add_worker_at(
        &self,
        local: LocalWorker,
        meta: &str,
        handler: Arc<dyn AnyHandler>,
    ) -> Result<Worker, Error> {
        self.check_full()?;
        check_meta(meta)?;
        let meta = meta.to_owned();
        let (publish, id) = watch::channel(None);
        let patience = join_patience(self.settings().worker_ttl);
        let added = async {
            self.send(Message::Handler(local, handler, publish)).await.ok()?;
            self.ask(|reply| Command::AddWorker { reply, local, meta }).await
        };
        match tokio::time::timeout(patience, added).await {
            Ok(Some(Answer::WorkerAdded(Ok(())))) => Ok(Worker::new(self.clone(), local, id)),
            Ok(Some(Answer::WorkerAdded(Err(refused)))) => Err(refused.into_error(patience)),
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(patience)),
        }
    }

    /// That the node is more than a client.
    fn check_full(&self) -> Result<(), Error> {
        if self.shared.client_only { Err(Error::ClientOnly) } else { Ok(()) }
    }

    /// The incarnation of its pool, as far as it was last heard of.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.shared.store.0.settings().borrow().incarnation
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.shared.store.0.clone()
    }

    /// Removes a worker of this node: what [`Worker::drain`] does.
    ///
    /// # Errors
    /// [`Error::OtherNode`] for a worker of another node; otherwise as `Worker::drain`.
    ///
    /// # Cancel safety
    /// As `Worker::drain`.
    pub async fn remove_worker(&self, worker: &Worker) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.shared, &worker.node().shared) {
            return Err(Error::OtherNode);
        }
        worker.drain().await
    }

    pub(crate) async fn drain(&self, local: LocalWorker, budget: Duration) -> Result<(), Error> {
        let drained = self.ask(|reply| Command::DrainWorker { reply, local });
        match tokio::time::timeout(budget, drained).await {
            Ok(Some(Answer::Drained(result))) => result.map_err(|refused| refused.into_error(budget)),
            Ok(_) => Err(Error::NodeClosed),
            Err(_) => Err(Error::Deadline(budget)),
        }
    }

    async fn send(&self, message: Message) -> Result<(), Error> {
        self.shared.messages.send(message).await.map_err(|_| Error::NodeClosed)
    }

    /// Has the engine do something. `None`: the node is closed.
    async fn ask(&self, command: impl FnOnce(ReplyTo) -> Command) -> Option<Answer> {
        self.post(|reply, answer| Message::Command(command(reply), answer)).await
    }

    async fn post(
        &self,
        message: impl FnOnce(ReplyTo, oneshot::Sender<Answer>) -> Message,
    ) -> Option<Answer> {
        let reply = ReplyTo(self.shared.replies.fetch_add(1, Ordering::Relaxed));
        let (answer, mut answered) = oneshot::channel();
        self.send(message(reply, answer)).await.ok()?;
        // What was sent while the driver was dropped may lie there for ever.
        if self.shared.messages.is_closed() {
            return answered.try_recv().ok();
        }
        answered.await.ok()
    }

    /// As [`ask`](Self::ask), about a dispatch. Dropped, it takes back that anybody waits for what becomes of it.
    async fn ask_about(&self, id: &DispatchId, command: impl FnOnce(ReplyTo) -> Command) -> Option<Answer> {
        let mut asked = Asked { node: self, id, reply: None };
        let ask = self.ask(|reply| {
            asked.reply = Some(reply);
            command(reply)
        });
        let answer = ask.await;
        asked.reply = None;
        answer
    }

    pub(crate) fn workers_of(&self, id: WorkerId) -> Option<WorkerInfo> {
        self.workers().into_iter().find(|w| w.id == id)
    }
}

/// Somebody waits for what becomes of a dispatch.
struct Asked<'a> {
    node: &'a Node,
    id: &'a DispatchId,
    /// Where the answer is to go, once it has been asked for and until it has come.
    reply: Option<ReplyTo>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply {
            // A node that is too busy to hear of it finds out at the deadline.
            let _ = self.node.shared.messages.try_send(Message::Withdrawn(self.id.clone(), reply));
        }
    }
}
