//! Another node of this name. Both are safe, but what one of them is told may reach the other.

use super::Engine;
use crate::core::effect::Notice;
use crate::core::time::Time;

/// Whether a worker under this node's name is none of its own.
#[derive(Debug, Default)]
pub(super) struct Namesake {
    since: Option<Time>,
    /// It has been there for longer than an earlier life of this node can have left it.
    pub(super) lives: bool,
}

impl Engine {
    /// Looked at with each renewal. The leftovers of a crash are expired after little more than a worker TTL, by any node.
    pub(super) fn look_for_namesake(&mut self) {
        let own = |id| self.workers.values().any(|worker| worker.jobs.worker == id);
        let name = &self.ctx.config.node;
        let other = self.members.entries.iter().any(|(id, member)| member.node == *name && !own(*id));
        if !other {
            self.namesake = Namesake::default();
            return;
        }
        let since = *self.namesake.since.get_or_insert(self.ctx.now);
        if !self.namesake.lives && self.ctx.now.since(since) > self.ctx.config.timing.ttl * 2 {
            self.namesake.lives = true;
            self.ctx.report(Notice::Namesake);
        }
    }
}
