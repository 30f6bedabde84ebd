//! An operator's word to single jobs: on its way, and at the worker that runs the job.

use super::bench::{Bench, config, key, millis, record, secs};
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent};
use crate::model::id::{Token, WorkerId};
use crate::model::record::{JobState, Record};
use crate::model::why::Cause;
use crate::step::{Lookup, Refusal, SteerReply, StoreError, Way, WorkerEvent};

fn found(bench: &mut Bench, record: Option<Record>) {
    bench.answer_with("find", vec![Lookup { record, ..Lookup::default() }]);
}

fn steered(bench: &mut Bench, reply: SteerReply) {
    bench.answer_each("steer", reply);
}

/// k under this token, in this state since 50.
fn seen(state: JobState, token: u64) -> Record {
    let mut record = record("k", token, WorkerId(9));
    (record.state, record.since) = (state, 50);
    if matches!(state, JobState::Queued | JobState::Parked) {
        record.owner = None;
    }
    record
}

/// k in this state under this token since then, for this reason.
fn since(state: JobState, (token, since): (u64, u64), cause: Cause) -> Record {
    let mut record = Record { since, ..seen(state, token) };
    record.set_why(cause);
    record
}

/// An operator wants this of k, which was found in this state.
pub(super) fn steering(way: Way, state: JobState) -> Bench {
    steering_of(way, seen(state, 7))
}

fn steering_of(way: Way, record: Record) -> Bench {
    let mut bench = Bench::attached();
    let deadline = bench.now + secs(30);
    let reason = if matches!(way, Way::Park | Way::Pause) { "bad feed" } else { "" }.to_owned();
    bench.command(|reply| Command::Steer { reply, key: key("k"), way, reason, deadline });
    found(&mut bench, Some(record));
    bench
}

/// The owner of k was told.
fn told(way: Way) -> Bench {
    let mut bench = steering(way, JobState::Running);
    bench.all();
    steered(&mut bench, SteerReply::Told);
    bench.all();
    bench
}

/// The record of k, at the next look.
fn later(bench: &mut Bench, record: Option<Record>) -> Vec<String> {
    assert_eq!(bench.after(millis(60)).seen(), ["find k"]);
    found(bench, record);
    bench.seen()
}

#[test]
fn a_steer_names_what_was_seen() {
    let mut bench = steering(Way::Park, JobState::Running);
    assert_eq!(bench.seen(), ["find k", "steer k/n.k@7+50 p owner=9 'bad feed'"]);
    let mut bench = steering(Way::Now, JobState::Parked);
    assert_eq!(bench.seen(), ["find k", "steer k/n.k@7+50 n"]);
}

#[test]
fn the_answer_of_a_steer_is_that_of_the_pool() {
    let answers = [
        (Way::Now, SteerReply::Queued, "ok"),
        (Way::Elsewhere, SteerReply::Queued, "ok"),
        (Way::Park, SteerReply::Parked, "ok"),
        (Way::Home, SteerReply::Parked, "Parked"),
        (Way::Home, SteerReply::Stopping, "JobNotFound"),
        (Way::Park, SteerReply::Absent, "JobNotFound"),
        (Way::Park, SteerReply::Bad, "BadRecord"),
        (Way::Pause, SteerReply::Paused, "ok"),
        (Way::Now, SteerReply::Paused, "Paused"),
        (Way::Park, SteerReply::Paused, "Paused"),
        (Way::Elsewhere, SteerReply::Paused, "Paused"),
    ];
    for (way, reply, said) in answers {
        let mut bench = steering(way, JobState::Queued);
        bench.all();
        steered(&mut bench, reply);
        assert_eq!(bench.seen(), [format!("reply 1 steered {said}")], "{way:?} {reply:?}");
    }
}

