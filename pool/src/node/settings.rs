//! The pool's settings, changed while it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::PATIENCE;
use super::shards::{Look, Seen};
use super::{Node, Shard};
use crate::error::Error;
use crate::health::PoolPhase;
use crate::id::{Incarnation, Revision};
use crate::settings::{Settings, StoredSettings, field};
use crate::store::{Refusal, SettingChange, StoreError};

/// The pause before the store is asked again.
const AGAIN: Duration = Duration::from_millis(50);

impl Node {
    /// The pool-wide settings as they are now: they may be [changed](Self::change_settings) while the pool runs. All shards
    /// have the same, and [`Settings::shard`] is that of the first.
    pub fn settings(&self) -> Arc<Settings> {
        self.shards[0].settings()
    }

    /// Changes limits and times of the whole pool while it runs, and returns what they are then. Every node goes by
    /// them at once, and so does one that joins later, unless it was given another value: then it is refused. So change
    /// what a deployment gives its nodes first, and deploy it after.
    /// `change` sets values; it is called again when somebody else changes a setting at the same time, and what it does
    /// not touch stays. Of several shards, `change` is called for the first, and the others are given what the first has then.
    /// Where several calls change settings at once, all shards come to what the last change of the first has left.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let settings = node.change_settings(|settings| settings.max_queued = 50_000).await?;
    /// assert_eq!(settings.max_queued, 50_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::FixedSetting`] for `worker_ttl` and `hash_keys`, which the leases and the placement rest on; [`Error::LoweredSetting`] for a `max_dispatch_deadline` below the pool's, since dispatches
    /// that have ended are remembered for as long as they might be handed in again when they ended; a value out of its
    /// range; the pool was shut down, or the node is closed; no answer within 20 s, which leaves open whether they were changed.
    ///
    /// # Cancel safety
    /// A dropped call leaves open whether they were changed: all of them, or none. Of several shards only some may have the
    /// new settings then, as after an error, and nodes that join with either are refused: `change_settings(|_| {})` gives the
    /// others what the first has.
    pub async fn change_settings(&self, change: impl Fn(&mut Settings)) -> Result<Arc<Settings>, Error> {
        let mut wanted = self.shards[0].change_settings(&change).await?;
        let [first, others @ ..] = &*self.shards else { return Ok(wanted) };
        let deadline = Instant::now() + PATIENCE;
        while !others.is_empty() {
            for shard in others {
                let values = |settings: &mut Settings| {
                    // Each has its own place, and keys of its own.
                    let Settings { hash_keys, shard, .. } = *settings;
                    *settings = Settings { hash_keys, shard, ..(*wanted).clone() };
                };
                shard.change_settings(values).await?;
            }
            // Somebody who has changed the first shard since may have been quicker with the others.
            let Seen::Present(_, stored) = Look::through(first.store(), deadline).see().await? else {
                return Err(Error::PoolClosed);
            };
            let now = wanted.adopting(&stored.fields);
            if now == *wanted {
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Deadline(PATIENCE));
            }
            wanted = Arc::new(now);
        }
        Ok(wanted)
    }
}

impl Shard {
    /// As [`Node::change_settings`], in this shard.
    pub(super) async fn change_settings(
        &self,
        change: impl Fn(&mut Settings),
    ) -> Result<Arc<Settings>, Error> {
        let changed = async {
            let mut unanswered = None;
            loop {
                if self.shared.messages.is_closed() {
                    let closed = self.shared.vitals.seen().picture.phase == PoolPhase::Closed;
                    return Err(if closed { Error::PoolClosed } else { Error::NodeClosed });
                }
                if let Some(revision) = self.try_change(&change, &mut unanswered).await? {
                    return self.settings_at(revision).await;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::time::timeout(PATIENCE, changed).await.unwrap_or(Err(Error::Deadline(PATIENCE)))
    }

    /// One attempt, from what is stored as far as this node knows; `None`: it is to be made again. What was not answered
    /// is sent again unchanged: it may have been carried out, and would be added to itself if it were worked out anew.
    async fn try_change(
        &self,
        change: impl Fn(&mut Settings),
        unanswered: &mut Option<(Incarnation, Vec<SettingChange>)>,
    ) -> Result<Option<Revision>, Error> {
        let store = &self.shared.store.0;
        let stored = store.settings().borrow().clone();
        let again = unanswered.is_some();
        let (incarnation, changes) = if let Some(sent) = unanswered.take() {
            sent
        } else {
            let Some(incarnation) = stored.incarnation else { return Ok(None) };
            let changes = self.changes(&stored, change)?;
            if changes.is_empty() {
                return Ok(Some(stored.revision));
            }
            (incarnation, changes)
        };
        match store.change_settings(incarnation, &changes).await {
            Ok(revision) => {
                store.expect(incarnation, store.members().borrow().revision, revision);
                Ok(Some(revision))
            }
            Err(StoreError::Refused(Refusal::Closed)) => Err(Error::PoolClosed),
            Err(
                error @ (StoreError::Unusable(_)
                | StoreError::Damaged(_)
                | StoreError::Refused(Refusal::BadArgument)),
            ) => Err(error.into()),
            // Somebody else has changed one of them, perhaps by hand: what is stored is to be read again.
            Err(StoreError::Refused(Refusal::Setting { .. })) => {
                store.reread(false);
                Ok(None)
            }
            // The pool is to be found again.
            Err(StoreError::Refused(_)) => Ok(None),
            // The store is.
            Err(error) => {
                if again || matches!(error, StoreError::Unanswered(_)) {
                    *unanswered = Some((incarnation, changes));
                }
                Ok(None)
            }
        }
    }

    /// What is to be changed in what is stored.
    fn changes(
        &self,
        stored: &StoredSettings,
        change: impl Fn(&mut Settings),
    ) -> Result<Vec<SettingChange>, Error> {
        let now = self.settings().adopting(&stored.fields);
        let mut wanted = now.clone();
        change(&mut wanted);
        wanted.validate()?;
        if wanted.max_dispatch_deadline < now.max_dispatch_deadline {
            return Err(Error::LoweredSetting { name: field("late_ms") });
        }
        let mut changes =
            now.changes_to(&wanted).map_err(|name| Error::FixedSetting { name: field(name) })?;
        for change in &mut changes {
            // What this version cannot use is stored otherwise than it goes by.
            change.from = stored.fields.get(&change.name).cloned().unwrap_or_default();
        }
        Ok(changes)
    }

    /// The settings once this node goes by them.
    async fn settings_at(&self, revision: Revision) -> Result<Arc<Settings>, Error> {
        let mut settings = self.shared.settings.clone();
        // The sender goes with the driver.
        let seen = settings.wait_for(|(seen, _)| *seen >= revision).await;
        seen.map(|seen| seen.1.clone()).map_err(|_| Error::NodeClosed)
    }
}
