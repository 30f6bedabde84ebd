//! Which jobs are tried again when they fail, are refused or end by themselves, and after which pause.

use bytes::Bytes;

use super::bench::{Bench, key, millis, sealed, secs};
use super::leaving::drained;
use crate::core::call::Call;
use crate::core::input::{Command, HandlerEvent, LocalWorker};
use crate::model::id::Token;
use crate::model::policy::RestartPolicy::{self, Always, Never, OnFailure};
use crate::model::record::Begun;
use crate::step::ReleaseMode;

/// A job under this policy whose start handler runs.
fn starting(policy: RestartPolicy, begun: Begun, attempts: u32, strikes: u32) -> Bench {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_as(&sealed(policy), false, |record| {
        (record.begun, record.attempts, record.strikes) = (begun, attempts, strikes);
    });
    bench.all();
    bench
}

/// A running job under this policy; the store and all callers know of it.
fn running(policy: RestartPolicy, attempts: u32) -> Bench {
    let mut bench = starting(policy, Begun::Begun, attempts, 0);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.all();
    bench
}

fn says(mut bench: Bench, event: HandlerEvent) -> String {
    bench.handler(1, "k", 7, event);
    bench.of(&["release"]).join(" & ")
}

/// The report of that event.
fn reports(mut bench: Bench, event: HandlerEvent) -> String {
    bench.handler(1, "k", 7, event);
    bench.of(&["!"]).join(" & ")
}

fn failed() -> HandlerEvent {
    HandlerEvent::Failed("boom".into())
}

#[test]
fn a_failed_first_start_ends_the_job_only_under_never() {
    let fails = |policy| says(starting(policy, Begun::Begun, 1, 0), failed());
    assert_eq!(fails(Never), "release 1: k@7 d tell=n result='e:boom'");
    for policy in [OnFailure, Always] {
        assert_eq!(fails(policy), "release 1: k@7 q in=1s tell=n result='boom'");
    }
}

#[test]
fn a_later_start_that_fails_is_tried_again_under_every_policy() {
    for policy in [Never, OnFailure, Always] {
        let said = says(starting(policy, Begun::Started, 3, 0), failed());
        assert_eq!(said, "release 1: k@7 q in=4s result='boom'");
    }
}

#[test]
fn a_job_that_fails_is_tried_again_unless_its_policy_is_never() {
    for panics in [false, true] {
        let event = || if panics { failed() } else { HandlerEvent::Ended(Err("boom".into())) };
        assert_eq!(says(running(Never, 2), event()), "release 1: k@7 d result='e:boom'");
        for policy in [OnFailure, Always] {
            assert_eq!(says(running(policy, 2), event()), "release 1: k@7 q in=2s result='boom'");
        }
    }
}

#[test]
fn a_failure_is_reported_with_its_error_and_what_follows() {
    let boom = || HandlerEvent::Ended(Err("boom".into()));
    assert_eq!(reports(starting(Never, Begun::Begun, 1, 0), failed()), "! failed k@7 start 1 'boom' gone");
    let again = "! failed k@7 start 3 'boom' again in 4s";
    assert_eq!(reports(starting(Never, Begun::Started, 3, 0), failed()), again);
    assert_eq!(reports(running(Never, 2), boom()), "! failed k@7 run 2 'boom' gone");
    assert_eq!(reports(running(OnFailure, 2), boom()), "! failed k@7 run 2 'boom' again in 2s");
    assert_eq!(reports(running(Always, 2), failed()), "! failed k@7 run 2 'boom' again in 2s");
    assert_eq!(reports(running(OnFailure, 2), HandlerEvent::Ended(Ok(()))), "");
    assert_eq!(
        reports(
            starting(Never, Begun::Begun, 1, 0),
            HandlerEvent::Refused { backoff: None, why: String::new() }
        ),
        ""
    );
}

