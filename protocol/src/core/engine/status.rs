//! A node as its observers see it. The engine copies it out after each step and never reads it.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::Engine;
use crate::core::roles::phase::Phase;
use crate::core::time::Time;
use crate::core::worker::Worker;
use crate::model::id::{JobKey, WorkerId};
use crate::model::level::TooOld;
use crate::model::phase::PoolPhase;

/// One node at one moment.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The phase of the pool.
    pub phase: PoolPhase,
    /// It is closing.
    pub leaving: bool,
    /// The workers of the node.
    pub workers: Vec<WorkerStatus>,
    /// Dispatches of this node that wait for their outcome.
    pub dispatches: usize,
    /// The damage of the data and of the server at the last renewal, if there is any.
    pub damage: Option<Arc<str>>,
    /// The server's policy of eviction, if the server evicts.
    pub evicts: Option<Arc<str>>,
    /// Jobs of the pool that had never begun at the last renewal.
    pub queued: Option<u64>,
    /// Jobs of the pool that were parked at this node's last sweep.
    pub parked: Option<u64>,
    /// The floor at the last renewal.
    pub floor: Option<u32>,
    /// The floor, while it is above this node's level.
    pub too_old: Option<TooOld>,
    /// Another node has this one's name.
    pub namesake: bool,
    /// When its readers were last answered; `None` while they have nothing to read.
    pub read: Option<Time>,
    /// When the node last routed jobs.
    pub routed: Option<Time>,
}

/// One of its workers.
#[derive(Clone, Debug)]
pub struct WorkerStatus {
    /// `None` while it is no member.
    pub id: Option<WorkerId>,
    /// Jobs in its hands.
    pub held: usize,
    /// How many it takes. `None`: all.
    pub capacity: Option<NonZeroU32>,
    /// It takes no further job.
    pub full: bool,
    /// Those that wait for their start.
    pub to_start: usize,
    /// Those that came from another worker and have not started.
    pub coming: usize,
    /// Those that belong elsewhere and wait for their move.
    pub to_move: usize,
    /// Jobs whose handler does not end although it was aborted.
    pub stuck: Vec<JobKey>,
}

impl Worker {
    fn status(&self) -> WorkerStatus {
        let jobs = &self.jobs;
        WorkerStatus {
            id: self.member_id(),
            held: jobs.held().len(),
            capacity: jobs.capacity(),
            full: jobs.has_no_place(),
            to_start: jobs.to_start(),
            coming: jobs.coming(),
            to_move: self.to_move(),
            stuck: jobs.stuck(),
        }
    }
}

impl Engine {
    /// When the streams of the node's workers were last read; `None` while there is nothing to read.
    pub fn read_at(&self) -> Option<Time> {
        self.reading.progressed()
    }

    /// What the node shows of itself.
    pub fn status(&self) -> Status {
        let phase = match self.pool.phase {
            _ if self.pool.held_back => PoolPhase::Unknown,
            Phase::Closed => PoolPhase::Closed,
            Phase::Unknown => PoolPhase::Unknown,
            _ if self.closing.is_stopping() => PoolPhase::Stopping,
            Phase::Recovering { .. } => PoolPhase::Recovering,
            Phase::Normal if self.closing.flag.is_some() => PoolPhase::Closing,
            Phase::Normal => PoolPhase::Open,
        };
        Status {
            phase,
            leaving: self.closing.leaving,
            workers: self.workers.values().map(Worker::status).collect(),
            dispatches: self.dispatching.pending_count(),
            damage: self.damage.clone(),
            evicts: self.evicts.clone(),
            queued: self.queued,
            parked: self.parked,
            floor: self.floor,
            too_old: self.too_old,
            namesake: self.namesake.lives,
            read: self.reading.progressed(),
            routed: self.routing.progressed(),
        }
    }
}
