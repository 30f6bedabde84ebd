//! What is seen of a shard without holding it: for the guard, which watches over several.

use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::PATIENCE;
use super::shard::{Shard, Shared};
use crate::health::PoolPhase;
use crate::id::Revision;
use crate::runtime::driver::Message;
use crate::runtime::lease::Leases;
use crate::runtime::vitals::Vitals;
use crate::settings::{Settings, ShutdownFlag, StoredSettings};
use crate::store::{ShutdownMode, Store};

/// One shard, which is not kept from closing by itself.
pub(crate) struct Overseen {
    shard: Weak<Shared>,
    stored: watch::Receiver<Arc<StoredSettings>>,
    /// Its sender goes with the node's driver.
    living: watch::Receiver<(Revision, Arc<Settings>)>,
    ended: bool,
    driver: AbortHandle,
    leases: Arc<Leases>,
    vitals: Arc<Vitals>,
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
            vitals: shared.vitals.clone(),
        }
    }

    /// As far as this node knows its pool was shut down.
    pub(crate) fn saw_the_end(&self) -> bool {
        self.shared.vitals.seen().picture.phase == PoolPhase::Closed
    }
}

impl Overseen {
    /// Waits until something has changed; for ever, once the node has ended.
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

    /// What is stored of the pool's settings, while there is a pool.
    pub(crate) fn stored(&self) -> Option<Arc<StoredSettings>> {
        Some(self.stored.borrow().clone()).filter(|stored| stored.incarnation.is_some())
    }

    /// The flag of the pool's shutdown.
    pub(crate) fn flag(&self) -> Option<ShutdownFlag> {
        self.stored()?.flag()
    }

    /// The node has ended, for whatever reason.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The node has ended because its pool was shut down.
    pub(crate) fn saw_the_end(&self) -> bool {
        self.ended && self.vitals.seen().picture.phase == PoolPhase::Closed
    }

    /// Has the pool shut down in this way, if it is not already; waits for nothing.
    pub(crate) async fn shut_down(&self, mode: ShutdownMode) {
        if let Some(shared) = self.shard.upgrade() {
            let _ = tokio::time::timeout(PATIENCE, Shard { shared }.send(Message::OtherShutDown(mode))).await;
        }
    }

    /// Its store, while somebody holds the node.
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        Some(self.shard.upgrade()?.store.0.clone())
    }

    /// The other shards of the pool have ended.
    pub(crate) async fn others_ended(&self) {
        if let Some(shared) = self.shard.upgrade() {
            let _ = Shard { shared }.send(Message::OthersEnded).await;
        }
    }

    /// As [`Node::abandon`].
    pub(crate) fn abandon(&self) {
        self.driver.abort();
        self.leases.end();
    }
}
