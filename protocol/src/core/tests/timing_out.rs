//! Handlers that take too long: cancelled, aborted, reported, and never released while they may run.

use super::bench::{Bench, config, millis, secs};
use super::fencing::gone;
use super::leaving::drained;
use crate::core::ctx::Config;
use crate::core::input::HandlerEvent;
use crate::step::NodeEvents;

/// One worker; its jobs have been begun, and start within the permits.
fn starting(config: Config, names: &[&str]) -> Bench {
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 7, names);
    bench.all();
    bench
}

#[test]
fn one_slow_start_delays_no_other_however_long_it_may_take() {
    let mut config = config();
    (config.start_permits, config.start_timeout) = (1, secs(3_600));
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 7, &["slow", "k"]);
    assert_eq!(bench.of(&["RUN"]), ["RUN slow@7"]);
    assert_eq!(bench.after(secs(5)).of(&["RUN"]), ["RUN k@7"]);
    bench.advance(secs(25));
    bench.handler(1, "slow", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["started", "CANCEL"]), ["started 1: slow@7 tell=n"]);
}

#[test]
fn a_hanging_start_is_released_only_after_its_end() {
    let mut bench = starting(config(), &["k"]);
    assert_eq!(bench.after(secs(29)).seen(), [""; 0]);
    assert_eq!(bench.after(secs(1)).seen(), ["CANCEL k@7"]);
    assert_eq!(bench.after(secs(5)).seen(), ["ABORT k@7"]);
    bench.advance(secs(5));
    assert_eq!(bench.seen(), ["! stuck k@7", "drain 1"], "the worker hands everything else off");
    assert_eq!(bench.after(secs(1000)).seen(), [""; 0], "it may still run");
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 q in=1s tell=n result='the start took too long'"]);
}

#[test]
fn a_start_that_was_late_is_tried_again_however_it_ends() {
    let mut bench = starting(config(), &["k"]);
    bench.after(secs(30)).all();
    bench.handler(1, "k", 7, HandlerEvent::Failed("cancelled".into()));
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 q in=1s tell=n result='cancelled'"]);
    let mut bench = starting(config(), &["k"]);
    bench.after(secs(30)).all();
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["STOP k@7 StartTimeout"]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 q in=1s tell=n result='the start took too long'"]);
}

#[test]
fn a_start_that_outruns_its_abort_gets_a_stop_with_its_own_time() {
    let mut bench = starting(config(), &["k"]);
    bench.advance(secs(30));
    bench.after(secs(5)).all();
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["STOP k@7 StartTimeout"]);
    assert_eq!(bench.after(secs(20)).seen(), ["ABORT k@7"]);
}

#[test]
fn a_hanging_stop_is_released_only_after_its_end() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.all();
    assert_eq!(bench.after(secs(19)).seen(), [""; 0]);
    assert_eq!(bench.after(secs(1)).seen(), ["ABORT k@7"]);
    assert_eq!(bench.after(secs(5)).seen(), ["! stuck k@7", "drain 1"]);
    assert_eq!(bench.after(secs(1000)).seen(), [""; 0], "it may still run");
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.seen(), ["release 1: k@7 d; done 9"]);
}

#[test]
fn a_stop_has_its_whole_time_whenever_the_start_was() {
    let mut bench = starting(config(), &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.advance(secs(25));
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.all();
    assert_eq!(bench.after(secs(19)).seen(), [""; 0]);
    assert_eq!(bench.after(secs(1)).seen(), ["ABORT k@7"]);
}

#[test]
fn a_stop_after_a_cancelled_start_has_its_whole_time() {
    let mut bench = starting(config(), &["k"]);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.advance(secs(15));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.all();
    assert_eq!(bench.after(secs(19)).seen(), [""; 0]);
    assert_eq!(bench.after(secs(1)).seen(), ["ABORT k@7"]);
}

#[test]
fn a_hanging_cancelled_start_is_aborted_after_a_stop_s_time() {
    let mut bench = starting(config(), &["k"]);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    assert_eq!(bench.seen(), ["CANCEL k@7"]);
    assert_eq!(bench.after(secs(19)).seen(), [""; 0]);
    assert_eq!(bench.after(secs(1)).seen(), ["ABORT k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.seen(), ["release 1: k@7 d tell=n; done 9"]);
}

#[test]
fn a_hung_start_keeps_no_other_job_waiting_when_permits_remain() {
    let mut bench = starting(Config { start_permits: 2, ..config() }, &["a", "b", "c"]);
    bench.handler(1, "b", 7, HandlerEvent::Started);
    assert_eq!(bench.seen()[0], "RUN c@7");
}

#[test]
fn a_slow_start_hands_its_permit_on_and_goes_on() {
    let mut bench = starting(Config { start_permits: 1, ..config() }, &["a", "b", "c"]);
    assert_eq!(bench.after(millis(4_999)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["RUN b@7"], "a sixth of its time has passed");
    bench.handler(1, "a", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["started 1: a@7 tell=n"], "it has no permit left to give to c");
    bench.handler(1, "b", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["RUN c@7"]);
}

#[test]
fn a_start_without_its_permit_still_keeps_its_whole_time() {
    let mut bench = starting(Config { start_permits: 1, ..config() }, &["a"]);
    assert_eq!(bench.after(millis(29_999)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["CANCEL a@7"]);
}

#[test]
fn a_hung_start_gives_its_permit_back_once_however_it_ends() {
    for late in [false, true] {
        let mut bench = starting(Config { start_permits: 1, ..config() }, &["a", "b", "c"]);
        if late {
            assert_eq!(bench.after(secs(5)).seen(), ["RUN b@7"]);
        }
        bench.stop_event(1, 9, None, &[("a", 7)]);
        bench.handler(1, "a", 7, HandlerEvent::Aborted);
        let others: &[&str] = if late { &[] } else { &["RUN b@7"] };
        assert_eq!(bench.of(&["RUN"]), others);
    }
}

#[test]
fn a_stuck_handler_makes_its_worker_hand_on_all_other_jobs() {
    let mut bench = Bench::that_runs(7, &["k", "l"]);
    bench.stop_event(1, 9, None, &[("k", 7)]);
    bench.after(secs(25)).all();
    drained(&mut bench);
    assert_eq!(bench.seen(), ["STOP l@7 Draining"]);
    bench.handler(1, "l", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: l@7 h"]);
    bench.released();
    bench.after(secs(100)).all();
    bench.leaves(1, "k", 7, HandlerEvent::Aborted);
    super::leaving::nothing_was_asked(&mut bench);
    assert_eq!(bench.of(&["release", "drop", "leave"]), ["release 1: k@7 d; done 9", "drop 1", "leave 1"]);
    gone(&mut bench);
    bench.all();
    assert_eq!(
        bench.of(&["join"]),
        [""; 0],
        "it has heard nothing for too long, and would lose its lease again"
    );
    bench.events(NodeEvents::default());
    assert_eq!(bench.of(&["join"]), ["join 7.1.2 slot=0"]);
}
