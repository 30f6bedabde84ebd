//! Keys that were lost alone, as the other keys show.

use std::collections::BTreeSet;

use super::state::State;

impl State {
    /// Every pool that has had a member has a ring.
    pub(super) fn has_lost_members(&self) -> bool {
        self.meta.members.0 != 1 && self.ring_size == 0
    }

    /// The keys that were lost alone, as the other keys show. A loss that a recovery left stays listed until it is
    /// known to be repaired, because sizes may match by chance.
    pub(super) fn signs(&self) -> String {
        let (jobs, owned) = (self.jobs.len(), self.owned.values().map(BTreeSet::len).sum::<usize>());
        let (due, parked) = (self.queue.count(), self.parked.count());
        let (unpaid, paid) = (
            || self.jobs.values().all(|job| job.payload.is_none()),
            || self.jobs.values().all(|job| job.payload.is_some()),
        );
        let payloads_healed = self.meta.lost.contains('p') && paid();
        let signs = [
            ('m', self.has_lost_members(), !self.has_lost_members()),
            ('r', owned > jobs, due == 0 && owned + parked == jobs),
            ('p', jobs > 0 && unpaid(), payloads_healed),
            ('o', owned == 0 && jobs > due + parked, jobs <= owned.max(due) + parked),
        ];
        let stays =
            |&(sign, shows, healed): &(char, bool, bool)| shows || self.meta.lost.contains(sign) && !healed;
        signs.into_iter().filter(stays).map(|(sign, ..)| sign).collect()
    }
}
