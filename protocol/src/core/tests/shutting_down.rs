//! The end of a pool: it closes, it stops, and the last node cleans up.

use std::num::NonZeroU32;

use super::bench::{Bench, config, id, millis, present, secs, server};
use super::fencing::gone;
use super::leaving::drained;
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker};
use crate::model::id::{DispatchId, Incarnation};
use crate::model::record::Begun;
use crate::model::settings::ShutdownFlag;
use crate::step::{
    Bootstrapped, DispatchReply, Lookup, Outcome, PoolState, Reaped, Refusal, ShutdownMode, StoreError,
};

fn closing() -> ShutdownFlag {
    ShutdownFlag::Closing { deadline_ms: 1, by: "n".into() }
}

fn stopping() -> ShutdownFlag {
    ShutdownFlag::Stopping { deadline_ms: None, by: "n".into() }
}

fn shut_down(bench: &mut Bench, mode: ShutdownMode, patience: u64) {
    let deadline = bench.now + secs(patience);
    bench.command(|reply| Command::Shutdown { reply, mode, deadline });
}

fn flagged(bench: &mut Bench, flag: ShutdownFlag) {
    bench.answer_with("shutdown", Some(flag));
}

pub(super) fn purged(bench: &mut Bench, outcomes: Vec<(DispatchId, Outcome)>) {
    bench.answer_with("purge", outcomes);
}

/// A renewal says that the pool is stopping.
pub(super) fn hear_of_stopping(bench: &mut Bench) {
    let mut renewal = bench.renewal();
    renewal.flag = Some(stopping());
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
}

#[test]
fn a_shutdown_closes_stops_purges_leaves_and_cleans_up() {
    let mut bench = Bench::that_runs(3, &["k"]);
    shut_down(&mut bench, ShutdownMode::Closing(secs(10)), 60);
    assert_eq!(bench.seen(), ["shutdown Closing(10s)"]);
    flagged(&mut bench, closing());
    assert_eq!(bench.seen(), ["shutdown Advance"]);
    flagged(&mut bench, closing());
    assert_eq!(bench.seen(), [""; 0]);
    assert_eq!(bench.after(millis(20)).seen(), ["shutdown Advance"], "until it is stopping");
    flagged(&mut bench, stopping());
    assert_eq!(bench.seen(), ["STOP k@3 Shutdown", "purge"]);
    purged(&mut bench, vec![(id("m.1"), "shutdown".into())]);
    assert_eq!(bench.seen(), ["tell m.1=shutdown", "purge"], "until nothing is left");
    bench.answer_with("tell", ());
    purged(&mut bench, vec![]);
    assert_eq!(bench.after(secs(1)).seen(), [""; 0], "k runs");
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@3 d result='shutdown'"]);
    bench.released();
    super::leaving::nothing_was_asked(&mut bench);
    assert_eq!(bench.seen(), ["read-last 1", "drop 1", "leave 1"]);
    gone(&mut bench);
    assert_eq!(bench.seen(), ["seated 1", "reap 1", "cleanup"]);
    let reaped = Reaped { done: true, count: 0, outcomes: vec![] };
    bench.answer_with("reap", reaped);
    bench.fail_with("cleanup", StoreError::Refused(Refusal::Members(1)));
    assert_eq!(bench.after(millis(20)).seen(), ["purge"], "members are left: it goes round again");
    purged(&mut bench, vec![]);
    assert_eq!(bench.seen(), ["cleanup"]);
    bench.answer_with("cleanup", 2_u64);
    assert_eq!(bench.seen(), ["forget-node"]);
    bench.answer_with("forget-node", ());
    assert_eq!(bench.seen(), ["reply 2 shut-down ok dropped=3", "end"]);
}

