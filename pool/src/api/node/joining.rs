//! A join that waits. It logs the reason of its wait, and fails at once on a trouble that only an operator can mend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shard;
use crate::core::ctx::RETRY;
use crate::model::id::{NodeName, PoolName};
use crate::store::{Store, StoreError};

/// A join that takes no longer than this logs nothing.
const QUIET: Duration = Duration::from_secs(2);

/// The state of a join, and what it has logged.
pub(super) struct Waiting {
    pool: PoolName,
    node: NodeName,
    since: Instant,
    said: Option<String>,
}

impl Waiting {
    pub(super) fn new(pool: &PoolName, node: &NodeName) -> Self {
        Self { pool: pool.clone(), node: node.clone(), since: Instant::now(), said: None }
    }

    /// Takes a failure of the store. Logs it when the join has waited for a while, and at once if the server is a
    /// read-only replica: then a fail-over may be under way, or the address is wrong. The same failure is logged
    /// once.
    pub(super) fn hear(&mut self, error: &StoreError) {
        if self.since.elapsed() < QUIET && !is_read_only(error) {
            return;
        }
        let text = error.to_string();
        if self.said.as_ref() != Some(&text) {
            tracing::warn!(pool = %self.pool, node = %self.node, error = text, "the pool is not joined yet, it is tried again");
            self.said = Some(text);
        }
    }
}

impl Shard {
    /// Waits for a trouble that does not pass by itself, and logs the others.
    pub(super) async fn lasting_trouble(&self, waiting: &mut Waiting) -> StoreError {
        loop {
            match self.last_trouble() {
                Some(lasting @ StoreError::Unusable(_)) => return lasting,
                Some(error) => waiting.hear(&error),
                None => {}
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The last failure of the store.
    pub(super) fn last_trouble(&self) -> Option<StoreError> {
        self.shared.store.0.unfollowed().or_else(|| self.shared.vitals.latest_trouble())
    }
}

/// Asks until the deadline whether a pool can live on this server. A refused connection counts as an answer, because
/// most often the address is wrong. `hear` gets each failure.
pub(crate) async fn check_server(
    store: &dyn Store,
    deadline: Instant,
    mut hear: impl FnMut(&StoreError),
) -> Result<(), StoreError> {
    let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "the server checks took too long");
    let mut last = StoreError::NotExecuted(Arc::new(late));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, store.server_checks()).await {
            Err(_) => return Err(last),
            Ok(Err(StoreError::NotExecuted(error))) if nobody_listens(&error) => {
                return Err(StoreError::NotExecuted(error));
            }
            Ok(Err(error @ (StoreError::NotExecuted(_) | StoreError::Unanswered(_)))) => {
                hear(&error);
                last = error;
            }
            Ok(checked) => return checked,
        }
        tokio::time::sleep(RETRY.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}

fn of_connection(error: &StoreError) -> Option<&tenure_connection::Error> {
    match error {
        StoreError::NotExecuted(error) | StoreError::Unanswered(error) => error.downcast_ref(),
        _ => None,
    }
}

fn is_read_only(error: &StoreError) -> bool {
    of_connection(error).is_some_and(|error| error.code() == Some("READONLY"))
}

fn nobody_listens(error: &Arc<dyn std::error::Error + Send + Sync>) -> bool {
    match error.downcast_ref() {
        Some(tenure_connection::Error::Unreachable(error)) => error.is_connection_refusal(),
        _ => false,
    }
}
