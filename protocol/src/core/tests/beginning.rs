//! From a start event to a running job.

use std::num::NonZeroU32;

use super::bench::{Bench, config, entry, key, millis, record, secs};
use crate::core::ctx::Config;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::{Incarnation, Token, WorkerId};
use crate::model::member::MemberState;
use crate::model::record::Begun;
use crate::step::{BeginReply, OwnedPage, WorkerEvent, WorkerStream};

#[test]
fn a_job_is_started_only_after_an_answered_begin() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5"]);
    bench.begun();
    assert_eq!(bench.seen(), ["RUN k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["started 1: k@7 tell=n"]);
    bench.started_noted();
    assert_eq!((bench.seen(), bench.in_flight()), (vec![], vec![]));
}

#[test]
fn a_job_started_before_tells_nobody() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_with(false, |record| record.begun = Begun::Started);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5", "RUN k@7"]);
    assert_eq!(bench.after(millis(20)).seen(), ["started 1: k@7"]);
}

#[test]
fn a_redelivered_start_is_ignored_until_its_release() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.assign(1, 5, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5"], "the same entry");
    bench.assign(1, 6, 7, &["k"]);
    assert_eq!(bench.seen(), [""; 0], "another entry while it is begun");
    bench.begun();
    assert_eq!(bench.seen(), ["RUN k@7", "begin 1: ; done 6"]);
    bench.begun();
    bench.assign(1, 7, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: ; done 7"], "while it starts");
    bench.begun();
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.assign(1, 8, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: ; done 8"], "while it is released");
    bench.begun();
    bench.released();
    assert_eq!((bench.seen(), bench.in_flight()), (vec![], vec![]));
}

#[test]
fn an_entry_is_finished_in_the_call_that_answers_its_last_job() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.stop_event(1, 9, None, &[("k", 3), ("other", 2)]);
    assert_eq!(bench.seen(), ["STOP k@3 Stopped", "release 1: other@2 d"]);
    bench.released();
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@3 d; done 9"]);
}

#[test]
fn a_job_begun_after_the_soft_deadline_is_given_back() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.leases.insert(WorkerId(1), bench.now);
    bench.all();
    bench.begun();
    assert_eq!(bench.seen(), ["release 1: k@7 b tell=n"]);
}

#[test]
fn a_start_that_the_lease_forbade_is_given_back() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::NotRun);
    assert_eq!(bench.seen(), ["release 1: k@7 b tell=n"]);
}

#[test]
fn an_unanswered_begin_goes_first_again_with_its_entry() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.assign(1, 6, 8, &["j"]);
    bench.all();
    bench.fail("begin");
    assert_eq!(bench.seen(), ["! trouble", "owned 1"]);
    assert_eq!(bench.after(secs(1)).seen(), ["begin 1: k@7 j@8; done 5 6"]);
}

#[test]
fn entries_alone_are_finished_again_after_a_pause() {
    let mut bench = Bench::with_worker();
    bench.event(1, 5, WorkerEvent::Unknown);
    assert_eq!(bench.of(&["begin"]), ["begin 1: ; done 5"]);
    bench.fail("begin");
    bench.all();
    assert_eq!(bench.after(secs(1)).seen(), ["begin 1: ; done 5"]);
}

