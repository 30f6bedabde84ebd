//! The end of a node.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;

use super::calls::MARGIN;
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command};
use crate::error::Error;
use crate::model::id::JobKey;

/// How long a call waits for a node that has left to write its last events. The node gives up after a second.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The result of [`Node::close`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Whether the node has left the pool. If not, the time was up. The node then goes on leaving, renews its leases
    /// meanwhile, and `close` can be called again.
    pub complete: bool,
    /// The jobs that the node still holds.
    pub left: Vec<JobKey>,
}

impl Node {
    /// Leaves the pool. Every worker of this node moves its jobs to others, and each job is stopped here before it
    /// begins elsewhere. Waits up to 30 s. A node that then still holds jobs goes on leaving and renewing, and can be
    /// closed again.
    ///
    /// # Errors
    /// The node did not leave but was abandoned, or its runtime ended. Closing a closed node is fine. If one of
    /// several shards fails, the others are left all the same, and the jobs that they still hold are not reported.
    ///
    /// # Cancel safety
    /// A dropped call does not stop the closing.
    pub async fn close(&self) -> Result<CloseReport, Error> {
        self.close_within(Duration::from_secs(30)).await
    }

    /// Like [`close`](Self::close), with this time limit.
    ///
    /// # Errors
    /// As `close`; and [`Error::Deadline`] if the node does not answer at all, because its runtime is blocked. It
    /// goes on leaving as soon as it can.
    ///
    /// # Cancel safety
    /// As `close`.
    pub async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let closed = join_all(self.shards.iter().map(|shard| shard.close_within(budget))).await;
        let mut whole = CloseReport { complete: true, left: Vec::new() };
        for report in closed {
            let CloseReport { complete, left } = report?;
            whole.complete &= complete;
            whole.left.extend(left);
        }
        Ok(whole)
    }

    /// Waits until the node has left its pool, for any reason.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn closed(&self) {
        join_all(self.shards.iter().map(Shard::closed)).await;
    }

    /// Drops everything at once without telling the pool, as a crash would, but the process goes on. Handlers are
    /// aborted, and the cancellations of all jobs fire. The jobs start elsewhere when the leases have run out.
    pub fn abandon(&self) {
        for shard in &*self.shards {
            shard.abandon();
        }
    }
}

impl Shard {
    /// Like [`Node::close_within`], for this shard.
    pub(super) async fn close_within(&self, budget: Duration) -> Result<CloseReport, Error> {
        let deadline = clock::now() + budget;
        let closed = self.ask(|reply| Command::Close { reply, deadline });
        let Ok(closed) = tokio::time::timeout(budget.saturating_add(MARGIN), closed).await else {
            return Err(self.late(budget));
        };
        match closed {
            Some(Answer::Closed { complete: false, left }) => {
                return Ok(CloseReport { complete: false, left });
            }
            Some(Answer::Closed { .. }) => {}
            _ if self.shared.left.load(Ordering::Acquire) => {}
            _ => return Err(self.gone().await.into()),
        }
        // The node has left. A process that ends now must not take the node's last events with it.
        let _ = tokio::time::timeout(LAST_WORDS, self.shared.health.end()).await;
        Ok(CloseReport { complete: true, left: Vec::new() })
    }

    /// Waits until the shard was left, for any reason.
    pub(super) async fn closed(&self) {
        self.shared.messages.closed().await;
        self.gone().await;
    }

    /// As [`Node::abandon`].
    pub(super) fn abandon(&self) {
        self.shared.driver.abort();
        self.shared.leases.end();
    }
}

#[cfg(test)]
mod tests;
