//! Changes of a pool's settings while it runs.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::Instant;

use super::Operator;
use crate::api::node::calls::{AGAIN, PATIENCE};
use crate::api::node::shards::{Probe, Seen, is_silence};
use crate::api::node::{Node, Shard};
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::{Incarnation, Revision};
use crate::model::phase::PoolPhase;
use crate::model::settings::{Settings, StoredSettings};
use crate::store::{ChangeSettings, Refusal, SettingChange, StoreError};

impl Node {
    /// The pool-wide settings that this node goes by. They may be [changed](Operator::change_settings) while the pool runs.
    /// All shards have the same. What the pool has stored is [`Inspector::settings`](crate::Inspector::settings).
    pub fn settings(&self) -> Arc<Settings> {
        self.shards[0].settings()
    }
}

impl Operator {
    /// Changes limits and times of the whole pool while it runs, and returns the new settings. Every node adopts them
    /// at once, and so does a node that joins later. A node that was given another value is refused. So first change
    /// the settings that your deployment gives to its nodes, and then deploy.
    ///
    /// `change` sets the values. It is called again if another call changes a setting at the same time. Settings that
    /// it does not touch stay. With several shards, `change` is called for the first one, and the others then get the
    /// settings of the first, all at once. If several calls change settings at once, all shards end with the last
    /// change of the first shard.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let settings = node.operate().change_settings(|settings| settings.max_queued = 50_000).await?;
    /// assert_eq!(settings.max_queued, 50_000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::FixedSetting`] for `worker_ttl` and `hash_keys`: the leases and the placement rest on them.
    /// - [`Error::LoweredSetting`] for a `max_dispatch_deadline` below the pool's. Ended dispatches are only
    ///   remembered for the time that was set when they ended.
    /// - A value is out of its range.
    /// - The pool was shut down, or the node is closed.
    /// - There is no answer within 20 s. The settings may have been changed.
    ///
    /// # Cancel safety
    /// After a dropped call either all settings were changed or none. With several shards, as after an error, perhaps
    /// only some shards have the new settings, and nodes that join with either are refused. `change_settings(|_| {})`
    /// then gives the others the settings of the first.
    pub async fn change_settings(&self, change: impl Fn(&mut Settings)) -> Result<Arc<Settings>, Error> {
        let node = self.node().await?;
        let deadline = Instant::now() + PATIENCE;
        let mut wanted = node.shards[0].change_settings(&change, deadline).await?;
        let [first, others @ ..] = &*node.shards else { return Ok(wanted) };
        while !others.is_empty() {
            let values = |settings: &mut Settings| {
                // Each shard has its own index and its own keys.
                let Settings { hash_keys, shard, .. } = *settings;
                *settings = Settings { hash_keys, shard, ..(*wanted).clone() };
            };
            let changing = others.iter().map(|shard| shard.change_settings(&values, deadline));
            let changed: Result<Vec<_>, _> = join_all(changing).await.into_iter().collect();
            // A shard with a higher value got it from another call, which has changed the first shard before.
            if !matches!(changed, Ok(_) | Err(Error::LoweredSetting { .. })) {
                return changed.map(|_| wanted);
            }
            // Another call may have changed the first shard since, and then the others, too.
            let stored = match Probe::through(first.store(), deadline).see().await {
                Ok(Seen::Present(_, stored)) => stored,
                Ok(_) => return Err(Error::PoolClosed),
                Err(error) if is_silence(&error) => {
                    return Err(Error::Deadline { within: PATIENCE, last: Some(error) });
                }
                Err(error) => return Err(error.into()),
            };
            let now = wanted.adopting(&stored.fields);
            if now == *wanted {
                return changed.map(|_| wanted);
            }
            if Instant::now() >= deadline {
                return Err(first.late(PATIENCE));
            }
            wanted = Arc::new(now);
        }
        Ok(wanted)
    }

    /// Holds the whole pool, or lifts the hold. It is for incidents: while a dependency is down, nothing starts against
    /// it. The pool accepts jobs as before, up to [`max_queued`](Settings::max_queued), and gives none to a worker. No
    /// job moves. Jobs that run run on, and can be notified and stopped. A job that is assigned already is begun. The
    /// jobs of a worker that dies or drains wait, so do not deploy under a hold.
    ///
    /// The call returns when the hold is stored and this node goes by it. The others hear of it at once, and within a
    /// fifth of the worker TTL where the message is lost. When it is lifted, what waits is routed at once; a job with a
    /// failed attempt within 30 s. [`Health::on_hold`](crate::Health::on_hold) shows it.
    ///
    /// ```no_run
    /// # async fn example(node: &tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// node.operate().hold(true).await?;
    /// // … until the incident is over.
    /// node.operate().hold(false).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The pool was shut down, or the node is closed.
    /// - There is no answer within 20 s. The hold may have been changed.
    ///
    /// # Cancel safety
    /// After a dropped call the hold may be changed or not, with several shards also in some only. Call it again.
    pub async fn hold(&self, on: bool) -> Result<(), Error> {
        self.change_settings(|settings| settings.hold = on).await.map(|_| ())
    }

