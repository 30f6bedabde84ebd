//! A pool on hold: no worker is given a job, nothing moves, and all of it goes on when the hold is lifted.

use std::sync::Arc;

use super::bench::{Bench, entry, key, secs, up};
use crate::core::input::Input;
use crate::step::{PoolEvent, RouteReply, Swept};

fn hold(bench: &mut Bench, on: bool) {
    bench.stored.fields.insert("hold".into(), u8::from(on).to_string());
    bench.stored.revision.0 += 1;
    bench.step([Input::Settings(Arc::new(bench.stored.clone()))]);
}

fn read(bench: &mut Bench, name: &str) {
    let event = PoolEvent { entry: entry(5), jobs: vec![(key(name), 0)] };
    bench.answer_with("read-pool", Some(vec![event]));
}

/// Answers the assignment in flight.
fn routed(bench: &mut Bench) {
    bench.answer_each("route", RouteReply::Waiting);
}

#[test]
fn a_held_pool_gives_nobody_a_job() {
    let mut bench = Bench::with_worker();
    hold(&mut bench, true);
    bench.all();
    read(&mut bench, "a");
    assert_eq!(bench.of(&["route"]), ["route at 1: a>-; done 5"]);
    routed(&mut bench);
    bench.submit("b", "n.b", true, secs(5));
    let dispatched = bench.of(&["dispatch"]);
    assert!(dispatched.len() == 1 && !dispatched[0].contains('>'), "it names no worker, {dispatched:?}");
}

#[test]
fn whoever_hears_that_a_hold_is_lifted_wakes_what_waits() {
    let mut bench = Bench::with_worker();
    bench.advance(secs(2));
    bench.answer_with("sweep", Swept::default());
    hold(&mut bench, true);
    assert!(!bench.all().contains(&"sweep kick".to_owned()));
    hold(&mut bench, false);
    assert_eq!(bench.of(&["sweep"]), ["sweep kick"]);
    read(&mut bench, "a");
    assert_eq!(bench.of(&["route"]), ["route at 1: a>1; done 5"]);
}

#[test]
fn what_the_ring_would_move_stays_until_the_hold_is_lifted() {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut bench = Bench::that_runs(7, &NAMES);
    hold(&mut bench, true);
    bench.set_member(2, up(1));
    assert_eq!(bench.after(secs(60)).of(&["STOP"]), [""; 0]);
    hold(&mut bench, false);
    bench.advance(secs(6));
    assert_ne!(bench.of(&["STOP"]), [""; 0], "some belong to the new worker");
}

#[test]
fn what_was_assigned_before_a_hold_is_begun() {
    let mut bench = Bench::with_worker();
    hold(&mut bench, true);
    bench.begin(1, 5, 7, &["k"]);
    assert_eq!(bench.of(&["RUN"]), ["RUN k@7"]);
}
