//! When the ring has changed and then stayed the same for a while, jobs that belong to another worker are handed off.
//! The job is stopped here before its release, so that the successor cannot begin early. A bounded number moves at a
//! time, at the rate of this node.

use std::collections::{BTreeSet, VecDeque};

use crate::core::ctx::Ctx;
use crate::core::jobs::Jobs;
use crate::core::jobs::held::{HeldJob, JobPhase, StopOrder};
use crate::core::ring::Ring;
use crate::core::throttle::Throttle;
use crate::core::time::{Time, earliest};
use crate::model::id::JobKey;
use crate::model::stop::StopReason;

/// The moves of one worker.
#[derive(Debug, Default)]
pub(super) struct Rebalance {
    due: Option<Time>,
    to_move: VecDeque<JobKey>,
    moving: BTreeSet<JobKey>,
    moves: Throttle,
}

impl Rebalance {
    /// The ring has changed: the moves planned so far are void, and the wait starts again.
    pub(super) fn ring_changed(&mut self, ctx: &mut Ctx) {
        self.to_move.clear();
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

    /// The key's release was answered.
    pub(super) fn released(&mut self, key: &JobKey) {
        self.moving.remove(key);
    }

    pub(super) fn flush(&mut self, ctx: &mut Ctx, jobs: &mut Jobs, ring: &Ring) {
        let here = jobs.worker;
        let elsewhere = |key: &JobKey, held: &HeldJob| ring.takes_away(key.as_bytes(), held.strikes, here);
        if self.due.is_some_and(|at| ctx.now >= at) {
            self.due = None;
            let astray = jobs.held.iter().filter(|(key, held)| elsewhere(key, held));
            self.to_move = astray.map(|(key, _)| key.clone()).collect();
        }
        self.moves.look_again();
        while self.moving.len() < ctx.config.handoff_parallel {
            let Some(key) = self.to_move.front() else { return };
            // It may have left meanwhile, and come back after its strikes because it belongs here.
            let movable = |h: &HeldJob| h.order.is_none() && !matches!(h.phase, JobPhase::Aborting);
            let moves = jobs.held.get(key).is_some_and(|held| movable(held) && elsewhere(key, held));
            if moves && !self.moves.admits(ctx.now, ctx.config.moves_per_second) {
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
