//! Ends that the store does not take.

use super::super::input::Input;
use super::bench::{Bench, damaged, done, job, key};
use crate::error::Error;
use crate::store::{SettleReply, StoreError};

/// A worker that has said the ends of these jobs, and takes no more.
fn said(names: &[&str]) -> Bench {
    let mut bench = Bench::running(names.iter().map(|name| job(name)));
    bench.step([Input::Drain(1, 9)]);
    bench.step(names.iter().map(|name| Input::Left(key(name), Some(done()), false)));
    bench.seen();
    bench
}

#[test]
fn refused_ends_are_said_alone_and_hold_up_no_others() {
    let mut bench = said(&["a", "b"]);
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! Rarely: ends were not said, they", "1: settle1#2 a@7 done"]);
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! Rarely: ends were not said, they", "1: settle1#3 b@7 done"]);
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["ended b@7 Ended after 0ms", "forget b@7"], "the other has a pause");
    assert_eq!(bench.after(1_000).seen(), ["1: settle1#4 a@7 done"]);
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["ended a@7 Ended after 1000ms", "forget a@7", "answer 9: 0"]);
}

#[test]
fn a_new_end_goes_before_the_next_refused_end() {
    let mut bench = Bench::running([job("a"), job("b"), job("c")]);
    bench.step([Input::Drain(1, 9)]);
    bench.ends("a", done());
    bench.ends("b", done());
    bench.settles([SettleReply::Ended], false);
    bench.worked(Some(Err(damaged())), None);
    bench.advance(1_000);
    bench.ends("c", done());
    bench.seen();
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! Rarely: ends were not said, they", "1: settle1#4 c@7 done"]);
}

#[test]
fn a_refused_end_is_given_up_when_its_job_runs_again() {
    let mut bench = said(&["a"]);
    let (began, mut refusals) = (bench.now, 0);
    loop {
        refusals += 1;
        bench.worked(Some(Err(damaged())), None);
        let seen = bench.seen();
        if seen == ["forget a@7", "! Rarely: ends were not said", "answer 9: 0"] {
            break;
        }
        assert_eq!(seen, ["! Rarely: ends were not said, they"]);
        bench.advance(1_000);
        bench.seen();
    }
    assert_eq!((bench.now.saturating_sub(began).as_secs(), refusals), (91, 92), "its lease, and a minute");
}

#[test]
fn a_late_refused_end_keeps_the_time_of_its_first_refusal() {
    let mut bench = said(&["a"]);
    let began = bench.now;
    loop {
        bench.worked(Some(Err(damaged())), None);
        if bench.seen()[0] == "forget a@7" {
            break;
        }
        bench.advance(1_000);
        bench.worked(Some(Err(StoreError::Late.into())), None);
        bench.seen();
        assert!(bench.now.saturating_sub(began).as_secs() < 100, "it is said for ever");
    }
    assert_eq!(bench.now.saturating_sub(began).as_secs(), 91, "its lease, and a minute");
}

#[test]
fn a_late_end_is_said_on_another_lane() {
    let mut bench = said(&["a"]);
    bench.worked(Some(Err(StoreError::Late.into())), None);
    assert_eq!(bench.seen(), ["1: settle1~#1 a@7 done"]);
}

#[test]
fn an_end_that_nobody_takes_is_left_to_the_lease() {
    let mut bench = said(&["a"]);
    bench.worked(Some(Err(Error::Closed)), None);
    assert_eq!(bench.seen(), ["forget a@7", "! Rarely: ends were not said", "answer 9: 0"]);
}
