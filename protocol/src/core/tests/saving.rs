//! Checkpoints: the newest one of each job goes, and no job leaves before its last one is kept.

use bytes::Bytes;
use tenure_steps::{Class, Failure};

use super::bench::{Bench, key, millis, record, sealed, secs};
use crate::core::call::Call;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::step::{
    AttestReply, BATCH_BYTES, BATCH_MAX, BeginReply, BegunJob, Checkpoint, ReleaseReply, SaveReply,
    StoreError,
};

impl Bench {
    fn gives(&mut self, name: &str, number: u64) {
        let bytes = Bytes::from(number.to_string());
        self.handler(1, name, 7, HandlerEvent::Checkpoint { number, bytes });
    }

    /// Worker 1 must hand on its jobs.
    fn drained(&mut self) {
        super::leaving::drain(self, 1);
        super::leaving::drained(self);
    }

    /// Answers the save in flight.
    fn saved(&mut self, replies: &[SaveReply]) {
        self.answer_with("save", replies.to_vec());
    }
}

/// A worker that runs these jobs, which run again when they end, under token 7.
fn running(names: &[&str]) -> Bench {
    let mut bench = Bench::that_is_assigned(7, 7, names);
    while bench.is_calling("begin") {
        bench.begun_as(&sealed(RestartPolicy::Always), false, |_| {});
    }
    for name in names {
        bench.handler(1, name, 7, HandlerEvent::Started);
    }
    while bench.is_calling("started") {
        bench.started_noted();
    }
    bench.all();
    bench
}

/// The same, and the first one has given a checkpoint.
fn given(names: &[&str]) -> Bench {
    let mut bench = running(names);
    bench.gives(names[0], 1);
    bench
}

pub(super) fn full() -> StoreError {
    StoreError::NotExecuted(Failure::of(Class::Full, std::fmt::Error))
}

fn ends(bench: &mut Bench, name: &str) {
    bench.handler(1, name, 7, HandlerEvent::Ended(Ok(())));
}

#[test]
fn the_newest_checkpoint_of_each_job_goes() {
    let mut bench = given(&["a", "b"]);
    assert_eq!(bench.seen(), ["save 1: a@7 given=7#1"], "at once");
    bench.gives("b", 1);
    bench.gives("a", 2);
    bench.gives("a", 3);
    assert_eq!(bench.seen(), [""; 0], "one call is in flight");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.seen(), ["saved a@7 #1", "save 1: b@7 given=7#1 a@7 given=7#3"]);
    bench.saved(&[SaveReply::Kept, SaveReply::Kept]);
    assert_eq!(bench.seen(), ["saved b@7 #1", "saved a@7 #3"]);
}

#[test]
fn a_release_waits_for_the_last_checkpoint() {
    let mut bench = given(&["a"]);
    bench.gives("a", 2);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#2"]);
    bench.fail("save");
    assert_eq!(bench.of(&["release"]), [""; 0]);
    bench.advance(secs(1));
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_job_that_has_ended_by_itself_waits_for_its_checkpoint() {
    // It may have been given a later payload, and goes on then.
    let mut bench = Bench::that_runs(7, &["a"]);
    bench.gives("a", 1);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]), ["release 1: a@7 d"]);
}

#[test]
fn a_job_that_ends_for_good_waits_for_no_checkpoint() {
    let mut bench = given(&["a"]);
    bench.stop_event(1, 9, None, &[("a", 7)]);
    bench.handler(1, "a", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["not-saved", "release"]), ["not-saved a@7 #1", "release 1: a@7 d; done 9"]);
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.of(&["saved", "not-saved"]), [""; 0]);
}

#[test]
fn a_job_may_leave_while_the_memory_is_full() {
    let mut bench = given(&["a"]);
    bench.fail_with("save", full());
    bench.advance(secs(1));
    assert!(bench.is_calling("save"), "it is tried again while the job runs");
    ends(&mut bench, "a");
    bench.all();
    bench.fail_with("save", full());
    let told = bench.of(&["!", "not-saved", "release"]);
    assert!(told.iter().any(|line| line.starts_with("not-saved a@7")), "{told:?}");
    assert_eq!(told.iter().filter(|line| line.starts_with("release")).count(), 1, "{told:?}");
}