    /// Limits how many jobs of the whole pool are asked in a second to move, because the ring has changed; 0 lifts the limit.
    /// Each shard gets an equal share, and of that each worker. So a pool in which few workers have jobs to give moves
    /// fewer. A node keeps to its own [`moves_per_second`](crate::NodeBuilder::moves_per_second), too. Drains, crashes and
    /// ends of jobs are not limited.
    ///
    /// The limit is a setting of the pool: it survives restarts, and holds for workers that join later.
    ///
    /// # Errors
    /// As [`change_settings`](Self::change_settings).
    ///
    /// # Cancel safety
    /// As [`change_settings`](Self::change_settings).
    pub async fn limit_moves(&self, per_second: u32) -> Result<(), Error> {
        self.change_settings(|settings| settings.move_rate = per_second).await.map(|_| ())
    }

    /// Has all jobs that belong to another worker move now: without the wait until the ring has been stable, and at no rate.
    /// This is once: the next change of the ring is followed by moves as before. As many jobs of a worker move at a time as
    /// ever ([`handoff_parallel`](crate::NodeBuilder::handoff_parallel)). Nothing moves while the pool is on
    /// [hold](Self::hold).
    ///
    /// The call returns when the pool has stored the wish. The workers hear of it at once, and within a fifth of the worker
    /// TTL where the message is lost. A node that hears of it looks whether it knows the present ring, and waits for that.
    ///
    /// # Errors
    /// As [`change_settings`](Self::change_settings).
    ///
    /// # Cancel safety
    /// As [`change_settings`](Self::change_settings). Twice does no harm.
    pub async fn move_now(&self) -> Result<(), Error> {
        // A shard that has a higher number would not hear of the first one's next.
        let shards = &self.node().await?.shards;
        let highest = shards.iter().map(|shard| shard.settings().move_now).max().unwrap_or_default();
        let next = |settings: &mut Settings| settings.move_now = settings.move_now.max(highest) + 1;
        self.change_settings(next).await.map(|_| ())
    }
}

impl Shard {
    /// Like [`Operator::change_settings`], in this shard and until the deadline.
    pub(in crate::api::node) async fn change_settings(
        &self,
        change: impl Fn(&mut Settings),
        deadline: Instant,
    ) -> Result<Arc<Settings>, Error> {
        let changed = async {
            let mut unanswered = None;
            loop {
                if self.shared.messages.is_closed() {
                    let closed = self.shared.health.seen().status.phase == PoolPhase::Closed;
                    return Err(if closed { Error::PoolClosed } else { self.gone().await.into() });
                }
                if let Some(revision) = self.try_change(&change, &mut unanswered).await? {
                    return self.settings_at(revision).await;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        let in_time = tokio::time::timeout_at(deadline, changed).await;
        in_time.unwrap_or_else(|_| Err(self.late(PATIENCE)))
    }

    /// One attempt, based on the stored settings that this node knows. `None` asks for another attempt. A change that
    /// was not answered is sent again unchanged: if it was carried out, a newly computed one would be added on top of
    /// it.
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
        match store.run(incarnation, &ChangeSettings { changes: changes.clone() }).await {
            Ok(revision) => {
                // Nobody may hold a map while it is expected to change.
                let members = store.members().borrow().revision;
                store.expect(incarnation, members, revision);
                let asked = changes.iter().map(|change| format!("{}={}", change.name, change.to));
                let asked = asked.collect::<Vec<_>>().join(", ");
                self.note(News::new(EventKind::Asked).saying(&format!("settings: {asked}")));
                Ok(Some(revision))
            }
            Err(StoreError::Refused(Refusal::Closed)) => Err(Error::PoolClosed),
            Err(
                error @ (StoreError::Unusable(_)
                | StoreError::Damaged(_)
                | StoreError::Refused(Refusal::BadArgument | Refusal::Level(_))),
            ) => Err(error.into()),
            // Somebody else has changed one of them, perhaps by hand: read the stored settings again.
            Err(StoreError::Refused(Refusal::Setting { .. })) => {
                store.reread(false);
                Ok(None)
            }
            // The pool must be found again.
            Err(StoreError::Refused(_)) => Ok(None),
            // Nothing was written, unless by the call before.
            Err(error) if error.is_full() && !again => Err(error.into()),
            // The store must be found again.
            Err(error) => {
                self.shared.health.trouble(&error);
                if again || matches!(error, StoreError::Unanswered(_)) {
                    *unanswered = Some((incarnation, changes));
                }
                Ok(None)
            }
        }
    }

    /// The changes to the stored settings.
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
            return Err(Error::LoweredSetting { name: "max_dispatch_deadline" });
        }
        let mut changes = now.changes_to(&wanted).map_err(|name| Error::FixedSetting { name })?;
        for change in &mut changes {
            // The store has a value that this version cannot use, and the node runs with another one.
            change.from = stored.fields.get(&change.name).cloned().unwrap_or_default();
        }
        Ok(changes)
    }

    /// The settings, once this node has adopted them.
    async fn settings_at(&self, revision: Revision) -> Result<Arc<Settings>, Error> {
        let mut settings = self.shared.settings.clone();
        // The sender is dropped with the driver.
        let seen = settings.wait_for(|(seen, _)| *seen >= revision).await.map(|seen| seen.1.clone());
        match seen {
            Ok(settings) => Ok(settings),
            Err(_) => Err(self.gone().await.into()),
        }
    }
}
