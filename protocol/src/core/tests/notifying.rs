//! Notifications: fetched, delivered and acknowledged in turn, and none is overlooked.

use tenure_steps::Failure;

use super::bench::{Bench, config, millis, sealed, secs};
use crate::core::input::HandlerEvent;
use crate::model::policy::RestartPolicy;
use crate::step::StoreError;

#[test]
fn waiting_notifications_are_fetched_only_after_the_start() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_with(true, |_| {});
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5", "RUN k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=0", "started 1: k@7 tell=n"]);
    bench.taken(4, &["x", "y"]);
    assert_eq!(bench.seen(), ["DELIVER k@7 x y"]);
    bench.handler(1, "k", 7, HandlerEvent::Delivered);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=6"]);
    bench.taken(0, &[]);
    assert_eq!(bench.seen(), [""; 0]);
}

#[test]
fn a_wake_that_overtakes_the_answer_of_the_begin_is_not_lost() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.notify_event(1, 6, "k", 7);
    bench.fail("begin");
    bench.after(secs(1)).all();
    bench.begun();
    assert_eq!(bench.of(&["RUN", "take"]), ["RUN k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["take"]), ["take 1: k@7 ack=0"]);
}

#[test]
fn a_wake_before_the_start_is_not_lost() {
    let mut config = config();
    config.start_permits = 1;
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 7, &["a", "k"]);
    bench.notify_event(1, 6, "a", 7);
    bench.notify_event(1, 7, "k", 7);
    assert_eq!(bench.of(&["RUN", "take"]), ["RUN a@7"], "one starts, the other waits for its permit");
    bench.handler(1, "a", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["RUN", "take"]), ["RUN k@7", "take 1: a@7 ack=0; done 7"]);
    bench.taken(0, &[]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["take"]), ["take 1: k@7 ack=0"]);
}

#[test]
fn a_wake_during_a_fetch_is_not_lost() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 9, "k", 7);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=0; done 9"]);
    bench.notify_event(1, 10, "k", 7);
    assert_eq!(bench.seen(), [""; 0]);
    bench.taken(0, &[]);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=0; done 10"]);
}

#[test]
fn a_wake_during_a_delivery_is_not_lost() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 9, "k", 7);
    bench.taken(1, &["x"]);
    bench.all();
    bench.notify_event(1, 10, "k", 7);
    assert_eq!(bench.seen(), ["begin 1: ; done 10"]);
    bench.handler(1, "k", 7, HandlerEvent::Delivered);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=2"]);
}

#[test]
fn nothing_is_fetched_or_delivered_while_the_job_stops() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 8, "k", 7);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.all();
    bench.taken(1, &["x"]);
    assert_eq!(bench.seen(), [""; 0], "fetched before the stop: the next owner gets it");
    bench.notify_event(1, 10, "k", 7);
    assert_eq!(bench.seen(), ["begin 1: ; done 10"]);
}

/// A job with three notifications in its hands.
fn given_three() -> Bench {
    let mut bench = Bench::with_worker();
    give_three(&mut bench);
    bench
}

pub(super) fn give_three(bench: &mut Bench) {
    bench.assign(1, 7, 7, &["k"]);
    bench.begun_as(&sealed(RestartPolicy::OnFailure), true, |_| {});
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.taken(4, &["x", "y", "z"]);
    bench.all();
}

/// The job takes `count` of them, and fails.
fn fails_after(bench: &mut Bench, count: usize) {
    bench.handler(1, "k", 7, HandlerEvent::Took(count));
    bench.handler(1, "k", 7, HandlerEvent::Ended(Err("bad".into())));
}

#[test]
fn a_job_that_fails_acknowledges_before_it_is_released() {
    let mut bench = given_three();
    fails_after(&mut bench, 2);
    assert_eq!(bench.of(&["take", "release"]), ["take 1: k@7 ack=6"], "the third comes again");
    bench.fail("take");
    assert_eq!(bench.after(secs(1)).of(&["take", "release"]), ["take 1: k@7 ack=6"]);
    bench.taken(6, &["z"]);
    assert_eq!(bench.of(&["DELIVER", "take", "release"]).len(), 1, "only the release");
    assert!(bench.is_calling("release"));
}

