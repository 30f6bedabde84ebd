//! Jobs that were given another payload while they are here (a part of [`Jobs`]).
//!
//! The record has the payload and its generation, and the worker knows the generation that each of its jobs runs with.
//! It hears of a higher one by an event, or when it compares its jobs with the records. The job is then stopped and
//! handed off. Its next run, at home if the ring has not changed, begins with what the record has.
//!
//! A job that leaves for another reason is left to it. Its release names the generation that it ran with, and the store
//! queues it again if its record has a higher one and nobody has stopped it.

use super::Jobs;
use super::held::StopOrder;
use crate::core::ctx::Ctx;
use crate::model::id::{JobKey, Token};
use crate::model::stop::StopReason;
use crate::mutation::Mutation;

impl Jobs {
    /// The record of the job has this generation under this token.
    pub(in crate::core) fn updated(&mut self, ctx: &mut Ctx, key: JobKey, token: Token, generation: u64) {
        if let Some(held) = self.held.get(&key).filter(|held| held.token == token) {
            let is_leaving = self.leaving.is_some() || held.order.is_some();
            let is_heard = !is_leaving && !ctx.config.broken.has(Mutation::UpdateUnheard);
            if generation > held.generation() && is_heard {
                self.order(ctx, &key, StopOrder::own(StopReason::Updated));
            }
        } else if let Some(next) = self.successors.get_mut(&key).filter(|next| next.record.token == token) {
            next.generation = next.generation.max(generation);
        } else if let Some(early) = self.beginning.get_mut(&(key, token)) {
            early.generation = early.generation.max(u32::try_from(generation).unwrap_or(u32::MAX));
        }
    }
}
