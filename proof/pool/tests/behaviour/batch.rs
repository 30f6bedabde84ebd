//! Many jobs in one call: a result for each, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_pool::{DispatchError, JobSpec};

use crate::recorder::Act;
use crate::world::{SHORT, World, on_both_stores, until};

on_both_stores!(
    every_job_of_a_batch_has_its_own_result_in_order,
    a_batch_larger_than_what_may_be_under_way_is_done_whole,
    one_job_that_nobody_starts_holds_no_other_of_its_batch_up,
    no_more_of_a_batch_is_asked_for_than_may_be_under_way,
);

async fn every_job_of_a_batch_has_its_own_result_in_order(world: World) {
    let node = world.node("a").await;
    let handler = world
        .recorder
        .acting(|job| if job.key().as_ref() == b"fails" { Act::Fail("no such tenant") } else { Act::Run });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("lives", "")).await.unwrap();
    let jobs = ["first", "", "lives", "fails", "long", "last"].map(|key| {
        let len = if key == "long" { 1 << 20 } else { 10 };
        JobSpec::new(key, vec![0; len])
    });
    let results = node.dispatch_many(jobs).await;
    assert!(
        matches!(
            &results[..],
            [
                Ok(()),
                Err(DispatchError::Key(_)),
                Err(DispatchError::JobExists { .. }),
                Err(DispatchError::StartFailed(_)),
                Err(DispatchError::PayloadTooLong { .. }),
                Ok(())
            ]
        ),
        "{results:?}"
    );
    assert_eq!(world.recorder.running().len(), 3);
    assert!(node.dispatch_many([]).await.is_empty());
}

async fn a_batch_larger_than_what_may_be_under_way_is_done_whole(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let jobs = (0..1_500).map(|i| JobSpec::new(format!("job-{i:04}"), format!("payload of {i}")));
    let tickets = b.submit_many(jobs).await;
    assert_eq!(tickets.len(), 1_500);
    for (i, ticket) in tickets.iter().enumerate() {
        assert_eq!(ticket.as_ref().unwrap().key.to_string(), format!("job-{i:04}"));
    }
    until("all to run", async || world.recorder.running().len() == 1_500).await;
    assert_eq!(world.recorder.payloads("job-1499"), ["payload of 1499"]);
    a.close().await.unwrap();
}

async fn one_job_that_nobody_starts_holds_no_other_of_its_batch_up(world: World) {
    let node = world.builder("a").stop_timeout(SHORT).join().await.unwrap();
    let handler =
        world.recorder.acting(|job| if job.key().as_ref() == b"hangs" { Act::HangStart } else { Act::Run });
    node.add_worker(handler).await.unwrap();
    let keys = ["hangs".to_owned()].into_iter().chain((0..1_200).map(|i| format!("job-{i}")));
    let batch = node.dispatch_many(keys.map(|key| JobSpec::new(key, ""))).deadline(Duration::from_secs(15));
    let results = tokio::spawn(batch.into_future());
    until("the others to run", async || world.recorder.running().len() == 1_201).await;
    node.stop_job("hangs").await.unwrap();
    let results = results.await.unwrap();
    assert!(matches!(results[0], Err(DispatchError::Stopped)), "{:?}", results[0]);
    assert!(results[1..].iter().all(Result::is_ok));
}

async fn no_more_of_a_batch_is_asked_for_than_may_be_under_way(world: World) {
    let node = world.node("a").await;
    // 1,024 jobs, or 16 MiB plus the rest of the last job.
    for (name, jobs, len, under_way) in [("small", 1_100, 0, 1_024), ("large", 40, 500 << 10, 33)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let specs = (0..jobs).map(move |i| {
            counted.fetch_add(1, Ordering::Relaxed);
            JobSpec::new(format!("{name}-{i}"), vec![0; len])
        });
        let batch = tokio::spawn(node.dispatch_many(specs).into_future());
        let accepted = async || node.inspect().jobs().await.unwrap().len();
        until("what is under way to be accepted", async || accepted().await == under_way).await;
        assert_eq!(asked.load(Ordering::Relaxed), under_way);
        let worker = world.add_worker(&node).await;
        assert!(batch.await.unwrap().iter().all(Result::is_ok));
        assert_eq!(asked.load(Ordering::Relaxed), jobs);
        for i in 0..jobs {
            node.stop_job(format!("{name}-{i}")).await.unwrap();
        }
        until("all to be gone", async || accepted().await == 0).await;
        worker.drain().await.unwrap();
    }
}
