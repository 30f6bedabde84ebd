//! Leases: renewed, lost, and ended by the execution's own time.

use std::time::Duration;

use super::super::input::{Done, Input};
use super::super::leases::{LOOK, Timing};
use super::bench::{Bench, damaged, done, job, key};
use crate::store::{Hint, SettleReply, TakenJob};

/// A job with a lease of this many ms.
fn leased(name: &str, lease: u64) -> TakenJob {
    TakenJob { lease, ..job(name) }
}

fn timed(timeout: Option<u64>, heartbeat: Option<u64>) -> TakenJob {
    let mut job = job("a");
    job.terms.timeout = timeout.map(Duration::from_millis);
    job.terms.heartbeat = heartbeat.map(Duration::from_millis);
    job
}

#[test]
fn a_handler_has_ended_before_its_job_runs_elsewhere() {
    for seconds in [3, 4, 5, 10, 30, 600, 86_400] {
        let lease = Duration::from_secs(seconds);
        let Timing { renew, cancel, abort } = Timing::of(lease);
        assert!(abort * 101 / 100 + lease / 20 < lease * 99 / 100, "{seconds}");
        assert!(renew + 2 * LOOK < cancel && cancel < abort, "a second renewal comes in time: {seconds}");
    }
}

#[test]
fn a_lease_is_renewed_when_three_tenths_are_over() {
    let mut bench = Bench::running([job("a")]);
    assert_eq!(bench.after(8_999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["renew a@7"]);
    bench.advance(2_000);
    bench.renews(30_000, [SettleReply::GoesOn]);
    assert_eq!(bench.after(6_999).seen(), [""; 0], "it counts from the sending of the last renewal");
    assert_eq!(bench.after(1).seen(), ["renew a@7"]);
}

#[test]
fn a_lease_counts_from_the_sending_of_the_take() {
    let mut bench = Bench::with_worker(1);
    bench.advance(5_000);
    bench.takes([job("a")]);
    bench.seen();
    assert_eq!(bench.after(4_000).seen(), ["renew a@7"]);
}

#[test]
fn a_handler_without_a_lease_is_cancelled_then_aborted() {
    let mut bench = Bench::running([job("a")]);
    bench.advance(9_000);
    bench.seen();
    assert_eq!(bench.after(11_999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["CANCEL a@7"]);
    assert_eq!(bench.after(5_999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["! Warn: a@7 the lease could not be", "ABORT a@7"]);
    bench.gone("a");
    assert_eq!(bench.seen(), ["forget a@7", "1: take1#2 take 1 of q"], "it says no end");
}

#[test]
fn a_lease_ends_while_the_machine_is_suspended() {
    let mut bench = Bench::running([job("a")]);
    bench.suspend(10_000);
    assert_eq!(bench.seen(), ["renew a@7"]);
    bench.suspend(17_000);
    assert_eq!(bench.seen(), ["! Warn: a@7 the lease could not be", "ABORT a@7"]);
}

#[test]
fn a_short_lease_does_not_shorten_a_longer_one() {
    let mut bench = Bench::running([leased("long", 60_000), leased("short", 3_000)]);
    bench.hint(Hint::Extend);
    assert_eq!(bench.seen(), ["renew short@7"], "one call at a time");
    bench.renews(3_000, [SettleReply::GoesOn]);
    assert_eq!(bench.seen(), ["renew long@7"]);
    bench.renews(60_000, [SettleReply::GoesOn]);
    assert_eq!(bench.after(899).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["renew short@7"]);
}

#[test]
fn a_lease_that_has_become_shorter_ends_earlier() {
    let mut bench = Bench::running([job("a")]);
    bench.hint(Hint::Extend);
    bench.renews(10_000, [SettleReply::GoesOn]);
    bench.seen();
    bench.advance(9_000);
    assert_eq!(bench.seen(), ["renew a@7", "CANCEL a@7", "! Warn: a@7 the lease could not be", "ABORT a@7"]);
}

#[test]
fn a_renewal_that_fails_comes_again_for_all() {
    let mut bench = Bench::running([job("a"), leased("b", 60_000)]);
    assert_eq!(bench.after(9_000).seen(), ["renew a@7"]);
    bench.step([Input::Done(Done::Renewed(Err(damaged())))]);
    assert_eq!(bench.seen(), ["! Debug: leases were not renewed, they"]);
    assert_eq!(bench.after(499).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["renew a@7"]);
    bench.renews(30_000, [SettleReply::GoesOn]);
    assert_eq!(bench.seen(), ["renew b@7"]);
}

#[test]
fn an_execution_of_somebody_else_is_aborted_without_an_end() {
    let mut bench = Bench::running([job("a"), job("b"), job("c")]);
    bench.hint(Hint::Halted(key("a").0, key("a").1));
    bench.hint(Hint::Halted(key("b").0, key("b").1));
    bench.hint(Hint::Extend);
    assert_eq!(bench.seen(), ["ABORT a@7", "ABORT b@7", "renew c@7"]);
    bench.renews(0, [SettleReply::Halt]);
    assert_eq!(bench.seen(), ["ABORT c@7"]);
    bench.ends("a", done());
    assert_eq!(bench.seen(), ["forget a@7", "1: take1#2 take 1 of q"]);
}

#[test]
fn a_wish_to_cancel_is_told_once() {
    let mut bench = Bench::running([job("a")]);
    bench.hint(Hint::Cancel(key("a").0, key("a").1));
    assert_eq!(bench.seen(), ["CANCEL a@7"]);
    bench.hint(Hint::Extend);
    bench.renews(30_000, [SettleReply::ToCancel]);
    assert_eq!(bench.seen(), ["renew a@7"]);
}

#[test]
fn an_execution_that_takes_too_long_is_warned_and_ended() {
    let mut bench = Bench::running([timed(Some(2_000), None)]);
    assert_eq!(bench.after(1_999).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["CANCEL a@7"]);
    assert_eq!(bench.after(500).seen(), ["ABORT a@7", "1: settle1#1 a@7 retry 'it took longer than 2s'"]);
    bench.gone("a");
    bench.settles([SettleReply::Delayed], false);
    let left = ["ended a@7 Delayed after 2500ms", "forget a@7", "1: take1#2 take 1 of q"];
    assert_eq!(bench.seen(), left, "it is told once");
}

#[test]
fn a_heartbeat_is_looked_at_before_anybody_is_warned() {
    let mut bench = Bench::running([timed(None, Some(1_000))]);
    assert_eq!(bench.after(1_000).seen(), ["look a@7"]);
    bench.step([Input::Beat(key("a"), bench.ago(200))]);
    assert_eq!(bench.after(799).seen(), [""; 0]);
    assert_eq!(bench.after(1).seen(), ["look a@7"]);
    let beat = bench.ago(1_000);
    bench.step([Input::Beat(key("a"), beat)]);
    assert_eq!(bench.seen(), ["CANCEL a@7"]);
    assert_eq!(bench.after(500).seen(), ["look a@7"], "it may have made progress since");
    bench.step([Input::Beat(key("a"), beat)]);
    assert_eq!(bench.seen(), ["ABORT a@7", "1: settle1#1 a@7 retry 'no heartbeat within 1s'"]);
}
