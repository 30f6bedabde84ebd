//! Workers with a capacity: the others go to the next worker at once.

use super::bench::{Bench, secs, up};
use crate::core::call::Call;
use crate::core::input::{HandlerEvent, Input, LocalWorker};
use crate::model::id::WorkerId;
use crate::step::{ReleaseMode, ReleaseReply, Swept};

pub(super) fn full(mut bench: Bench) -> Bench {
    bench.worker_with(1, Some(2));
    bench.running(7, &["a", "b"]);
    bench
}

/// Answers the releases in flight: their keys and modes.
fn releases(bench: &mut Bench) -> Vec<(String, ReleaseMode)> {
    let call = bench.in_flight_call("release");
    let Call::Release(release) = call else { panic!("{call:?}") };
    bench.answer_each("release", ReleaseReply::Queued);
    release.items.iter().map(|item| (item.key.to_string(), item.mode)).collect()
}

#[test]
fn a_full_worker_begins_nothing_and_names_the_ring() {
    let mut bench = full(Bench::attached());
    bench.set_member(2, up(1));
    bench.set_member(3, up(2));
    bench.all();
    bench.assign(1, 6, 8, &["c"]);
    assert_eq!(releases(&mut bench), [("c".to_owned(), ReleaseMode::Elsewhere { workers: 3 })]);
    assert!(!bench.is_calling("begin"));
}

#[test]
fn what_is_about_to_begin_takes_a_place() {
    let mut bench = Bench::attached();
    bench.worker_with(1, Some(2));
    bench.assign(1, 5, 7, &["a", "b", "c"]);
    assert_eq!(releases(&mut bench).len(), 1);
    bench.begun();
    bench.assign(1, 6, 8, &["d"]);
    assert_eq!(releases(&mut bench)[0].0, "d");
}

#[test]
fn an_ended_job_leaves_its_place_to_another() {
    let mut bench = full(Bench::attached());
    bench.handler(1, "a", 7, HandlerEvent::Ended(Ok(())));
    bench.assign(1, 6, 8, &["c"]);
    assert!(bench.is_calling("begin"), "before the store knows of the end");
    bench.begun();
    assert!(bench.of(&["RUN"]).contains(&"RUN c@8".to_owned()));
}

#[test]
fn a_full_worker_keeps_what_it_has_and_heeds_its_stop() {
    let mut bench = full(Bench::attached());
    bench.assign(1, 6, 7, &["a"]);
    assert!(!bench.is_calling("release"), "it runs here already");
    bench.stop_event(1, 7, None, &[("a", 7)]);
    assert_eq!(bench.of(&["STOP"]), ["STOP a@7 Stopped"]);
}

#[test]
fn a_worker_keeps_its_capacity_when_it_joins_again() {
    let mut bench = full(Bench::attached());
    for name in ["a", "b"] {
        bench.leaves(1, name, 7, HandlerEvent::Ended(Ok(())));
    }
    bench.step([Input::LeaseLost(WorkerId(1))]);
    super::fencing::gone(&mut bench);
    bench.advance(secs(1));
    bench.seat(9, 1);
    bench.assign(9, 20, 30, &["c", "d", "e"]);
    assert_eq!(releases(&mut bench).len(), 1);
}

#[test]
fn the_jobs_of_other_shards_take_places() {
    let mut bench = Bench::attached();
    bench.worker_with(1, Some(2));
    bench.engine.set_taken_beside(LocalWorker(1), 1);
    bench.assign(1, 5, 7, &["a", "b"]);
    assert_eq!(releases(&mut bench)[0].0, "b");
    assert_eq!(bench.engine.taken(LocalWorker(1)), 1);
}

#[test]
fn a_start_handler_sends_its_job_elsewhere() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Elsewhere { why: String::new() });
    assert_eq!(releases(&mut bench), [("k".to_owned(), ReleaseMode::Elsewhere { workers: 1 })]);
}

#[test]
fn a_job_that_was_to_end_does_not_go_elsewhere() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.stop_event(1, 6, None, &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Elsewhere { why: String::new() });
    assert_eq!(releases(&mut bench), [("k".to_owned(), ReleaseMode::Delete)]);
}

/// A worker comes to the ring. Whether what waits is tried again.
pub(super) fn more_room(bench: &mut Bench) -> bool {
    bench.advance(secs(2));
    bench.answer_with("sweep", Swept::default());
    bench.set_member(5, up(4));
    bench.of(&["sweep"]).contains(&"sweep kick".to_owned())
}

#[test]
fn what_was_sent_elsewhere_hears_of_more_room() {
    let mut bench = full(Bench::attached());
    assert!(!more_room(&mut bench), "nobody was sent away, so nobody waits");
    bench.assign(1, 6, 8, &["c"]);
    bench.released();
    bench.change_members(|members| {
        members.remove(&WorkerId(5));
    });
    assert!(!bench.of(&["sweep"]).contains(&"sweep kick".to_owned()), "one that goes gives no room");
    assert!(more_room(&mut bench));
    assert_eq!(bench.engine.status().workers[0].held, 2);
}
