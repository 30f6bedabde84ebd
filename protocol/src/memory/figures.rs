//! How many jobs there are.

use std::collections::BTreeSet;

use super::state::State;
use crate::model::id::WorkerId;
use crate::model::record::{Begun, JobState, Record};
use crate::step::{Counts, LOOK_MAX, Refusal};

/// Whether the job waits for its first start: no start has succeeded, and no attempt has failed.
fn is_new(record: &Record) -> bool {
    let comes_back = record.begun == Begun::Begun && record.attempts == 0;
    matches!(record.state, JobState::Queued | JobState::Assigned)
        && (record.begun == Begun::Never || comes_back)
}

impl State {
    pub(super) fn figures(&self, now: u64, look: usize, workers: &[WorkerId]) -> Result<Counts, Refusal> {
        if self.meta.incarnation.is_none() {
            return Err(if self.tombstone.is_some() { Refusal::Closed } else { Refusal::NoPool });
        }
        let look = look.clamp(1, LOOK_MAX);
        let seen = self.queue.iter().take(look).filter_map(|(_, key)| self.record(key));
        let new: Vec<_> = seen.filter(|record| is_new(record)).collect();
        let returned = new.iter().filter(|record| record.begun != Begun::Never).count();
        let count = |n: usize| n as u64;
        Ok(Counts {
            now,
            jobs: count(self.jobs.len()),
            queued: u64::try_from(self.meta.queued).unwrap_or_default(),
            owned: count(self.owned.values().map(BTreeSet::len).sum()),
            parked: count(self.parked.count()),
            oldest: new.iter().map(|record| record.created).min(),
            more: self.queue.count() > look,
            returned: count(returned),
            of_workers: workers
                .iter()
                .map(|worker| count(self.owned.get(worker).map_or(0, BTreeSet::len)))
                .collect(),
        })
    }
}
