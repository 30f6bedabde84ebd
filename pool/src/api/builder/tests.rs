//! A builder's options arrive, and those out of their bounds are refused.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::model::settings::bounds::{BOUNDS, Bound};
use crate::store::MemoryStore;

#[test]
fn every_option_reaches_the_node() {
    let secs = Duration::from_secs;
    let builder = NodeBuilder::new("p", crate::store::MemoryStore::new().into())
        .worker_ttl(secs(3))
        .max_queued(4)
        .join_settle(secs(5))
        .stable_after(secs(6))
        .handoff_parallel(7)
        .start_timeout(secs(8))
        .stop_timeout(secs(9))
        .plan_timeout(secs(10))
        .start_permits(11)
        .starts_per_second(13)
        .moves_per_second(14)
        .client_only()
        .assume_fresh(true)
        .join_timeout(secs(12));
    let Ok(node) = NodeName::new("n") else { panic!("a name") };
    let config = builder.config(node, Purpose::Part);
    let settings = (config.settings.worker_ttl, config.settings.max_queued, config.settings.join_settle);
    assert_eq!(settings, (secs(3), 4, secs(5)));
    assert_eq!((config.stable_after, config.handoff_parallel), (secs(6), 7));
    assert_eq!((config.start_timeout, config.stop_timeout), (secs(8), secs(9)));
    assert_eq!((config.plan_timeout, config.start_permits), (secs(10), 11));
    let rates = [config.starts_per_second, config.moves_per_second];
    assert_eq!(rates.map(|rate| rate.map(NonZeroU32::get)), [Some(13), Some(14)]);
    assert!(config.client_only && config.assume_fresh);
    assert_eq!((builder.patience(), config.timing.ttl), (secs(12), secs(3)));
}

#[test]
fn a_handler_that_does_not_end_is_aborted_within_a_usual_budget() {
    let builder = NodeBuilder::new("p", crate::store::MemoryStore::new().into());
    let Ok(node) = NodeName::new("n") else { panic!("a name") };
    let config = builder.config(node, Purpose::Part);
    assert!(config.stop_timeout + config.abort_grace < Duration::from_secs(25));
}

#[test]
fn a_join_is_given_the_time_that_a_pool_takes_to_open() {
    let patience = |ttl| join_patience(Duration::from_secs(ttl)).as_secs();
    assert_eq!([1, 10, 25, 26, 600].map(patience), [60, 60, 60, 62, 1210]);
    let given = |ttl, shards| {
        let builder = NodeBuilder::new("p", crate::store::MemoryStore::new().into());
        builder.worker_ttl(Duration::from_secs(ttl)).shards(shards).patience().as_secs()
    };
    assert_eq!([given(26, 1), given(26, 2), given(10, 4)], [62, 114, 60], "the first one before the others");
}

/// A builder with this value of that name, and with other settings that are valid beside it.
fn with(store: &MemoryStore, name: &str, value: u64) -> NodeBuilder {
    let builder = Node::builder("p", store).assume_fresh(true);
    let (time, count) = (Duration::from_millis(value), value as usize);
    let mut settings = crate::Settings::default();
    match name {
        "stable_after" => return builder.stable_after(time),
        "handoff_parallel" => return builder.handoff_parallel(count),
        "start_permits" => return builder.start_permits(count),
        "starts_per_second" => return builder.starts_per_second(value as u32),
        "moves_per_second" => return builder.moves_per_second(value as u32),
        "start_timeout" => return builder.start_timeout(time),
        "stop_timeout" => return builder.stop_timeout(time),
        "plan_timeout" => return builder.plan_timeout(time),
        "join_timeout" => return builder.join_timeout(time),
        "worker_ttl" => settings.worker_ttl = time,
        "max_queued" => settings.max_queued = value,
        "route_timeout" => settings.route_timeout = time,
        "assign_timeout" => settings.assign_timeout = time,
        "stop_retry" => settings.stop_retry = time,
        "max_dispatch_deadline" => settings.max_dispatch_deadline = time,
        "outcome_retention" => {
            settings.max_dispatch_deadline = Duration::from_secs(1);
            settings.outcome_retention = time;
        }
        "max_attempts" => settings.max_attempts = value as u32,
        "stable_run" => settings.stable_run = time,
        "strikes" => settings.strikes = value as u32,
        "notify_cap" => settings.notify_cap = value as u32,
        "notify_bytes" => settings.notify_bytes = value,
        "join_settle" => settings.join_settle = time,
        "payload_max" => settings.payload_max = value,
        "checkpoint_max" => settings.checkpoint_max = value,
        "grant_max" => settings.grant_max = value,
        "history_max" => settings.history_max = value,
        other => panic!("{other} is set by nobody"),
    }
    builder.settings(settings)
}

