//! Copies under loss, doubling, reordering, gaps and new incarnations.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use tenure_rmap::{Applied, Change, Replica, Snapshot};

/// What happens to the map itself.
#[derive(Clone, Debug)]
enum Write {
    /// One revision that sets and deletes fields.
    Change(Vec<(u8, Option<u8>)>),
    /// A later incarnation, empty, whose revisions begin anew.
    BeginAnew,
}

/// What the network does to the message of a write: how often it comes, and how much later.
#[derive(Clone, Debug)]
struct Delivery {
    copies: usize,
    delay: usize,
}

fn write() -> impl Strategy<Value = Write> {
    let field = (0_u8..4, proptest::option::of(any::<u8>()));
    prop_oneof![
        9 => proptest::collection::vec(field, 1..4).prop_map(Write::Change),
        1 => Just(Write::BeginAnew),
    ]
}

fn delivery() -> impl Strategy<Value = Delivery> {
    (0_usize..4, prop_oneof![4 => Just(0), 1 => 0_usize..6])
        .prop_map(|(copies, delay)| Delivery { copies: copies.min(2), delay })
}

fn apply(original: &mut Snapshot, write: &Write) -> Option<Change> {
    match write {
        Write::BeginAnew => {
            *original = Snapshot::new(original.incarnation.unwrap() + 1, 0, BTreeMap::new());
            None
        }
        Write::Change(fields) => {
            original.revision += 1;
            let text = |n: &u8| Bytes::from(n.to_string());
            let fields: Vec<_> = fields.iter().map(|(k, v)| (text(k), v.as_ref().map(text))).collect();
            for (key, value) in fields.clone() {
                match value {
                    Some(value) => original.entries.insert(key, value),
                    None => original.entries.remove(&key),
                };
            }
            Some(Change { incarnation: original.incarnation.unwrap(), revision: original.revision, fields })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_is_always_a_state_that_was_and_ends_in_the_present_one(
        steps in proptest::collection::vec((write(), delivery()), 1..60),
    ) {
        let mut original = Snapshot::new(1, 0, BTreeMap::new());
        let mut history = BTreeMap::from([((1, 0), original.clone())]);
        let mut replica = Replica::default();
        replica.install(original.clone());
        let mut under_way: Vec<(usize, Change)> = Vec::new();

        for (now, (write, delivery)) in steps.iter().enumerate() {
            if let Some(change) = apply(&mut original, write) {
                let due = now + delivery.delay;
                under_way.extend(std::iter::repeat_n((due, change), delivery.copies));
            }
            history.insert((original.incarnation.unwrap(), original.revision), original.clone());

            let (due, later): (Vec<_>, Vec<_>) = under_way.drain(..).partition(|(due, _)| *due <= now);
            under_way = later;
            for (_, change) in due {
                let before = (**replica.snapshot()).clone();
                match replica.apply(&change) {
                    Applied::Applied => prop_assert_eq!(replica.snapshot().revision, before.revision + 1),
                    Applied::Stale => prop_assert_eq!(&**replica.snapshot(), &before),
                    Applied::Gap => {
                        prop_assert_eq!(&**replica.snapshot(), &before);
                        replica.install(original.clone());
                    }
                }
                let copy = replica.snapshot();
                let then = &history[&(copy.incarnation.unwrap(), copy.revision)];
                prop_assert_eq!(&**copy, then, "the content is that of its revision");
                prop_assert!(
                    change.incarnation != copy.incarnation.unwrap() || copy.revision >= change.revision,
                    "a copy is never behind what it was told"
                );
            }
        }

        // One more change that arrives: whatever was lost before it, the copy is now up to date.
        let last = apply(&mut original, &Write::Change(vec![(0, Some(0))])).unwrap();
        if replica.apply(&last) == Applied::Gap {
            replica.install(original.clone());
        }
        prop_assert_eq!(&**replica.snapshot(), &original);
    }
}
