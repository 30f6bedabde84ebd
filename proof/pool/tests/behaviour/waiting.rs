//! Waiting notifications: listed by number, and dropped by an operator.

use tenure_pool::Error;

use crate::recorder::Act;
use crate::server_loss::TTL;
use crate::world::{World, on_both_stores, until};

on_both_stores!(
    waiting_notifications_are_listed_in_order,
    a_dropped_notification_is_never_heard,
    notifications_of_no_job_are_an_error,
    a_listing_from_before_a_loss_drops_nothing,
);

async fn waiting_notifications_are_listed_in_order(world: World) {
    let (node, other) = (world.node("a").await, world.node("b").await);
    node.submit(("key", "")).await.unwrap();
    assert_eq!(other.inspect().notifications("key").await.unwrap(), []);
    let bodies: Vec<_> = (0..20).map(|i| i.to_string()).collect();
    for body in &bodies {
        node.notify("key", body.clone()).await.unwrap();
    }
    let listed = other.inspect().notifications("key").await.unwrap();
    assert!(listed.iter().map(|note| &note.body[..]).eq(bodies.iter().map(String::as_bytes)), "{listed:?}");
    assert!(listed.windows(2).all(|two| two[0].number + 1 == two[1].number), "{listed:?}");
}

async fn a_dropped_notification_is_never_heard(world: World) {
    let (node, other) = (world.node("a").await, world.node("b").await);
    node.submit(("key", "")).await.unwrap();
    for body in ["poison", "one", "two"] {
        node.notify("key", body).await.unwrap();
    }
    let oldest = other.inspect().notifications("key").await.unwrap().remove(0);
    assert_eq!(other.operate().drop_notifications("key", &oldest).await.unwrap(), 2);
    assert_eq!(other.operate().drop_notifications("key", &oldest).await.unwrap(), 2, "it is gone already");
    world.add_worker(&node).await;
    until("the others", async || world.recorder.notes("key") == ["one", "two"]).await;
    until("nothing to wait", async || other.inspect().notifications("key").await.unwrap().is_empty()).await;
}

async fn notifications_of_no_job_are_an_error(world: World) {
    let node = world.node("a").await;
    assert!(matches!(node.inspect().notifications("key").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.inspect().notifications("").await, Err(Error::Name(_))));
    node.submit(("key", "")).await.unwrap();
    node.notify("key", "one").await.unwrap();
    let one = node.inspect().notifications("key").await.unwrap().remove(0);
    world.stop(&node, "key").await;
    assert!(matches!(node.operate().drop_notifications("key", &one).await, Err(Error::JobNotFound(_))));
}

/// After the loss other notifications may have the numbers.
async fn a_listing_from_before_a_loss_drops_nothing(world: World) {
    let world = world.with_ttl(TTL);
    let node = world.node("a").await;
    node.add_worker(world.recorder.acting(|_| Act::HangStart)).await.unwrap();
    node.submit(("key", "")).await.unwrap();
    until("it to be starting", async || world.recorder.is_running("key")).await;
    node.notify("key", "before").await.unwrap();
    let before = node.inspect().notifications("key").await.unwrap().remove(0);
    world.wipe();
    node.notify("key", "after").await.unwrap();
    let refused = node.operate().drop_notifications("key", &before).await;
    assert!(matches!(refused, Err(Error::Renumbered(_))), "{refused:?}");
    assert!(!node.inspect().notifications("key").await.unwrap().is_empty());
}
