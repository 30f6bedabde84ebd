//! The results of a dispatch: exactly one winner per key, exact bounds, and an answer for every caller.

use std::time::Duration;

use futures::future::join_all;
use tenure_pool::{DispatchError, JobState, Settings};

use crate::recorder::Act;
use crate::world::{SHORT, World, beside, on_both_stores, until};

on_both_stores!(
    one_of_many_callers_wins_a_key,
    the_bound_of_queued_jobs_is_exact,
    a_job_is_waited_for_on_another_node,
    a_start_error_reaches_a_dispatcher_on_another_node,
    a_job_stopped_before_anyone_began_it_tells_its_waiter,
    ensure_takes_a_living_job_for_success,
    ensure_waits_for_the_end_of_a_job_that_is_being_stopped,
    a_dispatch_that_nobody_runs_waits_and_stays_accepted,
    a_dropped_dispatch_is_still_run,
    a_key_is_any_bytes,
    granted_jobs_run_and_stop,
);

async fn one_of_many_callers_wins_a_key(world: World) {
    let nodes = [world.node_with("a", 1).await, world.node_with("b", 1).await, world.node("c").await];
    for round in 0..3 {
        let key = format!("wanted-{round}");
        let calls = (0..50).map(|i| nodes[i % 3].dispatch((key.as_str(), "")).into_future());
        let (won, lost): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "{lost:?}");
        assert!(lost.iter().all(|answer| matches!(answer, Err(DispatchError::JobExists { .. }))), "{lost:?}");
        assert_eq!(world.recorder.starts_of(&key), 1);
    }
}

async fn the_bound_of_queued_jobs_is_exact(world: World) {
    let (a, b) = (world.builder("a").max_queued(7), world.builder("b").max_queued(7));
    let nodes = [a.join().await.unwrap(), b.join().await.unwrap()];
    let keys: Vec<_> = (0..30).map(|i| format!("job-{i}")).collect();
    let calls = keys.iter().enumerate().map(|(i, key)| nodes[i % 2].submit((key.as_str(), "")).into_future());
    let (taken, refused): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!(taken.len(), 7);
    assert!(refused.iter().all(|answer| matches!(answer, Err(DispatchError::PoolFull))), "{refused:?}");
    assert_eq!(nodes[0].inspect().jobs().await.unwrap().len(), 7);
    world.add_worker(&nodes[0]).await;
    until("what was accepted to run", async || world.recorder.running().len() == 7).await;
    until("the pool to hear of the starts", async || nodes[1].dispatch(("one more", "")).await.is_ok()).await;
}

async fn a_job_is_waited_for_on_another_node(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let ticket = a.submit(("key", "")).await.unwrap();
    let waiter = tokio::spawn({
        let (b, ticket) = (b.clone(), ticket.clone());
        async move { b.wait(&ticket).await }
    });
    assert_eq!(a.inspect().job("key").await.unwrap().unwrap().state, JobState::Queued);
    a.close().await.unwrap();
    world.add_worker(&b).await;
    waiter.await.unwrap().unwrap();
    b.wait(&ticket).await.unwrap();
    assert!(world.recorder.is_running("key"));
}

async fn a_start_error_reaches_a_dispatcher_on_another_node(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let ticket = a.submit(("handed in", "")).await.unwrap();
    let answer = beside(&a, |a| async move { a.dispatch(("waited for", "")).await });
    until("the job to be accepted", async || a.inspect().job("waited for").await.unwrap().is_some()).await;
    b.add_worker(world.recorder.acting(|_| Act::Fail("no such tenant"))).await.unwrap();
    let own = answer.await.unwrap();
    assert!(matches!(&own, Err(DispatchError::StartFailed(text)) if text == "no such tenant"), "{own:?}");
    // Only the node that waits when the job fails learns the reason. Without a caller's own id, no reason is kept.
    let other = b.wait(&ticket).await;
    assert!(matches!(other, Err(DispatchError::Ended)), "{other:?}");
}

