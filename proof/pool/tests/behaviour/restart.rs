//! Jobs whose handlers end or fail: their restart policy, their attempts, and the pauses between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tenure_pool::{DispatchError, Job, JobEnd, JobState, Node, RestartPolicy, Settings};

use crate::parking::{strict, until_parked};
use crate::recorder::Act;
use crate::world::{SHORT, World, on_both_stores, until};

on_both_stores!(
    a_job_that_fails_by_itself_is_gone_under_never,
    a_job_that_fails_by_itself_is_started_again_under_on_failure,
    a_job_that_ends_well_is_gone_under_on_failure,
    a_job_that_ends_well_is_started_again_under_always,
    a_failed_first_start_is_tried_again_while_its_caller_waits,
    a_caller_hears_that_a_job_is_parked_whose_first_starts_fail,
    a_start_that_hangs_too_often_is_parked,
    a_restart_policy_outlasts_the_worker,
    a_job_that_waits_for_its_next_try_can_be_stopped,
    a_run_that_was_stable_makes_good_for_earlier_failures,
    a_job_that_takes_its_workers_down_is_parked,
    a_closure_that_panics_is_started_again_under_on_failure,
    a_job_that_others_have_ended_runs_again_under_never,
    a_job_that_is_lost_each_time_is_parked,
    a_job_whose_handler_parks_it_is_parked_at_once,
);

/// Runs for a moment and fails.
const FALL: Act = Act::Body(|_| async { Err("fell over".into()) }.boxed());

/// A worker on which every job does this at its first starts, and then runs.
async fn at_first(world: &World, node: &Node, times: usize, act: Act) {
    let count = AtomicUsize::new(0);
    let handler = world
        .recorder
        .acting(move |_| if count.fetch_add(1, Ordering::SeqCst) < times { act.clone() } else { Act::Run });
    node.add_worker(handler).await.unwrap();
}

async fn gone(node: &Node) {
    until("the job to be gone", async || node.inspect().jobs().await.unwrap().is_empty()).await;
}

/// Waits until the job has started this often and runs. Returns its attempts.
async fn runs_again(world: &World, node: &Node, starts: usize) -> u32 {
    until("the job to run again", async || {
        world.recorder.starts_of("key") == starts && world.recorder.is_running("key")
    })
    .await;
    let payloads = world.recorder.payloads("key");
    assert!(payloads.iter().all(|payload| payload == "payload"), "{payloads:?}");
    let job = node.inspect().job("key").await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Running);
    job.attempts
}

async fn dispatch(node: &Node, policy: RestartPolicy) {
    node.dispatch(("key", "payload")).restart(policy).await.unwrap();
}

async fn a_job_that_fails_by_itself_is_gone_under_never(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 1, FALL).await;
    dispatch(&node, RestartPolicy::Never).await;
    gone(&node).await;
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_job_that_fails_by_itself_is_started_again_under_on_failure(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 2, FALL).await;
    dispatch(&node, RestartPolicy::OnFailure).await;
    assert_eq!(runs_again(&world, &node, 3).await, 3, "each failure counts");
    world.assert_clean();
}

async fn a_job_that_ends_well_is_gone_under_on_failure(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 1, Act::End).await;
    dispatch(&node, RestartPolicy::OnFailure).await;
    gone(&node).await;
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_job_that_ends_well_is_started_again_under_always(world: World) {
    let node = strict(&world, "a").await;
    at_first(&world, &node, 2, Act::End).await;
    dispatch(&node, RestartPolicy::Always).await;
    assert_eq!(runs_again(&world, &node, 3).await, 1, "a clean end is no failure");
    world.stop(&node, "key").await;
    gone(&node).await;
    assert_eq!(world.recorder.starts_of("key"), 3);
}

async fn a_failed_first_start_is_tried_again_while_its_caller_waits(world: World) {
    let node = world.node("a").await;
    let handler = world.recorder.acting(|job| match job.attempts() {
        1 => Act::Fail("no route"),
        _ => Act::Run,
    });
    node.add_worker(handler).await.unwrap();
    for (key, policy) in [("a", RestartPolicy::OnFailure), ("b", RestartPolicy::Always)] {
        node.dispatch((key, "payload")).restart(policy).await.unwrap();
        assert_eq!(world.recorder.starts_of(key), 2);
    }
}

async fn a_caller_hears_that_a_job_is_parked_whose_first_starts_fail(world: World) {
    let node = strict(&world, "a").await;
    at_first(&world, &node, 9, Act::Panic("out of range")).await;
    let outcome = node.dispatch(("key", "payload")).restart(RestartPolicy::OnFailure).await;
    assert!(matches!(outcome, Err(DispatchError::Parked)), "{outcome:?}");
    let parked = node.inspect().parked().await.unwrap();
    assert!(parked[0].error.contains("out of range"), "{parked:?}");
    assert_eq!((parked[0].attempts, world.recorder.starts_of("key")), (2, 2));
}

