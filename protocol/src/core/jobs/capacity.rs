//! How many jobs a worker takes (a part of [`Jobs`]). It turns away what exceeds that before it is begun, and the job goes
//! to the next worker of its chain.

use std::num::NonZeroU32;
use std::time::Duration;

use tenure_steps::EntryId;

use super::Jobs;
use super::held::LeavingJob;
use crate::core::ctx::Ctx;
use crate::model::id::{JobKey, Token};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{ReleaseItem, ReleaseMode};

/// The places of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Capacity {
    /// How many jobs it takes, with those of its other shards. `None`: all.
    most: Option<NonZeroU32>,
    /// The jobs that it has in the other shards of the pool.
    beside: usize,
    /// It has turned a job away since the ring last gave more room. The job may wait for just that.
    sends_elsewhere: bool,
}

impl Jobs {
    pub(in crate::core) fn limit(&mut self, most: Option<NonZeroU32>) {
        self.capacity.most = most;
    }

    /// How many jobs it takes. `None`: all.
    pub(in crate::core) fn capacity(&self) -> Option<NonZeroU32> {
        self.capacity.most
    }

    /// The jobs that take a place here: those in its hands, and those that are about to come.
    pub(in crate::core) fn taken(&self) -> usize {
        self.held.len() + self.beginning.len() + self.successors.len()
    }

    pub(in crate::core) fn has_beside(&mut self, jobs: usize) {
        self.capacity.beside = jobs;
    }

    pub(in crate::core) fn sends_elsewhere(&self) -> bool {
        self.capacity.sends_elsewhere
    }

    pub(in crate::core) fn has_kicked(&mut self) {
        self.capacity.sends_elsewhere = false;
    }

    /// It takes no further job.
    pub(super) fn is_full(&self, ctx: &Ctx) -> bool {
        self.has_no_place() && !ctx.config.broken.has(Mutation::CapacityPassedOver)
    }

    pub(in crate::core) fn has_no_place(&self) -> bool {
        let taken = || self.taken() + self.capacity.beside;
        self.capacity.most.is_some_and(|most| taken() >= most.get() as usize)
    }

    /// A job that was assigned goes to the next worker: nothing of it was begun.
    pub(super) fn send_elsewhere(&mut self, ctx: &Ctx, key: JobKey, token: Token, entry: Option<EntryId>) {
        let item = ReleaseItem {
            key,
            token,
            mode: self.elsewhere(ctx),
            cause: Cause::Refused,
            ran: None,
            rests: String::new(),
            delay: Duration::ZERO,
            tell: None,
            tell_stopper: None,
            result: String::new(),
        };
        self.push_release(item, LeavingJob::default(), entry.into_iter().collect());
    }

    /// The way to the next worker of a job's chain.
    pub(super) fn elsewhere(&mut self, ctx: &Ctx) -> ReleaseMode {
        self.capacity.sends_elsewhere = !ctx.config.broken.has(Mutation::RoomUnheard);
        if ctx.config.broken.has(Mutation::ElsewhereIsAStrike) {
            return ReleaseMode::Refuse;
        }
        ReleaseMode::Elsewhere { workers: ctx.workers_up }
    }
}
