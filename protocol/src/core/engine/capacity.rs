//! The capacities of the node's workers: what else fills them, and what gives room to jobs that they have sent elsewhere.

use super::Engine;
use crate::core::input::LocalWorker;
use crate::core::ring::Ring;
use crate::error::Obstacle;

impl Engine {
    /// The jobs that a worker with a capacity has in the other shards of the pool.
    pub fn set_taken_beside(&mut self, local: LocalWorker, jobs: usize) {
        if let Some(worker) = self.workers.get_mut(&local) {
            worker.jobs.has_beside(jobs);
        }
    }

    /// The jobs that take a place of this worker.
    pub fn taken(&self, local: LocalWorker) -> usize {
        self.workers.get(&local).map_or(0, |worker| worker.jobs.taken())
    }

    /// Tries jobs again that wait for what the new ring brings; they are due in up to half a minute. These are all jobs
    /// after the last cordon of a whole ring, and those that workers of this node have sent elsewhere, if the ring has a
    /// worker more.
    pub(super) fn kick_for_room(&mut self, new: &Ring) {
        if self.ring.obstacle() == Some(Obstacle::Cordoned) && new.obstacle().is_none() {
            self.sweeping.kick();
        }
        let sends_elsewhere = self.workers.values().any(|worker| worker.jobs.sends_elsewhere());
        if sends_elsewhere && new.has_more_room_than(&self.ring) {
            self.workers.values_mut().for_each(|worker| worker.jobs.has_kicked());
            self.sweeping.kick();
        }
    }
}