#[test]
fn what_needs_no_step_is_answered_at_once() {
    let cases = [
        (Way::Park, JobState::Parked, "ok"),
        (Way::Home, JobState::Parked, "Parked"),
        (Way::Elsewhere, JobState::Parked, "Parked"),
        (Way::Now, JobState::Running, "NotWaiting"),
        (Way::Now, JobState::Assigned, "NotWaiting"),
        (Way::Park, JobState::Stopping, "JobNotFound"),
        (Way::Now, JobState::Stopping, "JobNotFound"),
        (Way::Resume, JobState::Running, "ok"),
        (Way::Resume, JobState::Queued, "ok"),
        (Way::Resume, JobState::Parked, "Parked"),
        (Way::Pause, JobState::Stopping, "JobNotFound"),
    ];
    for (way, state, said) in cases {
        let expected = ["find k".to_owned(), format!("reply 1 steered {said}")];
        assert_eq!(steering(way, state).seen(), expected, "{way:?} {state:?}");
    }
}

#[test]
fn a_bounce_is_done_when_its_run_is_over() {
    for over in [seen(JobState::Queued, 7), seen(JobState::Running, 8), seen(JobState::Parked, 7)] {
        let mut bench = told(Way::Elsewhere);
        assert_eq!(later(&mut bench, Some(seen(JobState::Running, 7))), [""; 0], "it still ends");
        bench.advance(millis(60));
        assert_eq!(later(&mut bench, Some(over)), ["reply 1 steered ok"]);
    }
    let mut bench = told(Way::Elsewhere);
    assert_eq!(later(&mut bench, None), ["reply 1 steered JobNotFound"]);
}

#[test]
fn a_park_follows_its_job() {
    let mut bench = told(Way::Park);
    let mut moved = seen(JobState::Running, 8);
    moved.owner = Some(WorkerId(4));
    assert_eq!(later(&mut bench, Some(moved)), ["steer k/n.k@8+50 p owner=4 'bad feed'"]);
    steered(&mut bench, SteerReply::Changed);
    bench.all();
    assert_eq!(later(&mut bench, Some(seen(JobState::Queued, 8))), ["steer k/n.k@8+50 p 'bad feed'"]);
    steered(&mut bench, SteerReply::Parked);
    assert_eq!(bench.seen(), ["reply 1 steered ok"]);
}

#[test]
fn a_later_job_of_the_key_is_not_steered() {
    for way in [Way::Park, Way::Elsewhere, Way::Home] {
        let mut bench = told(way);
        let mut another = seen(JobState::Running, 8);
        another.id = "n.another".parse().unwrap();
        assert_eq!(later(&mut bench, Some(another)), ["reply 1 steered JobNotFound"]);
    }
}

#[test]
fn an_owner_that_does_not_end_the_run_is_told_again() {
    let mut bench = told(Way::Park);
    let mut steers = 0;
    for _ in 0..40 {
        bench.advance(millis(100));
        if bench.is_calling("find") {
            found(&mut bench, Some(seen(JobState::Running, 7)));
        }
        if bench.is_calling("steer") {
            steered(&mut bench, SteerReply::Told);
            steers += 1;
        }
    }
    assert_eq!(steers, 4, "once a second");
}

#[test]
fn a_steer_whose_answer_was_lost_is_made_again_as_it_was() {
    let mut bench = steering(Way::Now, JobState::Parked);
    bench.all();
    bench.fail("steer");
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["steer k/n.k@7+50 n"]);
    steered(&mut bench, SteerReply::Changed);
    bench.all();
    assert_eq!(later(&mut bench, Some(seen(JobState::Running, 8))), ["reply 1 steered ok"], "it was done");
}

#[test]
fn a_pool_that_recovers_is_asked_again_and_no_other_one() {
    let mut bench = steering(Way::Park, JobState::Queued);
    bench.all();
    steered(&mut bench, SteerReply::Recovering);
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["find k"]);
    found(&mut bench, Some(seen(JobState::Queued, 7)));
    bench.all();
    bench.fail_with("steer", StoreError::Refused(Refusal::ShuttingDown));
    assert_eq!(bench.seen(), ["reply 1 steered ShuttingDown"]);
}

#[test]
fn a_steer_ends_at_its_deadline() {
    let mut bench = told(Way::Park);
    assert_eq!(bench.after(secs(31)).of(&["reply"]), ["reply 1 late"]);
}

