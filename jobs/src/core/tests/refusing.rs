//! Ends that the store does not take.

use super::bench::{Bench, damaged, done, job};
use crate::error::Error;
use crate::store::{SettleReply, StoreError};

/// A worker that has said the ends of these jobs, and takes no more.
fn said(names: &[&str]) -> Bench {
    let mut bench = Bench::running(names.iter().map(|name| job(name)));
    bench.step([super::super::input::Input::Drain(1)]);
    let ends = names.iter().map(|name| {
        let event = super::super::input::HandlerEvent::Ended(done());
        super::super::input::Input::Handler(super::bench::key(name), event)
    });
    bench.step(ends);
    bench.seen();
    bench
}

#[test]
fn refused_ends_are_said_alone_and_hold_up_no_others() {
    let mut bench = said(&["a", "b"]);
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! 2 not said, again", "1: settle1#2 a@7 done"]);
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! 1 not said, again", "1: settle1#3 b@7 done"]);
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["ended b@7 Ended after 0ms", "forget b@7"], "the other has a pause");
    bench.advance(1_000);
    assert_eq!(bench.seen(), ["1: settle1#4 a@7 done"]);
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["ended a@7 Ended after 1000ms", "forget a@7", "1: drained"]);
}

#[test]
fn a_new_end_goes_before_the_next_refused_end() {
    let mut bench = Bench::running([job("a"), job("b"), job("c")]);
    bench.step([super::super::input::Input::Drain(1)]);
    bench.ends("a", done());
    bench.ends("b", done());
    bench.settles([SettleReply::Ended], false);
    bench.worked(Some(Err(damaged())), None);
    bench.advance(1_000);
    bench.ends("c", done());
    bench.seen();
    bench.worked(Some(Err(damaged())), None);
    assert_eq!(bench.seen(), ["! 1 not said, again", "1: settle1#4 c@7 done"]);
}

#[test]
fn a_refused_end_is_given_up_when_its_job_runs_again() {
    let mut bench = said(&["a"]);
    let (began, mut refusals) = (bench.now, 0);
    loop {
        refusals += 1;
        bench.worked(Some(Err(damaged())), None);
        let seen = bench.seen();
        if seen == ["! 1 not said", "forget a@7", "1: drained"]
            || seen == ["forget a@7", "! 1 not said", "1: drained"]
        {
            break;
        }
        assert_eq!(seen, ["! 1 not said, again"]);
        bench.advance(1_000);
        bench.seen();
    }
    assert_eq!(((bench.now - began).as_secs(), refusals), (91, 92), "its lease, and a minute");
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
    assert_eq!(bench.seen(), ["forget a@7", "! 1 not said", "1: drained"]);
}
