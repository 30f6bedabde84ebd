//! The settings of the pool that the engine goes by (a part of [`Engine`]).

use super::Engine;
use crate::core::effect::Effect;
use crate::core::lease::Timing;
use crate::model::settings::Settings;
use crate::mutation::Mutation;

impl Engine {
    /// Adopts the stored settings: limits and times may change while the pool runs.
    pub(super) fn adopt_settings(&mut self) {
        let ours = self.settings.incarnation.is_some() && self.settings.incarnation == self.pool.incarnation;
        if !ours || self.pool.held_back {
            return;
        }
        let adopted = self.ctx.config.settings.following(&self.settings.fields, &self.ctx.config.given);
        self.go_by(adopted);
    }

    /// Adopts the pool's settings; those that this node was given are equal. The node has no worker yet, so nothing
    /// depends on its former values.
    pub(super) fn take_over_settings(&mut self) {
        let adopted = self.ctx.config.settings.joining(&self.settings.fields, &self.ctx.config.given);
        if !self.ctx.config.broken.has(Mutation::OwnTtlKept) {
            self.ctx.config.timing = Timing::of(adopted.worker_ttl);
        }
        self.go_by(adopted);
    }

    fn go_by(&mut self, adopted: Settings) {
        if adopted != self.ctx.config.settings {
            if self.ctx.config.settings.hold && !adopted.hold {
                // The jobs that have waited for this are due in up to half a minute.
                self.sweeping.kick();
            }
            let at_once = adopted.move_now > self.ctx.config.settings.move_now;
            self.ctx.config.settings = adopted.clone();
            self.on_members(self.members.clone());
            if at_once && !self.ctx.config.broken.has(Mutation::MoveNowUnheard) {
                self.wants_moves_now();
            }
        }
        let timing = self.ctx.config.timing;
        let (revision, settings) = (self.settings.revision, Box::new(adopted));
        self.ctx.out.push(Effect::Settings { revision, settings, timing });
    }
}