#[test]
fn what_comes_after_the_end_is_not_saved() {
    let mut bench = running(&["a"]);
    ends(&mut bench, "a");
    bench.all();
    bench.gives("a", 1);
    assert_eq!(bench.seen(), ["not-saved a@7 #1"]);
}

#[test]
fn another_owners_job_keeps_no_checkpoint() {
    let mut bench = given(&["a"]);
    bench.all();
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.seen(), ["not-saved a@7 #1"]);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn after_a_loss_the_last_checkpoint_is_saved_again() {
    let mut bench = given(&["a", "b"]);
    bench.saved(&[SaveReply::Kept]);
    bench.lost(2);
    bench.all();
    bench.attested(&[AttestReply::Kept, AttestReply::Kept]);
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1"], "of those that have one");
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["release"]), [""; 0]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_save_that_comes_before_the_report_goes_after_it() {
    let mut bench = running(&["a"]);
    bench.lost(2);
    bench.gives("a", 1);
    bench.all();
    bench.saved(&[SaveReply::Recovering]);
    bench.advance(millis(100));
    assert_eq!(bench.of(&["save", "not-saved"]), [""; 0], "only the report gives the job its record");
    bench.attested(&[AttestReply::Kept]);
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1"]);
}

#[test]
fn what_no_report_could_repair_is_saved_after_it() {
    let mut bench = running(&["a"]);
    bench.lost(2);
    bench.gives("a", 1);
    bench.saved(&[SaveReply::Recovering]);
    bench.attested(&[AttestReply::Unreadable]);
    bench.all();
    bench.attended(None);
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.of(&["not-saved"]).len(), 1);
}

#[test]
fn after_a_loss_a_job_leaves_after_its_checkpoint() {
    let mut bench = given(&["a"]);
    bench.saved(&[SaveReply::Kept]);
    bench.lost(2);
    bench.all();
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"], "the data may have gone back");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_release_of_before_a_loss_goes_after_the_checkpoint() {
    let mut bench = running(&["a", "b"]);
    for name in ["a", "b"] {
        bench.gives(name, 1);
        bench.saved(&[SaveReply::Kept]);
        ends(&mut bench, name);
    }
    assert_eq!(bench.of(&["release"]).len(), 1, "one is under way, the other waits");
    bench.lost(2);
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1 b@7 given=7#1"]);
    bench.fail("release");
    assert_eq!(bench.after(secs(1)).of(&["release"]), [""; 0]);
    bench.saved(&[SaveReply::Kept, SaveReply::Kept]);
    let line = bench.of(&["release"]);
    assert!(line.len() == 1 && line[0].contains("a@7") && line[0].contains("b@7"), "{line:?}");
}

/// All ways in which the store refuses a save.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    Full,
    Forbidden,
    Damaged,
    OtherType,
}

const REFUSALS: [Refusal; 4] = [Refusal::Full, Refusal::Forbidden, Refusal::Damaged, Refusal::OtherType];

impl Bench {
    /// Refuses the save in flight.
    fn save_refused(&mut self, how: Refusal) {
        let error = Failure::new(std::fmt::Error);
        match how {
            Refusal::Full => self.fail_with("save", full()),
            Refusal::Forbidden => self.fail_with("save", StoreError::Unusable(error)),
            Refusal::Damaged => self.fail_with("save", StoreError::Damaged(error)),
            Refusal::OtherType => self.answer_each("save", SaveReply::Unusable),
        }
    }
}

#[test]
fn a_refusal_counts_for_the_checkpoint_that_was_sent() {
    for how in REFUSALS {
        let mut bench = given(&["a"]);
        bench.gives("a", 2);
        ends(&mut bench, "a");
        bench.all();
        bench.save_refused(how);
        assert_eq!(bench.of(&["not-saved", "release"]), [""; 0], "{how:?}: 2 was not sent");
        bench.advance(millis(20));
        bench.saved(&[SaveReply::Kept]);
        let told = bench.of(&["saved", "not-saved", "release"]);
        assert_eq!((told.len(), &*told[0]), (2, "saved a@7 #2"), "{how:?}: {told:?}");
    }
}

#[test]
fn what_waits_for_the_next_call_is_not_refused() {
    for how in REFUSALS {
        let mut bench = given(&["a", "b"]);
        bench.gives("b", 1);
        ends(&mut bench, "b");
        bench.all();
        bench.save_refused(how);
        assert_eq!(bench.of(&["not-saved", "release"]), [""; 0], "{how:?}: that of b was not sent");
        bench.advance(millis(20));
        let whole = bench.in_flight_call("save");
        assert!(matches!(&whole, Call::Save(save) if save.items[0].key == key("b")), "{how:?}: {whole:?}");
    }
}

