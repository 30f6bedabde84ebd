//! Stops and notifications on their way to a job on any node.

use tenure_steps::Failure;

use super::bench::{Bench, entry, id, key, millis, present, record, secs, up};
use crate::core::input::{Command, ReplyTo, Until};
use crate::core::time::Time;
use crate::model::id::{Incarnation, JobKey, WorkerId};
use crate::model::record::{JobState, Record};
use crate::step::{Lookup, NodeEvents, NotifyReply, Refusal, StopReply, StoreError, UnparkReply, Way};

fn stop(bench: &mut Bench, name: &str) {
    bench.stop_job(name, None, Until::Recorded, secs(5));
}

pub(super) fn notify(bench: &mut Bench, name: &str) {
    let deadline = bench.now + secs(5);
    bench.command(|reply| Command::Notify { reply, key: key(name), body: "x".into(), start: None, deadline });
}

fn found(bench: &mut Bench, found: Vec<Lookup>) {
    bench.answer_with("find", found);
}

fn stopped(bench: &mut Bench, replies: Vec<StopReply>) {
    bench.answer_with("stop", replies);
}

fn notified(bench: &mut Bench, replies: Vec<NotifyReply>) {
    bench.answer_with("notify", replies);
}

/// A stop of k, which worker 9 owns, on its way.
fn stopping() -> Bench {
    let mut bench = Bench::attached();
    stop(&mut bench, "k");
    found(&mut bench, vec![Lookup { record: Some(record("k", 7, WorkerId(9))), ..Lookup::default() }]);
    assert_eq!(bench.seen(), ["find k", "stop k/n.k owner=9"]);
    bench
}

#[test]
fn a_stop_names_the_life_of_the_job_that_it_found() {
    let answers = [
        (StopReply::Deleted, "ok"),
        (StopReply::Stopping, "ok"),
        (StopReply::Ended, "ok"),
        (StopReply::Absent, "ok"),
        (StopReply::Bad, "BadRecord"),
    ];
    for (answer, settled) in answers {
        let mut bench = stopping();
        stopped(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 1 stopped {settled}")]);
    }
}

/// A stop of k that is recorded; its end is waited for.
fn watching() -> Bench {
    let mut bench = Bench::attached();
    bench.stop_job("k", None, Until::Gone, secs(5));
    found(&mut bench, vec![running()]);
    stopped(&mut bench, vec![StopReply::Stopping]);
    assert_eq!(bench.seen(), ["find k", "stop k/n.k owner=9 tell me"]);
    bench
}

fn running() -> Lookup {
    Lookup { record: Some(record("k", 7, WorkerId(9))), ..Lookup::default() }
}

fn told(bench: &mut Bench, dispatch: &str) {
    let outcomes = vec![(entry(4), vec![(id(dispatch), "stopped".to_owned())])];
    bench.events(NodeEvents { outcomes, ..NodeEvents::default() });
}

#[test]
fn the_end_of_a_job_is_looked_at_when_its_worker_tells_of_it() {
    let mut bench = watching();
    told(&mut bench, "n.other");
    assert_eq!(bench.seen(), [""; 0]);
    told(&mut bench, "n.k");
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.seen(), ["find k", "reply 1 stopped ok"]);
    told(&mut bench, "n.k");
    assert_eq!(bench.seen(), [""; 0], "once");
}

#[test]
fn the_end_of_a_job_is_looked_for_once_a_second() {
    let mut bench = watching();
    assert_eq!(bench.after(millis(999)).of(&["find"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["find"]), ["find k"]);
    found(&mut bench, vec![running()]);
    assert_eq!(bench.after(secs(1)).of(&["find", "reply"]), ["find k"]);
    let successor = Lookup { record: Some(record("l", 8, WorkerId(9))), ..Lookup::default() };
    found(&mut bench, vec![successor.clone()]);
    assert_eq!(bench.of(&["reply"]), [""; 0], "the owner's word may name an error");
    bench.advance(millis(100));
    found(&mut bench, vec![successor]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 stopped ok"]);
}

#[test]
fn an_error_of_the_stop_handler_reaches_who_waits_for_the_stop() {
    let says = |bench: &mut Bench, outcome: &str| {
        let outcomes = vec![(entry(4), vec![(id("n.k"), outcome.to_owned())])];
        bench.events(NodeEvents { outcomes, ..NodeEvents::default() });
    };
    let failed = ["reply 1 stopped StopFailed { key: \"k\", error: \"busy\" }"];
    let mut bench = watching();
    says(&mut bench, "s:busy");
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), failed);
    // The look comes first.
    let mut bench = watching();
    bench.advance(secs(1));
    found(&mut bench, vec![Lookup::default()]);
    says(&mut bench, "s:busy");
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), failed);
}

