//! A node reads its own stream from the right entry, and counts the right entries.

use tenure_steps::EntryId;
use tenure_steps::Failure;

use super::bench::{Bench, config, entry, id, key, millis, node, present, secs};
use crate::core::call::{Call, READ_BLOCK, READ_ENTRIES, READ_ENTRIES_MAX};
use crate::core::input::Input;
use crate::model::id::{Incarnation, Token, WorkerId};
use crate::step::{
    AskEvent, AskId, BATCH_BYTES, DispatchReply, NodeEvents, Renewal, Said, StoreError, WorkerEvent,
};

fn said(outcomes: &[(u64, &str)]) -> NodeEvents {
    let outcomes = outcomes.iter().map(|(number, told)| (entry(*number), vec![(id(told), "ok".into())]));
    NodeEvents { outcomes: outcomes.collect(), ..NodeEvents::default() }
}

/// The start of the read in flight, and whether it waits.
fn reads(bench: &Bench) -> (EntryId, bool) {
    let Call::ReadNode(read, _) = bench.in_flight_call("read-node") else { panic!("no read") };
    (read.cursors.node, read.block == READ_BLOCK)
}

/// A renewal was answered. `opened`: the node's stream is new; `None`: no answer came.
fn renewed(bench: &mut Bench, opened: Option<bool>) {
    let lost = || StoreError::Unanswered(Failure::new(std::io::Error::other("lost")));
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
    let done = bench.in_flight_call("read-node").answered(Ok(said(&[])));
    let lost = Err(StoreError::Unanswered(Failure::new(std::io::Error::other("lost"))));
    bench.step([
        Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: lost },
        Input::Done(Box::new(done)),
    ]);
    assert_eq!(reads(&bench).0, entry(9_000).previous());
}

/// How many entries the read in flight takes of each stream.
fn takes(bench: &Bench) -> usize {
    let Call::ReadNode(read, _) = bench.in_flight_call("read-node") else { panic!("no read") };
    read.max
}

/// This many entries of the node's stream, from a number on, with one outcome each.
fn page(from: u64, entries: usize) -> NodeEvents {
    let outcomes = (from..).take(entries).map(|number| (entry(number), vec![(id("n.0"), "ok".into())]));
    NodeEvents { outcomes: outcomes.collect(), ..NodeEvents::default() }
}

#[test]
fn a_node_takes_twice_as_many_entries_as_it_has_found() {
    let mut bench = waiting();
    let mut seen = Vec::new();
    for found in [8, 16, 20, 100, 128, 5, 4, 0] {
        bench.events(page(10_000, found));
        seen.push(takes(&bench));
    }
    assert_eq!(seen, [16, 32, 40, READ_ENTRIES_MAX, READ_ENTRIES_MAX, 10, READ_ENTRIES, READ_ENTRIES]);
    for found in [8, 16] {
        bench.events(page(20_000, found));
    }
    bench.fail("read-node");
    bench.advance(secs(1));
    assert_eq!(takes(&bench), READ_ENTRIES, "they may be too large");
}

#[test]
fn entries_of_the_workers_count_stream_by_stream() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.events(NodeEvents::default());
    let of = |worker, from: u64, count| {
        (from..).take(count).map(move |number| (WorkerId(worker), entry(number), WorkerEvent::Unknown))
    };
    let workers = of(1, 1, 8).chain(of(2, 1, 5)).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    assert_eq!(takes(&bench), 16);
}

#[test]
fn entries_with_large_bodies_are_taken_a_few_at_a_time() {
    let mut bench = waiting();
    bench.events(page(10_000, 64));
    assert_eq!(takes(&bench), 128);
    let said = |number| (AskId { life: 1, number }, Said::Answer(vec![b'x'; BATCH_BYTES / 20 - 100].into()));
    bench.events(NodeEvents { replies: (0..64).map(said).collect(), ..page(11_000, 64) });
    assert_eq!(takes(&bench), 20, "the bytes of a batch");
    bench.events(NodeEvents { replies: (0..200).map(said).collect(), ..page(12_000, 20) });
    assert_eq!(takes(&bench), READ_ENTRIES, "several answers in each entry");
    let mut bench = Bench::with_worker();
    bench.events(NodeEvents::default());
    let ask = |number| AskEvent {
        id: AskId { life: 1, number },
        name: "a".into(),
        token: Token(1),
        not_after: 0,
        poke: false,
        body: vec![b'x'; BATCH_BYTES / 10 - 100].into(),
    };
    let asked = |number| WorkerEvent::Ask { asker: node("m"), asks: vec![(key("k"), ask(number))] };
    let workers = (1..=16).map(|number| (WorkerId(1), entry(number), asked(number))).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    assert_eq!(takes(&bench), 10);
}

/// Each node of a large fleet says what became of one job. All of it waits in the dispatcher's stream, and each read
/// takes 20 ms.
#[test]
fn a_dispatcher_hears_a_large_fleet_before_it_asks_about_jobs() {
    const JOBS: u64 = 600;
    let mut bench = waiting();
    for number in 0..JOBS {
        bench.submit(&format!("j{number}"), &format!("n.j{number}"), true, secs(60));
    }
    while bench.is_calling("dispatch") {
        bench.answer_each("dispatch", DispatchReply::Accepted);
    }
    bench.all();
    let (mut heard, mut reads) = (0, 0);
    while heard < JOBS {
        bench.advance(millis(20));
        let some = (takes(&bench) as u64).min(JOBS - heard);
        let said = (heard..heard + some)
            .map(|number| (entry(10_000 + number), vec![(id(&format!("n.j{number}")), "ok".into())]));
        bench.events(NodeEvents { outcomes: said.collect(), ..NodeEvents::default() });
        (heard, reads) = (heard + some, reads + 1);
    }
    let seen = bench.of(&["reply", "lookup"]);
    assert_eq!(seen.iter().filter(|line| line.starts_with("reply")).count() as u64, JOBS);
    assert_eq!(seen.len() as u64, JOBS, "no job is looked up");
    assert!(reads <= 8, "{reads} reads");
}
