//! The ring of a shard, as a tool looks at it: who has which slot, where keys belong, and how that changes when workers
//! come or go.

use std::sync::Arc;

use crate::api::listing::JobInfo;
use crate::core::ring::Ring;
use crate::model::id::{JobKey, NodeName, Nonce, WorkerId};
use crate::model::member::{Member, MemberState, Members};
use crate::model::settings::{Given, Settings};
use crate::store::Store;

/// The ids of workers that are only supposed count down from here: no pool gives them.
const SUPPOSED: u64 = u64::MAX;

/// The ring of one shard at one moment, from [`Inspector::rings`](crate::Inspector::rings). It computes and reads nothing.
#[derive(Clone, Debug)]
pub struct RingView {
    shard: usize,
    members: Members,
    settings: Settings,
    ring: Arc<Ring>,
    /// How many workers are supposed.
    supposed: u64,
}

impl RingView {
    pub(crate) fn of(shard: usize, store: &Store) -> Self {
        let settings = Settings::default().joining(&store.settings().borrow().fields, &Given::default());
        Self::new(shard, (**store.members().borrow()).clone(), settings, 0)
    }

    fn new(shard: usize, members: Members, settings: Settings, supposed: u64) -> Self {
        // A hold passes: the question is where jobs belong.
        let ring = Ring::new(&members, &Settings { hold: false, ..settings.clone() });
        Self { shard, members, settings, ring: Arc::new(ring), supposed }
    }

