//! Workers: what they take, what they say, and how they end.

use std::time::Duration;

use super::super::input::Input;
use super::bench::{Bench, damaged, done, job, key};
use crate::error::Error;
use crate::model::id::GroupName;
use crate::store::{Data, Hint, Settle, SettleReply, StoreError, TakeReply, TakenJob};

#[test]
fn jobs_begin_in_free_slots() {
    let mut bench = Bench::with_worker(3);
    assert_eq!(bench.seen(), ["1: take1#1 take 3 of q"]);
    bench.takes([job("a"), job("b")]);
    assert_eq!(bench.seen(), ["1: RUN a@7", "1: RUN b@7"], "there were no more");
    bench.hint(Hint::Ready("q".parse().unwrap(), None));
    assert_eq!(bench.seen(), ["1: take1#2 take 1 of q"]);
    bench.takes([job("c")]);
    bench.seen();
    bench.hint(Hint::Ready("q".parse().unwrap(), None));
    assert_eq!(bench.seen(), [""; 0], "no slot is free");
}

#[test]
fn a_wake_up_during_a_call_is_for_the_next_one() {
    let mut bench = Bench::with_worker(2);
    bench.hint(Hint::Ready("q".parse().unwrap(), None));
    bench.seen();
    bench.takes([job("a")]);
    assert_eq!(bench.seen(), ["1: RUN a@7", "1: take1#2 take 1 of q"]);
    bench.takes([]);
    assert_eq!(bench.seen(), [""; 0]);
}

#[test]
fn what_ends_during_a_call_goes_with_the_next() {
    let mut bench = Bench::running([job("a"), job("b"), job("c")]);
    bench.ends("a", done());
    assert_eq!(bench.seen(), ["1: settle1#1 a@7 done; take1#2 take 1 of q"]);
    bench.ends("b", done());
    bench.ends("c", Settle::GiveBack);
    assert_eq!(bench.seen(), [""; 0]);
    bench.settles([SettleReply::Ended], true);
    let next = ["ended a@7 Ended after 0ms", "forget a@7", "1: settle1#2 b@7 done c@7 back"];
    assert_eq!(bench.seen(), next);
    bench.settles([SettleReply::Ended, SettleReply::Pending], false);
    assert_eq!(bench.seen()[4..], [""; 0], "it has taken nothing, and waits to be woken");
}

