//! A fenced worker sends only its good-bye, and only after all its handlers have ended.

use std::time::Duration;

use super::bench::{Bench, key, millis, present, record, secs};
use crate::core::call::{Call, READ_BLOCK};
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker};
use crate::model::id::{Incarnation, WorkerId};
use crate::step::{Expired, NodeEvents, OwnedPage, Refusal, StoreError};

/// Answers the good-bye of worker 1.
pub(super) fn gone(bench: &mut Bench) {
    bench.answer_with("leave", vec![Expired::Done]);
}

#[test]
fn a_lost_lease_ends_all_handlers_before_anything_is_sent() {
    let mut bench = Bench::that_runs(3, &["a", "d"]);
    bench.begin(1, 4, 4, &["b"]);
    bench.handler(1, "d", 3, HandlerEvent::Ended(Ok(())));
    bench.assign(1, 5, 5, &["c"]);
    bench.all();
    bench.step([Input::LeaseLost(WorkerId(1))]);
    assert_eq!(bench.seen(), ["! fenced 1 with 2", "fence 1", "STOP a@3 LeaseLost", "CANCEL b@4"]);
    bench.begun();
    bench.released();
    assert_eq!(bench.seen(), [""; 0], "a late begin starts nothing, a late release begins nothing");
    bench.handler(1, "b", 4, HandlerEvent::Failed("cancelled".into()));
    assert_eq!(bench.after(secs(1)).seen(), [""; 0], "a runs");
    bench.handler(1, "a", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["drop 1", "leave 1"]);
    gone(&mut bench);
    assert_eq!(bench.seen(), ["join 7.1.2 slot=0", "reap 1"], "under another name, for its old slot");
}

#[test]
fn a_read_that_replaces_one_that_waits_is_answered_at_once() {
    let block = |bench: &mut Bench| {
        let Call::ReadNode(read, _) = bench.in_flight_call("read-node") else { panic!("no read") };
        bench.events(NodeEvents::default());
        (read.cursors.workers.len(), read.block)
    };
    let mut bench = Bench::with_worker();
    assert_eq!(block(&mut bench), (1, Duration::ZERO), "a worker has come while the first one waited");
    assert_eq!(block(&mut bench), (1, READ_BLOCK));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    gone(&mut bench);
    assert_eq!(block(&mut bench), (0, Duration::ZERO), "its worker is gone");
    assert_eq!(block(&mut bench), (0, READ_BLOCK));
    bench.fail("read-node");
    bench.advance(secs(1));
    assert_eq!(block(&mut bench), (0, Duration::ZERO), "nobody knows whether it would be answered");
}

#[test]
fn a_worker_that_the_store_does_not_know_is_fenced() {
    let mut bench = Bench::that_runs(3, &["k"]);
    let mut renewal = bench.renewal();
    renewal.states = vec![None];
    bench.step([Input::Renewed {
        incarnation: Incarnation(1),
        workers: vec![WorkerId(1)],
        answer: Ok(renewal),
    }]);
    assert_eq!(bench.seen(), ["! fenced 1 with 1", "fence 1", "STOP k@3 LeaseLost"]);
}

#[test]
fn a_begin_refused_for_lost_membership_fences_the_worker() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.assign(1, 5, 4, &["b"]);
    bench.seen();
    bench.begin_refused(&Refusal::Fenced);
    assert_eq!(bench.seen(), ["! fenced 1 with 1", "fence 1", "STOP k@3 LeaseLost"]);
}

#[test]
fn another_incarnation_fences_workers_with_a_passed_lease() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.running(3, &["k"]);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.fail_with("release", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    assert_eq!(bench.seen(), ["release 1: k@3 d", "survey"]);
    bench.leases = [1, 2].map(|worker| (WorkerId(worker), bench.now)).into();
    bench.survey(present(2, false, "a"));
    let fences = ["! fenced 1 with 0", "fence 1", "! fenced 2 with 0", "fence 2"];
    let leaves = ["drop 1", "leave 1", "drop 2", "leave 2"];
    assert_eq!(bench.seen(), [&["bless a", "renew 2"][..], &fences, &leaves].concat());
}

#[test]
fn no_good_bye_while_a_handler_runs_however_long() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    assert_eq!(bench.after(secs(1000)).seen(), ["ABORT k@3", "! stuck k@3"]);
    bench.handler(1, "k", 3, HandlerEvent::Aborted);
    assert_eq!(bench.seen(), ["drop 1", "leave 1"]);
}

#[test]
fn a_start_that_succeeds_after_the_fence_is_stopped() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["STOP k@7 LeaseLost"]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["drop 1", "leave 1"]);
}

#[test]
fn a_good_bye_without_an_answer_is_said_again_after_a_pause() {
    let mut bench = Bench::with_worker();
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    bench.fail("leave");
    assert_eq!(bench.after(millis(100)).seen(), ["! trouble", "leave 1"]);
}

#[test]
fn late_answers_of_a_fenced_worker_change_nothing() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.assign(1, 4, 4, &["b"]);
    bench.fail("begin");
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    let lost = (key("lost"), Some(record("lost", 2, WorkerId(1))));
    bench.answer_with("owned", OwnedPage { next: None, jobs: vec![lost] });
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["drop 1", "leave 1"]);
}

#[test]
fn calls_that_fail_after_the_fence_are_not_made_again() {
    let mut bench = Bench::that_runs(3, &["k", "j"]);
    bench.assign(1, 4, 4, &["b"]);
    bench.handler(1, "j", 3, HandlerEvent::Ended(Ok(())));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    bench.fail("begin");
    bench.fail("release");
    assert_eq!(bench.after(secs(5)).seen(), ["! trouble", "! trouble"]);
}

#[test]
fn a_fenced_worker_that_was_to_leave_leaves_for_good() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    bench.all();
    gone(&mut bench);
    assert_eq!(bench.seen(), ["seated 1", "reply 2 drained ok", "reap 1"]);
}
