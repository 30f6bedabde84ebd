//! The store's answers to the calls about workers: joins, slots, drains and ends.

use super::Engine;
use crate::core::call::Done;
use crate::core::effect::Effect;
use crate::core::input::Seating;
use crate::model::id::Token;
use crate::model::settings::is_fixed;
use crate::step::{Refusal, Result, Seat, StoreError};

impl Engine {
    pub(super) fn on_membership(&mut self, done: Done) -> Result<()> {
        let ctx = &mut self.ctx;
        let first = match done {
            Done::Join(_, seating, answer) => return self.on_joined(seating, answer),
            Done::Settle(step, answer) => match self.worker_at(step.worker) {
                Some((worker, ctx)) => worker.on_settled(ctx, answer)?,
                None => false,
            },
            Done::Drain(step, answer) => {
                let drained = answer.map(|members| members.into_iter().flatten().next());
                let fenced = || StoreError::Refused(Refusal::Fenced);
                let worker = step.workers.first().and_then(|worker| self.worker_at(*worker));
                if let Some((worker, ctx)) = worker {
                    worker.on_drained(ctx, drained.and_then(|member| member.ok_or_else(fenced)))?;
                }
                false
            }
            Done::Leave(step, answer) => {
                for (id, _) in step.workers {
                    if answer.is_ok() {
                        self.liveness.found_dead(id);
                    }
                    if let Some((worker, ctx)) = self.worker_at(id) {
                        worker.on_left(ctx, answer.as_ref().map(drop).map_err(Clone::clone))?;
                    }
                }
                false
            }
            Done::Expire(step, answer) => {
                for worker in self.liveness.on_expired(ctx, &step.workers, answer)? {
                    let own = self.workers.values_mut().find(|own| own.member_id() == Some(worker));
                    if let Some(own) = own {
                        own.fence(ctx);
                    }
                }
                false
            }
            Done::Reap(step, answer) => {
                let outcomes = self.liveness.on_reaped(ctx, step.worker, answer)?;
                self.pass_on(outcomes);
                false
            }
            _ => false,
        };
        if first {
            self.sweeping.kick();
        }
        Ok(())
    }

    fn on_joined(&mut self, seating: Seating, answer: Result<Seat>) -> Result<()> {
        let behind = match &answer {
            Err(StoreError::Refused(Refusal::Setting { name, theirs, .. })) => self.is_behind(name, theirs),
            _ => false,
        };
        if let Ok(seat) = &answer {
            self.pool.saw_token(Token(seat.worker.0));
        }
        let Some(worker) = self.workers.get_mut(&seating.local) else { return Ok(()) };
        if worker.on_joined(&mut self.ctx, seating, behind, answer)? {
            self.sweeping.kick();
        }
        // The map may already have told of a drain that followed the join.
        worker.on_member(&mut self.ctx, self.members.entries.get(&worker.jobs.worker()), false);
        Ok(())
    }

    /// The setting of a join differs from the pool's, but without a contradiction: the pool's value has changed. The
    /// node knows the new value, or asks for it now.
    fn is_behind(&mut self, name: &str, theirs: &String) -> bool {
        if is_fixed(name) {
            return false;
        }
        if self.ctx.config.settings.fields().contains(&(name, theirs.clone())) {
            return true;
        }
        // A known value that was not adopted cannot be used.
        let unheard = self.settings.fields.get(name) != Some(theirs);
        if unheard {
            // A repair by hand makes no revision.
            self.ctx.out.push(Effect::Reread { members: false });
        }
        unheard
    }
}
