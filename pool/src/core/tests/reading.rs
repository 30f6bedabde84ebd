//! A node reads its own stream from the right entry, and counts the right entries.

use std::sync::Arc;

use tenure_streaming::EntryId;

use super::bench::{Bench, config, entry, id, present, secs};
use crate::core::call::{Call, Done, READ_BLOCK, READ_ENTRIES};
use crate::core::input::Input;
use crate::model::id::Incarnation;
use crate::store::{NodeEvents, Renewal, StoreError};

fn said(outcomes: &[(u64, &str)]) -> NodeEvents {
    let outcomes = outcomes.iter().map(|(number, told)| (entry(*number), vec![(id(told), "ok".into())]));
    NodeEvents { outcomes: outcomes.collect(), ..NodeEvents::default() }
}

/// The start of the read in flight, and whether it waits.
fn reads(bench: &Bench) -> (EntryId, bool) {
    let Call::ReadNode { cursors, block, .. } = bench.in_flight_call("read-node") else { panic!("no read") };
    (cursors.node, block == READ_BLOCK)
}

/// A renewal was answered. `opened`: the node's stream is new; `None`: no answer came.
fn renewed(bench: &mut Bench, opened: Option<bool>) {
    let lost = || StoreError::Unanswered(Arc::new(std::io::Error::other("lost")));
    let answer = opened.map(|opened| Renewal { opened, ..bench.renewal() }).ok_or_else(lost);
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
}

/// A node that has read up to entry 9000, and waits for the start of `n.1`.
fn waiting() -> Bench {
    let mut bench = Bench::attached();
    bench.events(said(&[(9_000, "n.0")]));
    bench.submit("k", "n.1", true, secs(60));
    assert_eq!(reads(&bench), (entry(9_000), true));
    bench.all();
    bench
}

fn hears(bench: &mut Bench) -> bool {
    bench.of(&["reply"]).iter().any(|line| line.starts_with("reply 1 submitted"))
}

#[test]
fn a_stream_that_may_be_another_one_is_looked_at() {
    for (opened, looks) in [(Some(false), false), (Some(true), true), (None, true)] {
        let mut bench = waiting();
        renewed(&mut bench, opened);
        let from = if looks { (entry(9_000).previous(), false) } else { (entry(9_000), true) };
        assert_eq!(reads(&bench), from, "{opened:?}");
    }
}

#[test]
fn a_stream_with_lower_ids_is_read_from_its_beginning() {
    let mut bench = waiting();
    renewed(&mut bench, Some(true));
    bench.events(said(&[]));
    assert_eq!(reads(&bench), (EntryId::MIN, true));
    bench.events(said(&[(5, "n.1")]));
    assert!(hears(&mut bench));
}

#[test]
fn entries_of_a_stream_count_once() {
    let mut bench = waiting();
    bench.submit("l", "n.0", true, secs(60));
    bench.all();
    renewed(&mut bench, None);
    bench.events(said(&[(9_000, "n.0"), (9_001, "n.1")]));
    assert_eq!(reads(&bench), (entry(9_001), true));
    assert!(bench.of(&["reply"]).iter().all(|line| !line.starts_with("reply 2")), "an id that came again");
}

#[test]
fn entries_after_a_deleted_one_count() {
    let mut bench = waiting();
    renewed(&mut bench, None);
    bench.events(said(&[(9_001, "n.1")]));
    assert!(hears(&mut bench));
}

#[test]
fn reads_by_a_former_process_do_not_count() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    bench.renewed();
    bench.submit("k", "n.1", true, secs(60));
    assert_eq!(reads(&bench), (EntryId::MIN, false));
    let page: Vec<_> = (1..=READ_ENTRIES as u64).map(|number| (number, "n.1")).collect();
    bench.events(said(&page));
    assert_eq!(reads(&bench), (entry(READ_ENTRIES as u64), false), "there may be more");
    bench.events(said(&[(9_000, "n.1")]));
    assert!(!hears(&mut bench));
    assert_eq!(reads(&bench), (entry(9_000), true), "that was all");
    bench.events(said(&[(9_001, "n.1")]));
    assert!(hears(&mut bench));
}

#[test]
fn a_read_from_before_the_doubt_says_nothing() {
    let mut bench = waiting();
    let Call::ReadNode { round, .. } = bench.in_flight_call("read-node") else { panic!("no read") };
    let answer = Ok(said(&[]));
    let lost = Err(StoreError::Unanswered(Arc::new(std::io::Error::other("lost"))));
    bench.step([
        Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: lost },
        Input::Done(Box::new(Done::ReadNode { round, answer })),
    ]);
    assert_eq!(reads(&bench).0, entry(9_000).previous());
}