    /// The shard, from 0.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// The revision of the members that it was made of.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.members.revision.0
    }

    /// The worker of each slot, in order. `None` for a hole: the keys of a hole belong to all others.
    #[must_use]
    pub fn slots(&self) -> Vec<Option<WorkerId>> {
        let mut slots = vec![None; self.members.ring_size as usize];
        for (worker, member) in &self.members.entries {
            let slot = member.slot.filter(|_| member.state == MemberState::Up).map(|slot| slot as usize);
            if let Some(place) = slot.and_then(|slot| slots.get_mut(slot)) {
                *place = Some(*worker);
            }
        }
        slots
    }

    /// The worker to which a key with these strikes against its placement belongs. `None` if no worker is up.
    #[must_use]
    pub fn place(&self, key: &JobKey, strikes: u32) -> Option<WorkerId> {
        self.ring.pick(key.as_bytes(), strikes)
    }

    /// The workers that are asked for a key in turn, the home first.
    #[must_use]
    pub fn chain(&self, key: &JobKey) -> Vec<WorkerId> {
        let turns = (0..self.ring.live()).map(|turn| turn.saturating_mul(self.settings.strikes.max(1)));
        turns.filter_map(|strikes| self.place(key, strikes)).collect()
    }

    /// The ring once these workers have drained. The oldest standbys take their slots; the others become holes.
    #[must_use]
    pub fn without(&self, workers: impl IntoIterator<Item = WorkerId>) -> Self {
        let mut members = self.members.clone();
        let mut free: Vec<u32> = Vec::new();
        for worker in workers {
            if let Some(member) = members.entries.get_mut(&worker) {
                free.extend(member.slot.filter(|_| member.state == MemberState::Up));
                (member.state, member.slot) = (MemberState::Draining, None);
            }
        }
        free.sort_unstable();
        let standbys = members.entries.values_mut().filter(|member| member.state == MemberState::Standby);
        for (member, slot) in standbys.zip(free) {
            (member.state, member.slot) = (MemberState::Up, Some(slot));
        }
        Self::new(self.shard, members, self.settings.clone(), self.supposed)
    }

    /// The ring once this many workers have joined, and the ids by which this view calls them. Each takes the
    /// lowest hole, or a new slot.
    #[must_use]
    pub fn with(&self, workers: u32) -> (Self, Vec<WorkerId>) {
        let (mut members, mut supposed, mut added) = (self.members.clone(), self.supposed, Vec::new());
        let mut slots = self.slots();
        let (Ok(nonce), Ok(node)) = (Nonce::new("supposed"), NodeName::new("supposed")) else {
            return (self.clone(), added);
        };
        for _ in 0..workers {
            let worker = WorkerId(SUPPOSED - supposed);
            let hole = slots.iter().position(Option::is_none).unwrap_or(slots.len());
            if hole == slots.len() {
                slots.push(None);
            }
            slots[hole] = Some(worker);
            let member = Member {
                state: MemberState::Up,
                slot: u32::try_from(hole).ok(),
                ttl: self.settings.worker_ttl,
                nonce: nonce.clone(),
                node: node.clone(),
                meta: String::new(),
                level: 1,
                address: String::new(),
            };
            members.entries.insert(worker, member);
            supposed += 1;
            added.push(worker);
        }
        members.ring_size = u32::try_from(slots.len()).unwrap_or(members.ring_size);
        (Self::new(self.shard, members, self.settings.clone(), supposed), added)
    }

    /// Whether a job leaves its worker when this ring takes the place of the present one. It goes to its
    /// [place](Self::place), or waits if there is none. False for a job that nobody has.
    #[must_use]
    pub fn takes_away(&self, job: &JobInfo) -> bool {
        let Some(owner) = job.owner else { return false };
        let is_up = self.members.entries.get(&owner).is_some_and(|member| member.state == MemberState::Up);
        !is_up || self.ring.takes_away(job.key.as_bytes(), job.strikes, owner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::id::Revision;

    fn member(state: MemberState, slot: Option<u32>) -> Member {
        Member {
            state,
            slot,
            ttl: std::time::Duration::from_secs(10),
            nonce: Nonce::new("x").unwrap(),
            node: NodeName::new("n").unwrap(),
            meta: String::new(),
            level: 1,
            address: String::new(),
        }
    }

    /// Workers 1, 2 and 4 with slots 0, 1 and 3; slot 2 is a hole.
    fn view() -> RingView {
        let up = [(1, 0), (2, 1), (4, 3)];
        let entries = up.map(|(worker, slot)| (WorkerId(worker), member(MemberState::Up, Some(slot))));
        let members =
            Members { entries: entries.into(), ring_size: 4, revision: Revision(7), ..Members::default() };
        RingView::new(0, members, Settings { hash_keys: Some((1, 2)), ..Settings::default() }, 0)
    }

    fn keys() -> impl Iterator<Item = JobKey> {
        (0..500).map(|n| JobKey::new(format!("k{n}")).unwrap())
    }

    #[test]
    fn who_goes_leaves_a_hole_and_moves_its_own_keys_only() {
        let before = view();
        let after = before.without([WorkerId(2)]);
        assert_eq!(after.slots(), [Some(WorkerId(1)), None, None, Some(WorkerId(4))]);
        for key in keys() {
            let (was, is) = (before.place(&key, 0), after.place(&key, 0));
            assert_eq!(was == is, was != Some(WorkerId(2)), "{key}");
        }
    }

    #[test]
    fn who_comes_takes_holes_first() {
        let (after, added) = view().with(2);
        assert_eq!(added, [WorkerId(u64::MAX), WorkerId(u64::MAX - 1)]);
        let slots = [Some(1), Some(2), Some(u64::MAX), Some(4), Some(u64::MAX - 1)];
        assert_eq!(after.slots(), slots.map(|worker| worker.map(WorkerId)));
    }

    #[test]
    fn a_standby_takes_the_place_of_who_goes() {
        let mut view = view();
        view.members.entries.insert(WorkerId(9), member(MemberState::Standby, None));
        let after = view.without([WorkerId(4), WorkerId(1)]);
        assert_eq!(after.slots(), [Some(WorkerId(9)), Some(WorkerId(2)), None, None]);
    }

    #[test]
    fn a_chain_names_every_worker_once() {
        for key in keys().take(20) {
            let mut chain = view().chain(&key);
            assert_eq!(chain.first().copied(), view().place(&key, 0));
            chain.sort_unstable();
            assert_eq!(chain, [1, 2, 4].map(WorkerId));
        }
    }
}
