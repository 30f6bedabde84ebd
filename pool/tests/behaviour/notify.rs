//! Notifications: kept with the job, in order, across owners, up to a bound.

use tenure_pool::{Error, Settings};
use tenure_testing::eventually;

use crate::world::{PATIENCE, SHORT, World, on_both_stores};

on_both_stores!(
    notifications_keep_their_order_over_a_hand_over,
    notifications_wait_for_a_job_that_nobody_runs_yet,
    the_bound_of_waiting_notifications_holds,
);

/// The bodies in the order in which each came first.
fn first_deliveries(world: &World, key: &str) -> Vec<String> {
    let mut first = Vec::new();
    for note in world.recorder.notes(key) {
        if !first.contains(&note) {
            first.push(note);
        }
    }
    first
}

async fn notifications_keep_their_order_over_a_hand_over(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch_one(&a, "key").await;
    let bodies: Vec<_> = (0..200).map(|i| i.to_string()).collect();
    let sender = tokio::spawn({
        let (b, bodies) = (b.clone(), bodies.clone());
        async move {
            for body in bodies {
                while let Err(Error::NotifyFull) = b.notify("key", body.clone()).await {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    eventually(PATIENCE, "some to arrive", async || world.recorder.notes("key").len() > 20).await;
    world.add_worker(&b).await;
    assert!(a.close().await.unwrap().complete);
    sender.await.unwrap();
    eventually(PATIENCE, "the last to arrive", async || {
        world.recorder.notes("key").iter().any(|note| note == "199")
    })
    .await;
    assert_eq!(first_deliveries(&world, "key"), bodies);
    eventually(PATIENCE, "the hand-over", async || world.recorder.starts_of("key") == 2).await;
    world.assert_clean();
}

async fn notifications_wait_for_a_job_that_nobody_runs_yet(world: World) {
    let node = world.node("a").await;
    node.submit("key", "").await.unwrap();
    for i in 0..20 {
        node.notify("key", i.to_string()).await.unwrap();
    }
    world.add_worker(&node).await;
    eventually(PATIENCE, "all to arrive", async || world.recorder.notes("key").len() == 20).await;
    assert_eq!(world.recorder.notes("key"), (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
}

async fn the_bound_of_waiting_notifications_holds(world: World) {
    let settings = Settings {
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        notify_cap: 3,
        notify_bytes: 100,
        ..Settings::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    for key in ["many", "long"] {
        node.submit(key, "").await.unwrap();
    }
    for i in 0..3 {
        node.notify("many", i.to_string()).await.unwrap();
    }
    assert!(matches!(node.notify("many", "3").await, Err(Error::NotifyFull)));
    node.notify("long", "x".repeat(60)).await.unwrap();
    assert!(matches!(node.notify("long", "x".repeat(60)).await, Err(Error::NotifyFull)));
    let too_long = node.notify("long", "x".repeat(101)).await;
    assert!(matches!(too_long, Err(Error::TooLong { len: 101, max: 100, .. })), "{too_long:?}");
    world.add_worker(&node).await;
    eventually(PATIENCE, "what was kept", async || world.recorder.notes("many") == ["0", "1", "2"]).await;
    eventually(PATIENCE, "room again", async || node.notify("many", "3").await.is_ok()).await;
}
