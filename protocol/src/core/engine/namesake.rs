//! Another node of this name. Both are safe, but messages to one of them may reach the other.

use super::Engine;
use crate::core::effect::Notice;
use crate::core::time::Time;

/// Whether the pool has a worker under this node's name that is not its own.
#[derive(Debug, Default)]
pub(super) struct Namesake {
    since: Option<Time>,
    /// That worker has been there too long to be left from an earlier life of this node.
    pub(super) lives: bool,
}

impl Engine {
    /// Called with each renewal. Any node expires the leftovers of a crash after little more than a worker TTL.
    pub(super) fn look_for_namesake(&mut self) {
        let own = |id| self.workers.values().any(|worker| worker.jobs.worker() == id);
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
