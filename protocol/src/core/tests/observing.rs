//! A worker is expired only after its counter stood still for its time to live by this node's own clock.

use std::collections::BTreeMap;

use super::bench::{Bench, id, millis, present, secs, up};
use crate::core::call::Call;
use crate::core::time::Time;
use crate::model::id::{Incarnation, WorkerId};
use crate::model::member::Member;
use crate::step::{Expired, ReadHeartbeats, Reaped, Refusal, StoreError};

/// A node that watches workers 2 and 3 of another one, and has seen both with their counters at 5.
fn observer() -> Bench {
    let mut bench = Bench::attached();
    bench.set_member(2, up(0));
    bench.set_member(3, up(1));
    beat(&mut bench, &[(2, 5), (3, 5)]);
    bench
}

/// Waits for the next look, and answers it.
pub(super) fn beat(bench: &mut Bench, counters: &[(u64, u64)]) {
    while !bench.is_calling("heartbeats") {
        bench.advance(millis(100));
    }
    let counters: BTreeMap<_, _> = counters.iter().map(|&(worker, seq)| (WorkerId(worker), seq)).collect();
    bench.answer_with("heartbeats", counters);
}

/// Looks until a worker must be expired, and returns the time from `since`.
pub(super) fn until_expired(bench: &mut Bench, since: Time, counters: &[(u64, u64)]) -> u64 {
    while !bench.is_calling("expire") {
        beat(bench, counters);
    }
    bench.now.since(since).as_secs()
}

fn expired(bench: &mut Bench, answer: Expired) {
    bench.answer_each("expire", answer);
}

#[test]
fn a_worker_silent_for_its_time_to_live_is_expired_and_reaped() {
    let mut bench = observer();
    let since = bench.now;
    let mut others = 6;
    while !bench.is_calling("expire") {
        beat(&mut bench, &[(2, 5), (3, others)]);
        others += 1;
    }
    assert!((10..12).contains(&bench.now.since(since).as_secs()));
    assert_eq!(bench.seen(), ["expire 2 seq=5"]);
    expired(&mut bench, Expired::Done);
    assert_eq!(bench.seen(), ["! expired 2", "reap 2"]);
    let more = Reaped { done: false, count: 256, outcomes: vec![] };
    bench.answer_with("reap", more);
    assert_eq!(bench.seen(), ["reap 2"]);
    let outcomes = vec![(id("m.1"), "stopped".to_owned())];
    let last = Reaped { done: true, count: 1, outcomes };
    bench.answer_with("reap", last);
    assert_eq!(bench.seen(), ["tell m.1=stopped"]);
}

#[test]
fn the_time_counts_from_after_the_reply_that_showed_the_counter() {
    let mut bench = Bench::attached();
    bench.set_member(2, up(0));
    bench.advance(millis(1_100));
    assert!(bench.is_calling("heartbeats"));
    bench.advance(secs(8));
    beat(&mut bench, &[(2, 5)]);
    let since = bench.now;
    assert!((10..12).contains(&until_expired(&mut bench, since, &[(2, 5)])));
}

#[test]
fn any_change_up_or_down_restarts_the_time() {
    for other in [6, 4] {
        let mut bench = observer();
        bench.advance(secs(8));
        beat(&mut bench, &[(2, other), (3, 99)]);
        beat(&mut bench, &[(2, other), (3, 99)]);
        let since = bench.now;
        assert!((9..12).contains(&until_expired(&mut bench, since, &[(2, other), (3, 99)])));
    }
}

#[test]
fn a_worker_with_a_longer_time_to_live_is_given_that() {
    let mut bench = Bench::attached();
    bench.set_member(2, Member { ttl: secs(20), ..up(0) });
    beat(&mut bench, &[(2, 5)]);
    let since = bench.now;
    assert!((20..22).contains(&until_expired(&mut bench, since, &[(2, 5)])));
}