async fn a_start_that_hangs_too_often_is_parked(world: World) {
    let settings =
        Settings { worker_ttl: world.ttl(), join_settle: SHORT, max_attempts: 2, ..Settings::default() };
    let node = world.builder("a").settings(settings).start_timeout(SHORT).join().await.unwrap();
    node.add_worker(world.recorder.acting(|_| Act::StartWhenTold(Arc::default()))).await.unwrap();
    node.submit(("key", "payload")).await.unwrap();
    until_parked(&node, "key").await;
    assert_eq!(node.inspect().parked().await.unwrap()[0].error, "the start took too long");
}

async fn a_restart_policy_outlasts_the_worker(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    a.dispatch(("key", "payload")).restart(RestartPolicy::OnFailure).await.unwrap();
    at_first(&world, &b, 1, FALL).await;
    a.abandon();
    a.closed().await;
    runs_again(&world, &b, 3).await;
}

async fn a_job_that_waits_for_its_next_try_can_be_stopped(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 9, FALL).await;
    dispatch(&node, RestartPolicy::OnFailure).await;
    // Each pause is longer than the one before, so one of the looks falls into one of them.
    until("the job to wait", async || {
        node.inspect()
            .job("key")
            .await
            .unwrap()
            .is_some_and(|job| job.state == JobState::Queued && job.attempts > 1)
    })
    .await;
    world.stop(&node, "key").await;
    gone(&node).await;
    let starts = world.recorder.starts_of("key");
    node.dispatch(("other", "")).await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), starts);
}

async fn a_run_that_was_stable_makes_good_for_earlier_failures(world: World) {
    let settings = Settings {
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        max_attempts: 2,
        stable_run: Duration::from_millis(20),
        ..Settings::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let stable = Act::Body(|_| {
        let run = tokio::time::sleep(Duration::from_millis(40));
        run.map(|()| Err("fell over".into())).boxed()
    });
    at_first(&world, &node, 2, stable).await;
    dispatch(&node, RestartPolicy::OnFailure).await;
    assert_eq!(runs_again(&world, &node, 3).await, 2, "only the last failure counts");
}

async fn a_job_that_takes_its_workers_down_is_parked(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let observer = strict(&world, "observer").await;
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        let node = strict(&world, name).await;
        if round == 0 {
            observer.submit(("key", "payload")).await.unwrap();
        }
        node.add_worker(world.recorder.clone()).await.unwrap();
        until("the job to run", async || world.recorder.starts_of("key") == round + 1).await;
        node.abandon();
        node.closed().await;
    }
    until_parked(&observer, "key").await;
    let parked = observer.inspect().parked().await.unwrap();
    assert_eq!((parked[0].error.as_str(), parked[0].attempts), ("worker lost", 2));
    observer.add_worker(world.recorder.clone()).await.unwrap();
    observer.operate().unpark(parked[0].key.clone()).await.unwrap();
    assert_eq!(runs_again(&world, &observer, 3).await, 1);
}

async fn a_closure_that_panics_is_started_again_under_on_failure(world: World) {
    let node = world.node("a").await;
    let starts = Arc::new(AtomicUsize::new(0));
    let handler = tenure_pool::run({
        let starts = starts.clone();
        move |job: Job| {
            let start = starts.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(start > 0, "the first one is told to");
                job.cancelled().await;
                Ok(())
            }
        }
    });
    node.add_worker(handler).await.unwrap();
    dispatch(&node, RestartPolicy::OnFailure).await;
    until("the second start", async || starts.load(Ordering::SeqCst) == 2).await;
    let job = node.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.state, job.attempts), (JobState::Running, 2));
}

/// Runs for a moment, and then others end it.
const LOSE: Act = Act::Body(|_| async { Err(JobEnd::Lost("the encoder was killed".into()).into()) }.boxed());
/// Runs for a moment, and says that no attempt can succeed.
const PARK: Act = Act::Body(|_| async { Err(JobEnd::Park("the payload is no text".into()).into()) }.boxed());

async fn a_job_that_others_have_ended_runs_again_under_never(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 2, LOSE).await;
    dispatch(&node, RestartPolicy::Never).await;
    assert_eq!(runs_again(&world, &node, 3).await, 3, "each loss counts");
    world.assert_clean();
}

async fn a_job_that_is_lost_each_time_is_parked(world: World) {
    let node = strict(&world, "a").await;
    at_first(&world, &node, 9, LOSE).await;
    dispatch(&node, RestartPolicy::Never).await;
    until_parked(&node, "key").await;
    let parked = node.inspect().parked().await.unwrap();
    assert_eq!((&*parked[0].error, parked[0].attempts), ("the encoder was killed", 2));
}

async fn a_job_whose_handler_parks_it_is_parked_at_once(world: World) {
    let node = world.node("a").await;
    at_first(&world, &node, 1, PARK).await;
    dispatch(&node, RestartPolicy::Never).await;
    until_parked(&node, "key").await;
    let parked = node.inspect().parked().await.unwrap();
    assert_eq!((&*parked[0].error, parked[0].attempts), ("the payload is no text", 0));
    node.operate().unpark("key").await.unwrap();
    assert_eq!(runs_again(&world, &node, 2).await, 1);
    world.assert_clean();
}
