//! A slow look at the records, in spite of any loss beside them, and at the jobs that workers hold.

use std::collections::BTreeSet;

use super::state::State;
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::JobState;
use crate::step::{HeldState, Inspected, Refusal};

impl State {
    pub(super) fn inspect(
        &mut self,
        now: u64,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected, Refusal> {
        self.guard_normal(inc)?;
        let states = held.iter().map(|(worker, key, token)| self.held_state(*worker, key, *token)).collect();
        let page: Vec<_> =
            self.serials.range(cursor + 1..).take(limit).map(|(n, key)| (*n, key.clone())).collect();
        let next = page.last().filter(|_| page.len() == limit).map_or(0, |(serial, _)| *serial);
        let mut strangers = BTreeSet::new();
        for (_, key) in page {
            let Some(record) = self.record(&key) else { continue };
            let (state, owner, wakes) = (record.state, record.owner, record.wakes_at());
            if let Some(owner) = owner {
                self.own(owner, key.clone());
                if !self.members.contains_key(&owner) && !self.dead.contains_key(&owner) {
                    strangers.insert(owner);
                }
            }
            match state {
                JobState::Running => {}
                JobState::Parked if self.parked.contains(&key) => {}
                JobState::Parked => self.parked.put(key, wakes),
                _ if self.queue.contains(&key) => {}
                _ => self.queue.put(key, now),
            }
        }
        for owner in &strangers {
            self.heartbeats.entry(*owner).or_insert(now);
        }
        Ok(Inspected { next, strangers: strangers.len(), held: states })
    }

    fn held_state(&self, worker: WorkerId, key: &JobKey, token: Token) -> HeldState {
        if !self.members.contains_key(&worker) {
            return HeldState::Kept; // its next renewal tells it
        }
        match self.record(key) {
            Some(record) if record.token > token => HeldState::Outranked,
            None if !self.jobs.contains_key(key) => HeldState::Missing,
            _ => HeldState::Kept,
        }
    }
}
