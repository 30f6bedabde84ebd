//! Notifications that wait for their job: listed by number, and dropped by hand.

use tenure_pool::Error;
use tenure_testing::eventually;

use crate::world::{PATIENCE, World, on_both_stores};

on_both_stores!(
    waiting_notifications_are_listed_in_order,
    a_dropped_notification_is_never_heard,
    notifications_of_no_job_are_an_error,
);

async fn waiting_notifications_are_listed_in_order(world: World) {
    let (node, other) = (world.node("a").await, world.node("b").await);
    node.submit("key", "").await.unwrap();
    assert_eq!(other.notifications("key").await.unwrap(), []);
    let bodies: Vec<_> = (0..20).map(|i| i.to_string()).collect();
    for body in &bodies {
        node.notify("key", body.clone()).await.unwrap();
    }
    let listed = other.notifications("key").await.unwrap();
    assert!(listed.iter().map(|note| &note.body[..]).eq(bodies.iter().map(String::as_bytes)), "{listed:?}");
    assert!(listed.windows(2).all(|two| two[0].number + 1 == two[1].number), "{listed:?}");
}

async fn a_dropped_notification_is_never_heard(world: World) {
    let (node, other) = (world.node("a").await, world.node("b").await);
    node.submit("key", "").await.unwrap();
    for body in ["poison", "one", "two"] {
        node.notify("key", body).await.unwrap();
    }
    let oldest = other.notifications("key").await.unwrap()[0].number;
    assert_eq!(other.drop_notifications("key", oldest).await.unwrap(), 2);
    assert_eq!(other.drop_notifications("key", oldest).await.unwrap(), 2, "it is gone already");
    world.add_worker(&node).await;
    eventually(PATIENCE, "the others", async || world.recorder.notes("key") == ["one", "two"]).await;
    eventually(PATIENCE, "nothing to wait", async || other.notifications("key").await.unwrap().is_empty())
        .await;
}

async fn notifications_of_no_job_are_an_error(world: World) {
    let node = world.node("a").await;
    assert!(matches!(node.notifications("key").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.drop_notifications("key", 1).await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.notifications("").await, Err(Error::Name(_))));
}
