//! Parked jobs: they have their last error, and can be listed, notified, stopped and retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_pool::{DispatchError, Error, JobSpec, JobState, Node, RestartPolicy, Settings};

use crate::recorder::Act;
use crate::world::{SHORT, World, on_both_stores, until};

on_both_stores!(
    a_job_that_fails_too_often_is_parked_with_its_last_error,
    an_unparked_job_runs_again_and_hears_what_was_kept_for_it,
    a_parked_job_is_stopped_like_any_other,
    an_unpark_of_what_is_not_parked_is_refused,
    all_parked_jobs_or_some_of_them_are_unparked_in_one_call,
);

/// A node of a pool that parks a job at its second attempt.
pub(crate) async fn strict(world: &World, name: &str) -> Node {
    let settings =
        Settings { worker_ttl: world.ttl(), join_settle: SHORT, max_attempts: 2, ..Settings::default() };
    world.builder(name).settings(settings).join().await.unwrap()
}

pub(crate) async fn until_parked(node: &Node, key: &str) {
    until("the job to be parked", async || {
        // A busy machine may leave one look unanswered.
        matches!(node.inspect().job(key).await, Ok(Some(job)) if job.state == JobState::Parked)
    })
    .await;
}

/// A job that ran well on one worker and failed on the next until it was parked. It keeps failing while this is set.
async fn parked(world: &World, node: &Node, key: &str) -> Arc<AtomicBool> {
    let well = node.add_worker(world.recorder.clone()).await.unwrap();
    world.dispatch_one(node, key).await;
    let fails = Arc::new(AtomicBool::new(true));
    let told = fails.clone();
    let fail = Act::Fail("no route to the feed");
    let failing =
        world.recorder.acting(move |_| if told.load(Ordering::SeqCst) { fail.clone() } else { Act::Run });
    node.add_worker(failing).await.unwrap();
    well.drain().await.unwrap();
    until_parked(node, key).await;
    fails
}

async fn a_job_that_fails_too_often_is_parked_with_its_last_error(world: World) {
    let (node, other) = (strict(&world, "a").await, strict(&world, "b").await);
    parked(&world, &node, "key").await;
    let list = other.inspect().parked().await.unwrap();
    assert_eq!(list.len(), 1);
    let page = other.inspect().parked_page(None, 10).await.unwrap();
    assert_eq!((page.items, page.next), (list.clone(), None));
    let info = other.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((list[0].key.to_string().as_str(), list[0].error.as_str()), ("key", "no route to the feed"));
    assert_eq!((list[0].attempts, list[0].since, list[0].created), (2, info.since, info.created));
    assert_eq!((info.owner, info.attempts), (None, 2));
    assert_eq!(world.recorder.starts_of("key"), 3, "one that ran and two that failed");
    let ensured = other.ensure(("key", "")).await;
    assert!(matches!(ensured, Err(DispatchError::Parked)), "{ensured:?}");
    let again = other.dispatch(("key", "")).await;
    assert!(
        matches!(&again, Err(DispatchError::JobExists { key, parked: true, paused: false }) if key.as_str() == Some("key")),
        "{again:?}"
    );
}

async fn an_unparked_job_runs_again_and_hears_what_was_kept_for_it(world: World) {
    let (node, other) = (strict(&world, "a").await, strict(&world, "b").await);
    let fails = parked(&world, &node, "key").await;
    for body in ["one", "two"] {
        other.notify("key", body).await.unwrap();
    }
    fails.store(false, Ordering::SeqCst);
    other.operate().unpark("key").await.unwrap();
    until("the job to run", async || world.recorder.is_running("key")).await;
    assert_eq!(other.inspect().parked().await.unwrap(), []);
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().attempts, 1, "they start anew");
    until("what was kept", async || world.recorder.notes("key") == ["one", "two"]).await;
    let payloads = world.recorder.payloads("key");
    assert!(payloads.iter().all(|payload| payload == "payload of key"), "{payloads:?}");
    world.assert_clean();
}

async fn a_parked_job_is_stopped_like_any_other(world: World) {
    let node = strict(&world, "a").await;
    parked(&world, &node, "key").await;
    world.stop(&node, "key").await;
    assert_eq!(node.inspect().job("key").await.unwrap(), None);
    assert_eq!(node.inspect().parked().await.unwrap(), []);
    assert!(matches!(node.operate().unpark("key").await, Err(Error::JobNotFound(_))));
}

async fn an_unpark_of_what_is_not_parked_is_refused(world: World) {
    let node = strict(&world, "a").await;
    assert!(matches!(node.operate().unpark("key").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.operate().unpark("").await, Err(Error::Name(_))));
    node.submit(("key", "")).await.unwrap();
    assert!(matches!(node.operate().unpark("key").await, Err(Error::NotParked(_))));
    world.add_worker(&node).await;
    until("the job to run", async || world.recorder.is_running("key")).await;
    assert!(matches!(node.operate().unpark("key").await, Err(Error::NotParked(_))));
}

async fn all_parked_jobs_or_some_of_them_are_unparked_in_one_call(world: World) {
    let settings =
        Settings { worker_ttl: world.ttl(), join_settle: SHORT, max_attempts: 1, ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let fails = Arc::new(AtomicBool::new(true));
    let told = fails.clone();
    let failing = world
        .recorder
        .acting(move |_| if told.load(Ordering::SeqCst) { Act::Fail("no route") } else { Act::Run });
    let worker = node.add_worker(failing).await.unwrap();
    let keys: Vec<_> = (0..600).map(|n| format!("job-{n}")).collect();
    let jobs = keys.iter().map(|key| {
        world.history().submitted(key);
        JobSpec::new(key.as_str(), "").restart(RestartPolicy::OnFailure)
    });
    let jobs: Vec<_> = jobs.collect();
    node.submit_many(jobs).await;
    until("all to be parked", async || node.inspect().parked().await.is_ok_and(|all| all.len() == 600)).await;
    fails.store(false, Ordering::SeqCst);
    let some = node.operate().unpark_where(|job| job.key.to_string().ends_with('7')).await.unwrap();
    assert_eq!((some.jobs, some.more), (60, false));
    let others = node.operate().unpark_all().await.unwrap();
    assert_eq!((others.jobs, others.more), (540, false));
    assert_eq!(node.operate().unpark_all().await.unwrap().jobs, 0);
    until("all to run", async || keys.iter().all(|key| world.recorder.is_running(key))).await;
    assert_eq!(node.inspect().parked().await.unwrap(), []);
    worker.drain().await.unwrap();
}
