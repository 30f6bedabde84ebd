//! Nodes whose workers get no jobs.

use super::state::State;
use crate::model::id::{Incarnation, NodeName, Revision};
use crate::mutation::Mutation;
use crate::step::Refusal;

impl State {
    /// Cordons a node, or lifts that.
    pub(super) fn cordon(
        &mut self,
        inc: Incarnation,
        seen: Revision,
        node: &NodeName,
        on: bool,
    ) -> Result<(), Refusal> {
        self.guard(inc)?;
        if self.cordoned.contains(node) == on {
            return Ok(());
        }
        if seen != self.meta.members && !self.broken.has(Mutation::LateCordonCounts) {
            return Err(Refusal::StaleRing(self.meta.members));
        }
        if self.has_lost_members() && !self.meta.lost.contains('m') {
            return Err(Refusal::Lost("m".into()));
        }
        if on {
            self.cordoned.insert(node.clone());
        } else {
            self.cordoned.remove(node);
        }
        self.grow(None);
        self.meta.members.0 += 1;
        Ok(())
    }
}
