//! Each reason for a node to be unhealthy.
#![allow(clippy::unwrap_used)]

use super::*;

const TTL: Duration = Duration::from_secs(10);
const SOFT: Duration = Duration::from_secs(6);
const LONG: Duration = Duration::from_secs(60);

fn worker(id: u64) -> WorkerHealth {
    let (stuck, lease_age) = (Vec::new(), Some(Duration::from_secs(1)));
    let (capacity, full) = (None, false);
    let id = Some(WorkerId(id));
    WorkerHealth { shard: 0, id, lease_age, lease_left: SOFT, jobs: 3, capacity, full, stuck, overdue: 0 }
}

/// A healthy node with two workers.
fn well() -> Health {
    let moment = Some(Duration::from_millis(100));
    Health {
        phase: PoolPhase::Open,
        leaving: false,
        engine_idle: Duration::from_millis(100),
        reader_idle: moment,
        router_idle: moment,
        store: StoreHealth { answered: moment, ..StoreHealth::default() },
        workers: vec![worker(1), worker(2)],
        blocked_jobs: Vec::new(),
        dispatches: 5,
        queued: Some(7),
        parked: Some(2),
        namesake: false,
        damage: None,
        evicts: None,
        on_hold: false,
        too_old: None,
        reasons: Vec::new(),
    }
}

/// The reasons of a node that is healthy except for this change.
fn but_for(change: impl FnOnce(&mut Health)) -> Vec<Unhealthy> {
    let mut health = well();
    change(&mut health);
    judge(&health, None, false, TTL, SOFT)
}

#[test]
fn every_trouble_has_its_reason_and_few_want_a_restart() {
    let stuck = JobKey::new("stuck").unwrap();
    let too_old = TooOld::new(7, 1);
    let failed = Unhealthy::Failed("it".into());
    let rows: Vec<(Vec<Unhealthy>, Unhealthy, bool)> = vec![
        (judge(&well(), Some(Unhealthy::Ended), false, TTL, SOFT), Unhealthy::Ended, true),
        (judge(&well(), Some(failed.clone()), false, TTL, SOFT), failed.clone(), true),
        (but_for(|h| h.engine_idle = LONG), Unhealthy::Engine(LONG), true),
        (
            judge(&Health { engine_idle: LONG, ..well() }, None, true, TTL, SOFT),
            Unhealthy::Runtime(LONG),
            false,
        ),
        (but_for(|h| h.reader_idle = Some(LONG)), Unhealthy::Reader(LONG), false),
        (but_for(|h| h.router_idle = Some(LONG)), Unhealthy::Router(LONG), false),
        (but_for(|h| h.store.answered = Some(LONG)), Unhealthy::Store(LONG), false),
        (but_for(|h| h.store.failing.push(("dispatch", LONG))), Unhealthy::Steps("dispatch", LONG), false),
        (but_for(|h| h.damage = Some("it".into())), Unhealthy::Damaged("it".into()), false),
        (but_for(|h| h.evicts = Some("it".into())), Unhealthy::Evicts("it".into()), false),
        (but_for(|h| h.too_old = Some(too_old)), Unhealthy::TooOld(too_old), false),
        (but_for(|h| h.workers[0].id = None), Unhealthy::Outside, false),
        (but_for(|h| h.workers[1].lease_left = Duration::ZERO), Unhealthy::Lease(WorkerId(2)), false),
        (but_for(|h| h.workers[1].stuck.push(stuck.clone())), Unhealthy::Stuck(stuck.clone()), true),
        (but_for(|h| h.workers[1].overdue = 3), Unhealthy::Overdue(WorkerId(2), 3), true),
    ];
    for (reasons, expected, restart) in rows {
        assert_eq!(reasons, [expected]);
        let health = Health { reasons, ..well() };
        assert!(!health.is_healthy());
        assert_eq!(health.needs_restart(), restart, "{:?}", health.reasons);
    }
    for phase in [PoolPhase::Unknown, PoolPhase::Recovering, PoolPhase::Closing, PoolPhase::Stopping] {
        let reasons = but_for(|h| (h.phase, h.router_idle) = (phase, Some(LONG)));
        assert_eq!(reasons, [Unhealthy::Phase(phase)], "nobody routes then");
        assert!(!reasons[0].needs_restart());
    }
    let both = but_for(|h| (h.engine_idle, h.store.answered) = (LONG, Some(LONG)));
    assert_eq!(both, [Unhealthy::Engine(LONG), Unhealthy::Store(LONG)], "all that is wrong is named");
}

