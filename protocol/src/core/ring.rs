//! `JumpChain`: which worker a key belongs to.
//!
//! Jump consistent hash (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014) over slots. A
//! slot may be a hole: its keys are hashed again with the next counter.
//!
//! So a worker that leaves moves only its own keys, which spread over all others. A worker that fills the hole gets
//! exactly those keys back. An appended slot takes its share, and no other key moves.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use jumphash::JumpHasher;

use crate::error::Obstacle;
use crate::model::id::{Revision, WorkerId};
use crate::model::member::{MemberState, Members};
use crate::model::settings::Settings;

/// The hash's keys while the pool's are unknown: the engine places nothing then.
const UNKNOWN: (u64, u64) = (0x7465_6e75_7265_0001, 0x6a75_6d70_6368_6e02);

/// The living slots at one revision of the members.
#[derive(Debug)]
pub struct Ring {
    revision: Revision,
    slots: Vec<Option<WorkerId>>,
    live: u32,
    /// The slots with those of cordoned nodes, if any of these is up.
    homes: Option<Vec<Option<WorkerId>>>,
    /// The workers of cordoned nodes.
    cordoned: BTreeSet<WorkerId>,
    /// No worker is up, and some are about to be.
    filling: bool,
    /// The pool is held: no worker is given a job.
    held: bool,
    /// This many strikes send a key to the next worker.
    allowed: u32,
    hasher: JumpHasher,
}

/// Hashes only the bytes of the key and a counter: no length, no terminator, the same on every platform.
struct Probe<'a>(&'a [u8], u32);

impl Hash for Probe<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0);
        state.write(&self.1.to_le_bytes());
    }
}

impl Ring {
    /// The ring of these members.
    pub fn new(members: &Members, settings: &Settings) -> Self {
        let mut slots = vec![None; members.ring_size as usize];
        let up = members.entries.iter().filter(|(_, member)| member.state == MemberState::Up);
        for (worker, slot) in up.filter_map(|(worker, member)| Some((*worker, member.slot? as usize))) {
            if slot >= slots.len() {
                slots.resize(slot + 1, None);
            }
            slots[slot] = Some(worker);
        }
        let mut live = slots.iter().flatten().count() as u32;
        let filling = live == 0 && members.entries.values().any(|m| m.state == MemberState::Standby);
        let (mut homes, mut cordoned) = (None, BTreeSet::new());
        if !members.cordoned.is_empty() {
            let of_cordoned = members.entries.iter().filter(|(_, m)| members.cordoned.contains(&m.node));
            cordoned = of_cordoned.map(|(worker, _)| *worker).collect();
            if slots.iter().flatten().any(|worker| cordoned.contains(worker)) {
                homes = Some(slots.clone());
                for slot in &mut slots {
                    *slot = slot.filter(|worker| !cordoned.contains(worker));
                }
                live = slots.iter().flatten().count() as u32;
            }
        }
        let (k1, k2) = settings.hash_keys.unwrap_or(UNKNOWN);
        let hasher = JumpHasher::new_with_keys(k1, k2);
        let (held, allowed) = (settings.hold, settings.strikes.max(1));
        Self { revision: members.revision, slots, live, homes, cordoned, filling, held, allowed, hasher }
    }

    /// No worker is up, and standbys are about to take slots.
    pub fn is_filling(&self) -> bool {
        self.filling
    }

    /// Places jobs although the pool is held, for [`Mutation::HoldPassedOver`](crate::mutation::Mutation::HoldPassedOver).
    pub(super) fn pass_hold_over(&mut self) {
        self.held = false;
    }

    /// Gives jobs to cordoned nodes, for
    /// [`Mutation::CordonPassedOver`](crate::mutation::Mutation::CordonPassedOver).
    pub(super) fn pass_cordons_over(&mut self) {
        self.cordoned.clear();
        if let Some(homes) = self.homes.take() {
            self.live = homes.iter().flatten().count() as u32;
            self.slots = homes;
        }
    }

