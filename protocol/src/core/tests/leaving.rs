//! A worker that drains, and a node that closes.

use super::bench::{Bench, entry, key, millis, secs, up};
use super::fencing::gone;
use crate::core::input::{Command, HandlerEvent, LocalWorker};
use crate::model::id::WorkerId;
use crate::model::member::{Member, MemberState};
use crate::step::{Expired, NodeEvents, PoolEvent, Reaped, RouteReply, Seat};

/// Answers the drain in flight.
pub(super) fn drained(bench: &mut Bench) {
    bench.answer_with("drain", vec![Some(Member { state: MemberState::Draining, ..up(0) })]);
}

pub(super) fn drain(bench: &mut Bench, worker: u32) {
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(worker) });
}

/// Answers the last read of a worker that leaves: nobody has asked it.
pub(super) fn nothing_was_asked(bench: &mut Bench) {
    bench.answer_with("read-last", NodeEvents::default());
}

/// Answers a good-bye, of whichever worker.
fn left(bench: &mut Bench) {
    bench.answer_with("leave", vec![Expired::Done]);
}

fn reaped(bench: &mut Bench) {
    bench.answer_with("reap", Reaped { done: true, count: 0, outcomes: vec![] });
}

fn claimed(bench: &mut Bench, events: Vec<PoolEvent>) {
    bench.answer_with("claim-pool", Some(events));
}

#[test]
fn a_drained_worker_hands_off_once_out_of_the_ring() {
    let mut bench = Bench::that_runs(3, &["k"]);
    drain(&mut bench, 1);
    assert_eq!(bench.seen(), ["drain 1"]);
    bench.fail("drain");
    assert_eq!(bench.after(millis(99)).seen(), ["! trouble"]);
    assert_eq!(bench.after(millis(1)).seen(), ["drain 1"]);
    drained(&mut bench);
    assert_eq!(bench.seen(), ["STOP k@3 Draining"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@3 h"]);
    bench.released();
    assert_eq!(bench.seen(), ["read-last 1"]);
    nothing_was_asked(&mut bench);
    assert_eq!(bench.seen(), ["drop 1", "leave 1"]);
    gone(&mut bench);
    assert_eq!(bench.seen(), ["seated 1", "reply 2 drained ok", "reap 1"]);
}

#[test]
fn a_worker_that_another_node_drains_hands_off_and_leaves() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.change_members(|members| members.get_mut(&WorkerId(1)).unwrap().state = MemberState::Draining);
    assert_eq!(bench.seen(), ["STOP k@3 Draining"], "it is out of the ring already");
    bench.leaves(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    nothing_was_asked(&mut bench);
    assert_eq!(bench.seen(), ["release 1: k@3 h", "read-last 1", "drop 1", "leave 1"]);
    gone(&mut bench);
    assert_eq!(bench.seen(), ["seated 1", "reap 1"]);
}

#[test]
fn a_leaving_worker_hands_off_what_comes_and_what_starts() {
    let mut bench = Bench::that_starts(4, 4, &["starting"]);
    bench.assign(1, 5, 5, &["begun"]);
    drain(&mut bench, 1);
    bench.all();
    drained(&mut bench);
    assert_eq!(bench.seen(), [""; 0], "a start under way goes on");
    bench.begun();
    assert_eq!(bench.seen(), ["release 1: begun@5 b tell=n"]);
    bench.released();
    bench.assign(1, 6, 6, &["late"]);
    assert_eq!(bench.seen(), ["release 1: late@6 b; done 6"]);
    bench.handler(1, "starting", 4, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["STOP starting@4 Draining", "started 1: starting@4 tell=n"]);
}

#[test]
fn a_closing_node_hands_off_once_all_workers_left_the_ring() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.running_on(1, 3, &["a"]);
    bench.running_on(2, 4, &["b"]);
    bench.close(secs(60));
    assert_eq!(bench.seen(), ["drain 1", "drain 2", "stop-reading-pool"]);
    drained(&mut bench);
    assert_eq!(bench.seen(), [""; 0], "worker 2 is still in the ring");
    drained(&mut bench);
    assert_eq!(bench.seen(), ["STOP a@3 Draining", "STOP b@4 Draining"]);
    bench.handler(1, "a", 3, HandlerEvent::Stopped(Ok(())));
    bench.leaves(2, "b", 4, HandlerEvent::Stopped(Ok(())));
    bench.released();
    assert_eq!(bench.seen(), ["release 1: a@3 h", "release 2: b@4 h", "read-last 1", "read-last 2"]);
    nothing_was_asked(&mut bench);
    nothing_was_asked(&mut bench);
    assert_eq!(bench.seen(), ["drop 1", "leave 1", "drop 2", "leave 2"]);
    left(&mut bench);
    left(&mut bench);
    assert_eq!(bench.seen(), ["seated 1", "reap 1", "seated 2"]);
    claimed(&mut bench, vec![]);
    reaped(&mut bench);
    assert_eq!(bench.seen(), ["reap 2"]);
    reaped(&mut bench);
    assert_eq!(bench.seen(), ["forget-node"]);
    bench.answer_with("forget-node", ());
    assert_eq!(bench.seen(), ["reply 3 closed", "end"]);
    assert_eq!(bench.engine.deadline(), None);
}

#[test]
fn a_node_that_closes_routes_what_it_has_read_before_it_ends() {
    let mut bench = Bench::attached();
    bench.set_member(9, up(0));
    let event = |number, name| PoolEvent { entry: entry(number), jobs: vec![(key(name), 0)] };
    bench.answer_with("read-pool", Some(vec![event(1, "a")]));
    bench.all();
    bench.close(secs(60));
    assert_eq!(bench.all(), ["stop-reading-pool", "claim-pool all"]);
    claimed(&mut bench, vec![event(2, "b")]);
    assert_eq!(bench.seen(), [""; 0], "a is being routed");
    let routed = |bench: &mut Bench| {
        bench.answer_each("route", RouteReply::Routed);
    };
    routed(&mut bench);
    assert_eq!(bench.seen(), ["route at 1: b>9; done 2"]);
    routed(&mut bench);
    assert_eq!(bench.seen(), ["forget-node"]);
}

#[test]
fn a_close_past_its_deadline_names_what_is_left_and_goes_on() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.close(secs(1));
    drained(&mut bench);
    bench.all();
    assert_eq!(bench.after(secs(1)).seen(), ["reply 2 closed left=k"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), ["release 1: k@3 h"]);
}