#[test]
fn a_started_without_an_answer_comes_first_again() {
    let mut bench = Bench::that_starts(5, 7, &["k", "j"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.handler(1, "j", 7, HandlerEvent::Started);
    bench.all();
    bench.fail("started");
    assert_eq!(bench.after(secs(1)).seen(), ["! trouble", "started 1: k@7 tell=n j@7 tell=n"]);
}

#[test]
fn a_job_that_did_not_fit_into_the_answer_is_asked_for_again() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.all();
    bench.begin_answered(&[BeginReply::Full]);
    assert_eq!(bench.seen(), ["begin 1: k@7"]);
    bench.begun();
    assert_eq!(bench.seen(), ["RUN k@7"]);
}

#[test]
fn a_refused_begin_is_forgotten() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.all();
    bench.begin_answered(&[BeginReply::Refused]);
    assert_eq!((bench.seen(), bench.in_flight()), (vec![], vec![]));
    bench.assign(1, 6, 8, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: k@8; done 6"], "the next token is taken up");
}

#[test]
fn permits_bound_the_starting_jobs() {
    let mut config = config();
    config.start_permits = 2;
    let mut bench = Bench::with_worker_as(config);
    bench.begin(1, 5, 7, &["a", "b", "c", "d"]);
    assert_eq!(bench.seen(), ["begin 1: a@7 b@7 c@7 d@7; done 5", "RUN a@7", "RUN b@7"]);
    bench.handler(1, "b", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["RUN c@7", "started 1: b@7 tell=n"]);
    bench.handler(1, "a", 7, HandlerEvent::Failed("no".into()));
    assert_eq!(bench.of(&["RUN", "release"]), ["RUN d@7", "release 1: a@7 d tell=n result='e:no'"]);
}

#[test]
fn jobs_start_at_the_rate_of_the_node() {
    let mut bench = Bench::with_worker_as(Config { starts_per_second: NonZeroU32::new(2), ..config() });
    bench.begin(1, 5, 7, &["a", "b", "c"]);
    assert_eq!(bench.of(&["RUN"]), ["RUN a@7"]);
    bench.handler(1, "a", 7, HandlerEvent::Started);
    assert_eq!(bench.after(millis(499)).of(&["RUN"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["RUN"]), ["RUN b@7"]);
    assert_eq!(bench.after(millis(500)).of(&["RUN"]), ["RUN c@7"], "a start that is slow delays no other");
}

#[test]
fn a_job_that_stops_before_its_start_takes_no_turn() {
    let mut bench = Bench::with_worker_as(Config { starts_per_second: NonZeroU32::new(1), ..config() });
    bench.begin(1, 5, 7, &["a", "b", "c"]);
    bench.stop_event(1, 9, None, &[("b", 7)]);
    assert_eq!(bench.of(&["RUN"]), ["RUN a@7"]);
    assert_eq!(bench.after(secs(1)).of(&["RUN"]), ["RUN c@7"]);
}

#[test]
fn an_audit_gives_back_jobs_that_are_not_here() {
    let mut bench = Bench::that_runs(3, &["here"]);
    bench.assign(1, 5, 7, &["k"]);
    bench.fail("begin");
    bench.all();
    let job = |name: &str, token, owner| (key(name), Some(record(name, token, WorkerId(owner))));
    let jobs = vec![job("here", 3, 1), job("k", 7, 1), job("lost", 4, 1), job("theirs", 9, 2)];
    bench.answer_with("owned", OwnedPage { next: None, jobs });
    assert_eq!(bench.seen(), ["release 1: lost@4 b; done 5"]);
}

#[test]
fn an_audit_without_an_answer_is_made_again_after_a_pause() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.fail("begin");
    bench.fail("owned");
    bench.all();
    assert_eq!(bench.after(secs(1)).seen(), ["begin 1: k@7; done 5", "owned 1"]);
}

#[test]
fn the_highest_token_begun_is_remembered() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.assign(1, 9, 9, &["j"]);
    bench.begin_answered(&[BeginReply::Refused]);
    assert_eq!(bench.engine.seen().token, Token(7));
}

#[test]
fn an_entry_that_was_passed_over_is_read_again() {
    let mut bench = Bench::that_runs(7, &["k"]);
    let mut renewal = bench.renewal();
    (renewal.states, renewal.streams) =
        (vec![Some(MemberState::Up)], vec![WorkerStream { oldest: Some(entry(4)), added: 1 }]);
    let workers = vec![WorkerId(1)];
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers, answer: Ok(renewal) }]);
    assert_eq!(bench.all(), ["read-node >0 1>0"]);
}
