//! Checkpoints: the newest one of each job goes, and no job leaves before its last one is kept.

use std::sync::Arc;

use bytes::Bytes;

use super::bench::{Bench, millis, sealed, secs};
use crate::core::call::{Call, Done};
use crate::core::input::HandlerEvent;
use crate::model::policy::RestartPolicy;
use crate::store::{AttestReply, MemoryFull, ReleaseReply, SaveReply, StoreError};

impl Bench {
    fn gives(&mut self, name: &str, number: u64) {
        let bytes = Bytes::from(number.to_string());
        self.handler(1, name, 7, HandlerEvent::Checkpoint { number, bytes });
    }

    /// Answers the save in flight.
    fn saved(&mut self, replies: &[SaveReply]) {
        self.answer("save", |call| match call {
            Call::Save { worker, items } => Done::Save { worker, items, answer: Ok(replies.to_vec()) },
            call => panic!("{call:?}"),
        });
    }
}

/// A worker that runs these jobs, which run again when they end, under token 7.
fn running(names: &[&str]) -> Bench {
    let mut bench = Bench::with_worker();
    bench.assign(1, 7, 7, names);
    bench.begun_as(&sealed(RestartPolicy::Always), false, |_| {});
    for name in names {
        bench.handler(1, name, 7, HandlerEvent::Started);
    }
    while bench.is_calling("started") {
        bench.started_noted();
    }
    bench.all();
    bench
}

fn ends(bench: &mut Bench, name: &str) {
    bench.handler(1, name, 7, HandlerEvent::Ended(Ok(())));
}

#[test]
fn the_newest_checkpoint_of_each_job_goes() {
    let mut bench = running(&["a", "b"]);
    bench.gives("a", 1);
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
    let mut bench = running(&["a"]);
    bench.gives("a", 1);
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
fn a_job_that_ends_for_good_waits_for_no_checkpoint() {
    let mut bench = running(&["a"]);
    bench.gives("a", 1);
    bench.stop_event(1, 9, None, &[("a", 7)]);
    bench.handler(1, "a", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["not-saved", "release"]), ["not-saved a@7", "release 1: a@7 d; done 9"]);
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.of(&["saved", "not-saved"]), [""; 0]);
}

#[test]
fn a_job_may_leave_while_the_memory_is_full() {
    let full = || StoreError::NotExecuted(Arc::new(MemoryFull));
    let mut bench = running(&["a"]);
    bench.gives("a", 1);
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
    assert_eq!(bench.seen(), ["not-saved a@7"]);
}

#[test]
fn another_owners_job_keeps_no_checkpoint() {
    let mut bench = running(&["a"]);
    bench.gives("a", 1);
    bench.all();
    bench.saved(&[SaveReply::Stale]);
    assert_eq!(bench.seen(), ["not-saved a@7"]);
    ends(&mut bench, "a");
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn after_a_loss_the_last_checkpoint_is_saved_again() {
    let mut bench = running(&["a", "b"]);
    bench.gives("a", 1);
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
fn a_save_that_comes_before_the_report_goes_again() {
    let mut bench = running(&["a"]);
    bench.lost(2);
    bench.gives("a", 1);
    bench.all();
    bench.saved(&[SaveReply::Recovering]);
    assert_eq!(bench.of(&["save", "not-saved"]), [""; 0], "after a pause");
    bench.attested(&[AttestReply::Kept]);
    bench.advance(millis(100));
    assert_eq!(bench.of(&["save"]), ["save 1: a@7 given=7#1"]);
}

#[test]
fn a_release_that_found_nothing_saves_its_checkpoint_first() {
    let mut bench = running(&["a"]);
    bench.gives("a", 1);
    bench.saved(&[SaveReply::Kept]);
    ends(&mut bench, "a");
    bench.lost(2);
    bench.all();
    bench.answer("release", |call| match call {
        Call::Release { worker, finished, items } => {
            Done::Release { worker, finished, items, answer: Ok(vec![ReleaseReply::Stale]) }
        }
        call => panic!("{call:?}"),
    });
    bench.attested(&[]);
    bench.attested(&[AttestReply::Kept]);
    let line = bench.of(&["save", "release"]);
    assert_eq!(line, ["save 1: a@7 given=7#1"]);
    bench.saved(&[SaveReply::Kept]);
    assert_eq!(bench.of(&["release"]).len(), 1);
}