#[test]
fn a_failure_of_a_job_that_must_end_is_not_reported() {
    for mut bench in [starting(OnFailure, Begun::Begun, 1, 0), running(OnFailure, 1)] {
        bench.stop_event(1, 9, None, &[("k", 7)]);
        assert_eq!(reports(bench, failed()), "");
    }
}

#[test]
fn a_start_that_took_too_long_is_reported_as_a_failure() {
    let mut bench = starting(Never, Begun::Begun, 2, 0);
    bench.after(secs(60)).all();
    assert_eq!(
        reports(bench, HandlerEvent::Aborted),
        "! failed k@7 start 2 'the start took too long' again in 2s"
    );
}

#[test]
fn the_pause_after_a_long_run_is_that_after_a_first_failure() {
    let fails_after = |run| {
        let mut bench = running(OnFailure, 19);
        bench.advance(run);
        says(bench, HandlerEvent::Ended(Err("boom".into())))
    };
    let said = fails_after(secs(599));
    assert!(said.starts_with("release 1: k@7 q in=6"), "{said}");
    assert_eq!(fails_after(secs(600)), "release 1: k@7 q in=1s result='boom'");
}

#[test]
fn a_job_that_ends_well_is_gone_unless_its_policy_is_always() {
    let ends = |policy| says(running(policy, 3), HandlerEvent::Ended(Ok(())));
    for policy in [Never, OnFailure] {
        assert_eq!(ends(policy), "release 1: k@7 d");
    }
    assert_eq!(ends(Always), "release 1: k@7 h in=1s");
}

#[test]
fn a_job_that_is_to_end_is_never_tried_again() {
    for policy in [OnFailure, Always] {
        let ends = [HandlerEvent::Lost("killed".into()), HandlerEvent::Park("hopeless".into())];
        let ends =
            ends.into_iter().chain([failed(), HandlerEvent::Ended(Ok(())), HandlerEvent::Stopped(Ok(()))]);
        for event in ends {
            let mut bench = running(policy, 1);
            bench.stop_event(1, 9, None, &[("k", 7)]);
            bench.all();
            bench.handler(1, "k", 7, event);
            assert_eq!(bench.of(&["release"]), ["release 1: k@7 d; done 9"]);
        }
    }
}

#[test]
fn a_job_that_others_have_ended_runs_again_whatever_its_policy() {
    for policy in [Never, OnFailure, Always] {
        let lost = |attempts| says(running(policy, attempts), HandlerEvent::Lost("killed".into()));
        assert_eq!(lost(1), "release 1: k@7 q result='killed'");
        assert!(lost(2).starts_with("release 1: k@7 q in=1"), "{}", lost(2));
        let start = says(starting(policy, Begun::Begun, 1, 0), HandlerEvent::Lost("killed".into()));
        assert_eq!(start, "release 1: k@7 q tell=n result='killed'");
        let told = reports(running(policy, 1), HandlerEvent::Lost("killed".into()));
        assert_eq!(told, "! failed k@7 lost 1 'killed' again in 0ms");
    }
}

#[test]
fn a_job_that_no_attempt_can_help_is_parked() {
    for policy in [Never, OnFailure, Always] {
        let park = || HandlerEvent::Park("no text".into());
        assert_eq!(says(running(policy, 3), park()), "release 1: k@7 p result='no text'");
        let start = says(starting(policy, Begun::Begun, 1, 0), park());
        assert_eq!(start, "release 1: k@7 p tell=n result='no text'");
    }
}

#[test]
fn the_pause_after_a_refusal_grows_with_the_strikes() {
    let refuses = |strikes| {
        says(
            starting(Never, Begun::Begun, 1, strikes),
            HandlerEvent::Refused { backoff: None, why: String::new() },
        )
    };
    let pauses: Vec<_> = (0..9).map(refuses).collect();
    let expected = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(|s| (s, s + s / 10));
    for (said, (from, upto)) in pauses.into_iter().zip(expected) {
        let fits = |s| said == format!("release 1: k@7 r in={s}s tell=n");
        assert!((from..=upto).any(fits), "{said}");
    }
}

