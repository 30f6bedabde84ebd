//! Joins, leaves and drains: each moves exactly the keys that must move, once. A job stops before it starts
//! elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure_pool::Error;
use tokio::sync::Notify;

use crate::world::{Holders, SHORT, World, handler_with, held_by, moved, on_both_stores, until, workers_on};

on_both_stores!(
    an_added_worker_takes_exactly_its_share,
    a_closing_node_moves_exactly_its_keys,
    a_drained_worker_moves_exactly_its_keys,
    a_worker_that_another_node_drains_leaves,
    a_drained_node_goes_on_without_workers,
    a_replacement_takes_over_exactly_the_leavers_keys,
    a_drain_goes_on_when_its_time_is_up,
    limited_moves_are_made_at_once_when_somebody_wants_it,
);

const JOBS: usize = 120;

/// Exactly the expected keys moved, and no key started more often than it moved.
fn assert_moved(world: &World, before: &Holders, after: &Holders, expected: &[String]) {
    assert_eq!(moved(before, after), expected);
    assert!(!expected.is_empty(), "nothing had to move: the scenario shows nothing");
    let expected: BTreeSet<_> = expected.iter().collect();
    for (key, starts) in world.recorder.starts() {
        assert_eq!(starts, 1 + usize::from(expected.contains(&key)), "{key}");
    }
    for (key, held) in after {
        assert!(held.token >= before[key].token, "{key}");
    }
    world.assert_clean();
}

async fn an_added_worker_takes_exactly_its_share(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let keys = world.dispatch(&b, JOBS).await;
    let before = world.placed(&a, &keys).await;
    let added = world.add_worker(&b).await;
    let after = world.placed(&b, &keys).await;
    let share = held_by(&after, &[added.id().unwrap().0]);
    assert_moved(&world, &before, &after, &share);
}

async fn limited_moves_are_made_at_once_when_somebody_wants_it(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let client = world.builder("client").client_only().join().await.unwrap();
    let (keys, before) = world.dispatch_placed(&a, JOBS).await;
    client.operate().limit_moves(1).await.unwrap();
    until("the node to hear of it", async || a.settings().move_rate == 1).await;
    let added = world.add_worker(&b).await;
    // Two workers share one move in a second, so that all of them would take minutes.
    until("the first move", async || world.recorder.starts().values().any(|n| *n == 2)).await;
    client.operate().move_now().await.unwrap();
    let after = world.placed(&b, &keys).await;
    assert_eq!(client.settings().move_rate, 1, "the limit stays");
    let share = held_by(&after, &[added.id().unwrap().0]);
    assert_moved(&world, &before, &after, &share);
}

async fn a_closing_node_moves_exactly_its_keys(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let _c = world.node_with("c", 1).await;
    let (keys, before) = world.dispatch_placed(&b, JOBS).await;
    let leavers = workers_on(&a).await;
    assert_eq!(leavers.len(), 2);
    assert!(a.close().await.unwrap().complete);
    let after = world.placed(&b, &keys).await;
    assert_moved(&world, &before, &after, &held_by(&before, &leavers));
    assert_eq!(b.inspect().workers().await.unwrap().len(), 3);
}

async fn a_drained_worker_moves_exactly_its_keys(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 2).await);
    let leaver = world.add_worker(&a).await;
    let (keys, before) = world.dispatch_placed(&b, JOBS).await;
    let id = leaver.id().unwrap().0;
    leaver.drain().await.unwrap();
    assert_eq!(leaver.id(), None);
    let after = world.placed(&b, &keys).await;
    assert_moved(&world, &before, &after, &held_by(&before, &[id]));
    assert!(a.close().await.unwrap().left.is_empty(), "a node goes on after a drain, and can be closed");
}

async fn a_worker_that_another_node_drains_leaves(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 2).await);
    let leaver = world.add_worker(&a).await;
    let (keys, before) = world.dispatch_placed(&b, JOBS).await;
    let info = leaver.info().unwrap();
    let client = world.builder("client").client_only().join().await.unwrap();
    client.operate().drain(&info).await.unwrap();
    until("the worker to leave", async || leaver.id().is_none()).await;
    let after = world.placed(&b, &keys).await;
    assert_moved(&world, &before, &after, &held_by(&before, &[info.id.0]));
    let gone = client.operate().drain(&info).await;
    assert!(matches!(gone, Err(Error::WorkerNotFound(id)) if id == info.id), "{gone:?}");
}

async fn a_drained_node_goes_on_without_workers(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let (keys, before) = world.dispatch_placed(&a, JOBS).await;
    let theirs = held_by(&before, &workers_on(&a).await);
    assert_eq!(b.operate().drain_node("a").await.unwrap(), 2);
    let after = world.placed(&a, &keys).await;
    assert_moved(&world, &before, &after, &theirs);
    until("its workers to leave", async || workers_on(&a).await.is_empty()).await;
    assert_eq!(b.operate().drain_node("nobody").await.unwrap(), 0);
    world.add_worker(&a).await;
}

async fn a_replacement_takes_over_exactly_the_leavers_keys(world: World) {
    let settle = Duration::from_secs(60);
    let (a, b) = (
        world.builder("a").join_settle(settle).join().await.unwrap(),
        world.builder("b").join_settle(settle).join().await.unwrap(),
    );
    let old = world.add_worker(&a).await;
    let (keys, before) = world.dispatch_placed(&a, JOBS).await;
    let (id, slot) = (old.id().unwrap().0, old.info().unwrap().slot);
    let new = b.add_worker(world.recorder.clone()).await.unwrap();
    assert_eq!(new.info().and_then(|info| info.slot), None, "a worker that joins waits for a slot");
    old.drain().await.unwrap();
    let after = world.placed(&b, &keys).await;
    assert_eq!(new.info().unwrap().slot, slot);
    assert_moved(&world, &before, &after, &held_by(&before, &[id]));
    until("the old worker to be gone", async || b.inspect().workers().await.unwrap().len() == 1).await;
}

async fn a_drain_goes_on_when_its_time_is_up(world: World) {
    let node = world.node("a").await;
    let end = Arc::new(Notify::new());
    let handler = handler_with(end.clone(), |end, _| async move {
        end.notified().await;
        Ok(())
    });
    let worker = node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    let late = worker.drain_within(SHORT).await;
    assert!(matches!(late, Err(Error::Deadline { within: SHORT, .. })), "{late:?}");
    end.notify_one();
    worker.drain().await.unwrap();
    assert_eq!(worker.id(), None);
}
