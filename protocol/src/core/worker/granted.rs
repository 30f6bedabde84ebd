//! Grants that come for a worker (a part of [`Worker`]).

use tenure_steps::EntryId;

use super::{Gate, Stage, Worker};
use crate::core::ctx::Ctx;
use crate::core::ring::Ring;
use crate::mutation::Mutation;
use crate::step::{Granted, WorkerEvent};

impl Worker {
    /// An entry of its stream has come.
    pub(in crate::core) fn on_event(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        gate: Gate,
        entry: EntryId,
        event: WorkerEvent,
    ) {
        match event {
            WorkerEvent::Grant(granted) if self.honours(ctx, gate, &granted) => {
                self.check_places_of(
                    ctx,
                    ring,
                    granted.jobs.iter().map(|of| (&of.key, of.job.record.strikes)),
                );
                self.jobs.on_grant(ctx, entry, granted);
            }
            event => self.jobs.on_event(ctx, entry, event),
        }
    }

    /// Whether it starts the jobs of this grant without asking.
    fn honours(&self, ctx: &Ctx, gate: Gate, granted: &Granted) -> bool {
        let broken = &ctx.config.broken;
        let serves = matches!(self.stage, Stage::In { .. }) && self.is_served(gate);
        let is_present =
            granted.incarnation == ctx.incarnation || broken.has(Mutation::GrantOfAnyIncarnation);
        let holds = ctx.lease_holds(self.jobs.worker()) || broken.has(Mutation::GrantWithoutLease);
        serves && is_present && holds && self.jobs.honours(ctx, granted.token)
    }
}
