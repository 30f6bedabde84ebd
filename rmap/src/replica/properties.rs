//! Copies under loss, doubling, reordering, gaps, resets, expiry, new incarnations and histories that fork.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Applied, Change, Replica};
use crate::{Entry, Place, Snapshot};

/// A value and its life.
type Written = (u8, Option<u8>);

/// A change of the map itself.
#[derive(Clone, Debug)]
enum Write {
    /// One revision that sets fields, some of them with deadlines, and deletes others. It may delete all first.
    Change { clear: bool, fields: Vec<(u8, Option<Written>)> },
    /// One revision that deletes all entries that are due.
    Expire,
    /// Another incarnation: empty, with revisions that begin anew.
    BeginAnew,
    /// A fail-over to a replica without the last writes.
    GoBack(usize),
}

/// The network's treatment of a write's message: how often it arrives, and how much later.
#[derive(Clone, Debug)]
struct Delivery {
    copies: usize,
    delay: usize,
}

fn write() -> impl Strategy<Value = Write> {
    let value = proptest::option::of((any::<u8>(), proptest::option::of(any::<u8>())));
    let fields = proptest::collection::vec((0_u8..5, value), 0..4);
    prop_oneof![
        12 => (proptest::bool::weighted(0.1), fields).prop_map(|(clear, fields)| Write::Change { clear, fields }),
        2 => Just(Write::Expire),
        1 => Just(Write::BeginAnew),
        2 => (1_usize..6).prop_map(Write::GoBack),
    ]
}

fn delivery() -> impl Strategy<Value = Delivery> {
    (0_usize..4, prop_oneof![4 => Just(0), 1 => 0_usize..6])
        .prop_map(|(copies, delay)| Delivery { copies: copies.min(2), delay })
}

#[derive(Clone, Debug)]
struct State {
    place: Place,
    entries: BTreeMap<Bytes, Entry>,
}

impl State {
    fn snapshot(&self) -> Snapshot {
        Snapshot::at(self.place, self.entries.clone())
    }

    fn is_in(&self, copy: &Snapshot) -> bool {
        let deadlines = self.entries.iter().all(|(key, entry)| copy.deadline(key) == entry.deadline);
        *copy == self.snapshot() && deadlines
    }
}

/// A server's map, and all its past states.
struct Original {
    now: State,
    past: Vec<State>,
}

impl Original {
    fn new() -> Self {
        let now = State { place: Place::new(1, 0, 1), entries: BTreeMap::new() };
        Self { past: vec![now.clone()], now }
    }

    /// Applies the write at `stamp`, which is unique, and returns the message.
    fn write(&mut self, write: &Write, stamp: u64) -> Option<Change> {
        let before = self.now.place;
        let (clear, fields) = match write {
            Write::GoBack(steps) => {
                let then = self.past.len().saturating_sub(1 + steps);
                self.now = self.past[then].clone();
                return None;
            }
            Write::BeginAnew => {
                self.now = State { place: Place::new(stamp, 0, stamp), entries: BTreeMap::new() };
                self.past.push(self.now.clone());
                return None;
            }
            Write::Expire => {
                let due = |(_, entry): &(&Bytes, &Entry)| entry.deadline.is_some_and(|d| d <= stamp);
                let due = self.now.entries.iter().filter(due).map(|(key, _)| (key.clone(), None));
                (false, due.collect::<Vec<_>>())
            }
            Write::Change { clear, fields } => {
                // A change has each field once.
                let fields: BTreeMap<_, _> = fields.iter().copied().collect();
                let entry = |(value, ttl): (u8, Option<u8>)| {
                    Entry::new(value.to_string(), ttl.map(|ttl| stamp + u64::from(ttl)))
                };
                let fields = fields.into_iter().map(|(k, v)| (Bytes::from(k.to_string()), v.map(entry)));
                (*clear, fields.collect())
            }
        };
        if clear {
            self.now.entries.clear();
        }
        for (key, entry) in fields.clone() {
            match entry {
                Some(entry) => self.now.entries.insert(key, entry),
                None => self.now.entries.remove(&key),
            };
        }
        self.now.place = Place::new(before.incarnation, before.revision + 1, stamp);
        self.past.push(self.now.clone());
        Some(Change::new(self.now.place, before.stamp, clear, fields))
    }
}

/// Lets a copy follow over a bad network. Checks after each message that the copy is a state that the map has had.
fn follow(
    steps: &[(Write, Delivery)],
    stamp: impl Fn(usize) -> u64,
) -> Result<(Original, Replica), TestCaseError> {
    let mut original = Original::new();
    let mut replica = Replica::default();
    replica.install(original.now.snapshot());
    let mut under_way: Vec<(usize, Change)> = Vec::new();
    for (now, (write, delivery)) in steps.iter().enumerate() {
        if let Some(change) = original.write(write, stamp(now)) {
            let due = now + delivery.delay;
            under_way.extend(std::iter::repeat_n((due, change), delivery.copies));
        }
        let (due, later): (Vec<_>, Vec<_>) = under_way.drain(..).partition(|(due, _)| *due <= now);
        under_way = later;
        for (_, change) in due {
            let before = replica.snapshot();
            match replica.apply(change.clone()) {
                Applied::Done => prop_assert_eq!(replica.snapshot().place(), Some(change.place)),
                Applied::Stale => prop_assert_eq!(replica.snapshot(), before),
                Applied::Gap => {
                    prop_assert_eq!(replica.snapshot(), before);
                    replica.install(original.now.snapshot());
                }
            }
            let copy = replica.snapshot();
            let then = original.past.iter().find(|state| Some(state.place) == copy.place());
            prop_assert!(then.is_some_and(|then| then.is_in(&copy)), "the content is that of its place");
        }
    }
    Ok((original, replica))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_is_always_a_past_state_and_ends_in_the_present_one(
        steps in proptest::collection::vec((write(), delivery()), 1..60),
    ) {
        let (mut original, mut replica) = follow(&steps, |now| now as u64 * 10 + 10)?;
        // A last change arrives: the copy is then up to date, whatever was lost before.
        let last = Write::Change { clear: false, fields: vec![(0, Some((0, None)))] };
        let last = original.write(&last, 1_000_000).unwrap();
        if replica.apply(last) == Applied::Gap {
            replica.install(original.now.snapshot());
        }
        prop_assert!(original.now.is_in(&replica.snapshot()));
    }

    #[test]
    fn a_clock_that_jumps_hides_nothing_from_a_comparison(
        steps in proptest::collection::vec((write(), delivery()), 1..60),
        clock in proptest::collection::vec(1_u64..50, 60),
    ) {
        let (original, mut replica) = follow(&steps, |now| clock[now] * 100 + now as u64)?;
        if replica.snapshot().place() != Some(original.now.place) {
            replica.install(original.now.snapshot());
        }
        prop_assert!(original.now.is_in(&replica.snapshot()));
    }
}
