//! How jobs leave a worker's hands.

use super::bench::{Bench, millis, secs};
use crate::core::input::HandlerEvent;
use crate::core::jobs::restarting::back_off;
use crate::model::record::Begun;
use crate::step::ReleaseReply;

/// A job whose start handler runs: never started before, or with this many attempts since it was.
fn starting(restarts: Option<u32>) -> Bench {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_with(false, |record| {
        if let Some(attempts) = restarts {
            (record.begun, record.attempts) = (Begun::Started, attempts);
        }
    });
    bench.all();
    bench
}

#[test]
fn a_first_start_that_fails_ends_the_job_with_the_error() {
    let mut bench = starting(None);
    bench.handler(1, "k", 7, HandlerEvent::Failed("no route".into()));
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 d tell=n result='e:no route'"]);
}

#[test]
fn a_restart_that_fails_is_tried_again_after_a_pause_that_grows() {
    assert_eq!(back_off(20), secs(60));
    for (attempts, pause) in [(1, 1), (3, 4)] {
        let mut bench = starting(Some(attempts));
        bench.handler(1, "k", 7, HandlerEvent::Failed("no route".into()));
        assert_eq!(bench.of(&["release"]), [format!("release 1: k@7 q in={pause}s result='no route'")]);
    }
}

#[test]
fn a_refused_job_goes_back_after_a_named_or_growing_pause() {
    let mut bench = starting(None);
    bench.handler(1, "k", 7, HandlerEvent::Refused { backoff: Some(millis(250)), why: String::new() });
    assert_eq!(bench.seen(), ["release 1: k@7 r in=250ms tell=n"]);
    let mut bench = starting(Some(2));
    bench.handler(1, "k", 7, HandlerEvent::Refused { backoff: None, why: String::new() });
    assert_eq!(bench.seen(), ["release 1: k@7 r in=2s"]);
    for (event, release) in [
        (HandlerEvent::Refused { backoff: None, why: "no route".into() }, "r in=2s"),
        (HandlerEvent::Elsewhere { why: "no route".into() }, "e"),
    ] {
        let mut bench = starting(Some(2));
        bench.handler(1, "k", 7, event);
        assert_eq!(bench.seen(), [format!("release 1: k@7 {release} result='no route'")]);
    }
}

#[test]
fn a_job_that_ends_by_itself_is_deleted() {
    let mut bench = Bench::that_runs(7, &["a", "b"]);
    bench.handler(1, "a", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.seen(), ["release 1: a@7 d"]);
    bench.released();
    bench.handler(1, "b", 7, HandlerEvent::Ended(Err("gone".into())));
    assert_eq!(bench.of(&["release"]), ["release 1: b@7 d result='e:gone'"]);
}

#[test]
fn a_panic_ends_its_own_job_only() {
    let mut bench = Bench::that_runs(7, &["a", "b"]);
    bench.handler(1, "a", 7, HandlerEvent::Failed("panicked: index out of bounds".into()));
    assert_eq!(bench.of(&["release"]), ["release 1: a@7 d result='e:panicked: index out of bounds'"]);
    bench.released();
    assert_eq!(bench.in_flight(), [""; 0]);
}

#[test]
fn an_error_of_stop_is_reported_and_ends_the_job() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Err("busy".into())));
    assert_eq!(bench.seen(), ["! stop-failed k 'busy'", "release 1: k@7 d result='s:busy'; done 9"]);
}

#[test]
fn an_error_of_stop_waits_until_the_start_is_noted() {
    let mut bench = Bench::that_starts(8, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.stop_event(1, 9, Some("node9"), &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Err("busy".into())));
    assert!(!bench.is_calling("release"), "it would say that the start succeeded, and no more");
    bench.all();
    bench.started_noted();
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 d stopper=node9 result='s:busy'; done 9"]);
}

#[test]
fn an_unanswered_release_goes_first_again_with_its_entries() {
    let mut bench = Bench::that_runs(7, &["a", "b"]);
    bench.stop_event(1, 9, Some("m"), &[("a", 7)]);
    bench.handler(1, "a", 7, HandlerEvent::Stopped(Ok(())));
    bench.handler(1, "b", 7, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.fail("release");
    assert_eq!(bench.seen(), ["! trouble", "owned 1", "begin 1: ; done 9"]);
    bench.fail("begin");
    bench.all();
    assert_eq!(bench.after(millis(20)).seen(), ["release 1: a@7 d stopper=m, b@7 d; done 9"]);
    bench.released();
    assert_eq!(bench.after(secs(2)).seen(), [""; 0]);
}

#[test]
fn a_parked_job_and_a_damaged_record_are_reported() {
    let mut bench = starting(Some(20));
    bench.handler(1, "k", 7, HandlerEvent::Failed("no route".into()));
    bench.all();
    let answer = |bench: &mut Bench, reply| {
        bench.answer_each("release", reply);
    };
    answer(&mut bench, ReleaseReply::Parked);
    assert_eq!(bench.seen(), ["! parked k 'no route'"]);
    bench.running(8, &["j"]);
    bench.handler(1, "j", 8, HandlerEvent::Ended(Ok(())));
    bench.all();
    answer(&mut bench, ReleaseReply::Bad);
    assert_eq!(bench.seen(), ["! bad-record j"]);
}

#[test]
fn a_release_that_is_to_come_later_goes_again_at_once() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.answer_each("release", ReleaseReply::Later);
    assert_eq!(bench.seen(), ["release 1: k@7 d"]);
    bench.released();
    assert_eq!(bench.seen(), [""; 0]);
}

#[test]
fn a_handler_event_under_an_older_token_is_ignored() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.handler(1, "k", 6, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.seen(), [""; 0]);
}