#[test]
fn a_refusal_names_its_pause_but_none_that_would_spin() {
    let refuses = |ms| {
        says(
            starting(Never, Begun::Begun, 1, 0),
            HandlerEvent::Refused { backoff: Some(millis(ms)), why: String::new() },
        )
    };
    assert_eq!(refuses(250), "release 1: k@7 r in=250ms tell=n");
    assert_eq!(refuses(0), "release 1: k@7 r in=10ms tell=n");
}

#[test]
fn a_start_is_noted_before_its_job_is_given_back() {
    let modes = [
        (HandlerEvent::Ended(Ok(())), "release 1: k@7 h in=1s"),
        (HandlerEvent::Ended(Err("boom".into())), "release 1: k@7 q in=1s result='boom'"),
    ];
    for (event, release) in modes {
        let mut bench = starting(Always, Begun::Begun, 1, 0);
        bench.handler(1, "k", 7, HandlerEvent::Started);
        bench.handler(1, "k", 7, event);
        assert_eq!(bench.of(&["started", "release"]), ["started 1: k@7 tell=n"], "the release waits");
        bench.begin(1, 6, 7, &["k"]);
        assert_eq!(bench.seen(), ["begin 1: ; done 6"], "a redelivered start does not bring it back");
        bench.fail("started");
        bench.all();
        assert_eq!(bench.after(secs(1)).seen(), ["started 1: k@7 tell=n"]);
        bench.started_noted();
        assert_eq!(bench.seen(), [release]);
        bench.released();
        assert_eq!(bench.in_flight(), [""; 0]);
    }
}

#[test]
fn a_job_that_ends_at_once_does_not_wait_for_its_note() {
    let mut bench = starting(Never, Begun::Begun, 1, 0);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.seen(), ["started 1: k@7 tell=n", "release 1: k@7 d tell=n result='ok'"]);
}

#[test]
fn an_aborted_handler_that_panics_ends_as_it_was_ordered_to() {
    let mut bench = running(OnFailure, 1);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    drained(&mut bench);
    assert_eq!(bench.after(secs(20)).of(&["STOP", "ABORT"]), ["STOP k@7 Draining", "ABORT k@7"]);
    bench.handler(1, "k", 7, failed());
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 h"], "handed off: it is no failure of the job's");
}

/// A job with this envelope.
fn opening(envelope: &'static [u8], begun: Begun) -> Bench {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.all();
    bench.begun_as(&Bytes::from_static(envelope), false, |record| record.begun = begun);
    bench
}

#[test]
fn a_newer_payload_is_refused_until_it_reaches_a_newer_node() {
    let mut bench = opening(b"\x82\xa1v\x02\xa4body\xc4\x02hi", Begun::Begun);
    let why = "the payload's envelope has version 2, this node reads up to 1";
    assert_eq!(bench.seen()[0], format!("! unreadable k '{why}'"));
    let Call::Release(release) = bench.call("release") else { panic!("a release") };
    let item = &release.items[0];
    assert_eq!((&item.key, item.token, item.mode), (&key("k"), Token(7), ReleaseMode::Refuse));
    assert!(item.delay >= secs(1) && item.delay < millis(1_100));
}

#[test]
fn an_unknown_restart_policy_is_refused_and_never_deleted() {
    let mut bench = opening(b"\x83\xa1v\x01\xa6policy\xa5later\xa4body\xc4\x02hi", Begun::Begun);
    let Call::Release(release) = bench.call("release") else { panic!("a release") };
    assert_eq!(release.items[0].mode, ReleaseMode::Refuse);
}

#[test]
fn a_damaged_payload_ends_a_new_job_or_costs_an_attempt() {
    let why = "the payload's envelope is damaged";
    let said = opening(b"x", Begun::Begun).seen();
    assert_eq!(said[1], format!("release 1: k@7 d tell=n result='e:{why}'"));
    let said = opening(b"x", Begun::Started).seen();
    assert_eq!(said[1], format!("release 1: k@7 q in=1s result='{why}'"));
}