async fn a_job_stopped_before_anyone_began_it_tells_its_waiter(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let ticket = a.submit(("key", "")).await.unwrap();
    let waiter = beside(&a, |a| async move { a.wait(&ticket).await });
    b.stop_job("key").await.unwrap();
    let answer = waiter.await.unwrap();
    assert!(matches!(answer, Err(DispatchError::Stopped | DispatchError::Ended)), "{answer:?}");
    assert_eq!(a.inspect().jobs().await.unwrap(), vec![]);
    world.add_worker(&a).await;
    a.dispatch(("other", "")).await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 0);
}

async fn ensure_takes_a_living_job_for_success(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    a.ensure(("key", "first")).await.unwrap();
    b.ensure(("key", "second")).await.unwrap();
    assert_eq!(world.recorder.payloads("key"), ["first"]);
    assert_eq!(b.inspect().payload("key").await.unwrap().unwrap(), "first");
}

async fn ensure_waits_for_the_end_of_a_job_that_is_being_stopped(world: World) {
    let (a, b) = (
        world.builder("a").stop_timeout(Duration::from_secs(2)).join().await.unwrap(),
        world.node("b").await,
    );
    a.add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    for (life, node) in [&a, &b].into_iter().enumerate() {
        world.dispatch_one(node, "key").await;
        node.stop_job("key").await.unwrap();
        let late = node.ensure(("key", "new")).deadline(SHORT).await;
        assert!(matches!(late, Err(DispatchError::Deadline { accepted: false, .. })), "{late:?}");
        node.ensure(("key", "new")).await.unwrap();
        assert_eq!(node.inspect().payload("key").await.unwrap().unwrap(), "new");
        assert_eq!(world.recorder.starts_of("key"), 2 * (life + 1));
        node.stop_job("key").until_stopped().await.unwrap();
    }
}

async fn a_dispatch_that_nobody_runs_waits_and_stays_accepted(world: World) {
    let node = world.node("a").await;
    let ticket = node.submit(("key", "")).await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(2), node.wait(&ticket)).await;
    assert!(early.is_err(), "nobody can have run it: {early:?}");
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().state, JobState::Queued);
    world.add_worker(&node).await;
    node.wait(&ticket).await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_dropped_dispatch_is_still_run(world: World) {
    let settings = Settings { worker_ttl: world.ttl(), join_settle: SHORT, ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let call = beside(&node, |node| async move { node.dispatch(("key", "")).await });
    until("it to be accepted", async || node.inspect().job("key").await.unwrap().is_some()).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    world.add_worker(&node).await;
    until("it to run", async || world.recorder.is_running("key")).await;
    assert!(matches!(node.dispatch(("key", "")).await, Err(DispatchError::JobExists { .. })));
}

async fn a_key_is_any_bytes(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys: [&[u8]; 4] = [b"with:colons|bars {braces}", b"\0\xff\r\n", &[b'k'; 512], "ключ".as_bytes()];
    for key in keys {
        a.dispatch((key, &b"\0\xff"[..])).await.unwrap();
        a.notify(key, "hello").await.unwrap();
        assert_eq!(b.inspect().payload(key).await.unwrap().unwrap(), &b"\0\xff"[..]);
    }
    assert_eq!(a.inspect().jobs().await.unwrap().len(), keys.len());
    world.add_worker(&b).await;
    assert!(a.close().await.unwrap().complete);
    until("all to run on", async || world.holders(&b).await.len() == keys.len()).await;
    for key in keys {
        b.stop_job(key).await.unwrap();
    }
    until("all to be gone", async || b.inspect().jobs().await.unwrap().is_empty()).await;
}

async fn granted_jobs_run_and_stop(world: World) {
    let settings = Settings { grant_max: 4_096, worker_ttl: world.ttl(), ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    world.add_worker(&node).await;
    until("it to know the ring", async || node.guess("job-0").unwrap().is_some()).await;
    let keys: Vec<_> = (0..20).map(|i| format!("job-{i}")).collect();
    for key in &keys {
        node.dispatch((key.as_str(), "")).await.unwrap();
    }
    assert_eq!(node.inspect().figures().await.unwrap().queued, 0, "each start is noted");
    for key in &keys {
        assert_eq!(world.recorder.starts_of(key), 1);
        node.stop_job(key.as_str()).until_stopped().await.unwrap();
    }
    assert_eq!(node.inspect().figures().await.unwrap().jobs, 0);
}