#[test]
fn each_of_two_closes_is_answered_by_its_own_deadline() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.close(secs(1));
    bench.close(secs(2));
    drained(&mut bench);
    bench.all();
    assert_eq!(bench.after(secs(1)).seen(), ["reply 2 closed left=k"]);
    assert_eq!(bench.after(secs(1)).seen(), ["reply 3 closed left=k"]);
}

#[test]
fn each_of_two_drains_is_answered() {
    let mut bench = Bench::with_worker();
    drain(&mut bench, 1);
    drain(&mut bench, 1);
    drained(&mut bench);
    bench.all();
    gone(&mut bench);
    let seen = bench.of(&["reply"]);
    assert_eq!(seen, ["reply 2 drained ok", "reply 3 drained ok"]);
}

#[test]
fn a_worker_whose_join_has_no_answer_does_not_hold_up_a_close() {
    for waits_for_retry in [false, true] {
        let mut bench = Bench::attached();
        bench.add_worker(1);
        if waits_for_retry {
            bench.fail("join");
        }
        bench.close(secs(60));
        if !waits_for_retry {
            bench.fail("join");
        }
        claimed(&mut bench, vec![]);
        assert!(bench.is_calling("forget-node"), "{:?}", bench.seen());
    }
}

#[test]
fn a_worker_that_joined_while_it_was_to_leave_leaves() {
    let mut bench = Bench::attached();
    bench.add_worker(1);
    bench.close(secs(60));
    bench.seat(1, 0);
    assert_eq!(bench.in_flight(), ["drain 1"]);
}

#[test]
fn a_closed_node_takes_nothing_in() {
    let mut bench = Bench::with_worker();
    bench.close(secs(60));
    bench.all();
    bench.add_worker(2);
    bench.submit("k", "n.1", false, secs(5));
    assert_eq!(bench.seen(), ["reply 3 worker NodeClosed", "reply 4 submitted NodeClosed"]);
}

#[test]
fn callers_of_open_dispatches_learn_that_the_node_has_closed() {
    let mut bench = Bench::that_submits("k", "n.1", secs(30));
    bench.close(secs(60));
    claimed(&mut bench, vec![]);
    bench.all();
    bench.answer_with("forget-node", ());
    assert_eq!(bench.seen(), ["reply 1 submitted NodeClosed", "reply 2 closed", "end"]);
}

#[test]
fn a_drain_that_is_heard_before_the_join_is_answered_counts() {
    let mut bench = Bench::attached();
    bench.add_worker(1);
    bench.all();
    bench.set_member(1, Member { state: MemberState::Draining, ..up(0) });
    bench.answer_join(Seat { worker: WorkerId(1), member: up(0), first: false });
    assert_eq!(bench.of(&["leave", "drain"]), ["leave 1"]);
}

#[test]
fn a_join_and_a_settle_tell_of_a_drain() {
    for joins in [true, false] {
        let mut bench = Bench::attached();
        bench.add_worker(1);
        bench.all();
        let state = if joins { MemberState::Draining } else { MemberState::Standby };
        bench.answer_join(Seat { worker: WorkerId(1), member: Member { state, ..up(0) }, first: false });
        if !joins {
            bench.after(secs(60)).all();
            let member = Member { state: MemberState::Draining, ..up(0) };
            let seat = Seat { worker: WorkerId(1), member, first: false };
            bench.answer_with("settle", seat);
        }
        assert_eq!(bench.of(&["leave", "drain"]), ["leave 1"], "{state:?}");
    }
}