#[test]
fn values_at_their_limits_and_parts_not_begun_are_healthy() {
    let at_most = longest_read(TTL);
    let well_then = [
        but_for(|_| {}),
        but_for(|h| h.engine_idle = TTL),
        but_for(|h| h.store.answered = Some(SOFT)),
        but_for(|h| (h.reader_idle, h.router_idle) = (Some(at_most), Some(at_most))),
        but_for(|h| (h.reader_idle, h.router_idle, h.store.answered) = (None, None, None)),
        but_for(|h| h.workers.clear()),
    ];
    for reasons in well_then {
        assert_eq!(reasons, []);
    }
    let late = at_most + Duration::from_millis(1);
    assert_eq!(but_for(|h| h.reader_idle = Some(late)), [Unhealthy::Reader(late)]);
}

#[test]
fn a_node_that_leaves_lacks_only_what_it_still_needs() {
    let leaving = |change: fn(&mut Health)| {
        but_for(|h| {
            h.leaving = true;
            change(h);
        })
    };
    let needs_no_more = leaving(|h| {
        (h.phase, h.router_idle) = (PoolPhase::Closing, Some(LONG));
        h.workers[0].id = None;
    });
    assert_eq!(needs_no_more, []);
    assert_eq!(leaving(|h| h.workers[0].lease_left = Duration::ZERO), [Unhealthy::Lease(WorkerId(1))]);
    assert_eq!(leaving(|h| h.store.answered = Some(LONG)), [Unhealthy::Store(LONG)]);
    let left = Health { leaving: true, engine_idle: LONG, ..well() };
    assert_eq!(
        judge(&left, Some(Unhealthy::Ended), false, TTL, SOFT),
        [],
        "it has left its pool in good order"
    );
    let closed = Health { phase: PoolPhase::Closed, engine_idle: LONG, ..well() };
    assert_eq!(judge(&closed, Some(Unhealthy::Ended), false, TTL, SOFT), [], "and so has all of the pool");
}

#[test]
fn two_shards_together_are_as_well_as_the_worse_one() {
    let mut other = Health { phase: PoolPhase::Stopping, queued: None, parked: Some(3), ..well() };
    other.engine_idle = LONG;
    other.store.answered = Some(LONG);
    other.reasons.push(Unhealthy::Engine(LONG));
    for whole in [well().and(other.clone()), other.and(well())] {
        assert_eq!((whole.phase, whole.engine_idle), (PoolPhase::Stopping, LONG));
        assert_eq!((whole.store.answered, whole.router_idle), (Some(LONG), well().router_idle));
        assert_eq!((whole.dispatches, whole.queued, whole.parked), (10, None, Some(5)));
        assert_eq!((whole.workers.len(), whole.reasons), (4, vec![Unhealthy::Engine(LONG)]));
    }
}

#[test]
fn the_whole_is_closed_when_every_shard_is() {
    use PoolPhase::{Closed, Closing, Open, Stopping, Unknown};
    let whole = |phases: &[PoolPhase]| {
        let shards = phases.iter().map(|phase| Health { phase: *phase, ..well() });
        shards.reduce(Health::and).unwrap().phase
    };
    assert_eq!(whole(&[Closed, Closed, Closed]), Closed);
    for living in [Open, Unknown, Closing, Stopping] {
        for phases in [[living, Closed, Closed], [Closed, living, Closed], [Closed, Closed, living]] {
            assert_eq!(whole(&phases), Stopping, "{phases:?}");
        }
    }
}