#[test]
fn hints_of_the_end_of_a_job_add_no_looks() {
    let mut bench = watching();
    for _ in 0..3 {
        told(&mut bench, "n.k");
    }
    assert_eq!(bench.of(&["find"]), ["find k"]);
    found(&mut bench, vec![running()]);
    assert_eq!(bench.of(&["find"]), ["find k"], "one came after it was asked");
    found(&mut bench, vec![running()]);
    assert_eq!(bench.after(secs(1)).of(&["find"]), ["find k"]);
    found(&mut bench, vec![running()]);
    assert_eq!(bench.after(millis(999)).of(&["find"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["find"]), ["find k"]);
}

/// The pool turns out to be recovering, after a loss of its data.
fn lost(bench: &mut Bench, incarnation: u64) {
    let refused = StoreError::Refused(Refusal::StaleIncarnation(Incarnation(incarnation)));
    bench.fail_with("sweep", refused);
    bench.survey(present(incarnation, true, "a"));
    bench.maps(incarnation);
    bench.all();
}

#[test]
fn an_absent_job_may_run_until_a_lost_pool_is_open() {
    let mut bench = Bench::attached();
    stop(&mut bench, "k");
    bench.all();
    lost(&mut bench, 2);
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), [""; 0]);
    assert_eq!(bench.after(millis(200)).of(&["find", "reply"]), ["find k"]);
    bench.survey(present(2, false, "a"));
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), [""; 0], "it may have been answered before the pool was open");
    bench.advance(millis(100));
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 stopped JobNotFound"]);
}

/// A command about a key.
type Wants = fn(ReplyTo, JobKey, Time) -> Command;

#[test]
fn a_record_of_phase_r_is_followed_by_the_stop_of_a_run_only() {
    let parked = || Record { state: JobState::Parked, owner: None, ..record("k", 7, WorkerId(9)) };
    let runs = || record("k", 7, WorkerId(9));
    let steer: Wants = |reply, key, deadline| {
        let (way, reason) = (Way::Now, String::new());
        Command::Steer { reply, key, way, reason, deadline }
    };
    let stop: Wants = |reply, key, deadline| {
        let (id, until) = (None, Until::Recorded);
        Command::StopJob { reply, key, id, until, deadline }
    };
    let cases: [(Wants, Record, &[&str]); 4] = [
        (steer, parked(), &["find k"]),
        (|reply, key, deadline| Command::Unpark { reply, key, deadline }, runs(), &["find k"]),
        (stop, parked(), &["find k"]),
        (stop, runs(), &["stop k/n.k owner=9"]),
    ];
    for (wants, record, then) in cases {
        let mut bench = Bench::attached();
        lost(&mut bench, 2);
        let deadline = bench.now + secs(5);
        bench.command(|reply| wants(reply, key("k"), deadline));
        assert_eq!(bench.of(&["find"]), ["find k"]);
        found(&mut bench, vec![Lookup { record: Some(record), ..Lookup::default() }]);
        assert_eq!(bench.after(millis(100)).of(&["find", "steer", "stop", "unpark", "reply"]), then);
    }
}

#[test]
fn a_recorded_stop_is_sent_again_after_a_loss() {
    let mut bench = watching();
    bench.advance(secs(1));
    bench.step([]);
    bench.all();
    let refused = StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2)));
    bench.fail_with("sweep", refused);
    bench.survey(present(2, true, "a"));
    assert_eq!(bench.of(&["stop"]), ["stop k/n.k owner=9 tell me"]);
    let successor = Record { id: id("n.successor"), ..record("k", 9, WorkerId(9)) };
    found(&mut bench, vec![Lookup { record: Some(successor), ..Lookup::default() }]);
    stopped(&mut bench, vec![StopReply::Recovering]);
    assert_eq!(bench.of(&["reply", "stop"]), [""; 0], "a look from before ends nobody's successor");
    assert_eq!(bench.after(millis(100)).of(&["stop"]), ["stop k/n.k owner=9 tell me"]);
    stopped(&mut bench, vec![StopReply::Absent]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 stopped ok"]);
}

