//! A worker of this node, as its owner holds it.

use std::time::Duration;

use tokio::sync::watch;

use crate::core::input::LocalWorker;
use crate::error::Error;
use crate::id::{JobKey, WorkerId};
use crate::listing::{JobInfo, WorkerInfo};
use crate::node::Node;

/// A worker that this process runs. Dropping it changes nothing: a worker leaves with its node, or when it is
/// drained.
#[derive(Clone, Debug)]
pub struct Worker {
    node: Node,
    local: LocalWorker,
    id: watch::Receiver<Option<WorkerId>>,
}

impl Worker {
    pub(crate) fn new(node: Node, local: LocalWorker, id: watch::Receiver<Option<WorkerId>>) -> Self {
        Self { node, local, id }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Its id in the pool; another one after it has lost a lease and joined anew, `None` once it has left.
    pub fn id(&self) -> Option<WorkerId> {
        *self.id.borrow()
    }

    /// Its entry among the pool's members, as this node knows it.
    pub fn info(&self) -> Option<WorkerInfo> {
        self.node.workers_of(self.id()?)
    }

    /// Its jobs, as [`Node::jobs_of`] lists them; none once it has left.
    ///
    /// # Errors
    /// The store does not answer.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Vec<JobInfo>, Error> {
        match self.id() {
            Some(id) => self.node.jobs_of(id, after, limit).await,
            None => Ok(Vec::new()),
        }
    }

    /// Hands its jobs on, each stopped here before it begins elsewhere, and leaves the pool. Waits up to 30 s; a
    /// worker that holds jobs then goes on draining, and can be waited for again.
    ///
    /// # Errors
    /// The node is closed; [`Error::Deadline`] when the time was up.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the draining.
    pub async fn drain(&self) -> Result<(), Error> {
        self.drain_within(Duration::from_secs(30)).await
    }

    /// Like [`drain`](Self::drain), with this much time.
    ///
    /// # Errors
    /// As `drain`.
    ///
    /// # Cancel safety
    /// As `drain`.
    pub async fn drain_within(&self, budget: Duration) -> Result<(), Error> {
        self.node.drain(self.local, budget).await
    }
}