#[test]
fn a_closing_pool_begins_accepted_jobs_and_admits_no_worker() {
    let mut bench = Bench::with_worker();
    shut_down(&mut bench, ShutdownMode::Closing(secs(10)), 60);
    flagged(&mut bench, closing());
    bench.all();
    bench.begin(1, 5, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5", "RUN k@7"]);
    let local = LocalWorker(2);
    bench.command(|reply| Command::AddWorker { reply, local, meta: String::new(), capacity: None });
    assert!(!bench.is_calling("join"));
}

#[test]
fn a_node_that_hears_of_it_does_its_part() {
    let mut bench = Bench::that_runs(3, &["k"]);
    hear_of_stopping(&mut bench);
    assert_eq!(bench.seen(), ["STOP k@3 Shutdown", "purge"]);
    assert!(!bench.is_calling("route"));
    bench.stored.fields.insert("shutdown".into(), "C|9|m".into());
    bench.maps(1);
    purged(&mut bench, vec![]);
    assert_eq!(bench.after(secs(1)).seen(), [""; 0], "stopping is never taken back");
}

#[test]
fn jobs_that_were_being_begun_end_where_they_are() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.stop_event(1, 6, Some("m"), &[("k", 7)]);
    bench.assign(1, 7, 8, &["j"]);
    bench.all();
    bench.begin_refused(&Refusal::ShuttingDown);
    assert_eq!(bench.seen(), ["release 1: k@7 d stopper=m; done 5 6", "begin 1: j@8; done 7"]);
    bench.begin_refused(&Refusal::ShuttingDown);
    hear_of_stopping(&mut bench);
    bench.released();
    bench.all();
    bench.released();
    super::leaving::nothing_was_asked(&mut bench);
    assert_eq!(bench.seen(), ["read-last 1", "drop 1", "leave 1"]);
}

#[test]
fn a_shutdown_waits_for_no_rate_of_starts() {
    let mut bench = Bench::with_worker_as(Config { starts_per_second: NonZeroU32::new(1), ..config() });
    bench.begin(1, 5, 7, &["a", "b", "c"]);
    assert_eq!(bench.of(&["RUN"]), ["RUN a@7"]);
    hear_of_stopping(&mut bench);
    assert_eq!(bench.of(&["RUN"]), ["RUN b@7", "RUN c@7"]);
}

#[test]
fn a_job_that_has_begun_is_started_and_then_stopped() {
    let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
    bench.begin(1, 5, 7, &["waits-a", "waits-b"]);
    bench.assign(1, 6, 8, &["in-flight", "ran-before"]);
    bench.all();
    hear_of_stopping(&mut bench);
    assert_eq!(bench.of(&["CANCEL", "RUN"]), ["CANCEL waits-a@7", "RUN waits-b@7"]);
    bench.begun_with(false, |record| {
        if record.id == id("n.ran-before") {
            record.begun = Begun::Started;
        }
    });
    let started = |bench: &mut Bench, name: &str, token| {
        bench.handler(1, name, token, HandlerEvent::Started);
        bench.of(&["RUN", "STOP"])
    };
    assert_eq!(bench.of(&["RUN", "release"]), ["release 1: ran-before@8 b tell=n"]);
    assert_eq!(started(&mut bench, "waits-b", 7), ["STOP waits-b@7 Shutdown", "RUN in-flight@8"]);
    assert_eq!(started(&mut bench, "in-flight", 8), ["STOP in-flight@8 Shutdown"]);
    bench.leaves(1, "in-flight", 8, HandlerEvent::Stopped(Ok(())));
    assert_eq!(
        bench.of(&["release"]),
        ["release 1: in-flight@8 d tell=n result='ok'"],
        "its caller hears that it started"
    );
}

#[test]
fn a_drain_under_way_becomes_an_end() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.close(secs(60));
    drained(&mut bench);
    hear_of_stopping(&mut bench);
    bench.all();
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@3 d result='shutdown'"]);
}

#[test]
fn callers_of_open_dispatches_get_shutting_down() {
    let mut bench = Bench::that_submits("a", "n.1", secs(60));
    bench.answer_each("dispatch", DispatchReply::Accepted);
    hear_of_stopping(&mut bench);
    bench.all();
    purged(&mut bench, vec![]);
    bench.answer_with("cleanup", 0_u64);
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted ShuttingDown"]);
}