#[test]
fn a_look_at_another_life_of_the_pools_data_says_nothing() {
    let mut bench = Bench::attached();
    stop(&mut bench, "k");
    lost(&mut bench, 2);
    bench.advance(millis(200));
    bench.survey(present(2, false, "a"));
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), [""; 0]);
    assert_eq!(bench.after(millis(100)).of(&["find"]), ["find k"]);
}

#[test]
fn a_wait_for_the_end_of_a_job_ends_at_its_deadline() {
    let mut bench = watching();
    assert_eq!(bench.after(secs(5)).of(&["reply"]), ["reply 1 late, k stops"]);
    told(&mut bench, "n.k");
    assert_eq!(bench.of(&["reply"]), [""; 0]);
}

#[test]
fn a_job_unknown_to_a_recovering_pool_is_not_taken_for_gone() {
    let mut bench = watching();
    bench.advance(secs(1));
    bench.fail_with("find", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.survey(present(2, true, "a"));
    stopped(&mut bench, vec![StopReply::Stopping]);
    bench.advance(secs(1));
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), [""; 0]);
    bench.advance(secs(1));
    bench.fail_with("find", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(3))));
    bench.survey(present(3, false, "a"));
    stopped(&mut bench, vec![StopReply::Stopping]);
    bench.advance(secs(1));
    found(&mut bench, vec![Lookup::default()]);
    bench.advance(millis(100));
    found(&mut bench, vec![Lookup::default()]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 stopped ok"]);
}

