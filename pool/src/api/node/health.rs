//! A node's health.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use super::{Node, Shard};
use crate::api::health::{Health, StoreHealth, Unhealthy, WorkerHealth, judge};
use crate::clock;
use crate::core::lease::Timing;
use crate::core::time::Time;
use crate::error::whole;
use crate::store::loss;

impl Node {
    /// The node's health: the progress of its parts, its leases, the store's last answers, handlers that do not end,
    /// and the reasons if it is unhealthy. It makes no round trip and never waits, so it may be called every second.
    ///
    /// ```no_run
    /// # fn example(node: &tenure_pool::Node) {
    /// let health = node.health();
    /// for reason in &health.reasons {
    ///     eprintln!("not healthy: {reason}");
    /// }
    /// let (ready, live) = (health.is_healthy(), !health.needs_restart());
    /// # let _ = (ready, live);
    /// # }
    /// ```
    ///
    /// The health of several shards is combined: counts are added up, and each time is the worst one.
    /// [`shard_health`](Self::shard_health) shows each shard.
    pub fn health(&self) -> Health {
        let others = self.shards.iter().enumerate().skip(1).map(|(index, shard)| shard.health(index));
        others.fold(self.shards[0].health(0), Health::and)
    }

    /// The node's health in each shard, in their order: see [`health`](Self::health).
    pub fn shard_health(&self) -> Vec<Health> {
        self.shards.iter().enumerate().map(|(index, shard)| shard.health(index)).collect()
    }
}

impl Shard {
    fn health(&self, shard: usize) -> Health {
        let timing = Timing::of(self.settings().worker_ttl);
        let (seen, standings) = (self.shared.health.seen(), self.shared.leases.standings());
        let now = clock::now();
        let since = |at: Time| now.since(at);
        let failing: Vec<_> = seen.failing(now, timing.soft);
        let error = seen.error.as_ref().or(failing.first().map(|(_, _, error)| *error));
        let error = error.map(|error| whole(error));
        let failing = failing.into_iter().map(|(step, age, _)| (step, age)).collect();
        let left = self.shared.left.load(Ordering::Acquire);
        let workers = seen.status.workers.iter().map(|worker| {
            let standing = worker.id.and_then(|id| standings.get(&id));
            WorkerHealth {
                shard,
                id: worker.id,
                lease_age: standing.map(|standing| standing.age),
                lease_left: standing.map(|standing| standing.left).unwrap_or_default(),
                jobs: worker.held,
                capacity: worker.capacity.map(NonZeroU32::get),
                full: worker.full,
                stuck: worker.stuck.clone(),
                overdue: standing.map_or(0, |standing| standing.overdue),
            }
        });
        let mut health = Health {
            phase: seen.status.phase,
            leaving: seen.status.leaving || left,
            engine_idle: since(self.shared.leases.driven()),
            reader_idle: seen.status.read.map(since),
            router_idle: seen.status.routed.map(since),
            store: StoreHealth { answered: seen.answered.map(since), error, failing },
            workers: workers.collect(),
            blocked_jobs: self.shared.leases.blocked_jobs(),
            dispatches: seen.status.dispatches,
            queued: seen.status.queued,
            parked: seen.status.parked,
            namesake: seen.status.namesake,
            damage: seen.status.damage.as_deref().map(loss),
            evicts: seen.status.evicts.as_deref().map(str::to_owned),
            on_hold: self.settings().hold,
            too_old: seen.status.too_old,
            reasons: Vec::new(),
        };
        let ended = self.shared.messages.is_closed();
        let ended = ended.then(|| self.shared.health.panic().map_or(Unhealthy::Ended, Unhealthy::Failed));
        health.reasons = judge(&health, ended, self.shared.client_only, timing.ttl, timing.soft);
        // Fenced workers keep their handlers for a moment, under an id that has gone.
        let known = |id| health.workers.iter().any(|worker| worker.id == Some(id));
        let overdue = standings.into_iter().filter(|(id, standing)| standing.overdue > 0 && !known(*id));
        let overdue: Vec<_> = overdue.map(|(id, s)| Unhealthy::Overdue(id, s.overdue)).collect();
        health.reasons.extend(overdue);
        health
    }
}
