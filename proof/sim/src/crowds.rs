//! Crowded workers: in some runs workers have a capacity, and some start handlers send their jobs elsewhere. No worker has
//! more jobs than it takes, and no job waits while a worker has room (L12).

use std::num::NonZeroU32;

use super::world::World;
use tenure_protocol::core::input::LocalWorker;
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::member::{MemberState, Members};

impl World {
    /// The capacity of a new worker.
    pub(super) fn draw_capacity(&mut self, at: usize, local: LocalWorker) -> Option<NonZeroU32> {
        let small = self.crowds.happen && self.crowds.rng.chance(5_000);
        let jobs = small.then(|| NonZeroU32::new(self.crowds.rng.between(1, 4) as u32)).flatten();
        if let (Some(node), Some(jobs)) = (self.nodes.get_mut(at), jobs) {
            node.capacities.insert(local, jobs.get() as usize);
        }
        jobs
    }

    /// The handler of a job that is called now sends it elsewhere.
    pub(super) fn draw_elsewhere(&mut self) -> bool {
        self.crowds.happen && !self.healed && self.crowds.rng.chance(500)
    }

    fn capacity_of(&self, worker: WorkerId) -> Option<usize> {
        self.nodes.iter().filter(|node| node.alive).find_map(|node| {
            let (local, _) = node.locals.iter().find(|(_, id)| **id == Some(worker))?;
            node.capacities.get(local).copied()
        })
    }

    /// A handler of this worker was called.
    pub(super) fn judge_crowd(&mut self, worker: WorkerId) {
        if !self.crowds.happen {
            return;
        }
        let runs = self.actors.values().filter(|actor| actor.worker == worker && actor.runs()).count();
        if self.capacity_of(worker).is_some_and(|most| runs > most) {
            self.judge.violations.push(format!("capacity: {worker} has {runs} jobs, which is too many"));
        }
    }

    /// Each worker that is up has as many jobs as it takes, so others wait.
    pub(super) fn is_crowded(&self, members: &Members) -> bool {
        let is_full = |worker| {
            let has = self.actors.values().filter(|a| a.worker == worker && a.is_settled()).count();
            self.capacity_of(worker).is_some_and(|most| has >= most)
        };
        let mut up = members.entries.iter().filter(|(_, member)| member.state == MemberState::Up);
        self.crowds.happen && up.all(|(worker, _)| is_full(*worker))
    }
}
