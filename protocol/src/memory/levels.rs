//! The level that a pool demands of its steps.

use super::state::State;
use crate::model::id::Incarnation;
use crate::model::level::{self, TooOld};
use crate::mutation::Mutation;
use crate::step::{Raised, Refusal};

impl State {
    /// The level that every step must have.
    pub(super) fn floor(&self) -> u32 {
        self.meta.floor.max(level::LOWEST)
    }

    /// Refuses a client below the floor.
    pub(super) fn check_level(&self) -> Result<(), Refusal> {
        let (floor, level) = (self.floor(), self.level);
        let refused = floor > level && !self.broken.has(Mutation::FloorUnchecked);
        if refused { Err(Refusal::Level(TooOld { floor, level })) } else { Ok(()) }
    }

    /// Raises the floor, once every member has this level.
    pub(super) fn raise_level(&mut self, inc: Incarnation, level: u32) -> Result<Raised, Refusal> {
        self.guard_normal(inc)?;
        if !(level::LOWEST..=self.level).contains(&level) {
            return Err(Refusal::BadArgument);
        }
        if level <= self.floor() {
            return Ok(Raised::Floor(self.floor()));
        }
        let below = self.members.iter().filter(|(_, member)| member.level < level);
        let below = below.filter(|_| !self.broken.has(Mutation::FloorPassesMembers));
        if let Some((&worker, member)) = below.min_by_key(|(worker, member)| (member.level, **worker)) {
            return Ok(Raised::Below { worker, level: member.level });
        }
        self.meta.floor = level;
        Ok(Raised::Floor(level))
    }
}