    /// The reason for which it places nothing.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match (self.held, self.live) {
            (true, _) => Some(Obstacle::OnHold),
            (false, 0) if self.homes.is_some() => Some(Obstacle::Cordoned),
            (false, 0) => Some(Obstacle::NoWorker),
            _ => None,
        }
    }

    /// The revision of the members that made it.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many workers are given jobs while the pool is not held.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// True if it gives jobs to a worker that the former one gave none.
    pub fn has_more_room_than(&self, former: &Self) -> bool {
        self.slots.iter().flatten().any(|worker| !former.slots.contains(&Some(*worker)))
    }

    /// True if both place every key alike.
    pub fn places_like(&self, other: &Self) -> bool {
        (&self.slots, self.held, &self.cordoned) == (&other.slots, other.held, &other.cordoned)
    }

    /// The worker's node is cordoned: it keeps its jobs, and gets no other.
    pub fn is_cordoned(&self, worker: WorkerId) -> bool {
        self.cordoned.contains(&worker)
    }

    /// The worker of a key with this many strikes against its placement. Every `allowed` of them move the key to the
    /// next worker of its chain. `None` if no worker is up, or the pool is held.
    pub fn pick(&self, key: &[u8], strikes: u32) -> Option<WorkerId> {
        if self.held { None } else { self.on_chain(&self.slots, self.live, key, strikes) }
    }

    /// The worker that most likely has a job of the key, also while the pool is held or the worker's node is cordoned.
    pub fn home(&self, key: &[u8]) -> Option<WorkerId> {
        match &self.homes {
            None => self.on_chain(&self.slots, self.live, key, 0),
            Some(homes) => self.on_chain(homes, homes.iter().flatten().count() as u32, key, 0),
        }
    }

    /// Whether a job that this worker has belongs to another one. A worker of a cordoned node keeps what it has.
    pub fn takes_away(&self, key: &[u8], strikes: u32, from: WorkerId) -> bool {
        !self.is_cordoned(from) && self.pick(key, strikes).is_some_and(|worker| worker != from)
    }

    fn on_chain(&self, slots: &[Option<WorkerId>], live: u32, key: &[u8], strikes: u32) -> Option<WorkerId> {
        if live == 0 {
            return None;
        }
        let size = slots.len() as u32;
        let skip = (strikes / self.allowed) % live;
        let mut passed: Vec<WorkerId> = Vec::new();
        for counter in 0..size.saturating_mul(64) {
            let slot = self.hasher.slot(&Probe(key, counter), size);
            let Some(worker) = slots[slot as usize] else { continue };
            if passed.contains(&worker) {
                continue;
            }
            if passed.len() as u32 == skip {
                return Some(worker);
            }
            passed.push(worker);
        }
        slots.iter().flatten().nth(skip as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::model::id::{NodeName, Nonce};
    use crate::model::member::Member;

    fn ring(slots: &[Option<u64>]) -> Ring {
        let node = NodeName::new("n").unwrap_or_else(|e| panic!("{e}"));
        let nonce = Nonce::new("x").unwrap_or_else(|e| panic!("{e}"));
        let entries = slots.iter().enumerate().filter_map(|(slot, worker)| {
            let member = Member {
                state: MemberState::Up,
                slot: Some(slot as u32),
                ttl: Duration::from_secs(10),
                nonce: nonce.clone(),
                node: node.clone(),
                meta: String::new(),
                level: 1,
                address: String::new(),
            };
            worker.map(|w| (WorkerId(w), member))
        });
        let members =
            Members { entries: entries.collect(), ring_size: slots.len() as u32, ..Members::default() };
        Ring::new(&members, &Settings::default())
    }

    fn placement(ring: &Ring, keys: u32) -> BTreeMap<u32, WorkerId> {
        (0..keys).filter_map(|k| ring.pick(format!("key-{k}").as_bytes(), 0).map(|w| (k, w))).collect()
    }

    #[test]
    fn golden_values() {
        struct Raw<'a>(&'a [u8]);
        impl Hash for Raw<'_> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write(self.0);
            }
        }
        let hasher = JumpHasher::new_with_keys(0, 0);
        assert_eq!(hasher.slot(&Raw(b"user:1"), 16), 14);
        assert_eq!(hasher.slot(&Raw(b"user:1\0\0\0\0"), 1000), hasher.slot(&Probe(b"user:1", 0), 1000));
        let full = ring(&[Some(1), Some(2), Some(3), Some(4), Some(5)]);
        let holes = ring(&[Some(1), None, Some(3), None, Some(5)]);
        let picks = |ring: &Ring, strikes| {
            ["acme", "globex", "initech"].map(|k| ring.pick(k.as_bytes(), strikes).map_or(0, |w| w.0))
        };
        assert_eq!((picks(&full, 0), picks(&full, 3), picks(&holes, 0)), GOLDEN);
    }

    const GOLDEN: ([u64; 3], [u64; 3], [u64; 3]) = ([2, 2, 3], [1, 1, 5], [1, 1, 3]);

    #[test]
    fn no_worker_no_pick() {
        assert_eq!(ring(&[]).pick(b"k", 0), None);
        assert_eq!(ring(&[None, None]).pick(b"k", 5), None);
    }

    #[test]
    fn a_held_ring_picks_nobody_and_knows_each_home() {
        let free = ring(&[Some(1), Some(2)]);
        let held = Ring { held: true, ..ring(&[Some(1), Some(2)]) };
        assert_eq!((held.pick(b"k", 0), held.pick(b"k", 3)), (None, None));
        assert_eq!(held.home(b"k"), free.pick(b"k", 0));
        assert!(!held.places_like(&free), "what has changed meanwhile is moved when it is free again");
    }

    #[test]
    fn a_ring_of_cordoned_nodes_names_its_obstacle() {
        let mut members = Members { ring_size: 1, ..Members::default() };
        assert_eq!(Ring::new(&members, &Settings::default()).obstacle(), Some(Obstacle::NoWorker));
        let member = Member::parse(b"U|0|10000|nn|n1|").unwrap_or_else(|| panic!("it is an entry"));
        members.cordoned.insert(member.node.clone());
        members.entries.insert(WorkerId(1), member);
        let ring = Ring::new(&members, &Settings::default());
        assert_eq!((ring.obstacle(), ring.pick(b"k", 0)), (Some(Obstacle::Cordoned), None));
        assert_eq!((ring.home(b"k"), ring.is_filling()), (Some(WorkerId(1)), false));
    }

    proptest! {
        #[test]
        fn a_cordon_sends_new_keys_elsewhere_and_moves_none(
            n in 2_u64..24, cordoned in proptest::collection::btree_set(1_u64..24, 1..8),
        ) {
            let free = ring(&(1..=n).map(Some).collect::<Vec<_>>());
            let closed: BTreeSet<_> = cordoned.into_iter().filter(|w| *w <= n).map(WorkerId).collect();
            prop_assume!(!closed.is_empty() && (closed.len() as u64) < n);
            let mut slots = free.slots.clone();
            for slot in &mut slots {
                *slot = slot.filter(|w| !closed.contains(w));
            }
            let (homes, live) = (Some(free.slots.clone()), n as u32 - closed.len() as u32);
            let cordoned = Ring { slots, live, homes, cordoned: closed.clone(), ..ring(&[]) };
            for k in 0..300 {
                let key = format!("key-{k}");
                let (key, strikes) = (key.as_bytes(), 3 * (k % 5));
                prop_assert!(cordoned.pick(key, strikes).is_some_and(|w| !closed.contains(&w)));
                prop_assert_eq!(cordoned.home(key), free.home(key));
                let owner = free.home(key).unwrap_or_else(|| panic!("all are up"));
                prop_assert!(!cordoned.takes_away(key, 0, owner), "it stays where it is");
            }
        }

        #[test]
        fn a_leaver_moves_its_own_keys_and_its_successor_gets_them(
            live in proptest::collection::vec(any::<bool>(), 2..24), gone in any::<proptest::sample::Index>(),
        ) {
            let slots: Vec<_> = live.iter().enumerate().map(|(i, &up)| up.then_some(i as u64 + 1)).collect();
            let up: Vec<_> = slots.iter().flatten().copied().collect();
            prop_assume!(up.len() > 1);
            let gone = up[gone.index(up.len())];
            let without: Vec<_> = slots.iter().map(|&w| w.filter(|&w| w != gone)).collect();
            let refilled: Vec<_> = slots.iter().map(|&w| if w == Some(gone) { Some(1000) } else { w }).collect();
            let before = placement(&ring(&slots), 500);
            let after = placement(&ring(&without), 500);
            let again = placement(&ring(&refilled), 500);
            for k in 0..500 {
                if before[&k].0 == gone {
                    prop_assert_eq!(again[&k].0, 1000);
                } else {
                    prop_assert_eq!(before[&k], after[&k]);
                    prop_assert_eq!(before[&k], again[&k]);
                }
            }
        }

        #[test]
        fn an_appended_slot_takes_only_its_share(n in 1_usize..24) {
            let slots: Vec<_> = (1..=n as u64).map(Some).collect();
            let mut more = slots.clone();
            more.push(Some(1000));
            let (before, after) = (placement(&ring(&slots), 2000), placement(&ring(&more), 2000));
            let moved = (0..2000).filter(|k| before[k] != after[k]).count();
            prop_assert!((0..2000).all(|k| before[&k] == after[&k] || after[&k].0 == 1000));
            let share = 2000 / (n + 1);
            prop_assert!(moved > share / 2 && moved < share * 2, "moved {} of a share of {}", moved, share);
        }

        #[test]
        fn strikes_walk_through_all_workers(n in 1_u64..12, key in "[a-z]{1,12}") {
            let ring = ring(&(1..=n).map(Some).collect::<Vec<_>>());
            let walk: std::collections::BTreeSet<_> = (0..n).map(|i| ring.pick(key.as_bytes(), 3 * i as u32)).collect();
            prop_assert_eq!(walk.len() as u64, n);
            prop_assert_eq!(ring.pick(key.as_bytes(), 0), ring.pick(key.as_bytes(), 2));
        }
    }
}