#[test]
fn another_incarnation_restarts_all_times() {
    let mut bench = observer();
    bench.advance(secs(8));
    beat(&mut bench, &[(2, 5), (3, 5)]);
    bench.submit("k", "n.1", false, secs(60));
    bench.fail_with("dispatch", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.survey(present(2, false, "a"));
    bench.maps(2);
    beat(&mut bench, &[(2, 5), (3, 5)]);
    let since = bench.now;
    assert!((10..12).contains(&until_expired(&mut bench, since, &[(2, 5), (3, 5)])));
}

#[test]
fn all_that_are_silent_are_expired_before_the_first_is_reaped() {
    let mut bench = observer();
    let since = bench.now;
    until_expired(&mut bench, since, &[(2, 5), (3, 5)]);
    assert_eq!(bench.seen(), ["expire 2 seq=5 3 seq=5"]);
    expired(&mut bench, Expired::Done);
    assert_eq!(bench.seen(), ["! expired 2", "! expired 3", "reap 2"]);
}

#[test]
fn as_many_silent_workers_as_a_call_takes_are_expired_in_one() {
    let mut bench = Bench::attached();
    bench.change_members(|members| {
        members.extend((2..302).map(|worker| (WorkerId(worker), up(worker as u32 - 2))));
    });
    let counters: Vec<_> = (2..302).map(|worker| (worker, 5)).collect();
    while !bench.is_calling("expire") {
        while !bench.is_calling("heartbeats") {
            bench.advance(millis(100));
        }
        let seen: BTreeMap<_, u64> = counters.iter().map(|&(worker, seq)| (WorkerId(worker), seq)).collect();
        bench.answer_with("heartbeats", seen);
    }
    let mut of_calls = Vec::new();
    while bench.is_calling("expire") {
        assert_eq!(bench.of(&["reap"]), [""; 0], "some are not expired yet");
        of_calls.push(bench.in_flight_call("expire").items());
        bench.answer_each("expire", Expired::Done);
    }
    assert_eq!(of_calls, [128, 128, 44]);
    assert_eq!(bench.of(&["reap"]), ["reap 2"]);
}

#[test]
fn each_of_those_that_are_expired_together_has_its_own_answer() {
    let mut bench = observer();
    let since = bench.now;
    until_expired(&mut bench, since, &[(2, 5), (3, 5)]);
    bench.all();
    bench.answer_with("expire", vec![Expired::Renewed, Expired::Done]);
    assert_eq!(bench.seen(), ["! expired 3", "reap 3"]);
}

#[test]
fn a_worker_that_renewed_meanwhile_is_watched_again() {
    let mut bench = Bench::attached();
    bench.set_member(2, up(0));
    beat(&mut bench, &[(2, 5)]);
    let since = bench.now;
    until_expired(&mut bench, since, &[(2, 5)]);
    bench.all();
    expired(&mut bench, Expired::Renewed);
    assert_eq!(bench.seen(), [""; 0]);
    beat(&mut bench, &[(2, 5)]);
    let since = bench.now;
    assert!((10..12).contains(&until_expired(&mut bench, since, &[(2, 5)])));
}

#[test]
fn an_expiry_or_a_reap_without_an_answer_is_made_again() {
    let mut bench = Bench::attached();
    bench.set_member(2, up(0));
    beat(&mut bench, &[(2, 5)]);
    let since = bench.now;
    until_expired(&mut bench, since, &[(2, 5)]);
    bench.fail("expire");
    bench.all();
    until_expired(&mut bench, since, &[(2, 5)]);
    assert_eq!(bench.seen(), ["expire 2 seq=5"]);
    expired(&mut bench, Expired::Done);
    bench.all();
    bench.fail("reap");
    assert_eq!(bench.after(millis(100)).seen(), ["! trouble", "reap 2"]);
}

/// An observer of this many workers.
fn of_fleet(workers: u64) -> Bench {
    let mut bench = Bench::attached();
    bench.change_members(|members| {
        members.extend((1..=workers).map(|worker| (WorkerId(worker), up(worker as u32 - 1))));
    });
    bench
}

/// The workers of the next look; `None`: all.
fn watched(bench: &mut Bench) -> Option<Vec<WorkerId>> {
    while !bench.is_calling("heartbeats") {
        bench.advance(millis(100));
    }
    match bench.in_flight_call("heartbeats") {
        Call::Heartbeats(read) => read.workers,
        call => panic!("{call:?}"),
    }
}

#[test]
fn a_fleet_whose_counters_are_one_piece_is_watched_whole() {
    assert_eq!(watched(&mut of_fleet(512)), None);
    assert!(watched(&mut of_fleet(513)).is_some());
}

#[test]
fn a_large_fleet_is_watched_in_parts_until_a_worker_is_late() {
    let mut bench = of_fleet(600);
    let part = watched(&mut bench).unwrap();
    assert_eq!(part.len(), 64);
    let since = bench.now;
    loop {
        let counters: BTreeMap<_, _> = part.iter().map(|&worker| (worker, 1_u64)).collect();
        bench.answer_with("heartbeats", counters);
        match watched(&mut bench) {
            Some(again) => assert_eq!(again, part),
            None => break,
        }
    }
    assert!((5..7).contains(&bench.now.since(since).as_secs()));
}

#[test]
fn a_worker_of_this_node_that_was_expired_is_fenced_here() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.all();
    while !bench.is_calling("expire") {
        beat(&mut bench, &[(1, 5)]);
    }
    bench.all();
    expired(&mut bench, Expired::Done);
    assert_eq!(
        bench.of(&["!", "fence", "STOP"]),
        ["! expired 1", "! fenced 1 with 1", "fence 1", "STOP k@3 LeaseLost"]
    );
}

#[test]
fn a_member_without_a_counter_is_silent_from_when_it_is_missed() {
    let mut bench = observer();
    bench.advance(secs(8));
    beat(&mut bench, &[(3, 6)]);
    let since = bench.now;
    let mut others = 7;
    while !bench.is_calling("expire") {
        beat(&mut bench, &[(3, others)]);
        others += 1;
    }
    assert!((10..12).contains(&bench.now.since(since).as_secs()));
    assert_eq!(bench.seen(), ["expire 2 seq=0"]);
}

#[test]
fn a_member_that_gets_its_counter_back_lives() {
    let mut bench = observer();
    beat(&mut bench, &[]);
    bench.advance(secs(8));
    for seq in 1..20 {
        beat(&mut bench, &[(2, seq), (3, seq)]);
    }
    assert!(!bench.is_calling("expire"));
}

#[test]
fn a_member_that_is_not_observed_is_not_expired() {
    let mut bench = Bench::attached();
    bench.change_members(|members| {
        members.extend((2..602).map(|id| (WorkerId(id), up(id as u32 - 2))));
    });
    for seq in 1..20 {
        while !bench.is_calling("heartbeats") {
            bench.advance(millis(100));
        }
        let call = bench.call("heartbeats");
        let Call::Heartbeats(ReadHeartbeats { workers: Some(some) }) = &call else {
            panic!("somebody is missed: {call:?}")
        };
        let counters: BTreeMap<_, u64> = some.iter().map(|worker| (*worker, seq)).collect();
        bench.done(call.answered(Ok(counters)));
    }
    assert!(!bench.is_calling("expire"));
}