#[test]
fn a_dispatch_is_cancelled_by_its_id_wherever_it_is() {
    let answers = [
        (StopReply::Deleted, "ok"),
        (StopReply::Stopping, "ok"),
        (StopReply::Absent, "ok"),
        (StopReply::Ended, "JobNotFound"),
    ];
    for (answer, settled) in answers {
        let mut bench = Bench::attached();
        bench.stop_job("k", Some("n.1"), Until::Cancelled, secs(5));
        assert_eq!(bench.seen(), ["stop k/n.1 for good"]);
        stopped(&mut bench, vec![StopReply::Owner(Some(WorkerId(9)))]);
        assert_eq!(bench.seen(), ["stop k/n.1 owner=9 for good"]);
        stopped(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 1 stopped {settled}")]);
    }
}

#[test]
fn a_cancel_whose_answer_was_lost_has_done_it() {
    let not_executed = || StoreError::NotExecuted(Failure::new(std::io::Error::other("no link")));
    let lost = || StoreError::Unanswered(Failure::new(std::io::Error::other("lost")));
    for (error, answer, settled) in [
        (lost(), StopReply::Ended, "ok"),
        (lost(), StopReply::Absent, "ok"),
        (lost(), StopReply::Stopping, "ok"),
        (not_executed(), StopReply::Ended, "JobNotFound"),
    ] {
        let mut bench = Bench::attached();
        bench.stop_job("k", Some("n.1"), Until::Cancelled, secs(5));
        bench.fail_with("stop", error);
        bench.all();
        assert_eq!(bench.after(millis(20)).seen(), ["stop k/n.1 for good"]);
        stopped(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 1 stopped {settled}")]);
    }
}

#[test]
fn a_stop_of_a_job_that_is_not_there_says_so() {
    for (lookup, settled) in
        [(Lookup::default(), "JobNotFound"), (Lookup { bad: true, ..Lookup::default() }, "BadRecord")]
    {
        let mut bench = Bench::attached();
        stop(&mut bench, "k");
        bench.all();
        found(&mut bench, vec![lookup]);
        assert_eq!(bench.seen(), [format!("reply 1 stopped {settled}")]);
    }
}

#[test]
fn a_wrong_owner_is_corrected_and_a_recovering_pool_retried() {
    let mut bench = stopping();
    stopped(&mut bench, vec![StopReply::Owner(Some(WorkerId(8)))]);
    assert_eq!(bench.seen(), ["stop k/n.k owner=8"]);
    stopped(&mut bench, vec![StopReply::Later]);
    assert_eq!(bench.seen(), ["stop k/n.k owner=8"], "the rest of a page");
    stopped(&mut bench, vec![StopReply::Recovering]);
    assert_eq!(bench.seen(), [""; 0]);
    assert_eq!(bench.after(millis(100)).seen(), ["stop k/n.k owner=8"]);
}

#[test]
fn a_notification_goes_to_the_worker_that_the_ring_names() {
    let answers =
        [(NotifyReply::Kept, "ok"), (NotifyReply::Full, "NotifyFull"), (NotifyReply::Absent, "JobNotFound")];
    for (answer, settled) in answers {
        let mut bench = Bench::attached();
        bench.set_member(9, up(0));
        notify(&mut bench, "k");
        assert_eq!(bench.seen(), ["notify k owner=9"]);
        notified(&mut bench, vec![NotifyReply::Owner(Some(WorkerId(8)))]);
        assert_eq!(bench.seen(), ["notify k owner=8"]);
        notified(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 1 notified {settled}")]);
    }
}

#[test]
fn answers_reach_callers_after_others_have_given_up() {
    let mut bench = Bench::attached();
    notify(&mut bench, "a");
    notify(&mut bench, "b");
    bench.advance(secs(3));
    notify(&mut bench, "c");
    assert_eq!(bench.after(secs(2)).of(&["reply"]), ["reply 1 late", "reply 2 late"]);
    notified(&mut bench, vec![NotifyReply::Kept]);
    assert_eq!(bench.seen(), ["notify c"]);
    notified(&mut bench, vec![NotifyReply::Kept]);
    assert_eq!(bench.seen(), ["reply 3 notified ok"]);
}

#[test]
fn a_call_without_an_answer_is_made_again() {
    let mut bench = stopping();
    bench.fail("stop");
    notify(&mut bench, "k");
    bench.fail("notify");
    stop(&mut bench, "j");
    bench.fail("find");
    bench.all();
    assert_eq!(bench.after(millis(20)).seen(), ["find j", "stop k/n.k owner=9", "notify k"]);
}

/// A caller wants k to be tried again, which is in this state.
pub(super) fn unparking(state: JobState) -> Bench {
    let mut bench = Bench::attached();
    let deadline = bench.now + secs(5);
    bench.command(|reply| Command::Unpark { reply, key: key("k"), deadline });
    let mut record = record("k", 7, WorkerId(9));
    record.state = state;
    found(&mut bench, vec![Lookup { record: Some(record), ..Lookup::default() }]);
    bench
}

#[test]
fn an_unpark_names_the_life_of_the_job_that_it_found() {
    let answers = [
        (UnparkReply::Queued, "ok"),
        (UnparkReply::Lives, "ok"),
        (UnparkReply::Absent, "JobNotFound"),
        (UnparkReply::Bad, "BadRecord"),
    ];
    for (reply, said) in answers {
        let mut bench = unparking(JobState::Parked);
        assert_eq!(bench.seen(), ["find k", "unpark k/n.k"]);
        bench.answer_each("unpark", reply);
        assert_eq!(bench.seen(), [format!("reply 1 unparked {said}")]);
    }
}

#[test]
fn an_unpark_is_repeated_while_a_recovering_pool_lacks_the_job() {
    let mut bench = unparking(JobState::Parked);
    bench.answer_each("unpark", UnparkReply::Recovering);
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["unpark k/n.k"]);
    bench.answer_each("unpark", UnparkReply::Absent);
    assert_eq!(bench.seen(), ["reply 1 unparked JobNotFound"]);
}

#[test]
fn only_a_parked_job_is_unparked() {
    for state in [JobState::Queued, JobState::Assigned, JobState::Running, JobState::Stopping] {
        assert_eq!(unparking(state).seen(), ["find k", "reply 1 unparked NotParked"]);
    }
}

#[test]
fn an_unpark_whose_answer_was_lost_is_not_made_twice() {
    let mut anew = record("k", 9, WorkerId(9));
    (anew.state, anew.since) = (JobState::Parked, 70);
    let records = [None, Some(record("k", 9, WorkerId(9))), Some(record("l", 9, WorkerId(9))), Some(anew)];
    for record in records {
        let mut bench = unparking(JobState::Parked);
        bench.fail("unpark");
        bench.after(millis(100)).all();
        found(&mut bench, vec![Lookup { record, ..Lookup::default() }]);
        assert_eq!(bench.seen(), ["reply 1 unparked ok"]);
    }
}

#[test]
fn an_unanswered_unpark_goes_again_unless_the_pool_is_stopping() {
    let mut bench = unparking(JobState::Parked);
    bench.all();
    bench.fail("unpark");
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["find k"]);
    let mut still = record("k", 7, WorkerId(9));
    still.state = JobState::Parked;
    found(&mut bench, vec![Lookup { record: Some(still), ..Lookup::default() }]);
    assert_eq!(bench.seen(), ["unpark k/n.k"]);
    bench.fail_with("unpark", StoreError::Refused(Refusal::ShuttingDown));
    assert_eq!(bench.seen(), ["reply 1 unparked ShuttingDown"]);
}
