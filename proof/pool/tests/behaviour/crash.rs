//! Nodes that vanish: their jobs, and no others, run elsewhere after their leases.

use std::time::Duration;

use tenure_testing::history::{Event, boottime_ns};

use crate::recorder::Act;
use crate::world::{World, held_by, moved, on_both_stores, until, workers_on};

on_both_stores!(
    a_vanished_nodes_jobs_move_and_return_with_it,
    jobs_of_an_abandoned_node_hear_of_their_end_without_a_task,
    a_job_stopped_just_before_a_crash_stays_stopped
);

/// A busy machine that pauses for half of it costs no lease: living workers keep their jobs.
const TTL: Duration = Duration::from_secs(4);
/// So long that the delays of a busy machine do not hide half of it.
const LONG_TTL: Duration = Duration::from_secs(10);
/// The time that a busy machine may add to the protocol's.
const BUSY: Duration = Duration::from_secs(3);

async fn a_vanished_nodes_jobs_move_and_return_with_it(world: World) {
    let world = world.with_ttl(LONG_TTL);
    let (b, a) = (world.node_with("b", 2).await, world.node_with("a", 2).await);
    let _c = world.node_with("c", 1).await;
    let (keys, before) = world.dispatch_placed(&b, 100).await;
    let mut lost: Vec<_> =
        a.inspect().workers().await.unwrap().into_iter().filter(|worker| worker.node == "a").collect();
    let ids = workers_on(&a).await;
    let crash = boottime_ns();
    a.abandon();
    a.closed().await;
    until("the dead workers to be expired", async || b.inspect().workers().await.unwrap().len() == 3).await;
    let between = world.placed(&b, &keys).await;
    let orphans = held_by(&before, &ids);
    assert!(!orphans.is_empty());
    assert_eq!(moved(&before, &between), orphans);
    for (key, starts) in world.recorder.starts() {
        assert_eq!(starts, if orphans.contains(&key) { 2 } else { 1 }, "{key}");
    }
    for entry in world.history().entries().into_iter().filter(|entry| entry.at >= crash) {
        if let Event::Started { key, .. } = entry.event {
            let after = Duration::from_nanos(entry.at - crash);
            assert!(after <= LONG_TTL * 5 / 4 + BUSY, "{key} was started again after {after:?}");
        }
    }

    let again = world.node_with("a", 2).await;
    let after = world.placed(&b, &keys).await;
    let mut taken: Vec<_> =
        again.inspect().workers().await.unwrap().into_iter().filter(|worker| worker.node == "a").collect();
    let slots = |workers: &mut Vec<tenure_pool::inspect::WorkerInfo>| {
        let mut slots: Vec<_> = workers.iter().map(|worker| worker.slot).collect();
        slots.sort();
        slots
    };
    assert_eq!(slots(&mut taken), slots(&mut lost));
    assert_eq!(moved(&between, &after), orphans);
    assert_eq!(held_by(&after, &workers_on(&again).await), orphans);
    for (key, starts) in world.recorder.starts() {
        // Its workers return one after the other. The first may hold keys of the second for a moment.
        assert!(
            if orphans.contains(&key) { (3..=4).contains(&starts) } else { starts == 1 },
            "{key}: {starts}"
        );
    }
    world.assert_clean();
}

async fn jobs_of_an_abandoned_node_hear_of_their_end_without_a_task(world: World) {
    let node = world.node("a").await;
    node.add_worker(world.recorder.acting(|_| Act::HoldApart)).await.unwrap();
    world.dispatch(&node, 10).await;
    assert_eq!(world.recorder.running().len(), 10);
    let crash = boottime_ns();
    node.abandon();
    world.all_ended_in_time(crash).await;
}

async fn a_job_stopped_just_before_a_crash_stays_stopped(world: World) {
    let world = world.with_ttl(TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch(&a, 10).await;
    for i in 0..5 {
        let key = format!("job-{i}");
        world.stop(&b, &key).await;
        world.history().stop_acknowledged(&key);
    }
    a.abandon();
    a.closed().await;
    world.add_worker(&b).await;
    until("what was not stopped to run again", async || world.recorder.running().len() == 5).await;
    until("the stopped jobs to be gone", async || b.inspect().jobs().await.unwrap().len() == 5).await;
    world.assert_clean();
}
