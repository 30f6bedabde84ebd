//! The words of a node about itself with each renewal. They repeat the last state that the driver has shown, so the lease
//! thread waits for nobody.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock;
use crate::core::time::Time;
use crate::model::status::{NodeStatus, WorkerCounts};
use crate::runtime::health::HealthRecord;

/// The source of a node's status.
pub(crate) struct Saying {
    health: Arc<HealthRecord>,
    host: String,
    since: Time,
}

impl Saying {
    pub(crate) fn new(health: Arc<HealthRecord>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { health, host, since: clock::now() }
    }

    /// The present status.
    pub(super) fn now(&self) -> Bytes {
        let workers = self.health.seen().status.workers.into_iter().filter_map(|worker| {
            let mut counts = WorkerCounts::new(worker.id?);
            counts.held = worker.held as u64;
            counts.to_start = worker.to_start as u64;
            counts.coming = worker.coming as u64;
            counts.to_move = worker.to_move as u64;
            counts.stuck = worker.stuck.len() as u64;
            counts.capacity = worker.capacity.map(NonZeroU32::get);
            Some(counts)
        });
        let (host, version) = (self.host.clone(), env!("CARGO_PKG_VERSION"));
        let up = clock::now().since(self.since);
        NodeStatus::new(host, std::process::id(), version, up, workers.collect()).encode()
    }
}
