//! Notifications that start their jobs.

use bytes::Bytes;

use super::bench::{Bench, id, key, millis, secs, up};
use crate::core::input::Command;
use crate::model::id::WorkerId;
use crate::step::{DispatchItem, NotifyOrStartReply, Refusal, StoreError};

use NotifyOrStartReply::{
    Accepted, Bad, Ended, Full, Kept, Late, OutOfTokens, Owner, PoolFull, Recovering, ShuttingDown, Stopping,
};

/// A notification for k, with its job, from a node that knows worker 9.
pub(super) fn starting(patience: u64) -> Bench {
    let mut bench = Bench::attached();
    bench.set_member(9, up(0));
    start(&mut bench, patience);
    bench
}

fn start(bench: &mut Bench, patience: u64) {
    let deadline = bench.now + secs(patience);
    let (id, payload) = (id("n.s"), Bytes::new());
    let item = DispatchItem {
        key: key("k"),
        id,
        not_after: 0,
        hash: String::new(),
        payload,
        worker: None,
        awaited: true,
    };
    let start = Some(Box::new(item));
    bench.command(|reply| Command::Notify { reply, key: key("k"), body: "x".into(), start, deadline });
}

fn answered(bench: &mut Bench, reply: NotifyOrStartReply) {
    bench.answer_each("notify-or-start", reply);
}

#[test]
fn a_start_names_the_owner_and_the_worker_of_the_ring() {
    let answers = [
        (Kept, "ok"),
        (Accepted, "ok"),
        (Ended, "ok"),
        (Full, "NotifyFull"),
        (PoolFull, "NotStarted(PoolFull)"),
        (OutOfTokens, "NotStarted(OutOfTokens)"),
        (ShuttingDown, "ShuttingDown"),
        (Bad, "BadRecord"),
    ];
    for (answer, settled) in answers {
        let mut bench = starting(10);
        assert_eq!(bench.seen(), ["notify-or-start k/n.s<1010000 owner=9 at=9 by 1"]);
        answered(&mut bench, answer);
        assert_eq!(bench.seen(), [format!("reply 1 notified {settled}")]);
    }
}

#[test]
fn a_start_with_a_wrong_guess_goes_to_the_owner() {
    let mut bench = starting(10);
    bench.all();
    answered(&mut bench, Owner(Some(WorkerId(8))));
    assert_eq!(bench.seen(), ["notify-or-start k/n.s<1010000 owner=8 at=9 by 1"]);
}

#[test]
fn a_start_waits_for_a_job_that_stops_and_for_a_recovery() {
    let mut bench = starting(10);
    for answer in [Stopping, Recovering] {
        bench.all();
        answered(&mut bench, answer);
        assert_eq!(bench.seen(), [""; 0]);
        assert_eq!(bench.after(millis(100)).of(&["notify-or-start"]).len(), 1);
    }
    assert_eq!(bench.after(secs(10)).of(&["reply"]), ["reply 1 late"]);
}

#[test]
fn a_start_without_an_answer_goes_again_under_its_id() {
    let mut bench = starting(10);
    let first = bench.of(&["notify-or-start"]);
    bench.fail("notify-or-start");
    assert_eq!(bench.after(millis(20)).of(&["notify-or-start"]), first, "with the time of the first sending");
    answered(&mut bench, Ended);
    assert_eq!(bench.seen(), ["reply 1 notified ok"], "the first sending was carried out");
}

#[test]
fn a_start_in_doubt_is_not_accepted_after_its_time() {
    let mut bench = starting(600);
    bench.all();
    bench.fail("notify-or-start");
    bench.after(millis(20)).all();
    answered(&mut bench, Late);
    assert_eq!(bench.of(&["reply"]), ["reply 1 late"]);
}

#[test]
fn a_start_late_by_the_servers_clock_gets_a_new_time() {
    let mut bench = starting(10);
    bench
        .fail_with("notify-or-start", StoreError::Refused(Refusal::StaleRing(crate::model::id::Revision(1))));
    bench.after(millis(20)).all();
    answered(&mut bench, Late);
    assert_eq!(bench.all(), ["time"], "nothing of it can have been accepted");
    bench.answer_with("time", 5_000_000_u64);
    bench.advance(millis(100));
    assert_eq!(bench.of(&["notify-or-start"]), ["notify-or-start k/n.s<5009980 owner=9 at=9 by 1"]);
}

#[test]
fn a_node_that_closes_starts_nothing() {
    let mut bench = Bench::attached();
    bench.close(secs(5));
    bench.all();
    start(&mut bench, 10);
    assert_eq!(bench.of(&["reply", "notify-or-start"])[0], "reply 2 notified NodeClosed");
}
