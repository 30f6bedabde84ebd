//! Stops: a job ends in any state, once, and never comes back.

use std::time::Duration;

use tenure_pool::{BoxError, Error, Job, JobHandler, Start, StopReason};

use crate::recorder::Act;
use crate::world::{World, beside, on_both_stores, until};

on_both_stores!(
    a_running_job_is_stopped_from_another_node,
    a_stop_reaches_a_start_that_is_under_way,
    jobs_stopped_while_they_move_stay_stopped,
    a_second_stop_changes_nothing,
    a_stopped_key_can_be_dispatched_again,
    a_stop_of_nothing_says_so,
    a_stop_is_waited_for_until_the_job_is_gone,
    a_wait_for_a_stop_ends_at_its_deadline_and_the_stop_stays,
    who_waits_for_a_stop_gets_the_error_of_its_handler,
);

async fn a_stop_is_waited_for_until_the_job_is_gone(world: World) {
    let (a, b) = (
        world.builder("a").stop_timeout(Duration::from_millis(300)).join().await.unwrap(),
        world.node("b").await,
    );
    a.add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    for node in [&a, &b] {
        world.dispatch_one(node, "key").await;
        node.stop_job("key").await.unwrap();
        node.stop_job("key").until_stopped().await.unwrap();
        assert!(!world.recorder.is_running("key"));
        assert_eq!(node.inspect().job("key").await.unwrap(), None);
    }
    a.submit(("queued", "")).await.unwrap();
    b.stop_job("queued").until_stopped().await.unwrap();
    assert_eq!(b.inspect().job("queued").await.unwrap(), None);
    let nothing = b.stop_job("queued").until_stopped().await;
    assert!(matches!(nothing, Err(Error::JobNotFound(_))), "{nothing:?}");
}

async fn a_wait_for_a_stop_ends_at_its_deadline_and_the_stop_stays(world: World) {
    let (a, b) = (
        world.builder("a").stop_timeout(Duration::from_secs(3)).join().await.unwrap(),
        world.node("b").await,
    );
    a.add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    world.dispatch_one(&b, "key").await;
    let late = b.stop_job("key").until_stopped().deadline(Duration::from_secs(1)).await;
    assert!(
        matches!(&late, Err(Error::StillStopping { key, .. }) if key.as_str() == Some("key")),
        "{late:?}"
    );
    until("the record to go", async || b.inspect().job("key").await.unwrap().is_none()).await;
    assert!(!world.recorder.is_running("key"));
}

async fn a_running_job_is_stopped_from_another_node(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch_one(&a, "key").await;
    world.stop(&b, "key").await;
    until("the handler to end", async || world.recorder.stops("key") == [StopReason::Stopped]).await;
    until("the record to go", async || b.inspect().job("key").await.unwrap().is_none()).await;
    world.history().stop_acknowledged("key");
    world.assert_clean();
}

async fn a_stop_reaches_a_start_that_is_under_way(world: World) {
    let node = world.builder("a").stop_timeout(Duration::from_millis(200)).join().await.unwrap();
    node.add_worker(world.recorder.acting(|_| Act::HangStart)).await.unwrap();
    let ticket = node.submit(("key", "")).await.unwrap();
    until("the start to be under way", async || world.recorder.is_running("key")).await;
    world.stop(&node, "key").await;
    until("the record to go", async || node.inspect().job("key").await.unwrap().is_none()).await;
    assert!(!world.recorder.is_running("key"));
    node.wait(&ticket).await.expect_err("it has never started");
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn jobs_stopped_while_they_move_stay_stopped(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let keys = world.dispatch(&a, 60).await;
    let closing = beside(&a, |a| async move { a.close().await });
    for key in &keys {
        world.stop(&b, key).await;
    }
    assert!(closing.await.unwrap().unwrap().left.is_empty());
    until("every record to go", async || b.inspect().jobs().await.unwrap().is_empty()).await;
    for key in &keys {
        world.history().stop_acknowledged(key);
    }
    assert_eq!(world.recorder.running().len(), 0);
    world.dispatch_one(&b, "another").await;
    world.assert_clean();
}

async fn a_second_stop_changes_nothing(world: World) {
    let node = world.builder("a").stop_timeout(Duration::from_millis(500)).join().await.unwrap();
    node.add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    world.dispatch_one(&node, "key").await;
    world.stop(&node, "key").await;
    world.stop(&node, "key").await;
    until("the record to go", async || node.inspect().job("key").await.unwrap().is_none()).await;
    assert!(!world.recorder.is_running("key"));
    assert!(matches!(node.stop_job("key").await, Err(Error::JobNotFound(_))));
    world.assert_clean_at_end();
}

async fn a_stopped_key_can_be_dispatched_again(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    for _ in 0..5 {
        world.dispatch_one(&a, "key").await;
        world.stop(&b, "key").await;
        until("the record to go", async || a.inspect().job("key").await.unwrap().is_none()).await;
    }
    world.dispatch_one(&b, "key").await;
    assert_eq!(world.recorder.starts_of("key"), 6);
    world.assert_clean();
}

async fn a_stop_of_nothing_says_so(world: World) {
    let node = world.node_with("a", 1).await;
    assert!(matches!(node.stop_job("nothing").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.notify("nothing", "x").await, Err(Error::JobNotFound(_))));
    assert_eq!(node.inspect().job("nothing").await.unwrap(), None);
}

/// Its jobs fail when they end: the future or the stop handler, as the key says.
struct StopsBadly;

impl JobHandler for StopsBadly {
    async fn start(&self, job: Job) -> Start {
        if job.key().as_str() != Some("future") {
            return Start::Started;
        }
        Start::Running(Box::pin(async move {
            job.cancelled().await;
            Err("the file is not flushed".into())
        }))
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        match job.key().as_str() {
            Some("stop") => Err("the file is not flushed".into()),
            Some("panic") => panic!("the file is not flushed"),
            _ => Ok(()),
        }
    }
}

async fn who_waits_for_a_stop_gets_the_error_of_its_handler(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.add_worker(StopsBadly).await.unwrap();
    for node in [&a, &b] {
        for name in ["stop", "panic", "future"] {
            world.dispatch_one(node, name).await;
            let stopped = node.stop_job(name).until_stopped().await;
            assert!(
                matches!(&stopped, Err(Error::StopFailed { key, error })
                    if key.as_str() == Some(name) && error.contains("the file is not flushed")),
                "{stopped:?}"
            );
            assert_eq!(node.inspect().job(name).await.unwrap(), None, "it is gone");
        }
        world.dispatch_one(node, "stop").await;
        node.stop_job("stop").await.unwrap();
        until("the record to go", async || node.inspect().job("stop").await.unwrap().is_none()).await;
    }
}
