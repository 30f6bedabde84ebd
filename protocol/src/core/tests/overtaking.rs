//! Events and answers come on connections of their own, so a later message may arrive earlier. No job is lost or done
//! twice because of that.

use super::bench::{Bench, config, key, record, secs};
use super::leaving::drained;
use crate::core::input::HandlerEvent;
use crate::model::id::WorkerId;
use crate::step::{BeginReply, OwnedPage};

#[test]
fn an_assignment_may_overtake_the_answer_to_the_release() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.begin(1, 8, 8, &["k"]);
    bench.handler(1, "k", 8, HandlerEvent::Started);
    bench.all();
    bench.released();
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["release", "begin"]), [""; 0], "it is the former run's");
    bench.stop_event(1, 9, None, &[("k", 8)]);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@8 Stopped"], "the new one is here");
}

#[test]
fn a_stop_that_overtakes_a_begin_is_kept_for_its_repetition() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.stop_event(1, 6, Some("m"), &[("k", 7)]);
    bench.fail("begin");
    bench.advance(secs(1));
    bench.begin_answered(&[BeginReply::Full]);
    bench.all();
    bench.begun();
    assert_eq!(bench.of(&["RUN", "release"]), ["release 1: k@7 d stopper=m; done 6"]);
}

#[test]
fn an_audit_older_than_a_release_does_no_harm() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.assign(1, 5, 5, &["other"]);
    bench.fail("begin");
    bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.all();
    let jobs = vec![(key("k"), Some(record("k", 3, WorkerId(1))))];
    bench.answer_with("owned", OwnedPage { next: None, jobs });
    assert_eq!(bench.of(&["release"]), ["release 1: k@3 b"], "stale by now");
    bench.assign(1, 6, 6, &["k"]);
    assert_eq!(bench.after(secs(1)).of(&["begin"]), ["begin 1: other@5 k@6; done 6"]);
}

#[test]
fn notifications_fetched_for_a_former_run_are_left_to_the_next() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 8, "k", 7);
    bench.leaves(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.assign(1, 9, 9, &["k"]);
    bench.begun_with(true, |_| {});
    bench.handler(1, "k", 9, HandlerEvent::Started);
    bench.all();
    bench.taken(4, &["x"]);
    assert_eq!(bench.seen(), ["take 1: k@9 ack=0"]);
    bench.taken(4, &["x"]);
    assert_eq!(bench.seen(), ["DELIVER k@9 x"]);
}

#[test]
fn a_wake_for_the_next_run_may_overtake_the_former_release() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.assign(1, 8, 8, &["k"]);
    bench.notify_event(1, 9, "k", 8);
    bench.begun();
    bench.released();
    bench.handler(1, "k", 8, HandlerEvent::Started);
    assert_eq!(bench.of(&["take"]), ["take 1: k@8 ack=0"]);
}

#[test]
fn a_begin_answered_to_a_leaving_worker_takes_its_attempt_back() {
    let mut config = config();
    config.start_permits = 1;
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 5, &["starts", "waits"]);
    bench.assign(1, 6, 6, &["begins"]);
    super::leaving::drain(&mut bench, 1);
    drained(&mut bench);
    assert_eq!(bench.of(&["release"]), ["release 1: waits@5 b tell=n"]);
    bench.begun();
    bench.released();
    assert_eq!(bench.of(&["release"]), ["release 1: begins@6 b tell=n"]);
    bench.released();
    bench.handler(1, "starts", 5, HandlerEvent::Refused { backoff: None, why: String::new() });
    assert_eq!(bench.of(&["RUN", "release"]), ["release 1: starts@5 b tell=n"]);
}
