//! Jobs with a progress timeout: one that hangs is ended, tried again, and parked in the end.

use std::time::Duration;

use futures::FutureExt;
use tenure_pool::{DispatchError, Job, JobSpec, StopReason};

use crate::parking::{strict, until_parked};
use crate::recorder::Act;
use crate::world::{SHORT, World, on_both_stores, until};

on_both_stores!(
    a_job_that_hangs_is_tried_again_and_parked_in_the_end,
    a_job_without_a_future_may_hang_too,
    a_hung_job_that_ignores_its_cancellation_is_aborted,
    a_job_that_says_its_progress_runs_on,
    a_progress_timeout_out_of_bounds_is_refused,
);

/// The shortest that is allowed.
const SILENCE: Duration = Duration::from_secs(1);
const ERROR: &str = "no progress for 1 s";

async fn a_job_that_hangs_is_tried_again_and_parked_in_the_end(world: World) {
    let node = strict(&world, "a").await;
    node.add_worker(world.recorder.clone()).await.unwrap();
    node.dispatch(("key", "")).progress_timeout(SILENCE).await.unwrap();
    until_parked(&node, "key").await;
    let parked = node.inspect().parked().await.unwrap();
    assert_eq!((parked[0].attempts, parked[0].error.as_str()), (2, ERROR));
    assert_eq!(world.recorder.stops("key"), [StopReason::Stalled; 2]);
    assert_eq!(world.recorder.starts_of("key"), 2, "the policy is never");
    world.assert_clean_at_end();
}

async fn a_job_without_a_future_may_hang_too(world: World) {
    let node = strict(&world, "a").await;
    node.add_worker(world.recorder.acting(|_| Act::Hold)).await.unwrap();
    node.dispatch(("key", "")).progress_timeout(SILENCE).await.unwrap();
    until_parked(&node, "key").await;
    assert_eq!(node.inspect().parked().await.unwrap()[0].error, ERROR);
    assert_eq!(world.recorder.stops("key"), [StopReason::Stalled; 2]);
    world.assert_clean_at_end();
}

async fn a_hung_job_that_ignores_its_cancellation_is_aborted(world: World) {
    let node = world.builder("a").stop_timeout(SHORT).join().await.unwrap();
    let hangs = |job: &Job| if job.attempts() == 1 { Act::HangStop } else { Act::Hold };
    node.add_worker(world.recorder.acting(hangs)).await.unwrap();
    node.dispatch(("key", "")).progress_timeout(SILENCE).await.unwrap();
    until("its second start", async || world.recorder.starts_of("key") == 2).await;
    world.assert_clean();
}

/// Beside them, a job that hangs is parked, after more than the time that these may be silent. A checkpoint is progress.
async fn a_job_that_says_its_progress_runs_on(world: World) {
    const PATIENT: Duration = Duration::from_secs(3);
    let node = strict(&world, "a").await;
    let progresses = |job: Job| {
        async move {
            assert_eq!(job.progress_timeout(), Some(PATIENT));
            let mut steps = tokio::time::interval(SHORT);
            while job.cancelled().now_or_never().is_none() {
                steps.tick().await;
                if *job.key() == "saves" {
                    job.checkpoint("here");
                } else {
                    job.progress();
                }
            }
            Ok(())
        }
        .boxed()
    };
    let lively = |job: &Job| *job.key() == "lively" || *job.key() == "saves";
    let script = move |job: &Job| if lively(job) { Act::Body(progresses) } else { Act::Run };
    node.add_worker(world.recorder.acting(script)).await.unwrap();
    for key in ["lively", "saves"] {
        node.dispatch((key, "")).progress_timeout(PATIENT).await.unwrap();
    }
    node.dispatch(("silent", "")).await.unwrap();
    for round in 0..2 {
        let key = format!("hangs-{round}");
        node.dispatch((key.as_str(), "")).progress_timeout(SILENCE).await.unwrap();
        until_parked(&node, &key).await;
    }
    for key in ["lively", "saves", "silent"] {
        assert_eq!((world.recorder.starts_of(key), world.recorder.stops(key)), (1, vec![]), "{key}");
    }
    world.assert_clean_at_end();
}

async fn a_progress_timeout_out_of_bounds_is_refused(world: World) {
    let node = world.node("a").await;
    let before = world.data_but_readers().await;
    for timeout in
        [Duration::ZERO, Duration::from_millis(999), Duration::from_millis(86_400_001), Duration::MAX]
    {
        let job = JobSpec::new("key", "").progress_timeout(timeout);
        let refused = node.submit(job).await.unwrap_err();
        assert!(
            matches!(&refused, DispatchError::Option(why) if why.name == "progress_timeout"),
            "{refused:?}"
        );
        let text = refused.to_string();
        assert!(text.contains("must be from 1000 to 86400000 ms; nothing was written"), "{text}");
    }
    assert_eq!(world.data_but_readers().await, before);
}