pub(super) fn event(bench: &mut Bench, number: u64, token: u64, way: Way) {
    let reason = if matches!(way, Way::Park | Way::Pause) { "bad feed" } else { "" }.to_owned();
    bench.event(1, number, WorkerEvent::Steer { jobs: vec![(key("k"), Token(token), way, reason)] });
}

fn released(bench: &mut Bench) -> String {
    let releases = bench.of(&["release"]);
    releases[0].split(';').next().unwrap_or_default().to_owned()
}

#[test]
fn a_running_job_leaves_in_the_way_that_is_wanted() {
    let ways = [
        (Way::Home, "Bounced", "release 1: k@7 h"),
        (Way::Elsewhere, "Bounced", "release 1: k@7 e"),
        (Way::Park, "Parked", "release 1: k@7 p result='bad feed'"),
        (Way::Pause, "Paused", "release 1: k@7 p result='bad feed'"),
    ];
    for (way, why, release) in ways {
        let mut bench = Bench::that_runs(7, &["k"]);
        event(&mut bench, 9, 6, way);
        assert_eq!(bench.of(&["STOP"]), [""; 0], "another token");
        event(&mut bench, 10, 7, way);
        event(&mut bench, 11, 7, way);
        assert_eq!(bench.of(&["STOP"]), [format!("STOP k@7 {why}")], "once");
        bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
        assert_eq!(released(&mut bench), release);
    }
}

#[test]
fn a_start_is_cancelled_by_a_park_and_not_by_a_bounce() {
    for (way, acts) in [(Way::Park, vec!["CANCEL k@7"]), (Way::Elsewhere, vec![])] {
        let mut bench = Bench::that_starts(5, 7, &["k"]);
        bench.all();
        event(&mut bench, 9, 7, way);
        assert_eq!(bench.of(&["STOP", "CANCEL"]), acts);
    }
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.all();
    event(&mut bench, 9, 7, Way::Park);
    bench.handler(1, "k", 7, HandlerEvent::Failed("cancelled".into()));
    assert_eq!(
        released(&mut bench),
        "release 1: k@7 p tell=n result='bad feed'",
        "it failed because it was cancelled"
    );
}

#[test]
fn a_job_that_waits_for_its_permit_leaves_at_once() {
    let ways = [
        (Way::Home, "release 1: k@7 h tell=n"),
        (Way::Elsewhere, "release 1: k@7 e tell=n"),
        (Way::Park, "release 1: k@7 p tell=n result='bad feed'"),
        (Way::Pause, "release 1: k@7 p tell=n result='bad feed'"),
    ];
    for (way, release) in ways {
        let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
        bench.begin(1, 5, 7, &["a", "k"]);
        bench.all();
        event(&mut bench, 9, 7, way);
        assert_eq!(released(&mut bench), release);
    }
}

#[test]
fn a_job_that_ends_by_itself_is_gone_though_it_was_to_be_parked() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, Way::Park);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(released(&mut bench), "release 1: k@7 d");
}

#[test]
fn the_stronger_word_counts() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, Way::Elsewhere);
    event(&mut bench, 10, 7, Way::Park);
    event(&mut bench, 11, 7, Way::Home);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(released(&mut bench), "release 1: k@7 p result='bad feed'");
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, Way::Park);
    bench.stop_event(1, 10, Some("m"), &[("k", 7)]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(released(&mut bench), "release 1: k@7 d stopper=m");
}

/// k, paused.
fn paused() -> Record {
    Record { tail: "||z9".to_owned(), ..seen(JobState::Parked, 7) }
}

#[test]
fn only_a_resume_of_a_paused_job_is_sent() {
    for (way, said) in [
        (Way::Pause, "ok"),
        (Way::Now, "Paused"),
        (Way::Home, "Paused"),
        (Way::Elsewhere, "Paused"),
        (Way::Park, "Paused"),
    ] {
        let mut bench = steering_of(way, paused());
        assert_eq!(bench.seen(), ["find k".to_owned(), format!("reply 1 steered {said}")], "{way:?}");
    }
    let mut bench = steering_of(Way::Resume, paused());
    assert_eq!(bench.seen(), ["find k", "steer k/n.k@7+50 y"]);
    steered(&mut bench, SteerReply::Queued);
    assert_eq!(bench.seen(), ["reply 1 steered ok"]);
}

