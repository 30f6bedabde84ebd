//! A node compares the records with its own jobs at intervals.

use super::bench::{Bench, key, present, secs};
use crate::core::call::Call;
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::step::{BATCH_MAX, HeldState, Inspected, Refusal, StoreError};

type InspectedJob = (WorkerId, JobKey, Token);

/// Waits for the next look, and answers it; returns its question.
fn look(
    bench: &mut Bench,
    next: u64,
    strangers: usize,
    of: impl Fn(&InspectedJob) -> HeldState,
) -> (u64, Vec<InspectedJob>) {
    while !bench.is_calling("inspect") {
        bench.advance(secs(1));
    }
    bench.seen();
    let Call::Inspect(look) = bench.in_flight_call("inspect") else { panic!("no look") };
    bench.answer_with("inspect", Inspected { next, strangers, held: look.held.iter().map(of).collect() });
    (look.cursor, look.held)
}

#[test]
fn each_look_goes_on_where_the_one_before_has_ended() {
    let mut bench = Bench::with_worker();
    let names: Vec<_> = (0..BATCH_MAX + 2).map(|n| format!("{n:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for page in names.chunks(64) {
        bench.running(3, page);
    }
    let mut seen = Vec::new();
    for (next, cursor) in [(7, 0), (0, 7), (0, 0)] {
        let (asked, held) = look(&mut bench, next, 0, |_| HeldState::Kept);
        assert_eq!(asked, cursor);
        assert!(held.iter().all(|(worker, _, token)| (*worker, *token) == (WorkerId(1), Token(3))));
        seen.push((held.first().cloned().unwrap().1, held.len()));
    }
    assert_eq!(seen, [(key("000"), BATCH_MAX), (key("128"), 2), (key("000"), BATCH_MAX)]);
    assert_eq!(bench.of(&["STOP", "survey", "!"]), [""; 0]);
}

#[test]
fn the_last_page_of_a_look_starts_an_audit() {
    let mut bench = Bench::that_runs(3, &["k"]);
    look(&mut bench, 7, 0, |_| HeldState::Kept);
    assert!(!bench.is_calling("owned"));
    look(&mut bench, 0, 0, |_| HeldState::Kept);
    assert!(bench.is_calling("owned"));
}

#[test]
fn a_run_that_its_record_outranks_is_ended() {
    let mut bench = Bench::that_runs(3, &["k", "l"]);
    look(
        &mut bench,
        0,
        0,
        |(_, name, _)| {
            if *name == key("k") { HeldState::Outranked } else { HeldState::Kept }
        },
    );
    assert_eq!(bench.of(&["STOP", "survey", "!"]), ["STOP k@3 LeaseLost", "! outranked k@3"]);
}

#[test]
fn a_run_without_a_record_shows_that_data_were_lost() {
    let mut bench = Bench::that_runs(3, &["k"]);
    look(&mut bench, 0, 0, |_| HeldState::Missing);
    assert_eq!(bench.of(&["STOP", "survey"]), ["survey"], "and it runs on");
}

/// The present incarnation has its record again.
#[test]
fn a_look_at_an_earlier_incarnation_says_nothing_of_this_one() {
    let mut bench = Bench::that_runs(3, &["k"]);
    while !bench.is_calling("inspect") {
        bench.advance(secs(1));
    }
    bench.submit("n", "n.1", false, secs(600));
    bench.fail_with("dispatch", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.survey(present(2, false, "a"));
    bench.maps(2);
    bench.seen();
    look(&mut bench, 0, 0, |_| HeldState::Missing);
    assert_eq!(bench.of(&["survey"]), [""; 0]);
}

#[test]
fn a_job_that_is_ending_needs_no_record() {
    let mut bench = Bench::that_runs(3, &["k"]);
    while !bench.is_calling("inspect") {
        bench.advance(secs(1));
    }
    bench.stop_event(1, 9, None, &[("k", 3)]);
    bench.seen();
    look(&mut bench, 0, 0, |_| HeldState::Missing);
    assert_eq!(bench.of(&["survey"]), [""; 0]);
}