#[test]
fn a_refusal_of_before_a_loss_concerns_nothing_after_it() {
    let mut bench = given(&["a"]);
    ends(&mut bench, "a");
    bench.lost(2);
    bench.all();
    bench.save_refused(Refusal::Full);
    assert_eq!(bench.of(&["not-saved", "release"]), [""; 0], "it goes once more");
    bench.advance(millis(20));
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["saved", "release"]).len(), 2);
}

#[test]
fn a_leaving_job_goes_before_those_that_stay() {
    let names: Vec<String> = (0..2 * BATCH_MAX).map(|number| format!("stays-{number}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("z");
    let mut bench = running(&names);
    for name in &names {
        bench.gives(name, 1);
    }
    ends(&mut bench, "z");
    bench.save_refused(Refusal::Full);
    bench.all();
    bench.advance(millis(20));
    let Call::Save(save) = bench.in_flight_call("save") else { panic!("another call") };
    assert_eq!((&save.items[0].key, save.items.len()), (&key("z"), BATCH_MAX));
    bench.save_refused(Refusal::Full);
    assert_eq!(bench.of(&["not-saved", "release"]).len(), 2);
    bench.advance(millis(20));
    assert!(!bench.is_calling("save"), "what stays has longer pauses");
    bench.advance(millis(60));
    let Call::Save(save) = bench.in_flight_call("save") else { panic!("another call") };
    assert_eq!(save.items[0].key, key("stays-128"), "a refused checkpoint goes last");
}

#[test]
fn a_full_memory_holds_many_leaving_jobs_up_for_few_calls() {
    let names: Vec<String> = (0..1_000).map(|number| format!("job-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = running(&names);
    for name in &names {
        bench.gives(name, 1);
        ends(&mut bench, name);
    }
    bench.all();
    let (began, mut calls, mut reports) = (bench.now, 0, 0);
    while bench.is_calling("save") {
        calls += 1;
        bench.save_refused(Refusal::Full);
        reports += bench.of(&["!"]).iter().filter(|line| line.starts_with("! not-saved")).count();
        if !bench.is_calling("save") {
            bench.advance(millis(20));
        }
    }
    assert_eq!((calls, reports), (9, 9), "the first one went alone");
    assert_eq!(bench.now.since(began), millis(180), "each was followed by a pause");
    let mut left = 0;
    while bench.is_calling("release") {
        left += bench.in_flight_call("release").items();
        bench.released();
    }
    assert_eq!(left, names.len());
}

#[test]
fn who_must_end_hears_at_once_that_the_memory_is_full() {
    let mut bench = given(&["a"]);
    bench.fail_with("save", full());
    assert_eq!(bench.of(&["not-saved"]), [""; 0], "it is tried again while the job runs");
    bench.drained();
    bench.advance(secs(1));
    bench.fail_with("save", full());
    assert_eq!(bench.of(&["not-saved"]).len(), 1, "its handler may await this");
    bench.advance(secs(2));
    bench.handler(1, "a", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"]), [""; 0], "once more");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["saved", "release"]).len(), 2);
}

#[test]
fn who_must_end_hears_nothing_of_what_was_not_sent() {
    let mut bench = given(&["a", "b"]);
    bench.gives("a", 2);
    bench.gives("b", 1);
    bench.drained();
    bench.save_refused(Refusal::Full);
    assert_eq!(bench.of(&["not-saved"]), [""; 0], "newer ones were not sent");
    bench.advance(millis(20));
    bench.save_refused(Refusal::Full);
    assert_eq!(bench.of(&["not-saved"]), ["not-saved a@7 #2", "not-saved b@7 #1"]);
    bench.advance(millis(20));
    assert!(!bench.is_calling("save"), "nobody is in a hurry any more");
}

#[test]
fn who_may_send_nothing_has_no_checkpoint_refused() {
    for class in [Class::Config, Class::Refused] {
        let mut bench = given(&["a"]);
        ends(&mut bench, "a");
        bench.all();
        bench.fail_with("save", StoreError::Unusable(Failure::of(class, std::fmt::Error)));
        assert_eq!(bench.of(&["not-saved", "release"]), [""; 0], "{class:?}");
        bench.advance(secs(1));
        bench.saved(&[SaveReply::Kept]);
        assert_eq!(bench.of(&["saved", "release"]).len(), 2);
    }
}

#[test]
fn a_fenced_worker_refuses_checkpoints_at_once() {
    let mut bench = given(&["a"]);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    assert_eq!(bench.of(&["not-saved"]).len(), 1);
    bench.gives("a", 2);
    assert_eq!(bench.of(&["not-saved"]).len(), 1, "while it ends");
}

#[test]
fn a_run_that_a_report_ends_waits_for_no_checkpoint() {
    for reply in [AttestReply::Ended, AttestReply::Outranked, AttestReply::MustStop] {
        for first in [true, false] {
            let mut bench = running(&["a"]);
            bench.lost(2);
            bench.gives("a", 1);
            if first {
                bench.saved(&[SaveReply::Recovering]);
                bench.attested(&[reply]);
            } else {
                bench.attested(&[reply]);
                bench.saved(&[SaveReply::Stale]);
            }
            assert!(!bench.of(&["not-saved"]).is_empty(), "{reply:?}, answered first: {first}");
            bench.gives("a", 2);
            if bench.is_calling("save") {
                bench.saved(&[SaveReply::Stale]);
            }
            assert_eq!(bench.of(&["not-saved"]).len(), 1, "{reply:?}, in its stop handler");
        }
    }
}

#[test]
fn an_answer_concerns_no_newer_checkpoint() {
    for reply in [SaveReply::Stale, SaveReply::TooLong] {
        let mut bench = given(&["a"]);
        bench.gives("a", 2);
        bench.all();
        bench.saved(&[reply]);
        assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#2"], "{reply:?}");
        bench.saved(&[SaveReply::Kept]);
        assert_eq!(bench.of(&["saved"]), ["saved a@7 #2"], "{reply:?}");
    }
}

#[test]
fn a_checkpoint_that_has_become_too_long_is_told() {
    let mut bench = given(&["a"]);
    bench.all();
    bench.saved(&[SaveReply::TooLong]);
    assert_eq!(bench.of(&["not-saved", "!"]).len(), 2, "to its handler and to the operator");
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_checkpoint_of_lost_data_is_kept_for_the_report() {
    let mut bench = given(&["a"]);
    bench.saved(&[SaveReply::Stale]);
    bench.lost(2);
    bench.all();
    bench.attested(&[AttestReply::Kept]);
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1"]);
}

#[test]
fn a_store_that_can_keep_none_holds_no_leaving_job_back() {
    let mut bench = given(&["a", "b"]);
    bench.saved(&[SaveReply::Unusable]);
    assert_eq!(bench.of(&["not-saved"]), [""; 0], "it is tried again while the job runs");
    bench.gives("b", 1);
    ends(&mut bench, "b");
    bench.advance(secs(1));
    bench.saved(&[SaveReply::Unusable, SaveReply::Unusable]);
    assert_eq!(bench.of(&["not-saved", "release"]).len(), 2);
    bench.advance(secs(1));
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["saved"]), ["saved a@7 #1"]);
}

#[test]
fn a_batch_of_jobs_that_have_gone_holds_up_no_other() {
    let names = ["a", "b", "c"];
    let mut bench = running(&names);
    for name in names {
        bench.gives(name, 1);
    }
    bench.saved(&[SaveReply::Kept]);
    // From now on each goes alone.
    bench.fail_with("save", StoreError::Damaged(Failure::new(std::fmt::Error)));
    bench.stop_event(1, 9, None, &[("b", 7)]);
    bench.handler(1, "b", 7, HandlerEvent::Stopped(Ok(())));
    bench.all();
    bench.now = bench.now + millis(30);
    bench.step([Input::Woke]);
    assert_eq!(bench.of(&["save"]), ["save 1: c@7 given=7#1"]);
}

#[test]
fn one_that_must_stop_waits_for_its_checkpoint_no_longer() {
    let mut bench = given(&["a"]);
    ends(&mut bench, "a");
    bench.all();
    bench.stop_event(1, 9, None, &[("a", 7)]);
    let told = bench.of(&["release"]);
    assert!(told.len() == 1 && told[0].starts_with("release 1: a@7 d"), "{told:?}");
}

/// The begin in flight is answered: the job is the worker's, with a former owner's checkpoint.
fn begun_with_a_checkpoint(bench: &mut Bench) {
    bench.begins_answered(|of| {
        let reply = |(key, token): &(JobKey, Token)| {
            let record = record(&key.to_string(), token.0, of.worker);
            let kept = Checkpoint { token: Token(3), number: 4, at: 0, bytes: "x".into() };
            let (payload, checkpoint) = (sealed(RestartPolicy::Always), Some(Box::new(kept)));
            BeginReply::Begun(BegunJob { record, waiting: false, payload, checkpoint })
        };
        Ok(of.jobs.iter().map(reply).collect())
    });
}

#[test]
fn a_former_owners_checkpoint_is_saved_again_after_a_loss() {
    let mut bench = Bench::that_is_assigned(7, 7, &["a"]);
    begun_with_a_checkpoint(&mut bench);
    bench.handler(1, "a", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.lost(2);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=3#4"]);
    bench.saved(&[SaveReply::Kept]);
    let told = bench.of(&["saved", "release"]);
    assert!(told.len() == 1 && told[0].starts_with("release"), "nobody here waits for it: {told:?}");
}

#[test]
fn a_job_given_back_after_a_loss_leaves_after_its_checkpoint() {
    let mut bench = running(&["a"]);
    bench.assign(1, 9, 9, &["a"]);
    begun_with_a_checkpoint(&mut bench);
    bench.lost(2);
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@9 given=3#4"], "its former run has not ended");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_job_whose_begin_was_lost_leaves_after_its_checkpoint() {
    let mut bench = given(&["a"]);
    bench.saved(&[SaveReply::Kept]);
    ends(&mut bench, "a");
    bench.lost(2);
    bench.fail("release");
    bench.all();
    bench.saved(&[SaveReply::Stale]);
    bench.attested(&[]);
    assert_eq!(bench.of(&["save", "release"]), [""; 0], "its record must be given back first");
    bench.attested(&[AttestReply::Kept]);
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.after(secs(1)).of(&["release"]).len(), 1);
}

#[test]
fn a_job_that_ends_before_its_report_leaves_after_it() {
    let mut bench = running(&["a"]);
    bench.lost(2);
    bench.gives("a", 1);
    ends(&mut bench, "a");
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.of(&["release"]), [""; 0]);
    bench.attested(&[AttestReply::Kept]);
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"], "once more");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_refused_checkpoint_goes_before_each_later_release() {
    let mut bench = given(&["a"]);
    bench.saved(&[SaveReply::Kept]);
    ends(&mut bench, "a");
    bench.lost(2);
    bench.saved(&[SaveReply::Stale]);
    bench.all();
    bench.fail("release");
    assert_eq!(bench.of(&["save", "release"]), ["save 1: a@7 given=7#1"]);
}

#[test]
fn a_late_answer_about_lost_data_settles_nothing() {
    let mut bench = given(&["a"]);
    bench.lost(2);
    bench.saved(&[SaveReply::Kept]);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["release"]), [""; 0], "the server that kept it may be gone");
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_place_in_the_next_call_serves_one_checkpoint() {
    let mut bench = given(&["a"]);
    bench.lost(2);
    // The first checkpoint is given up while it waits for the next call, and a second one takes a place as well. Both
    // places do not fit into one call.
    let answer = bench.call("save").answered(Ok(vec![SaveReply::TooLong]));
    let event = HandlerEvent::Checkpoint { number: 2, bytes: vec![0; BATCH_BYTES].into() };
    let given = Input::Handler { worker: WorkerId(1), key: key("a"), token: Token(7), event };
    bench.step([Input::Done(Box::new(answer)), given]);
    bench.saved(&[SaveReply::Recovering]);
    bench.all();
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#2"]);
}

#[test]
fn a_release_that_found_nothing_saves_its_checkpoint_first() {
    let mut bench = given(&["a"]);
    bench.saved(&[SaveReply::Kept]);
    ends(&mut bench, "a");
    bench.lost(2);
    bench.saved(&[SaveReply::Recovering]);
    bench.all();
    bench.answer_each("release", ReleaseReply::Stale);
    bench.attested(&[]);
    bench.attested(&[AttestReply::Kept]);
    let line = bench.of(&["save", "release"]);
    assert_eq!(line, ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}
