//! A stop event meets its job in every state.

use super::bench::{Bench, config};
use super::leaving::drained;
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, LocalWorker};
use crate::step::BeginReply;

#[test]
fn a_running_job_is_stopped_and_released_with_the_stopper_told() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 9, Some("m"), &[("k", 7)]);
    assert_eq!(bench.seen(), ["STOP k@7 Stopped"]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@7 d stopper=m; done 9"]);
}

#[test]
fn a_start_is_cancelled_at_once_and_stop_runs_after_it() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.all();
    bench.stop_event(1, 9, Some("m"), &[("k", 7)]);
    assert_eq!(bench.seen(), ["CANCEL k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["STOP k@7 Stopped"], "a start that was to end is not noted as one");
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@7 d tell=n stopper=m; done 9"]);
}

#[test]
fn a_cancelled_start_that_fails_or_refuses_is_released_at_once() {
    for event in [
        HandlerEvent::Failed("cancelled".into()),
        HandlerEvent::Refused { backoff: None, why: String::new() },
    ] {
        let mut bench = Bench::that_starts(5, 7, &["k"]);
        bench.stop_event(1, 9, None, &[("k", 7)]);
        bench.all();
        bench.handler(1, "k", 7, event);
        let seen = bench.seen();
        assert!(seen[0].starts_with("release 1: k@7 d tell=n") && seen[0].ends_with("; done 9"), "{seen:?}");
    }
}

#[test]
fn a_job_that_waits_for_its_permit_is_released_without_a_start() {
    let mut config = config();
    config.start_permits = 1;
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 7, &["a", "b"]);
    bench.all();
    bench.stop_event(1, 9, Some("m"), &[("b", 7)]);
    assert_eq!(bench.seen(), ["release 1: b@7 d tell=n stopper=m; done 9"]);
    bench.handler(1, "a", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["started 1: a@7 tell=n"]);
}

#[test]
fn a_job_whose_begin_is_in_flight_is_released_without_a_start() {
    for refused in [false, true] {
        let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
        bench.all();
        bench.stop_event(1, 9, Some("m"), &[("k", 7)]);
        assert_eq!(bench.seen(), [""; 0], "the begin is not answered yet");
        if refused {
            bench.begin_answered(&[BeginReply::Refused]);
        } else {
            bench.begun();
        }
        assert_eq!(bench.seen(), ["release 1: k@7 d stopper=m; done 9"]);
    }
}

#[test]
fn a_job_that_is_not_here_is_released() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 9, Some("m"), &[("other", 3), ("k", 6)]);
    assert_eq!(bench.seen(), ["release 1: other@3 d stopper=m, k@6 d stopper=m; done 9"]);
    bench.released();
    assert_eq!(bench.in_flight(), [""; 0], "k runs on under its own token");
}

#[test]
fn a_stop_while_the_job_is_handed_off_ends_it() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    drained(&mut bench);
    assert_eq!(bench.seen(), ["drain 1", "STOP k@7 Draining"]);
    bench.stop_event(1, 9, Some("m"), &[("k", 7)]);
    assert_eq!(bench.seen(), [""; 0], "its stop handler runs already");
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@7 d stopper=m; done 9"]);
}

#[test]
fn a_second_stop_changes_nothing_and_is_answered_with_the_first() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 9, Some("m"), &[("k", 7)]);
    bench.stop_event(1, 10, None, &[("k", 7)]);
    assert_eq!(bench.seen(), ["STOP k@7 Stopped"]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@7 d stopper=m; done 9 10"]);
    bench.stop_event(1, 11, None, &[("k", 7)]);
    assert_eq!(bench.seen(), ["begin 1: ; done 11"], "it is being released");
}

#[test]
fn stops_are_heard_while_a_worker_has_too_many_jobs_to_begin() {
    let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
    bench.running(3, &["k"]);
    for batch in 0..12_u64 {
        let names: Vec<_> = (0..100).map(|n| format!("{batch}-{n}")).collect();
        bench.assign(1, 10 + batch, 10 + batch, &names.iter().map(String::as_str).collect::<Vec<_>>());
        if bench.is_calling("begin") {
            bench.begun();
        }
    }
    bench.all();
    assert!(bench.is_calling("read-node"));
    bench.stop_event(1, 99, None, &[("k", 3)]);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@3 Stopped"]);
}
