//! The calls that the workers of a node share.

use super::bench::{Bench, granted_as, millis, secs};
use super::fencing::gone;
use super::granting::submitted;
use crate::core::call::Call;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::WorkerId;
use crate::step::{BATCH_MAX, BeginReply, Refusal};

fn with_workers() -> Bench {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.all();
    bench
}

fn names(letter: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{letter}{i:03}")).collect()
}

fn assign(bench: &mut Bench, worker: u64, entry: u64, token: u64, names: &[String]) {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    bench.assign(worker, entry, token, &names);
}

/// The jobs that each worker begins in the call in flight.
fn begins(bench: &mut Bench) -> Vec<(u64, usize)> {
    let mut seen = Vec::new();
    bench.begins_answered(|of| {
        seen.push((of.worker.0, of.jobs.len()));
        Ok(vec![])
    });
    seen
}

#[test]
fn starts_that_arrive_during_a_begin_are_the_next_begin() {
    let mut bench = with_workers();
    bench.assign(1, 5, 7, &["a"]);
    assert_eq!(bench.of(&["begin"]), ["begin 1: a@7; done 5"]);
    bench.assign(2, 5, 8, &["b"]);
    bench.assign(1, 6, 9, &["c"]);
    assert_eq!(bench.of(&["begin"]), [""; 0], "one is in flight");
    bench.begun();
    assert_eq!(bench.of(&["begin"]), ["begin 1: c@9; done 6; 2: b@8; done 5"]);
}

#[test]
fn a_worker_cut_off_by_a_full_reply_goes_first_next_time() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    bench.assign(1, 6, 7, &["large"]);
    bench.begin(2, 5, 8, &["small"]);
    bench.all();
    bench.assign(1, 7, 9, &["larger"]);
    bench.begins_answered(|of| {
        Ok(vec![if of.worker.0 == 1 { BeginReply::Refused } else { BeginReply::Full }])
    });
    assert_eq!(bench.of(&["begin"]), ["begin 2: small@8; 1: larger@9; done 7"]);
}

#[test]
fn successes_that_arrive_during_a_note_are_the_next_note() {
    let mut bench = with_workers();
    bench.begin(1, 5, 7, &["a", "c"]);
    bench.begin(2, 5, 8, &["b"]);
    bench.all();
    bench.handler(1, "a", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["started"]), ["started 1: a@7 tell=n"]);
    bench.handler(2, "b", 8, HandlerEvent::Started);
    bench.handler(1, "c", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["started"]), [""; 0], "one is in flight");
    bench.started_noted();
    assert_eq!(bench.of(&["started"]), ["started 1: c@7 tell=n; 2: b@8 tell=n"]);
}

#[test]
fn a_worker_that_is_fenced_takes_no_other_with_it() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    bench.assign(1, 6, 7, &["a"]);
    bench.begin(2, 5, 8, &["b"]);
    bench.all();
    bench.begins_answered(|of| if of.worker.0 == 1 { Err(Refusal::Fenced) } else { Ok(vec![]) });
    assert_eq!(bench.of(&["!", "fence"]), ["! fenced 1 with 1", "fence 1"]);
    bench.assign(2, 6, 9, &["d"]);
    assert_eq!(bench.of(&["begin"]), ["begin 2: d@9; done 6"]);
}

#[test]
fn one_call_takes_a_batch_and_the_next_rotates_the_worker() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    assign(&mut bench, 1, 6, 7, &names("a", BATCH_MAX - 8));
    assign(&mut bench, 2, 6, 8, &names("b", BATCH_MAX));
    bench.begun();
    assign(&mut bench, 1, 7, 9, &names("c", BATCH_MAX));
    assert_eq!(begins(&mut bench), [(1, BATCH_MAX - 8), (2, 8)]);
    assert_eq!(begins(&mut bench), [(2, BATCH_MAX - 8), (1, 8)]);
    assert_eq!(begins(&mut bench), [(1, BATCH_MAX - 8)]);
}

#[test]
fn entries_that_are_done_with_take_room_too() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    for entry in 0..BATCH_MAX as u64 {
        bench.assign(1, 6 + entry, 6, &[]);
    }
    bench.begin(2, 5, 7, &["a"]);
    assert_eq!(begins(&mut bench), [(1, 0)]);
    assert_eq!(begins(&mut bench), [(2, 1)]);
}

#[test]
fn notes_begin_with_another_worker_each_time() {
    let mut bench = with_workers();
    bench.begin(1, 5, 6, &["a", "b", "c"]);
    bench.begin(2, 5, 7, &["d", "e", "f"]);
    bench.all();
    let mut notes = Vec::new();
    bench.handler(1, "a", 6, HandlerEvent::Started);
    for (one, two) in [("b", "d"), ("c", "e")] {
        bench.handler(1, one, 6, HandlerEvent::Started);
        bench.handler(2, two, 7, HandlerEvent::Started);
        bench.started_noted();
        notes.extend(bench.of(&["started"]));
    }
    assert_eq!(notes[1..], ["started 1: b@6 tell=n; 2: d@7 tell=n", "started 2: e@7 tell=n; 1: c@6 tell=n"]);
}