fn refused(error: &Error, Bound { name, least, most, unit }: Bound, value: u64) {
    let said = format!("setting {name} is {value}{unit}: must be from {least} to {most}{unit}");
    let Error::Setting(invalid) = error else { panic!("{error:?}, not {said}") };
    assert_eq!(invalid.to_string(), said);
}

#[tokio::test]
async fn every_bound_is_kept_before_anything_is_written() {
    let others =
        ["history_all", "hold", "move_rate", "move_now", "shards", "period", "progress_timeout", "capacity"];
    for bound in BOUNDS.into_iter().filter(|bound| !others.contains(&bound.name)) {
        let store = MemoryStore::new();
        for value in [bound.least, bound.most] {
            with(&store, bound.name, value).validate().unwrap();
        }
        for value in bound.least.checked_sub(1).into_iter().chain([bound.most + 1]) {
            refused(&with(&store, bound.name, value).join().await.unwrap_err(), bound, value);
        }
        assert!(store.tamper(|server| server.dump()).lines().is_empty(), "{}", bound.name);
    }
}

#[tokio::test]
async fn a_pool_has_as_many_shards_as_it_may() {
    let bound = BOUNDS.into_iter().find(|bound| bound.name == "shards").unwrap();
    let store = MemoryStore::new();
    for value in [0, 1_025] {
        let joined = Node::builder("p", &store).shards(value).join().await;
        refused(&joined.unwrap_err(), bound, u64::from(value));
    }
    assert!(store.tamper(|server| server.dump()).lines().is_empty());
}

#[tokio::test]
async fn a_period_is_from_a_millisecond_to_a_year() {
    let bound = BOUNDS.into_iter().find(|bound| bound.name == "period").unwrap();
    let store = MemoryStore::new();
    let node = Node::builder("p", &store).assume_fresh(true).join().await.unwrap();
    let before = store.tamper(|server| server.dump()).lines();
    for value in [bound.least - 1, bound.most + 1] {
        let ticker = node.ticker("t", Duration::from_millis(value)).await;
        refused(&ticker.err().unwrap(), bound, value);
        assert_eq!(store.tamper(|server| server.dump()).lines().len(), before.len());
    }
    for value in [bound.least, bound.most] {
        drop(node.ticker(format!("t{value}"), Duration::from_millis(value)).await.unwrap());
    }
}

#[tokio::test]
async fn times_without_end_are_refused_by_name() {
    let store = MemoryStore::new();
    let never = Duration::MAX;
    let builder = || Node::builder("p", &store).assume_fresh(true);
    for (name, builder) in [
        ("worker_ttl", builder().worker_ttl(never)),
        ("join_settle", builder().join_settle(never)),
        ("stable_after", builder().stable_after(never)),
        ("start_timeout", builder().start_timeout(never)),
        ("stop_timeout", builder().stop_timeout(never)),
        ("plan_timeout", builder().plan_timeout(never)),
        ("join_timeout", builder().join_timeout(never)),
    ] {
        match builder.join().await.unwrap_err() {
            Error::Setting(invalid) => assert_eq!(invalid.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
