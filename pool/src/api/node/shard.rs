//! One process's part in one shard of a pool: its engine, its leases, and how other code calls them.

use std::any::Any;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tenure_connection::Thread;
use tenure_steps::Failure;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::asking;
use super::joining::{Limit, Waiting, check_server};
use super::locating::Places;
use crate::api::builder::join_patience;
use crate::core::ctx::Config;
use crate::core::input::{Answer, Command, LocalWorker, ReplyTo};
use crate::error::{Error, Gone};
use crate::job::handler::AnyHandler;
use crate::job::serving::Served;
use crate::model::event::News;
use crate::model::id::{DispatchId, Incarnation, NodeName, PoolName, Revision, WorkerId, check_meta};
use crate::model::policy::FencePolicy;
use crate::model::settings::Settings;
use crate::runtime::actor::panicked;
use crate::runtime::actors::Beside;
use crate::runtime::driver::{Driver, Message, Watched};
use crate::runtime::health::HealthRecord;
use crate::runtime::lease::{LeaseThread, Leases, Saying};
use crate::runtime::metrics::Metrics;
use crate::runtime::room::Room;
use crate::store::{Refusal, Store, StoreError};

/// How many commands may wait for the shard before callers must wait.
const QUEUE: usize = 4096;
/// How long a caller waits to hear why the engine has ended. Its runtime may be blocked.
const ENDING: Duration = Duration::from_secs(1);

/// One process's part in one shard of a pool. In Redis, each shard is a pool of its own. When its last clone is
/// dropped, it leaves in the background.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(super) shared: Arc<Shared>,
}

/// The state that all clones share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: PoolName,
    pub(super) name: NodeName,
    pub(super) client_only: bool,
    /// The settings that the engine uses, and the revision of the map that they come from.
    pub(super) settings: watch::Receiver<(Revision, Arc<Settings>)>,
    /// The store for calls that users make directly, on their own runtime.
    pub(super) store: StoreHandle,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) replies: AtomicU64,
    pub(super) locals: AtomicU32,
    pub(super) driver: AbortHandle,
    pub(super) leases: Arc<Leases>,
    pub(super) health: Arc<HealthRecord>,
    /// Whether the driver has ended because the node has left its pool.
    pub(super) left: Arc<AtomicBool>,
    pub(super) places: Places,
    /// The places of open asks.
    pub(super) asks: asking::Places,
    /// The started jobs, if the node serves.
    pub(super) served: Option<Arc<Served>>,
}

pub(super) struct StoreHandle(pub(super) Store);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

impl Shard {
    pub(crate) async fn start(
        pool: PoolName,
        config: Config,
        store: Store,
        thread: Thread,
        policy: FencePolicy,
        beside: Beside,
        limit: Limit,
    ) -> Result<Self, Error> {
        let metrics = Metrics::new(&pool, &config.node);
        let waiting = Waiting::new(pool.clone(), config.node.clone());
        let checked = thread.run({
            let store = store.clone();
            async move { check_server(&store, limit, &waiting).await.map(|()| waiting) }
        });
        let checked =
            checked.await.unwrap_or_else(|panic| Err(StoreError::NotExecuted(Failure::new(panic)).into()));
        let waiting = match checked {
            Ok(waiting) => waiting,
            Err(error) => {
                store.close().await;
                return Err(error);
            }
        };
        let shard = Self::spawn(pool, config, &store, thread, policy, beside, metrics)?;
        let attached = shard.attach(&waiting, limit).await;
        if attached.is_err() {
            shard.abandon();
            shard.shared.store.0.close().await;
        }
        attached.map(|()| shard)
    }

