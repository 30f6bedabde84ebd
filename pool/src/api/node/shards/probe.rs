//! A look at the present state of one shard, before or after it is joined.

use std::sync::Arc;
use std::time::Duration;

use tenure_connection::Class;
use tenure_steps::Failure;
use tokio::time::Instant;

use crate::api::node::joining::{Limit, Waiting, check_server};
use crate::error::Error;
use crate::model::id::{Incarnation, Revision};
use crate::model::settings::{ShardId, StoredSettings};
use crate::store::{PoolState, ReadIdentity, ReadState, ReadTime, Store, StoreError};

/// The pause before the store is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long to wait for an answer, before asking again or going on without one.
pub(crate) const SOON: Duration = Duration::from_secs(2);

/// The state of a shard.
pub(crate) enum Seen {
    Absent,
    /// The tombstone of a shutdown.
    Closed,
    Present(Incarnation, Arc<StoredSettings>),
}

/// A way to look at one shard.
pub(crate) struct Probe {
    store: Store,
    /// This look alone uses the store, so it must tell the store which server it may use.
    own: bool,
    /// An inspector looks: the copy of the members must be as new as the copy of the settings, and a refused connection ends
    /// the look.
    inspects: bool,
    deadline: Instant,
    /// The join that looks, if one does.
    waiting: Option<Waiting>,
}

impl Probe {
    /// Looks through a store of its own.
    pub(in crate::api::node) async fn at(
        store: Store,
        limit: Limit,
        waiting: Waiting,
    ) -> Result<Self, Error> {
        check_server(&store, limit, &waiting).await?;
        Ok(Self { store, own: true, inspects: false, deadline: limit.deadline, waiting: Some(waiting) })
    }

    /// Looks through the store of an inspector, which nobody else tells of a new server. The inspector has reached the server,
    /// so the cause of a refused connection lasts: perhaps the server has no room for more clients.
    pub(crate) fn inspecting(store: Store, deadline: Instant) -> Self {
        Self { store, own: true, inspects: true, deadline, waiting: None }
    }

    /// Looks through the store of a node. There is time for an answer even if the deadline has passed.
    pub(crate) fn through(store: Store, deadline: Instant) -> Self {
        let deadline = deadline.max(Instant::now() + SOON);
        Self { store, own: false, inspects: false, deadline, waiting: None }
    }

    /// Goes on through the store of a node that has joined meanwhile.
    pub(super) fn joined(self, store: Store) -> Self {
        Self { waiting: self.waiting, ..Self::through(store, self.deadline) }
    }

    /// Reads the present state. A store that does not answer is asked until the deadline.
    pub(crate) async fn see(&self) -> Result<Seen, StoreError> {
        // The error of a look that ended by itself says more than a time-out.
        let mut last = None;
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now()).min(SOON);
            let error = match tokio::time::timeout(left, self.read()).await {
                Ok(Ok(seen)) => return Ok(seen),
                Ok(Err(error)) => last.insert(error).clone(),
                Err(_) => self.store.unfollowed().or_else(|| last.clone()).unwrap_or_else(|| no_answer(left)),
            };
            let is_refused = self.inspects && error.class() == Some(Class::Unreachable);
            if is_refused || !is_silence(&error) || Instant::now() >= self.deadline {
                return Err(error);
            }
            if let Some(waiting) = &self.waiting {
                waiting.hear(&error);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn read(&self) -> Result<Seen, StoreError> {
        let (incarnation, members, revision) = match self.store.read(&ReadState).await? {
            PoolState::Absent => return Ok(Seen::Absent),
            PoolState::Closed { .. } => return Ok(Seen::Closed),
            PoolState::Present { incarnation, members, settings, .. } => (incarnation, members, settings),
        };
        if self.own {
            self.store.bless(&self.store.read(&ReadIdentity).await?.run_id);
        }
        self.store.expect(incarnation, members, revision);
        // A revision that no map has is never reached. The node that joins recovers the pool from it.
        let as_new = |seen: Option<Incarnation>, at: Revision, wanted: Revision| {
            seen > Some(incarnation) || seen == Some(incarnation) && (at >= wanted || !wanted.is_sound())
        };
        let ended = |ended| StoreError::Unanswered(Failure::new(ended));
        if self.inspects {
            let mut map = self.store.members();
            map.wait_for(|seen| as_new(seen.incarnation, seen.revision, members)).await.map_err(ended)?;
        }
        let mut settings = self.store.settings();
        let seen = settings.wait_for(|seen| as_new(seen.incarnation, seen.revision, revision)).await;
        let seen = seen.map(|seen| seen.clone()).map_err(ended)?;
        Ok(Seen::Present(seen.incarnation.unwrap_or(incarnation), seen))
    }

    /// Whether the pool of this incarnation exists and is shutting down.
    pub(super) async fn shuts_down(&self, incarnation: Incarnation) -> Result<bool, StoreError> {
        Ok(match self.see().await? {
            Seen::Present(seen, settings) => seen == incarnation && settings.flag().is_some(),
            Seen::Absent | Seen::Closed => false,
        })
    }

    pub(super) async fn server_ms(&self) -> Option<u64> {
        server_ms(&self.store).await
    }
}

/// A look has no answer after this time. A look changes nothing, and so counts as not executed.
pub(crate) fn no_answer(within: Duration) -> StoreError {
    let what = format!("redis has not answered within {within:?}");
    StoreError::NotExecuted(Failure::new(std::io::Error::new(std::io::ErrorKind::TimedOut, what)))
}

/// Whether the store has not answered. Any other failure lasts.
pub(crate) fn is_silence(error: &StoreError) -> bool {
    matches!(error, StoreError::NotExecuted(_) | StoreError::Unanswered(_))
}

/// The time of the server's clock, if it answers soon.
pub(super) async fn server_ms(store: &Store) -> Option<u64> {
    tokio::time::timeout(SOON, store.read(&ReadTime)).await.ok()?.ok()
}

impl Seen {
    /// Refuses a shard of a pool with another number of shards.
    pub(crate) fn check_count(&self, ours: u32) -> Result<(), Error> {
        let Self::Present(_, settings) = self else { return Ok(()) };
        match settings.fields.get(ShardId::SETTING).and_then(|text| ShardId::parse(text)) {
            Some(theirs) if theirs.count != ours => Err(Error::OtherShards { theirs: theirs.count, ours }),
            _ => Ok(()),
        }
    }
}
