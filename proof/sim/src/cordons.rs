//! Operators that cordon nodes: in some runs they do so now and then, and lift it later. From then on no step gives a job
//! to a worker of such a node.

use super::world::World;
use tenure_protocol::model::id::NodeName;
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::Cordon;

impl World {
    /// An operator cordons a node, or lifts a cordon. In a healed world all are lifted.
    pub(super) fn cordon(&mut self) {
        if !self.cordons.happen || self.full {
            return;
        }
        let members = self.server.members();
        let on = !self.healed && self.cordons.rng.chance(100);
        let lifts = self.healed || self.cordons.rng.chance(200);
        let of = |node: usize| self.nodes[node].config.node.clone();
        let name: Option<NodeName> = if on {
            let at = self.cordons.rng.below(self.nodes.len().max(1) as u64) as usize;
            (at < self.nodes.len()).then(|| of(at))
        } else {
            members.cordoned.first().filter(|_| lifts).cloned()
        };
        let (Some(name), Some(incarnation), Some(at)) = (name, members.incarnation, self.some_way_in())
        else {
            return;
        };
        let cordon = Cordon { seen: members.revision, node: name.clone(), on };
        if self.perform(at, incarnation, &cordon).is_ok() {
            self.note(|| format!("n{at} {} {name}", if on { "cordons" } else { "uncordons" }));
            self.mix(u64::from(on));
            self.publish();
        }
    }

    /// A step has given the job to a worker of a cordoned node.
    pub(super) fn passed_cordon(&self, before: Option<&Record>, record: &Record) -> bool {
        let is_new = before.is_none_or(|before| before.token != record.token);
        if !self.cordons.happen || record.state != JobState::Assigned || !is_new {
            return false;
        }
        let members = self.server.members();
        let owner = record.owner.and_then(|owner| members.entries.get(&owner));
        owner.is_some_and(|member| members.cordoned.contains(&member.node))
    }
}
