//! Jobs are assigned by whole entries, and only from the ring at the revision that the step checks.

use tenure_steps::Failure;

use super::bench::{Bench, entry, key, millis, up};
use super::render;
use crate::core::call::Call;
use crate::model::id::{Revision, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::step::{PoolEvent, Refusal, RouteReply, StoreError};

fn event(number: u64, names: &[&str]) -> PoolEvent {
    PoolEvent { entry: entry(number), jobs: names.iter().map(|name| (key(name), 0)).collect() }
}

fn big(number: u64, jobs: u32) -> PoolEvent {
    let jobs = (0..jobs).map(|i| (key(&format!("{number}.{i}")), 0)).collect();
    PoolEvent { entry: entry(number), jobs }
}

fn read(bench: &mut Bench, events: Vec<PoolEvent>) {
    bench.answer_with("read-pool", Some(events));
}

/// A node without workers of its own, in a pool with one on another node.
fn router() -> Bench {
    Bench::with_other(9)
}

/// The entries and the number of jobs of the assignment in flight, which is answered.
fn routed(bench: &mut Bench) -> (Vec<u64>, usize) {
    let call = bench.in_flight_call("route");
    let Call::Route(route, _) = call else { panic!("{call:?}") };
    bench.answer_each("route", RouteReply::Routed);
    (route.entries.iter().map(|e| e.ms).collect(), route.jobs.len())
}

#[test]
fn read_events_are_assigned_before_the_next_read() {
    let mut bench = router();
    read(&mut bench, vec![event(5, &["a", "b"]), event(6, &["c"])]);
    assert_eq!(bench.all(), ["route at 1: a>9 b>9 c>9; done 5 6", "read-pool"]);
    read(&mut bench, vec![event(7, &["d"])]);
    assert_eq!(bench.all(), ["read-pool"], "one assignment at a time");
    routed(&mut bench);
    assert_eq!(bench.all(), ["route at 1: d>9; done 7"]);
}

#[test]
fn without_a_worker_a_job_is_left_waiting() {
    let mut bench = Bench::attached();
    read(&mut bench, vec![event(5, &["a"])]);
    assert_eq!(bench.seen(), ["route at 0: a>-; done 5"]);
}

#[test]
fn read_events_wait_for_standbys_while_no_worker_is_up() {
    for comes in [true, false] {
        let mut bench = Bench::attached();
        let waits = Member { state: MemberState::Standby, slot: None, ..up(0) };
        bench.set_member(9, waits);
        bench.all();
        read(&mut bench, vec![event(5, &["a"])]);
        assert_eq!(bench.after(millis(1_900)).of(&["route"]), [""; 0]);
        if comes {
            bench.set_member(9, up(0));
            assert_eq!(bench.of(&["route"]), ["route at 2: a>9; done 5"]);
        } else {
            assert_eq!(bench.after(millis(100)).of(&["route"]), ["route at 1: a>-; done 5"], "it has died");
        }
    }
}

#[test]
fn a_step_takes_whole_entries_of_at_most_128_jobs_in_all() {
    let mut bench = router();
    read(&mut bench, vec![big(1, 60), big(2, 60), big(3, 60), big(4, 128)]);
    assert_eq!(routed(&mut bench), (vec![1, 2], 120));
    assert_eq!(routed(&mut bench), (vec![3], 60));
    assert_eq!(routed(&mut bench), (vec![4], 128));
    assert!(!bench.is_calling("route"));
}

#[test]
fn a_stale_ring_is_waited_for_and_picked_from_again() {
    let mut bench = router();
    read(&mut bench, vec![event(5, &["a"])]);
    bench.all();
    bench.fail_with("route", StoreError::Refused(Refusal::StaleRing(Revision(2))));
    assert_eq!(bench.all(), ["expect 2 0"]);
    bench.change_members(|members| {
        members.remove(&WorkerId(9));
        members.insert(WorkerId(10), up(0));
    });
    assert_eq!(bench.all(), ["route at 2: a>10; done 5"]);
}

#[test]
fn an_assignment_without_an_answer_is_sent_again_after_a_pause() {
    let mut bench = router();
    read(&mut bench, vec![event(5, &["a"])]);
    bench.all();
    bench.fail("route");
    assert_eq!(bench.after(millis(50)).seen(), ["! trouble", "route at 1: a>9; done 5"]);
}

#[test]
fn a_job_on_which_routing_fails_holds_up_no_other() {
    let mut bench = router();
    read(&mut bench, vec![event(5, &["a", "b", "bad", "c"]), event(6, &["d"])]);
    let mut seen = Vec::new();
    for _ in 0..20 {
        while bench.is_calling("route") {
            let line = render::call(&bench.in_flight_call("route"));
            if line.contains("bad") {
                bench.fail_with("route", StoreError::Damaged(Failure::new(std::fmt::Error)));
            } else {
                routed(&mut bench);
            }
            seen.push(line);
        }
        bench.advance(millis(50));
    }
    let jobs = |line: &String| line.contains("bad");
    assert_eq!(seen.iter().filter(|line| jobs(line)).count(), 3, "{seen:#?}");
    for name in ["a>", "b>", "c>", "d>"] {
        assert!(seen.iter().any(|line| line.contains(name) && !line.contains("bad")), "{name} in {seen:#?}");
    }
    for entry in ["5", "6"] {
        let named = seen.iter().filter(|line| !jobs(line) && line.contains("; done") && line.contains(entry));
        assert_eq!(named.count(), 1, "{entry} is named once in {seen:#?}");
    }
    assert_eq!(bench.of(&["!"]), ["! set aside bad"]);
}

#[test]
fn a_lost_group_is_restored_before_the_next_read() {
    let mut bench = router();
    bench.answer_with("read-pool", None::<Vec<PoolEvent>>);
    assert_eq!(bench.all(), ["restore-group"]);
    bench.answer_with("restore-group", ());
    assert_eq!(bench.after(millis(50)).all(), ["read-pool"]);
}

#[test]
fn a_read_without_an_answer_is_made_again_after_a_pause() {
    let mut bench = router();
    bench.fail("read-pool");
    assert_eq!(bench.all(), ["! trouble"]);
    assert_eq!(bench.after(millis(50)).all(), ["read-pool"]);
}