    /// Starts the engine and the lease's thread.
    fn spawn(
        pool: PoolName,
        config: Config,
        store: &Store,
        thread: Thread,
        policy: FencePolicy,
        beside: Beside,
        mut metrics: Metrics,
    ) -> Result<Self, Error> {
        metrics.pace(config.starts_per_second, config.moves_per_second);
        let (left, health) = (Arc::new(AtomicBool::new(false)), Arc::new(HealthRecord::default()));
        let (inputs, events) = mpsc::unbounded_channel();
        let (messages, inbox) = mpsc::channel(QUEUE);
        let leases = Arc::new(Leases::new(config.node.clone(), config.timing, config.broken.clone()));
        let lease = LeaseThread {
            leases: leases.clone(),
            store: store.clone(),
            node: config.node.clone(),
            saying: Saying::new(health.clone()),
            policy,
            inputs: inputs.clone(),
            renewals: metrics.call("renew"),
            age: metrics.lease_age(),
        };
        lease.spawn().map_err(|error| StoreError::NotExecuted(Failure::new(error)))?;
        let (name, client_only) = (config.node.clone(), config.client_only);
        let (publish, settings) = watch::channel((Revision(0), Arc::new(config.settings.clone())));
        let seed = config.nonce;
        let served = beside.served.clone();
        let watched =
            Watched { left: left.clone(), health: health.clone(), metrics, settings: publish, beside };
        let home = Handle::current();
        let driver = Driver::new(config, seed, store.clone(), leases.clone(), inputs, watched, home);
        let ended = {
            let (pool, node, health) = (pool.clone(), name.clone(), health.clone());
            move |panic: Option<Box<dyn Any + Send>>| {
                let panic = panic.map(|panic| panicked(&*panic));
                if let Some(error) = &panic {
                    tracing::error!(%pool, %node, error, "the engine failed: the node has ended, and its jobs move when its leases end");
                }
                health.ended(panic);
            }
        };
        let driver = thread.drive(driver.run(events, inbox), ended);
        let (replies, locals) = (AtomicU64::new(1), AtomicU32::new(0));
        let store = StoreHandle(store.apart());
        let places = Places::new(store.0.members());
        Ok(Self {
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
                health,
                left,
                places,
                asks: asking::Places::default(),
                served,
            }),
        })
    }

    /// Waits until the shard is part of its pool.
    async fn attach(&self, waiting: &Waiting, limit: Limit) -> Result<(), Error> {
        let attached = async {
            tokio::select! {
                answer = self.ask(|reply| Command::Attach { reply }) => Ok(answer),
                lasting = self.lasting_trouble(waiting) => Err(lasting),
            }
        };
        let failed = match tokio::time::timeout(limit.rest(), attached).await {
            Ok(Ok(Some(Answer::Attached(Ok(()))))) => return Ok(()),
            Ok(Ok(Some(Answer::Attached(Err(Error::Store(StoreError::Refused(Refusal::NoPool))))))) => {
                Error::NoPool { pool: self.pool_name().to_owned() }
            }
            Ok(Ok(Some(Answer::Attached(Err(error))))) => error,
            Ok(Ok(_)) => self.gone().await.into(),
            Ok(Err(lasting)) => Error::Store(lasting),
            Err(_) => limit.is_up(self.last_trouble()),
        };
        Err(failed)
    }

    /// The node's name.
    pub(super) fn name(&self) -> &str {
        self.shared.name.as_str()
    }

    /// The shard's name: the pool's, or `name#index`.
    pub(super) fn pool_name(&self) -> &str {
        self.shared.pool.as_str()
    }

    /// The present pool-wide settings of this shard.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.shared.settings.borrow().1.clone()
    }

    /// The next worker's number within this node.
    pub(crate) fn next_worker(&self) -> LocalWorker {
        LocalWorker(self.shared.locals.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds a worker. The receiver has its id.
    pub(crate) async fn add_worker_at(
        &self,
        local: LocalWorker,
        meta: &str,
        capacity: Option<NonZeroU32>,
        room: Option<Room>,
        handler: Arc<dyn AnyHandler>,
    ) -> Result<watch::Receiver<Option<WorkerId>>, Error> {
        self.check_full()?;
        check_meta(meta)?;
        let meta = meta.to_owned();
        let (publish, id) = watch::channel(None);
        let patience = join_patience(self.settings().worker_ttl);
        let added = async {
            self.send(Message::Handler(local, handler, publish, room)).await.ok()?;
            self.ask(|reply| Command::AddWorker { reply, local, meta, capacity }).await
        };
        match tokio::time::timeout(patience, added).await {
            Ok(Some(Answer::WorkerAdded(added))) => added.map(|()| id),
            Ok(_) => Err(self.gone().await.into()),
            Err(_) => Err(self.late(patience)),
        }
    }

    /// Refuses what a client-only node may not do.
    pub(super) fn check_full(&self) -> Result<(), Error> {
        if self.shared.client_only { Err(Error::ClientOnly) } else { Ok(()) }
    }

    /// The incarnation of its pool, as last heard.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.shared.store.0.settings().borrow().incarnation
    }

    pub(crate) fn store(&self) -> Store {
        self.shared.store.0.clone()
    }

    pub(crate) async fn drain(&self, local: LocalWorker, budget: Duration) -> Result<(), Error> {
        let drained = self.ask(|reply| Command::DrainWorker { reply, local });
        match tokio::time::timeout(budget, drained).await {
            Ok(Some(Answer::Drained(result))) => result,
            Ok(_) => Err(self.gone().await.into()),
            Err(_) => Err(self.late(budget)),
        }
    }

    /// Notes in the pool's history what a user of this node has done. A node that is too busy leaves it out.
    pub(super) fn note(&self, news: News) {
        let _ = self.shared.messages.try_send(Message::News(news));
    }

    pub(super) async fn send(&self, message: Message) -> Result<(), Error> {
        match self.shared.messages.send(message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.gone().await.into()),
        }
    }

    /// Why the engine answers no more. Its end is known soon after its last answer.
    pub(super) async fn gone(&self) -> Gone {
        Gone { panic: tokio::time::timeout(ENDING, self.shared.health.end()).await.ok().flatten() }
    }

    /// Sends the engine a command, and waits for its answer. `None` if the node is closed.
    pub(super) async fn ask(&self, command: impl FnOnce(ReplyTo) -> Command) -> Option<Answer> {
        self.post(|reply, answer| Message::Command(command(reply), answer)).await
    }

    pub(super) async fn post(
        &self,
        message: impl FnOnce(ReplyTo, oneshot::Sender<Answer>) -> Message,
    ) -> Option<Answer> {
        let reply = ReplyTo(self.shared.replies.fetch_add(1, Ordering::Relaxed));
        let (answer, mut answered) = oneshot::channel();
        self.send(message(reply, answer)).await.ok()?;
        // A command that was sent while the driver was dropped may stay in the queue for ever.
        if self.shared.messages.is_closed() {
            return answered.try_recv().ok();
        }
        answered.await.ok()
    }

    /// Like [`ask`](Self::ask), for a question about a dispatch. If the future is dropped, the engine no longer waits
    /// for the outcome.
    pub(super) async fn ask_about(
        &self,
        id: &DispatchId,
        command: impl FnOnce(ReplyTo) -> Command,
    ) -> Option<Answer> {
        let mut asked = Asked { shard: self, id, reply: None };
        let ask = self.ask(|reply| {
            asked.reply = Some(reply);
            command(reply)
        });
        let answer = ask.await;
        asked.reply = None;
        answer
    }
}

/// A caller that waits for the outcome of a dispatch.
struct Asked<'a> {
    shard: &'a Shard,
    id: &'a DispatchId,
    /// The receiver of the answer, after the question was sent and until the answer comes.
    reply: Option<ReplyTo>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(reply) = self.reply {
            // A node that is too busy for this message notices at the deadline.
            let _ = self.shard.shared.messages.try_send(Message::Withdrawn(self.id.clone(), reply));
        }
    }
}