#[test]
fn a_job_that_fails_while_it_acknowledges_waits_for_that() {
    let mut bench = given_three();
    bench.handler(1, "k", 7, HandlerEvent::Delivered);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Err("bad".into())));
    assert_eq!(bench.of(&["take", "release"]), ["take 1: k@7 ack=7"]);
    bench.taken(0, &[]);
    assert!(bench.is_calling("release"));
}

#[test]
fn a_job_that_has_taken_nothing_is_released_at_once() {
    let mut bench = given_three();
    fails_after(&mut bench, 0);
    assert!(bench.is_calling("release") && !bench.is_calling("take"));
}

#[test]
fn a_job_that_ends_for_good_acknowledges_nothing() {
    let mut bench = given_three();
    bench.handler(1, "k", 7, HandlerEvent::Took(2));
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert!(bench.is_calling("release") && !bench.is_calling("take"), "all of it goes with its record");
}

#[test]
fn damaged_notifications_hold_up_no_release() {
    let mut bench = given_three();
    fails_after(&mut bench, 2);
    bench.fail_with("take", StoreError::Damaged(Failure::new(std::io::Error::other("of the script"))));
    assert!(bench.is_calling("release"));
}

#[test]
fn notifications_taken_before_a_loss_do_not_count() {
    let mut bench = given_three();
    fails_after(&mut bench, 2);
    assert!(!bench.is_calling("release"));
    bench.lost(2);
    assert!(bench.is_calling("release"), "its numbers may be used again");
}

#[test]
fn a_wake_for_another_token_is_ignored() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 9, "k", 6);
    assert_eq!(bench.seen(), ["begin 1: ; done 9"]);
}

#[test]
fn a_fetch_without_an_answer_comes_first_again() {
    let mut bench = Bench::that_runs(7, &["a", "b"]);
    bench.notify_event(1, 9, "a", 7);
    bench.notify_event(1, 10, "b", 7);
    bench.all();
    bench.fail("take");
    assert_eq!(bench.after(secs(1)).seen(), ["! trouble", "take 1: a@7 ack=0 b@7 ack=0; done 10 9"]);
}

/// The handler takes `taken` of the notifications in its hands, and refuses the next one for a second.
fn refuses_after(bench: &mut Bench, taken: usize) {
    let (pause, why) = (secs(1), "closed".to_owned());
    bench.handler(1, "k", 7, HandlerEvent::NotYet { taken, pause, refusals: 1, why });
}

#[test]
fn a_refused_notification_comes_again_after_its_pause_and_first() {
    let mut bench = given_three();
    refuses_after(&mut bench, 1);
    let taken = "take 1: k@7 ack=5";
    assert_eq!(
        bench.of(&["!", "take"]),
        ["! not yet k 1 for 1s 'closed'", taken],
        "the next owner gets the rest"
    );
    bench.taken(5, &["y", "z"]);
    bench.notify_event(1, 9, "k", 7);
    bench.advance(millis(999));
    assert_eq!(bench.of(&["take", "DELIVER"]), [""; 0], "what comes meanwhile waits behind it");
    assert_eq!(bench.after(millis(1)).of(&["take"]), ["take 1: k@7 ack=5"]);
    bench.taken(5, &["y", "z", "new"]);
    assert_eq!(bench.of(&["DELIVER"]), ["DELIVER k@7 y z new"]);
    refuses_after(&mut bench, 0);
    assert_eq!(bench.after(secs(1)).of(&["take"]), ["take 1: k@7 ack=5"], "as often as it is refused");
}

#[test]
fn the_next_owner_gets_a_refused_notification_and_none_that_was_taken() {
    let mut bench = given_three();
    refuses_after(&mut bench, 1);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Err("bad".into())));
    assert_eq!(bench.of(&["take", "release"]), ["take 1: k@7 ack=5"]);
    bench.taken(5, &["y", "z"]);
    assert!(bench.is_calling("release"));
    bench.advance(secs(2));
    assert_eq!(bench.of(&["take", "DELIVER"]), [""; 0], "the pause of a job that has left is nobody's");
}
