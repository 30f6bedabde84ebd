//! Deadlines of dispatches: the caller's answer, the fate of the job, and cancelled dispatches.

use std::time::Duration;

use tenure_pool::error::Obstacle;
use tenure_pool::{DispatchError, Error, JobSpec, JobState, Settings, StopReason};

use crate::recorder::Act;
use crate::world::{PATIENCE, SHORT, World, on_both_stores, until};

on_both_stores!(
    at_the_deadline_the_caller_gets_the_ticket_and_the_job_stays,
    a_cancelled_dispatch_is_gone,
    a_dispatch_cancelled_while_it_starts_is_stopped,
    jobs_of_a_batch_are_cancelled_each,
    a_cancel_ends_one_dispatch_and_never_its_successor,
    a_cancelled_id_is_not_run_by_a_retry,
    a_deadline_may_be_longer_than_a_dispatch_is_honoured,
);

async fn at_the_deadline_the_caller_gets_the_ticket_and_the_job_stays(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    // A busy machine may need longer for the acceptance.
    let mut patience = Duration::from_millis(300);
    let ticket = loop {
        let late = a.dispatch(("key", "")).id("order-1").deadline(patience).await.unwrap_err();
        let DispatchError::Deadline { ticket, accepted, obstacle, .. } = late else { panic!("{late:?}") };
        assert_eq!(obstacle, Some(Obstacle::NoWorker));
        if accepted {
            break ticket;
        }
        patience *= 2;
        assert!(patience < PATIENCE, "it was never accepted");
    };
    assert_eq!(a.inspect().job("key").await.unwrap().unwrap().state, JobState::Queued);
    let again = b.wait(&ticket).deadline(SHORT).await.unwrap_err();
    assert!(
        matches!(&again, DispatchError::Deadline { ticket: same, accepted: true, trouble: None, .. } if *same == ticket)
    );
    world.add_worker(&a).await;
    b.wait(&ticket).await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_cancelled_dispatch_is_gone(world: World) {
    let node = world.node("a").await;
    let late = node.dispatch(("key", "")).deadline(Duration::from_millis(300)).cancel_on_deadline().await;
    let Err(DispatchError::Cancelled { ticket }) = late else { panic!("{late:?}") };
    assert_eq!(node.inspect().jobs().await.unwrap(), vec![]);
    let ended = node.wait(&ticket).await;
    assert!(matches!(ended, Err(DispatchError::Ended)), "{ended:?}");
    world.add_worker(&node).await;
    node.dispatch(("key", "")).await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_dispatch_cancelled_while_it_starts_is_stopped(world: World) {
    let (a, b) = (world.builder("a").stop_timeout(SHORT).join().await.unwrap(), world.node("b").await);
    a.add_worker(world.recorder.acting(|_| Act::HangStart)).await.unwrap();
    let late = b.dispatch(("key", "")).deadline(Duration::from_secs(1)).cancel_on_deadline().await;
    assert!(matches!(late, Err(DispatchError::Cancelled { .. })), "{late:?}");
    until("the record to go", async || b.inspect().job("key").await.unwrap().is_none()).await;
    assert!(!world.recorder.is_running("key"));
}

async fn jobs_of_a_batch_are_cancelled_each(world: World) {
    let node = world.node("a").await;
    let jobs = (0..40).map(|i| JobSpec::new(format!("job-{i}"), ""));
    let results = node.dispatch_many(jobs).deadline(Duration::from_millis(300)).cancel_on_deadline().await;
    assert_eq!(results.len(), 40);
    assert!(results.iter().all(|r| matches!(r, Err(DispatchError::Cancelled { .. }))), "{results:?}");
    assert_eq!(node.inspect().jobs().await.unwrap(), vec![]);
}

async fn a_cancel_ends_one_dispatch_and_never_its_successor(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let first = a.submit(("key", "")).await.unwrap();
    b.wait(&first).await.unwrap();
    b.cancel(&first).await.unwrap();
    until("the record to go", async || b.inspect().job("key").await.unwrap().is_none()).await;
    assert_eq!(world.recorder.stops("key"), [StopReason::Stopped]);
    a.dispatch(("key", "")).await.unwrap();
    let gone = b.cancel(&first).await;
    assert!(matches!(gone, Err(Error::JobNotFound(_))), "{gone:?}");
    assert!(world.recorder.is_running("key"));
    assert_eq!(b.inspect().job("key").await.unwrap().unwrap().state, JobState::Running);
}

async fn a_cancelled_id_is_not_run_by_a_retry(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.cancel(&a.ticket("early", "order-1").unwrap()).await.unwrap();
    let call = b.dispatch(("key", "")).id("order-2").deadline(Duration::from_millis(300));
    let late = call.cancel_on_deadline().await;
    assert!(matches!(late, Err(DispatchError::Cancelled { .. })), "{late:?}");
    world.add_worker(&a).await;
    for (key, id) in [("early", "order-1"), ("key", "order-2")] {
        for node in [&a, &b] {
            let outcome = node.dispatch((key, "")).id(id).await;
            assert!(matches!(outcome, Err(DispatchError::Cancelled { .. })), "{outcome:?}");
            let outcome = node.submit((key, "")).id(id).await;
            assert!(matches!(outcome, Err(DispatchError::Cancelled { .. })), "{outcome:?}");
            let outcome = node.wait(&node.ticket(key, id).unwrap()).await;
            assert!(matches!(outcome, Err(DispatchError::Cancelled { .. })), "{outcome:?}");
        }
    }
    assert_eq!(world.recorder.running().len(), 0);
}

async fn a_deadline_may_be_longer_than_a_dispatch_is_honoured(world: World) {
    let honoured = Duration::from_secs(1);
    let settings = Settings {
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        max_dispatch_deadline: honoured,
        ..Settings::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let waiter = tokio::spawn(node.dispatch(("key", "")).deadline(PATIENCE).into_future());
    until("the job to be old", async || {
        let job = node.inspect().job("key").await.unwrap();
        job.is_some_and(|job| world.now().duration_since(job.created).is_ok_and(|age| age > honoured * 2))
    })
    .await;
    world.add_worker(&node).await;
    waiter.await.unwrap().unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1);
}
