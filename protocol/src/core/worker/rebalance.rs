//! When the ring has changed and then stayed the same for a while, jobs that belong to another worker are handed off.
//! The job is stopped here before its release, so that the successor cannot begin early. A bounded number moves at a
//! time, at the rate of this node and at its share of the pool's. An operator may have all of them move at once.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use crate::core::ctx::Ctx;
use crate::core::jobs::Jobs;
use crate::core::jobs::held::{HeldJob, JobPhase, StopOrder};
use crate::core::ring::Ring;
use crate::core::throttle::Throttle;
use crate::core::time::{Time, earliest};
use crate::model::id::JobKey;
use crate::model::stop::StopReason;
use crate::mutation::Mutation;

/// The moves of one worker.
#[derive(Debug, Default)]
pub(super) struct Rebalance {
    due: Option<Time>,
    to_move: VecDeque<JobKey>,
    moving: BTreeSet<JobKey>,
    moves: Throttle,
    /// An operator wants the jobs that are astray now to move without a wait and at no rate.
    at_once: bool,
}

impl Rebalance {
    /// The ring has changed: the moves planned so far are void, and the wait starts again.
    pub(super) fn ring_changed(&mut self, ctx: &mut Ctx) {
        self.to_move.clear();
        self.at_once = false;
        self.due = Some(ctx.now + ctx.jitter.stretch(ctx.config.stable_after));
    }

    /// A begun job belongs elsewhere: it was assigned before the ring changed.
    pub(super) fn misplaced(&mut self, ctx: &mut Ctx) {
        if self.due.is_none() {
            self.due = Some(ctx.now + ctx.jitter.stretch(ctx.config.stable_after));
        }
    }

    /// The pool is open again, and this node may not yet know its present ring: due moves wait again.
    pub(super) fn opened(&mut self, ctx: &mut Ctx) {
        if self.due.is_some() {
            self.ring_changed(ctx);
        }
    }

    /// All that belongs elsewhere moves now, at no rate: once.
    pub(super) fn now(&mut self, ctx: &Ctx) {
        (self.due, self.at_once) = (Some(ctx.now), true);
    }

    /// The least time between two moves.
    fn interval(ctx: &Ctx) -> Option<Duration> {
        let second = Duration::from_secs(1);
        let own = ctx.config.moves_per_second.map(|limit| second / limit.get());
        let rate = NonZeroU32::new(ctx.config.settings.move_rate);
        // Each worker of each shard has an equal share of the pool's.
        let unshared = ctx.config.broken.has(Mutation::MoveRateUnshared);
        let shards = ctx.config.settings.shard.map_or(1, |shard| shard.count.max(1));
        let sharers = if unshared { 1 } else { ctx.workers_up.max(1).saturating_mul(shards) };
        own.max(rate.map(|rate| second * sharers / rate.get()))
    }

    /// The key's release was answered.
    pub(super) fn released(&mut self, key: &JobKey) {
        self.moving.remove(key);
    }

    pub(super) fn flush(&mut self, ctx: &mut Ctx, jobs: &mut Jobs, ring: &Ring) {
        let here = jobs.worker();
        let elsewhere = |key: &JobKey, held: &HeldJob| ring.takes_away(key.as_bytes(), held.strikes, here);
        if self.due.is_some_and(|at| ctx.now >= at) {
            self.due = None;
            let astray = jobs.held().iter().filter(|(key, held)| elsewhere(key, held));
            self.to_move = astray.map(|(key, _)| key.clone()).collect();
        }
        self.moves.look_again();
        let interval = if self.at_once { None } else { Self::interval(ctx) };
        while self.moving.len() < ctx.config.handoff_parallel {
            let Some(key) = self.to_move.front() else {
                self.at_once = false;
                return;
            };
            // It may have left meanwhile, and come back after its strikes because it belongs here.
            let movable = |h: &HeldJob| h.order.is_none() && !matches!(h.phase, JobPhase::Aborting);
            let moves = jobs.held().get(key).is_some_and(|held| movable(held) && elsewhere(key, held));
            if moves && interval.is_some_and(|interval| !self.moves.admits_each(ctx.now, interval)) {
                return;
            }
            let Some(key) = self.to_move.pop_front().filter(|_| moves) else { continue };
            jobs.order(ctx, &key, StopOrder::own(StopReason::Moved));
            self.moving.insert(key);
        }
    }

    /// The number of jobs that belong elsewhere and wait for their move.
    pub(super) fn to_move(&self) -> usize {
        self.to_move.len()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        earliest(self.due, self.moves.deadline())
    }
}
