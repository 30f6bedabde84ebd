//! A join that waits. It logs the reason of its wait, and fails at once on a trouble that only an operator can mend.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tenure_steps::Failure;
use tokio::time::Instant;

use super::Shard;
use crate::core::ctx::RETRY;
use crate::error::Error;
use crate::model::id::{NodeName, PoolName};
use crate::store::{Store, StoreError};

/// A join that takes no longer than this logs nothing.
const QUIET: Duration = Duration::from_secs(2);

/// The time that a join may take, with all its shards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(super) within: Duration,
    pub(super) deadline: Instant,
}

impl Limit {
    /// The time begins now. `within` is in the range of a `join_timeout`.
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, deadline: Instant::now() + within }
    }

    /// The remaining time.
    pub(super) fn rest(self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The error of a join whose time is up.
    pub(super) fn is_up(self, last: Option<StoreError>) -> Error {
        Error::NotJoined { within: self.within, last }
    }
}

/// The state of a join, and what it has logged.
pub(super) struct Waiting {
    pool: PoolName,
    node: NodeName,
    since: Instant,
    said: Mutex<Option<String>>,
}

impl Waiting {
    pub(super) fn new(pool: PoolName, node: NodeName) -> Self {
        Self { pool, node, since: Instant::now(), said: Mutex::default() }
    }

    /// Takes a failure of the store. Logs it when the join has waited for a while, and at once if the server is a
    /// read-only replica: then a fail-over may be under way, or the address is wrong. The same failure is logged
    /// once.
    pub(super) fn hear(&self, error: &StoreError) {
        if self.since.elapsed() < QUIET && !is_read_only(error) {
            return;
        }
        let text = error.to_string();
        let before = self.said.lock().unwrap_or_else(PoisonError::into_inner).replace(text.clone());
        if before.as_ref() != Some(&text) {
            tracing::warn!(pool = %self.pool, node = %self.node, error = text, "the pool is not joined yet, it is tried again");
        }
    }
}

impl Shard {
    /// Waits for a trouble that does not pass by itself, and logs the others.
    pub(super) async fn lasting_trouble(&self, waiting: &Waiting) -> StoreError {
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
        self.shared.store.0.unfollowed().or_else(|| self.shared.health.latest_trouble())
    }
}

/// Asks until the time is up whether a pool can live on this server. A refused connection counts as an answer, because
/// most often the address is wrong.
pub(super) async fn check_server(store: &Store, limit: Limit, waiting: &Waiting) -> Result<(), Error> {
    let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "the server checks took too long");
    let mut last = StoreError::NotExecuted(Failure::new(late));
    loop {
        match tokio::time::timeout(limit.rest(), store.server_checks()).await {
            Err(_) => return Err(limit.is_up(Some(last))),
            Ok(Err(error)) if nobody_listens(&error) => return Err(error.into()),
            Ok(Err(error @ (StoreError::NotExecuted(_) | StoreError::Unanswered(_)))) => {
                waiting.hear(&error);
                last = error;
            }
            Ok(checked) => return Ok(checked?),
        }
        if limit.rest().is_zero() {
            return Err(limit.is_up(Some(last)));
        }
        tokio::time::sleep(RETRY.min(limit.rest())).await;
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

/// Whether the connection was refused.
fn nobody_listens(error: &StoreError) -> bool {
    match of_connection(error) {
        Some(tenure_connection::Error::Unreachable(error)) => error.is_connection_refusal(),
        _ => false,
    }
}