#[test]
fn a_dropped_dispatch_without_its_outcome_gets_shutting_down() {
    let mut bench = Bench::attached();
    bench.wait("k", "m.1", secs(60));
    hear_of_stopping(&mut bench);
    bench.all();
    let found = Lookup { ended: true, ..Lookup::default() };
    bench.answer_with("lookup", vec![found]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted ShuttingDown"]);
}

#[test]
fn a_shutdown_past_its_deadline_names_the_members_that_are_left() {
    let mut bench = Bench::that_runs(3, &["k"]);
    shut_down(&mut bench, ShutdownMode::DropQueued, 1);
    flagged(&mut bench, stopping());
    bench.all();
    assert_eq!(bench.after(secs(1)).of(&["reply"]), ["reply 2 shut-down ok dropped=0 left=1"]);
}

#[test]
fn an_unanswered_shutdown_step_goes_again_after_a_pause() {
    let mut bench = Bench::attached();
    shut_down(&mut bench, ShutdownMode::DropQueued, 60);
    bench.fail("shutdown");
    bench.advance(millis(20));
    flagged(&mut bench, stopping());
    bench.fail("purge");
    bench.advance(millis(20));
    purged(&mut bench, vec![]);
    bench.fail("cleanup");
    bench.advance(millis(40));
    let seen = bench.seen();
    let calls: Vec<_> = seen.iter().filter(|line| !line.starts_with('!')).collect();
    assert_eq!(calls, ["shutdown DropQueued", "shutdown DropQueued", "purge", "purge", "cleanup", "purge"]);
}

#[test]
fn a_node_in_a_cleaned_up_pool_ends_after_its_handlers() {
    let mut bench = Bench::with_worker();
    bench.command(|reply| Command::Attach { reply });
    bench.running(3, &["k"]);
    bench.handler(1, "k", 3, HandlerEvent::Delivered);
    bench.fail_with("take", StoreError::Refused(Refusal::Closed));
    bench.survey(PoolState::Closed { incarnation: Incarnation(1) });
    bench.all();
    assert_eq!(bench.after(secs(1)).seen(), [""; 0], "k runs");
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["drop 1", "seated 1", "forget-node"]);
}

#[test]
fn the_flag_of_a_former_pool_is_not_that_of_the_new_one() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(1, false, "a"));
    bench.stored.fields.insert("shutdown".into(), "C|9|m".into());
    bench.maps(1);
    assert!(bench.is_calling("shutdown"));
    bench.fail_with("time", StoreError::Refused(Refusal::Closed));
    bench.survey_of(PoolState::Closed { incarnation: Incarnation(1) }, server("a"));
    bench.answer_with("bootstrap", Bootstrapped { incarnation: Incarnation(2), created: true });
    bench.all();
    flagged(&mut bench, stopping());
    assert_eq!(bench.after(secs(1)).of(&["shutdown", "purge"]), [""; 0]);
}

/// The effects of a node that has seen the flag in incarnation 1 and meets incarnation 3. `closed`: the last
/// incarnation of a pool that was shut down before.
pub(super) fn meets_another(mut bench: Bench, closed: u64) -> Vec<String> {
    bench.command(|reply| Command::Attach { reply });
    bench.step([Input::Woke]);
    shut_down(&mut bench, ShutdownMode::DropQueued, 60);
    flagged(&mut bench, stopping());
    bench.all();
    bench.fail_with("purge", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(3))));
    let PoolState::Present { incarnation, recovering, members, settings, run_id, .. } =
        present(3, false, "a")
    else {
        panic!()
    };
    let closed = Incarnation(closed);
    bench.survey(PoolState::Present { incarnation, recovering, members, settings, run_id, closed });
    bench.advance(secs(1));
    bench.of(&["ANSWER", "shutdown", "forget-node"])
}

#[test]
fn a_flag_of_a_pool_that_has_ended_never_gets_to_the_next_one() {
    let said = meets_another(Bench::attached(), 1);
    assert!(!said.iter().any(|line| line.starts_with("shutdown")), "{said:?}");
    let said = meets_another(Bench::attached(), 2);
    assert!(!said.iter().any(|line| line.starts_with("shutdown")), "{said:?}");
    let said = meets_another(Bench::attached(), 0);
    assert!(said.contains(&"shutdown DropQueued".to_owned()), "a loss of data: {said:?}");
}

#[test]
fn a_flag_set_in_the_incarnation_before_is_set_in_this_one() {
    let mut bench = Bench::attached();
    shut_down(&mut bench, ShutdownMode::DropQueued, 60);
    bench.all();
    bench.lost(2);
    flagged(&mut bench, stopping());
    assert_eq!(bench.after(secs(1)).of(&["shutdown", "purge"]), ["shutdown DropQueued"]);
}
