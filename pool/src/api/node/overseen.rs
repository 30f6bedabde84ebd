//! A shard as its guard sees it. The guard watches over several shards and holds none of them.

use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::PATIENCE;
use super::shard::{Shard, Shared};
use crate::model::id::Revision;
use crate::model::phase::PoolPhase;
use crate::model::settings::{Settings, ShutdownFlag, StoredSettings};
use crate::runtime::driver::Message;
use crate::runtime::health::HealthRecord;
use crate::runtime::lease::Leases;
use crate::store::{ShutdownMode, Store};

/// One shard. It may still close by itself.
pub(crate) struct Overseen {
    shard: Weak<Shared>,
    stored: watch::Receiver<Arc<StoredSettings>>,
    /// Its sender is dropped with the node's driver.
    living: watch::Receiver<(Revision, Arc<Settings>)>,
    ended: bool,
    driver: AbortHandle,
    leases: Arc<Leases>,
    health: Arc<HealthRecord>,
}

impl Shard {
    pub(crate) fn overseen(&self) -> Overseen {
        let shared = &self.shared;
        Overseen {
            shard: Arc::downgrade(shared),
            stored: shared.store.0.settings(),
            living: shared.settings.clone(),
            ended: false,
            driver: shared.driver.clone(),
            leases: shared.leases.clone(),
            health: shared.health.clone(),
        }
    }

    /// As far as this node knows, its pool was shut down.
    pub(crate) fn saw_the_end(&self) -> bool {
        self.shared.health.seen().status.phase == PoolPhase::Closed
    }
}

impl Overseen {
    /// Waits until something has changed. Never returns once the node has ended.
    pub(crate) async fn changed(&mut self) {
        if self.ended {
            std::future::pending::<()>().await;
        }
        let (stored, living) = (&mut self.stored, &mut self.living);
        let heard = async {
            if stored.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = heard => {}
            living = living.changed() => self.ended = living.is_err(),
        }
    }

    /// The stored settings of the pool, while the pool exists.
    pub(crate) fn stored(&self) -> Option<Arc<StoredSettings>> {
        Some(self.stored.borrow().clone()).filter(|stored| stored.incarnation.is_some())
    }

    /// The pool's shutdown flag.
    pub(crate) fn flag(&self) -> Option<ShutdownFlag> {
        self.stored()?.flag()
    }

    /// Whether the node has ended, for any reason.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the node has ended because its pool was shut down.
    pub(crate) fn saw_the_end(&self) -> bool {
        self.ended && self.health.seen().status.phase == PoolPhase::Closed
    }

    /// Asks for this shutdown of the pool, if none was asked for, and does not wait.
    pub(crate) async fn shut_down(&self, mode: ShutdownMode) {
        if let Some(shared) = self.shard.upgrade() {
            let _ = tokio::time::timeout(PATIENCE, Shard { shared }.send(Message::OtherShutDown(mode))).await;
        }
    }

    /// The shard's store over connections of the guard's own, while a clone of its node lives.
    pub(crate) fn store(&self) -> Option<Store> {
        Some(self.shard.upgrade()?.store.0.apart())
    }

    /// Tells the shard that the pool's other shards have ended.
    pub(crate) async fn others_ended(&self) {
        if let Some(shared) = self.shard.upgrade() {
            let _ = Shard { shared }.send(Message::OthersEnded).await;
        }
    }

    /// Like [`Node::abandon`].
    pub(crate) fn abandon(&self) {
        self.driver.abort();
        self.leases.end();
    }
}