#[test]
fn a_pause_follows_a_job_that_moves() {
    let mut bench = told(Way::Pause);
    let moved = Some(seen(JobState::Queued, 7));
    assert_eq!(later(&mut bench, moved), ["steer k/n.k@7+50 z 'bad feed'"]);
    steered(&mut bench, SteerReply::Paused);
    assert_eq!(bench.seen(), ["reply 1 steered ok"]);
}

#[test]
fn a_pause_is_more_than_a_park_and_than_what_the_handler_says() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, Way::Park);
    event(&mut bench, 10, 7, Way::Pause);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(released(&mut bench), "release 1: k@7 p result='bad feed'");
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, Way::Pause);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Failed("cancelled".into()));
    assert_eq!(released(&mut bench), "release 1: k@7 p result='bad feed'");
}

/// The record of k at the look after a step whose answer was lost, and which the store does not know when it comes again.
fn after_a_lost_answer(bench: &mut Bench, record: Record) -> Vec<String> {
    bench.all();
    bench.fail("steer");
    bench.all();
    bench.advance(millis(100));
    steered(bench, SteerReply::Changed);
    bench.all();
    later(bench, Some(record))
}

const DONE: [&str; 1] = ["reply 1 steered ok"];

#[test]
fn a_resume_undoes_no_later_pause() {
    let mut bench = steering_of(Way::Resume, paused());
    assert_eq!(after_a_lost_answer(&mut bench, since(JobState::Parked, (7, 60), Cause::Paused)), DONE);
    let mut bench = steering_of(Way::Resume, paused());
    assert_eq!(after_a_lost_answer(&mut bench, paused()), ["steer k/n.k@7+50 y"], "nobody has resumed it");
    let mut bench = steering_of(Way::Resume, paused());
    let gone_back = since(JobState::Parked, (7, 40), Cause::Paused);
    assert_eq!(after_a_lost_answer(&mut bench, gone_back), ["steer k/n.k@7+40 y"], "the data went back");
    for rests in
        [since(JobState::Parked, (8, 70), Cause::Parked), since(JobState::Queued, (7, 60), Cause::Resumed)]
    {
        let mut bench = steering_of(Way::Resume, paused());
        assert_eq!(after_a_lost_answer(&mut bench, rests), DONE);
    }
    let mut bench = steering_of(Way::Resume, paused());
    bench.all();
    steered(&mut bench, SteerReply::Parked);
    assert_eq!(bench.seen(), DONE, "it was resumed, and parked since");
}

/// k, paused until then.
fn paused_until(end: u64) -> Record {
    Record { tail: format!("||z9+{end}"), ..seen(JobState::Parked, 7) }
}

#[test]
fn a_resume_names_the_end_that_it_saw() {
    let mut bench = steering_of(Way::Resume, paused_until(7_000));
    let longer = after_a_lost_answer(&mut bench, paused_until(9_000));
    assert_eq!(longer, ["steer k/n.k@7+50 y '|9000|'"], "it is the same pause, and goes on");
}

#[test]
fn a_pause_is_not_done_by_the_end_of_a_shorter_one() {
    for (reason, is_done) in [("a|60|x", true), ("a|91|x", false), ("a||x", false)] {
        let mut bench = Bench::attached();
        let deadline = bench.now + secs(30);
        let (way, reason) = (Way::Pause, reason.to_owned());
        bench.command(|reply| Command::Steer { reply, key: key("k"), way, reason: reason.clone(), deadline });
        found(&mut bench, Some(paused_until(55)));
        let goes_on = since(JobState::Queued, (7, 90), Cause::PauseOver);
        let expected =
            if is_done { DONE.map(str::to_owned) } else { [format!("steer k/n.k@7+90 z '{reason}'")] };
        assert_eq!(after_a_lost_answer(&mut bench, goes_on), expected, "{reason}");
    }
}

