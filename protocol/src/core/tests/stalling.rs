//! Jobs with a progress timeout: looked at when it may be over, told to end when it is, and tried again.

use bytes::Bytes;

use super::bench::{Bench, millis, secs};
use crate::core::input::{HandlerEvent, Input};
use crate::model::policy::RestartPolicy;
use crate::model::wire::{Envelope, ProgressTimeout};

fn timed(policy: RestartPolicy) -> Bytes {
    let progress = ProgressTimeout::new(secs(30));
    Envelope { policy, progress, ..Envelope::new(b"") }.seal().unwrap()
}

/// A job with a progress timeout of 30 s that runs on worker 1.
fn running(policy: RestartPolicy) -> Bench {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_as(&timed(policy), false, |record| record.attempts = 3);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.all();
    bench
}

/// The job is looked at, and has made no progress since it was started.
fn stalled(policy: RestartPolicy) -> Bench {
    let mut bench = running(policy);
    let started = bench.now;
    bench.after(secs(30)).all();
    bench.handler(1, "k", 7, HandlerEvent::Progressed(started));
    assert_eq!(bench.seen(), ["STOP k@7 Stalled"]);
    bench
}

#[test]
fn a_job_that_makes_progress_runs_on() {
    let mut bench = running(RestartPolicy::Never);
    assert_eq!(bench.after(millis(29_999)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["LOOK k@7"]);
    let progressed = bench.now - secs(10);
    bench.handler(1, "k", 7, HandlerEvent::Progressed(progressed));
    assert_eq!(bench.after(millis(19_999)).seen(), [""; 0], "its time counts from its progress");
    assert_eq!(bench.after(millis(1)).seen(), ["LOOK k@7"]);
}

#[test]
fn a_process_that_stood_still_leaves_its_jobs_time() {
    for (stood, more) in [(secs(3), secs(3)), (secs(900), secs(30))] {
        let mut bench = running(RestartPolicy::Never);
        bench.now = bench.now + secs(30) + stood;
        bench.step([Input::Woke]);
        assert!(!bench.all().contains(&"LOOK k@7".to_owned()), "{stood:?}");
        assert_eq!(bench.after(more.saturating_sub(millis(1))).of(&["LOOK"]), [""; 0], "{stood:?}");
        assert_eq!(bench.after(millis(1)).of(&["LOOK"]), ["LOOK k@7"], "{stood:?}");
    }
}

#[test]
fn a_job_without_progress_is_tried_again_whatever_its_policy() {
    for policy in [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always] {
        let mut bench = stalled(policy);
        bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
        let report = "! failed k@7 stalled 3 'no progress for 30 s' again in 4s";
        let release = "release 1: k@7 q in=4s result='no progress for 30 s'";
        assert_eq!(bench.seen(), [report, release], "the attempt counts");
    }
}

#[test]
fn a_hung_handler_is_aborted_after_a_stop_s_time() {
    let mut bench = stalled(RestartPolicy::Never);
    assert_eq!(bench.after(millis(19_999)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["ABORT k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 q in=4s result='no progress for 30 s'"]);
}

#[test]
fn a_handler_that_panics_as_it_stalls_is_tried_again() {
    let mut bench = stalled(RestartPolicy::Never);
    bench.handler(1, "k", 7, HandlerEvent::Failed("panicked: oh".into()));
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 q in=4s result='panicked: oh'"]);
}

#[test]
fn a_hung_handler_that_cannot_be_aborted_keeps_its_key() {
    let mut bench = stalled(RestartPolicy::Never);
    assert_eq!(bench.after(secs(25)).seen(), ["ABORT k@7", "! stuck k@7", "drain 1"]);
    assert_eq!(bench.after(secs(1_000)).seen(), [""; 0], "it may still run");
}

#[test]
fn a_stop_of_a_hung_job_ends_it_for_good() {
    let mut bench = stalled(RestartPolicy::Always);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@7 d; done 9"]);
}

#[test]
fn a_job_that_ends_meanwhile_is_not_told_to_end() {
    let mut bench = running(RestartPolicy::Never);
    let started = bench.now;
    bench.after(secs(30)).all();
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Progressed(started));
    assert_eq!(bench.seen(), ["STOP k@7 Stopped"]);
}

#[test]
fn a_job_without_a_progress_timeout_is_not_looked_at() {
    let mut bench = Bench::that_runs(7, &["k"]);
    assert_eq!(bench.after(secs(200_000)).of(&["LOOK"]), [""; 0]);
}
