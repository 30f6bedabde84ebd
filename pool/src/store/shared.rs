//! The one store that the pool sees, whichever performs its steps.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::{BATCH_MAX, MemoryStore, Performs, Read, RedisStore, Refusal, Result, Step, StoreError};
use tenure_protocol::memory::OnMemory;

use crate::model::id::{Incarnation, Revision};
use crate::model::level;
use crate::model::member::Members;
use crate::model::settings::StoredSettings;

/// The call of a step on Redis, and the reading of the reply.
pub trait OnRedis: Step {
    /// Performs the step.
    ///
    /// # Errors
    /// [`StoreError`].
    fn on_redis(
        &self,
        store: &RedisStore,
        inc: Incarnation,
    ) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// A step of both stores.
pub trait Known: OnMemory + OnRedis {}

impl<S: OnMemory + OnRedis> Known for S {}

/// The atomic steps, the reads and the maps of one pool. Clones are the same client.
#[derive(Clone, Debug)]
pub enum Store {
    /// In the memory of this process.
    Memory(Arc<MemoryStore>),
    /// On Redis.
    Redis(Arc<RedisStore>),
}

impl Store {
    /// Performs a step in this incarnation.
    ///
    /// # Errors
    /// [`StoreError`]. A step with too many items is refused with [`Refusal::BadArgument`](super::Refusal::BadArgument).
    ///
    /// # Cancel safety
    /// After a dropped step it is not known whether it was executed. Reads change nothing, but
    /// [`ReadPool`](super::ReadPool) and [`ClaimPool`](super::ClaimPool) may leave entries with the consumer.
    pub fn run<'a, S: Known>(&'a self, inc: Incarnation, step: &'a S) -> BoxFuture<'a, Result<S::Answer>> {
        // In a box, so that a caller does not take the memory of all layers below.
        async move {
            match self {
                Self::Memory(store) => store.run(inc, step).await,
                Self::Redis(_) if step.items() > BATCH_MAX => Err(StoreError::Refused(Refusal::BadArgument)),
                Self::Redis(store) => step.on_redis(store, inc).await,
            }
        }
        .boxed()
    }

    /// Performs a step without an incarnation.
    ///
    /// # Errors
    /// [`StoreError`].
    ///
    /// # Cancel safety
    /// As of [`run`](Self::run).
    pub async fn read<S: Known + Read>(&self, step: &S) -> Result<S::Answer> {
        self.run(Incarnation(0), step).await
    }

    /// The level of the protocol that its steps have.
    pub fn level(&self) -> u32 {
        match self {
            Self::Memory(store) => store.level(),
            Self::Redis(_) => level::OWN,
        }
    }

    /// Refuses a server that is unsuitable for a pool (older than 7.0, eviction), and logs unwise settings.
    ///
    /// # Errors
    /// [`StoreError::Unusable`], or as for any read.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn server_checks(&self) -> Result<()> {
        match self {
            Self::Memory(store) => store.server_checks(),
            Self::Redis(store) => store.server_checks().await,
        }
    }

    /// From now on, steps are sent to the server process `run_id`, and to no other.
    pub fn bless(&self, run_id: &str) {
        match self {
            Self::Memory(store) => store.bless(run_id),
            Self::Redis(store) => store.bless(run_id),
        }
    }

    /// The server process to which steps are sent. `None` before the first is blessed.
    pub fn blessed(&self) -> Option<Box<str>> {
        match self {
            Self::Memory(store) => store.blessed(),
            Self::Redis(store) => store.blessed(),
        }
    }

    /// The members, from the replica.
    pub fn members(&self) -> watch::Receiver<Arc<Members>> {
        match self {
            Self::Memory(store) => store.members(),
            Self::Redis(store) => store.members(),
        }
    }

    /// The stored settings, from the replica.
    pub fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        match self {
            Self::Memory(store) => store.settings(),
            Self::Redis(store) => store.settings(),
        }
    }

    /// A hint that the maps have these revisions. A replica with lower ones reads again.
    pub fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        match self {
            Self::Memory(store) => store.expect(inc, members, settings),
            Self::Redis(store) => store.expect(inc, members, settings),
        }
    }

    /// Reads the settings again, and the members if `members` is true, even if the replica has their revisions. A
    /// repair by hand changes them without a new revision.
    pub fn reread(&self, members: bool) {
        match self {
            Self::Memory(store) => store.reread(members),
            Self::Redis(store) => store.reread(members),
        }
    }

    /// The error that keeps the replica from following the maps, if there is one.
    pub fn unfollowed(&self) -> Option<StoreError> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => store.unfollowed(),
        }
    }

    /// This store over new connections, for another runtime. The replicas of the maps are shared.
    #[must_use]
    pub fn apart(&self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(Arc::new(store.apart())),
            Self::Redis(store) => Self::Redis(Arc::new(store.over_own_connections())),
        }
    }

    /// Ends the store's background work. Nothing of it remains when this returns.
    ///
    /// # Cancel safety
    /// Call it again after a dropped call.
    pub async fn close(&self) {
        if let Self::Redis(store) = self {
            store.close().await;
        }
    }
}

impl<S: Known> Performs<S> for Store {
    async fn perform(&self, inc: Incarnation, step: &S) -> Result<S::Answer> {
        self.run(inc, step).await
    }
}

impl From<MemoryStore> for Store {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(Arc::new(store))
    }
}

impl From<RedisStore> for Store {
    fn from(store: RedisStore) -> Self {
        Self::Redis(Arc::new(store))
    }
}
