//! Losses of data: what they excuse, and until when.

use std::time::Duration;

use super::judge::{Judge, Life};
use super::world::World;
use crate::id::{DispatchId, Incarnation, WorkerId};

/// How far back a worker's journal reaches, at least.
const REACH: Duration = Duration::from_secs(20);

impl Judge {
    /// The store has lost data: the records are others.
    pub(super) fn lost(&mut self, now: u64) {
        self.lost_at = Some(now);
        self.stale = self.incarnations.clone();
        self.records.clear();
        self.turns.clear();
        self.ticks.clear();
        self.lives.values_mut().for_each(|life| life.tainted = true);
    }

    /// Whether what was lost is not repaired yet.
    pub(super) fn is_lossy(&self) -> bool {
        !self.stale.is_empty()
    }

    /// The pool is in this incarnation, and open.
    pub(super) fn is_open_in(&mut self, incarnation: Incarnation) {
        self.incarnations.insert(incarnation);
        if !self.stale.contains(&incarnation) {
            self.stale.clear();
        }
    }

    pub(super) fn is_tainted(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.tainted)
    }
}

impl World {
    /// The store has lost data, without a word to anybody.
    pub(super) fn lost(&mut self) {
        self.judge.lost(self.now);
        let reach = u64::try_from(REACH.as_nanos()).unwrap_or(u64::MAX);
        let ended = |life: &Life| life.ended.filter(|(at, _)| self.now < at.saturating_add(reach));
        let known: Vec<(DispatchId, Option<WorkerId>)> = self
            .judge
            .lives
            .iter()
            .map(|(id, life)| (id.clone(), ended(life).map(|(_, by)| by).filter(|by| self.lives_on(*by))))
            .collect();
        for (id, by) in known {
            if let Some(life) = self.judge.lives.get_mut(&id) {
                life.in_journal = by;
            }
        }
        let (judge, now) = (&mut self.judge, self.now);
        self.store.each_record(|key, record| {
            judge.records.insert(key.clone(), record.cloned());
            // What had ended may be there again.
            if let Some(life) = record.and_then(|record| judge.lives.get_mut(&record.id)) {
                life.from.get_or_insert(now);
                life.to = None;
            }
        });
    }
}
