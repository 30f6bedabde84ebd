//! A job comes back under a newer token while its former run is here: its record was lost. One of them runs at a time.

use super::bench::{Bench, secs};
use super::leaving::drained;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::WorkerId;

/// A worker that runs a job under token 7 and has begun it again under token 9.
fn given_anew() -> Bench {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.begin(1, 9, 9, &["k"]);
    bench
}

#[test]
fn a_newer_token_ends_the_former_run_and_starts_when_it_has() {
    let mut bench = given_anew();
    assert_eq!(bench.of(&["STOP", "RUN", "release", "!"]), ["STOP k@7 LeaseLost", "! outranked k@7"]);
    assert_eq!(bench.after(secs(1)).of(&["ABORT", "RUN"]), ["ABORT k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "release"]), ["RUN k@9"]);
    bench.handler(1, "k", 9, HandlerEvent::Started);
    bench.stop_event(1, 10, None, &[("k", 9)]);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@9 Stopped"]);
}

#[test]
fn a_newer_token_takes_the_place_of_a_start_under_way() {
    let mut bench = Bench::that_starts(7, 7, &["k"]);
    bench.assign(1, 9, 9, &["k"]);
    bench.all();
    bench.begun();
    assert_eq!(bench.of(&["CANCEL", "RUN", "release"]), ["CANCEL k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "release"]), ["RUN k@9"]);
}

#[test]
fn an_older_token_is_given_back_and_ends_nothing() {
    let mut bench = Bench::that_runs(9, &["k"]);
    bench.begin(1, 7, 7, &["k"]);
    assert_eq!(bench.of(&["STOP", "RUN", "release"]), ["release 1: k@7 b"]);
}

#[test]
fn a_stop_ends_a_job_that_waits_for_its_former_run() {
    let mut bench = given_anew();
    bench.stop_event(1, 10, Some("m"), &[("k", 9)]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN"]), [""; 0]);
    bench.released();
    assert_eq!(bench.of(&["RUN", "release"]), [""; 0]);
}

#[test]
fn a_job_that_waits_for_its_former_run_hears_of_notifications() {
    let mut bench = given_anew();
    bench.notify_event(1, 10, "k", 9);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    bench.all();
    bench.handler(1, "k", 9, HandlerEvent::Started);
    assert_eq!(bench.of(&["take"]), ["take 1: k@9 ack=0"]);
}

#[test]
fn a_start_that_comes_again_for_a_job_that_waits_is_ignored() {
    let mut bench = given_anew();
    bench.all();
    bench.assign(1, 10, 9, &["k"]);
    assert_eq!(bench.of(&["begin", "release"]), ["begin 1: ; done 10"]);
}

#[test]
fn a_fenced_worker_starts_nothing_that_waited() {
    let mut bench = given_anew();
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "release"]), [""; 0]);
}

#[test]
fn a_loss_of_data_gives_a_waiting_job_back() {
    let mut bench = given_anew();
    bench.all();
    bench.lost(2);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "attest", "release"]), ["attest 1: k@7 started", "release 1: k@9 b tell=n"]);
}

#[test]
fn a_leaving_worker_gives_a_job_back_after_its_former_run() {
    let mut bench = given_anew();
    super::leaving::drain(&mut bench, 1);
    drained(&mut bench);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "release"]), ["release 1: k@9 b tell=n"]);
}