#[test]
fn a_held_worker_says_its_ends_and_takes_later() {
    let mut bench = Bench::running([job("a"), job("b")]);
    bench.ends("a", done());
    bench.worked(Some(Ok(vec![SettleReply::Ended])), Some(Ok(TakeReply::Hold(2_000))));
    bench.seen();
    bench.advance(1_000);
    bench.ends("b", done());
    assert_eq!(bench.seen(), ["1: settle1#2 b@7 done"]);
    bench.settles([SettleReply::Ended], false);
    bench.seen();
    assert_eq!(bench.after(999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["1: take1#3 take 2 of q"]);
}

#[test]
fn an_idle_worker_looks_by_itself() {
    let mut bench = Bench::with_worker(1);
    bench.takes([]);
    bench.seen();
    assert_eq!(bench.after(9_999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["1: take1#2 take 1 of q"]);
    bench.worked(None, Some(Err(damaged())));
    assert_eq!(bench.after(1_000).seen(), ["! Rarely: no jobs could be taken", "1: take1#3 take 1 of q"]);
    bench.worked(None, Some(Err(StoreError::Late.into())));
    bench.advance(1_000);
    assert_eq!(
        bench.seen(),
        ["! Rarely: no jobs could be taken", "1: take1~#1 take 1 of q"],
        "nobody else has its lane"
    );
}

#[test]
fn an_owner_says_that_it_is_there_while_its_job_runs() {
    const LANE: &str = "owner.q/g";
    let mut bench = Bench::with_owner();
    let number = (3_u128 << 64) + 1;
    assert_eq!(bench.seen(), [format!("1: {LANE}#{number} take 1 of q/g")]);
    bench.takes([TakenJob { lease: 86_400_000, ..job("a") }]);
    bench.seen();
    assert_eq!(bench.after(30 * 60 * 1_000).seen(), [format!("1: {LANE}#{} take 0 of q/g", number + 1)]);
    bench.worked(None, Some(Err(StoreError::Late.into())));
    assert_eq!(bench.seen(), ["! Debug: a later owner of the", "1: over"]);
    bench.hint(Hint::Ready("q".parse().unwrap(), Some(GroupName::new("g").unwrap())));
    assert_eq!(bench.seen(), [""; 0], "it takes no more");
}

#[test]
fn a_job_taken_by_a_draining_worker_is_given_back() {
    let mut bench = Bench::with_worker(2);
    bench.seen();
    bench.step([Input::Drain(1, 9)]);
    bench.takes([job("a")]);
    assert_eq!(bench.seen(), ["keep a@7", "1: settle1#1 a@7 back"]);
    bench.settles([SettleReply::Pending], false);
    assert_eq!(bench.seen(), ["ended a@7 Pending after 0ms", "forget a@7", "answer 9: 0"]);
}

#[test]
fn a_draining_worker_takes_its_registration_back() {
    let mut bench = Bench::with_worker(2);
    let registration = Some("r".into());
    bench.worked(None, Some(Ok(TakeReply::Taken { jobs: Vec::new(), registration, more: false })));
    bench.seen();
    bench.step([Input::Drain(1, 9)]);
    assert_eq!(bench.seen(), ["1: take1#2 take 0 of q was=r"]);
    bench.takes([]);
    assert_eq!(bench.seen(), ["answer 9: 0"]);
    bench.step([Input::Unowned(1)]);
    assert_eq!(bench.seen(), ["1: gone"]);
}

#[test]
fn a_worker_that_gives_back_aborts_its_handlers_alone() {
    let mut bench = Bench::running([job("a")]);
    bench.step([Input::GiveBack(2, 8), Input::GiveBack(1, 9)]);
    let said = ["answer 8: 0", "ABORT a@7", "answer 9: 1", "1: settle1#1 a@7 back"];
    assert_eq!(bench.seen(), said);
    bench.ends("a", done());
    bench.settles([SettleReply::Pending], false);
    assert_eq!(bench.seen(), ["ended a@7 Pending after 0ms", "forget a@7"], "the first end counts");
}

#[test]
fn a_worker_without_its_runtime_takes_no_more() {
    let mut bench = Bench::running([job("a"), job("b")]);
    bench.step([
        Input::Left(key("a"), Some(Settle::GiveBack), true),
        Input::Left(key("b"), Some(Settle::GiveBack), true),
    ]);
    assert_eq!(
        bench.seen(),
        ["! Warn: the runtime of a worker", "1: over", "1: settle1#1 a@7 back b@7 back"]
    );
}

#[test]
fn a_closed_node_takes_no_more() {
    let mut bench = Bench::with_worker(1);
    bench.worked(None, Some(Err(Error::Closed)));
    assert_eq!(bench.after(60_000).seen(), ["1: take1#1 take 1 of q", "1: over"]);
}

#[test]
fn a_job_that_cannot_go_on_fails() {
    let mut bench = Bench::running([job("a")]);
    let on = Settle::MoveOn { queue: "x".parse().unwrap(), priority: None, group: None, data: Data::Keep };
    bench.ends("a", on);
    bench.seen();
    bench.now += Duration::from_millis(5);
    bench.settles([SettleReply::NoGroup], true);
    let why = "its handler named a pinned queue, and it has no group";
    let said = [
        "ended a@7 NoGroup after 5ms".to_owned(),
        "! Warn: a@7 the job cannot go on".into(),
        format!("1: settle1#2 a@7 fail '{why}'"),
    ];
    assert_eq!(bench.seen(), said);
    bench.settles([SettleReply::Bad], false);
    assert_eq!(bench.seen(), ["ended a@7 Bad after 5ms", "forget a@7"], "it cannot fail either");
}

#[test]
fn a_wait_for_nothing_is_told() {
    let mut bench = Bench::running([job("a")]);
    bench.ends("a", Settle::Wait(1, Data::Keep));
    bench.seen();
    bench.settles([SettleReply::Delayed], true);
    assert_eq!(bench.seen()[1..], ["! Rarely: a@7 the job waits again, and", "forget a@7"]);
}