#[test]
fn a_worker_that_always_has_a_batch_leaves_room_for_others() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    for (entry, letter) in [(6, "a"), (7, "b"), (8, "c")] {
        assign(&mut bench, 1, entry, entry, &names(letter, BATCH_MAX));
    }
    bench.begin(2, 5, 9, &["d"]);
    assert_eq!(begins(&mut bench), [(1, BATCH_MAX)]);
    assert_eq!(begins(&mut bench), [(2, 1), (1, BATCH_MAX - 1)]);
    assert_eq!(begins(&mut bench), [(1, BATCH_MAX)]);
}

#[test]
fn a_call_that_was_not_answered_goes_again_for_all_of_them() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    bench.assign(1, 6, 7, &["a"]);
    bench.begin(2, 5, 8, &["b"]);
    bench.all();
    bench.fail("begin");
    assert_eq!(bench.after(millis(20)).of(&["begin"]), ["begin 2: b@8; done 5; 1: a@7; done 6"]);
}

#[test]
fn a_begin_behind_another_call_does_not_wake_the_engine() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["a"]);
    bench.fail("begin");
    bench.assign(2, 5, 7, &["b"]);
    assert_eq!(bench.of(&["begin"]).last().map(String::as_str), Some("begin 2: b@7; done 5"));
    bench.advance(millis(20));
    let next = bench.engine.deadline().map(|at| at.since(bench.now));
    assert!(next.is_none_or(|wait| !wait.is_zero()), "{next:?}");
    bench.begun();
    assert_eq!(bench.of(&["begin"]), ["begin 1: a@6; done 5"]);
}

#[test]
fn workers_that_have_nothing_to_say_give_nobody_a_second_turn() {
    let mut bench = with_workers();
    for silent in 3..=6 {
        bench.worker(silent);
    }
    bench.assign(1, 5, 6, &["first"]);
    for (entry, letter) in (6..).zip(["a", "b", "c", "d"]) {
        assign(&mut bench, 1, entry, entry, &names(letter, BATCH_MAX));
        assign(&mut bench, 2, entry, entry, &names(letter, BATCH_MAX));
    }
    bench.begun();
    let turns: Vec<_> = (0..6).map(|_| begins(&mut bench)[0].0).collect();
    assert_eq!(turns, [1, 2, 1, 2, 1, 2]);
}

#[test]
fn an_unanswered_call_goes_again_without_gone_workers() {
    let mut bench = with_workers();
    bench.assign(1, 5, 6, &["first"]);
    bench.assign(1, 6, 7, &["a"]);
    bench.begin(2, 5, 8, &["b"]);
    assert_eq!(bench.of(&["begin"]).last().map(String::as_str), Some("begin 1: a@7; done 6; 2: b@8; done 5"));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.handler(1, "first", 6, HandlerEvent::Aborted);
    gone(&mut bench);
    bench.seat(3, 0);
    bench.fail("begin");
    assert_eq!(bench.after(millis(20)).of(&["begin"]), ["begin 2: b@8; done 5"]);
}

/// Jobs `a` and `b` have started, each on its worker; the notes of their starts have no answer.
fn with_notes_to_send_again() -> Bench {
    let mut bench = with_workers();
    bench.begin(1, 5, 7, &["a"]);
    bench.begin(2, 5, 8, &["b"]);
    bench.lost(2);
    bench.handler(1, "a", 7, HandlerEvent::Started);
    bench.handler(2, "b", 8, HandlerEvent::Started);
    bench.all();
    bench.fail_with("started", super::bench::unanswered());
    bench
}

#[test]
fn a_note_behind_another_call_does_not_wake_the_engine() {
    let mut bench = with_notes_to_send_again();
    assert_eq!(bench.of(&["started"]), ["started 2: b@8 tell=n"]);
    bench.advance(millis(20));
    bench.started_noted();
    assert_eq!(bench.of(&["started"]), ["started 1: a@7 tell=n"]);
}

#[test]
fn each_worker_hears_of_its_own_starts() {
    let mut bench = with_notes_to_send_again();
    bench.fail_with("started", super::bench::unanswered());
    bench.all();
    bench.advance(millis(20));
    let sent = bench.of(&["started"]);
    let call = bench.call("started");
    let Call::Started(step) = &call else { panic!("{call:?}") };
    let noted: Vec<_> = step.starts.iter().map(|of| of.worker.0 == 2).collect();
    bench.done(call.answered(Ok(noted)));
    bench.advance(secs(1));
    let again = bench.of(&["started"]);
    assert_eq!((sent.len(), again), (1, vec!["started 1: a@7 tell=n".to_owned()]), "{sent:?}");
}

#[test]
fn notes_of_starts_that_can_wait_go_with_those_of_others() {
    let mut bench = with_workers();
    for (worker, entry, token, name) in [(1, 5, 7, "a"), (2, 6, 8, "b")] {
        bench.event(worker, entry, granted_as(1, token, &[name], submitted));
        bench.handler(worker, name, token, HandlerEvent::Started);
        bench.all();
        bench.advance(millis(10));
    }
    let both = "started 1: a@7 tell=n; done 5; 2: b@8 tell=n; done 6";
    assert_eq!(bench.seen(), [both], "the note of the second worker has waited for 10 ms");
    bench.started_noted();
    assert_eq!((bench.after(secs(1)).seen(), bench.in_flight()), (vec![], vec![]));
}
