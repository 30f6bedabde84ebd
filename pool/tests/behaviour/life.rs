//! The whole life of a job whose handler has a start, a stop and a notify of its own.

use tenure_pool::{MemberState, StopReason};
use tenure_testing::eventually;

use crate::recorder::Act;
use crate::world::{PATIENCE, World, on_both_stores};

on_both_stores!(a_job_is_started_notified_moved_and_stopped);

async fn a_job_is_started_notified_moved_and_stopped(world: World) {
    let handler = world.recorder.acting(|_| Act::Hold);
    let recorder = &world.recorder;
    let (a, b) = (world.node("a").await, world.node("b").await);
    let old = a.add_worker(handler.clone()).await.unwrap();
    world.dispatch_one(&a, "acme").await;
    assert!(recorder.is_running("acme"));
    for i in 0..40 {
        b.notify("acme", i.to_string()).await.unwrap();
    }
    let bodies: Vec<_> = (0..40).map(|i| i.to_string()).collect();
    eventually(PATIENCE, "all notifications", async || recorder.notes("acme") == bodies).await;

    let new = b.add_worker(handler).await.unwrap();
    let is_up = async || new.info().is_some_and(|info| info.state == MemberState::Up);
    eventually(PATIENCE, "the second worker to be up", is_up).await;
    assert!(a.close().await.unwrap().complete);
    assert_eq!(old.id(), None);
    world.placed(&b, &["acme".to_owned()]).await;
    assert_eq!(recorder.payloads("acme"), ["payload of acme"; 2]);
    assert!(matches!(recorder.stops("acme")[..], [StopReason::Moved | StopReason::Draining]));

    world.stop(&b, "acme").await;
    eventually(PATIENCE, "the record to go", async || b.jobs().await.unwrap().is_empty()).await;
    assert_eq!(recorder.stops("acme")[1..], [StopReason::Stopped]);
    world.assert_clean();
    world.dispatch_one(&b, "more").await;
    b.shutdown().await.unwrap();
    assert_eq!(recorder.stops("more"), [StopReason::Shutdown]);
    assert!(recorder.running().is_empty());
}
