//! Jobs that an operator has end here: they begin anew, are parked or paused (a part of [`Jobs`]).
//!
//! A word of which the worker does not hear changes nothing. Its caller looks at the record, and says it again.

use super::Jobs;
use super::held::StopOrder;
use crate::core::ctx::Ctx;
use crate::model::id::{JobKey, Token};
use crate::mutation::Mutation;
use crate::step::Way;

impl Jobs {
    pub(super) fn steered(&mut self, ctx: &mut Ctx, key: &JobKey, token: Token, way: Way, reason: String) {
        if self.is_here(key, token) && !ctx.config.broken.has(Mutation::SteerUnheard) {
            self.order(ctx, key, StopOrder::steered(way, reason));
        }
    }
}