#[test]
fn of_two_pauses_of_a_run_the_longer_one_counts() {
    for texts in [["a|50|x", "b||y"], ["b||y", "a|50|x"], ["a|50|x", "b|60|y"]] {
        let mut bench = Bench::that_runs(7, &["k"]);
        for (at, text) in (9..).zip(texts) {
            let jobs = vec![(key("k"), Token(7), Way::Pause, text.to_owned())];
            bench.event(1, at, WorkerEvent::Steer { jobs });
        }
        bench.all();
        bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
        let longest = texts.into_iter().find(|text| text.starts_with('b')).unwrap();
        assert_eq!(released(&mut bench), format!("release 1: k@7 p result='{longest}'"));
    }
}

#[test]
fn a_pause_and_a_park_undo_no_later_start() {
    for (way, cause) in [(Way::Pause, Cause::Resumed), (Way::Park, Cause::Unparked)] {
        for goes_on in [
            since(JobState::Queued, (7, 90), cause),
            since(JobState::Assigned, (8, 90), cause),
            since(JobState::Running, (8, 95), cause),
        ] {
            let mut bench = told(way);
            assert_eq!(later(&mut bench, Some(goes_on.clone())), DONE, "{way:?} {goes_on:?}");
            let mut bench = steering(way, JobState::Queued);
            assert_eq!(after_a_lost_answer(&mut bench, goes_on.clone()), DONE, "{way:?} {goes_on:?}");
            let mut bench = steering(way, JobState::Queued);
            bench.all();
            steered(&mut bench, SteerReply::Changed);
            bench.all();
            assert_eq!(later(&mut bench, Some(goes_on)), DONE, "somebody else has done it");
        }
    }
}

#[test]
fn a_job_that_was_started_before_is_paused_and_parked() {
    for (way, cause, letter) in [(Way::Pause, Cause::Resumed, 'z'), (Way::Park, Cause::Unparked, 'p')] {
        let mut bench = steering_of(way, since(JobState::Queued, (6, 50), cause));
        bench.all();
        for (state, at, stretch) in
            [(JobState::Assigned, (7, 50), "7+50"), (JobState::Running, (7, 60), "7+60")]
        {
            steered(&mut bench, SteerReply::Changed);
            bench.all();
            let sent = format!("steer k/n.k@{stretch} {letter} owner=9 'bad feed'");
            assert_eq!(later(&mut bench, Some(since(state, at, cause))), [sent]);
        }
        steered(&mut bench, SteerReply::Told);
        bench.all();
        let runs = since(JobState::Running, (7, 60), cause);
        assert_eq!(later(&mut bench, Some(runs)), [""; 0], "it still ends");
        bench.advance(millis(60));
        let moved = since(JobState::Queued, (7, 70), Cause::Moved);
        assert_eq!(later(&mut bench, Some(moved)), [format!("steer k/n.k@7+70 {letter} 'bad feed'")]);
    }
}

#[test]
fn a_retry_undoes_no_later_park() {
    let mut bench = steering(Way::Now, JobState::Parked);
    assert_eq!(after_a_lost_answer(&mut bench, since(JobState::Parked, (7, 60), Cause::Parked)), DONE);
    let mut bench = steering(Way::Now, JobState::Parked);
    let paused = since(JobState::Parked, (8, 60), Cause::Paused);
    assert_eq!(after_a_lost_answer(&mut bench, paused), DONE, "a worker had it before");
    let mut bench = steering(Way::Now, JobState::Parked);
    let paused = since(JobState::Parked, (7, 60), Cause::Paused);
    assert_eq!(after_a_lost_answer(&mut bench, paused), ["reply 1 steered Paused"]);
}

#[test]
fn a_run_that_is_over_was_bounced_though_its_job_is_paused() {
    for way in [Way::Home, Way::Elsewhere] {
        let mut bench = told(way);
        assert_eq!(later(&mut bench, Some(since(JobState::Parked, (7, 60), Cause::Paused))), DONE, "{way:?}");
        for rests in [SteerReply::Paused, SteerReply::Parked] {
            let mut bench = steering(way, JobState::Running);
            bench.all();
            steered(&mut bench, rests);
            assert_eq!(bench.seen(), DONE, "{way:?} {rests:?}");
        }
    }
}
