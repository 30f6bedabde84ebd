//! Paused jobs: they rest until somebody resumes them, and say who has paused them and why.

use std::time::{Duration, SystemTime};

use tenure_pool::error::NotHandled;
use tenure_pool::event::EventKind;
use tenure_pool::inspect::{Cause, Verdict};
use tenure_pool::{DispatchError, Error, JobState, Node, Plan, StopReason, Tick};

use crate::asking::not_handled;
use crate::history::noted;
use crate::server_loss::TTL;
use crate::world::{Home, World, on_both_stores, until};

on_both_stores!(
    a_paused_job_rests_until_it_is_resumed,
    a_paused_job_says_who_paused_it_and_why,
    all_who_want_a_paused_job_are_told,
    a_pause_outlives_every_worker,
    a_job_that_waits_is_paused_and_its_dispatcher_told,
    a_paused_job_is_as_its_plan_wants_it,
    a_pause_may_be_repeated_and_so_may_a_resume,
    a_paused_job_is_not_retried_by_others,
    what_cannot_be_paused_says_so,
    every_shard_pauses_its_jobs,
    a_pause_with_an_end_is_over_by_itself,
    a_pause_ends_though_all_nodes_were_started_anew,
    a_longer_pause_takes_the_place_of_a_shorter_one,
    only_a_pause_has_an_end,
);

async fn runs(world: &World, key: &str, starts: usize) {
    until("the job to run", async || {
        world.recorder.is_running(key) && world.recorder.starts_of(key) == starts
    })
    .await;
}

/// The one who has paused it, and the reason.
async fn pause_of(node: &Node, key: &str) -> Option<(String, String)> {
    let job = node.inspect().job(key).await.unwrap().unwrap();
    job.paused.map(|paused| (paused.by, paused.reason))
}

async fn a_paused_job_rests_until_it_is_resumed(world: World) {
    let (node, other) = (world.node_with("a", 2).await, world.node("b").await);
    world.dispatch_one(&node, "key").await;
    other.notify("key", "before").await.unwrap();
    until("the notification", async || world.recorder.notes("key") == ["before"]).await;
    other.operate().pause("key", "ticket 17").await.unwrap();
    assert_eq!(world.recorder.stops("key"), [StopReason::Paused]);
    assert!(!world.recorder.is_running("key"));
    other.notify("key", "meanwhile").await.unwrap();
    // A worker that joins moves keys, and takes up what waits.
    world.add_worker(&other).await;
    world.dispatch_one(&node, "another").await;
    assert_eq!(world.recorder.starts_of("key"), 1);
    other.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    until("what was kept", async || {
        world.recorder.notes("key").last().is_some_and(|last| last == "meanwhile")
    })
    .await;
    let job = node.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.paused, job.attempts, job.why.map(|why| why.cause)), (None, 1, Some(Cause::Resumed)));
    world.assert_clean();
}

async fn a_paused_job_says_who_paused_it_and_why(world: World) {
    let node = world.node_with("a", 1).await;
    for key in ["key", "mine"] {
        world.dispatch_one(&node, key).await;
    }
    node.operate().pause("key", "the feed | moves").by("anna@desk").await.unwrap();
    node.operate().pause("mine", "").await.unwrap();
    let job = node.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.state, job.error, job.attempts), (JobState::Parked, None, 0));
    assert_eq!(pause_of(&node, "key").await, Some(("anna@desk".into(), "the feed | moves".into())));
    assert_eq!(pause_of(&node, "mine").await, Some(("a".into(), String::new())), "the name of the node");
    let listed = node.inspect().parked().await.unwrap();
    let listed = listed.into_iter().find(|job| job.key.as_str() == Some("key")).unwrap();
    assert_eq!((listed.error.as_str(), listed.since), ("", job.since));
    assert_eq!(listed.paused.unwrap().by, "anna@desk");
    let explained = node.inspect().explain("key").await.unwrap();
    assert_eq!(explained.verdict, Verdict::Paused);
    let text = explained.to_string();
    assert!(
        text.contains(", by anna@desk: the feed | moves\n  nobody runs it before it is resumed"),
        "{text}"
    );
    node.operate().resume("key").by("ben").await.unwrap();
    runs(&world, "key", 2).await;
    let seen = world.inspector().await;
    for (kind, text) in [
        (EventKind::Asked, "pause by anna@desk: the feed | moves"),
        (EventKind::Paused, "anna@desk: the feed | moves"),
        (EventKind::Asked, "resume by ben"),
    ] {
        let event = noted(&seen, text, |event| event.kind == kind && event.text == text).await;
        assert_eq!(event.keys[0].as_str(), Some("key"));
    }
}

async fn all_who_want_a_paused_job_are_told(world: World) {
    let node = world.node_running("a", "key").await;
    node.operate().pause("key", "x").await.unwrap();
    let again = node.dispatch(("key", "")).await;
    assert!(matches!(&again, Err(DispatchError::JobExists { paused: true, parked: false, .. })), "{again:?}");
    let ensured = node.ensure(("key", "")).await;
    assert!(matches!(ensured, Err(DispatchError::Paused)), "{ensured:?}");
    assert_eq!(not_handled(node.ask("key", "x").await), NotHandled::Paused);
    assert_eq!(not_handled(node.ask("key", "x").or_start(("key", "")).await), NotHandled::Paused);
    assert_eq!(node.update(("key", "other")).await.unwrap(), 1);
    assert!(pause_of(&node, "key").await.is_some(), "an update resumes nothing");
    node.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().generation, 1);
}

async fn a_pause_outlives_every_worker(world: World) {
    let (node, seen) = (world.node_with("a", 2).await, world.node("b").await);
    world.dispatch_one(&node, "key").await;
    node.operate().pause("key", "x").await.unwrap();
    node.close().await.unwrap();
    world.add_worker(&seen).await;
    world.dispatch_one(&seen, "another").await;
    assert_eq!(pause_of(&seen, "key").await, Some(("a".into(), "x".into())));
    assert_eq!(world.recorder.starts_of("key"), 1);
    seen.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    world.assert_clean();
}

/// The worker that has paused it says so, to data in which the job runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_comes_back_with_older_data() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let (node, other) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    world.dispatch_one(&node, "key").await;
    let old = store.tamper(|server| server.snapshot());
    other.operate().pause("key", "db moves").by("anna").await.unwrap();
    store.tamper(|server| server.restore(old));
    store.new_process();
    world.dispatch_one(&other, "another").await;
    let is_back = async || pause_of(&other, "key").await == Some(("anna".into(), "db moves".into()));
    until("the pause to be back", is_back).await;
    assert_eq!((world.recorder.starts_of("key"), world.recorder.is_running("key")), (1, false));
    other.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    world.assert_clean();
}

/// The payload of a job that rests is with the store alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_job_goes_with_the_data_and_is_counted() {
    let world = World::on_redis().with_ttl(TTL);
    let node = world.node_with("a", 1).await;
    for key in ["key", "runs"] {
        world.dispatch_one(&node, key).await;
    }
    node.operate().pause("key", "db moves").await.unwrap();
    let (seen, text) = (world.inspector().await, "1 gone");
    world.wipe();
    world.dispatch_one(&node, "another").await;
    noted(&seen, text, |event| event.kind == EventKind::Reported && event.text == text).await;
    assert!(node.inspect().job("key").await.unwrap().is_none());
    assert_eq!((world.recorder.starts_of("key"), world.recorder.starts_of("runs")), (1, 1));
    world.dispatch_one(&node, "key").await;
    world.assert_clean();
}

async fn a_job_that_waits_is_paused_and_its_dispatcher_told(world: World) {
    let node = world.node("a").await;
    world.history().submitted("key");
    let ticket = node.submit(("key", "payload of key")).await.unwrap();
    node.operate().pause("key", "not yet").await.unwrap();
    let waited = node.wait(&ticket).await;
    assert!(matches!(waited, Err(DispatchError::Paused)), "{waited:?}");
    world.add_worker(&node).await;
    node.operate().resume("key").await.unwrap();
    runs(&world, "key", 1).await;
    node.wait(&ticket).await.unwrap();
    world.assert_clean();
}

async fn a_paused_job_is_as_its_plan_wants_it(world: World) {
    let node = world.node_with("a", 1).await;
    let planned = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = planned.clone();
    let planner = move |_: Tick| {
        let count = count.clone();
        async move {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let job = tenure_pool::JobSpec::new("key", "payload of key");
            Ok::<_, tenure_pool::BoxError>(Plan::exactly([job]))
        }
    };
    world.history().submitted("key");
    let schedule = node.schedule("plan", planner, Duration::from_millis(100)).await.unwrap();
    runs(&world, "key", 1).await;
    node.operate().pause("key", "x").await.unwrap();
    let before = planned.load(std::sync::atomic::Ordering::SeqCst);
    until("three more plans", async || planned.load(std::sync::atomic::Ordering::SeqCst) >= before + 3).await;
    assert!(pause_of(&node, "key").await.is_some());
    assert_eq!(world.recorder.starts_of("key"), 1);
    node.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    schedule.end().await.unwrap();
}

async fn a_pause_may_be_repeated_and_so_may_a_resume(world: World) {
    let (node, other) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch_one(&node, "key").await;
    node.operate().resume("key").await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1, "nobody has paused it");
    let both = tokio::join!(
        node.operate().pause("key", "one").into_future(),
        other.operate().pause("key", "one").into_future()
    );
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    other.operate().pause("key", "another").await.unwrap();
    assert_eq!(pause_of(&node, "key").await.unwrap().1, "one");
    assert_eq!(world.recorder.stops("key"), [StopReason::Paused]);
    let both =
        tokio::join!(node.operate().resume("key").into_future(), other.operate().resume("key").into_future());
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    runs(&world, "key", 2).await;
    world.assert_clean();
}

async fn a_paused_job_is_not_retried_by_others(world: World) {
    let node = world.node_with("a", 1).await;
    for key in ["paused", "parked"] {
        world.dispatch_one(&node, key).await;
    }
    node.operate().pause("paused", "x").await.unwrap();
    node.operate().park("parked", "x").await.unwrap();
    assert!(matches!(node.operate().unpark("paused").await, Err(Error::Paused(_))));
    for refused in [
        node.operate().retry("paused"),
        node.operate().bounce("paused"),
        node.operate().restart("paused"),
        node.operate().park("paused", ""),
    ] {
        assert!(matches!(refused.await, Err(Error::Paused(_))));
    }
    assert!(matches!(node.operate().resume("parked").await, Err(Error::Parked(_))));
    let unparked = node.operate().unpark_all().await.unwrap();
    assert_eq!((unparked.jobs, unparked.more), (1, false));
    runs(&world, "parked", 2).await;
    assert!(pause_of(&node, "paused").await.is_some());
    node.operate().park("parked", "x").await.unwrap();
    node.operate().pause("parked", "now for good").await.unwrap();
    assert_eq!(pause_of(&node, "parked").await.unwrap().1, "now for good");
}

async fn what_cannot_be_paused_says_so(world: World) {
    let node = world.node_with("a", 1).await;
    assert!(matches!(node.operate().pause("", "x").await, Err(Error::Name(_))));
    assert!(matches!(
        node.operate().pause("key", "x".repeat(1_023)).await,
        Err(Error::TooLong { max: 1_024, .. })
    ));
    for by in ["", "a b", "a|b"] {
        assert!(matches!(node.operate().pause("key", "x").by(by).await, Err(Error::Setting(_))), "{by}");
    }
    assert!(matches!(node.operate().pause("key", "x").await, Err(Error::JobNotFound(_))));
    assert!(matches!(node.operate().resume("key").await, Err(Error::JobNotFound(_))));
    world.dispatch_one(&node, "key").await;
    node.operate().pause("key", "x").await.unwrap();
    world.stop(&node, "key").await;
    assert!(matches!(node.operate().resume("key").await, Err(Error::JobNotFound(_))));
}

async fn every_shard_pauses_its_jobs(world: World) {
    let world = world.with_shards(3);
    let node = world.node_with("a", 2).await;
    let keys = world.dispatch(&node, 9).await;
    for key in &keys {
        node.operate().pause(key.as_str(), "all of them").await.unwrap();
    }
    assert!(node.inspect().parked().await.unwrap().iter().filter(|job| job.paused.is_some()).count() == 9);
    for key in &keys {
        node.operate().resume(key.as_str()).await.unwrap();
        runs(&world, key, 2).await;
    }
    world.assert_clean();
}

/// When the pause of the job is over.
async fn end_of(node: &Node, key: &str) -> Option<SystemTime> {
    node.inspect().job(key).await.unwrap().unwrap().paused.unwrap().until
}

async fn a_pause_with_an_end_is_over_by_itself(world: World) {
    let node = world.node_running("a", "key").await;
    let seen = world.inspector().await;
    node.operate().pause("key", "ticket 17").by("anna").lasting(Duration::from_secs(3_600)).await.unwrap();
    assert!(end_of(&node, "key").await.unwrap() > world.now() + Duration::from_secs(3_000));
    let explained = node.inspect().explain("key").await.unwrap();
    assert!(explained.due.unwrap() > Duration::from_secs(3_000), "{explained:?}");
    assert!(explained.to_string().contains("it goes on by itself in "), "{explained}");
    node.operate().resume("key").await.unwrap();
    runs(&world, "key", 2).await;
    node.operate().pause("key", "ticket 17").by("anna").lasting(Duration::from_millis(100)).await.unwrap();
    runs(&world, "key", 3).await;
    let job = node.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.paused, job.attempts, job.why.map(|why| why.cause)), (None, 1, Some(Cause::PauseOver)));
    let text = "pause by anna for 100ms: ticket 17";
    noted(&seen, text, |event| event.kind == EventKind::Asked && event.text == text).await;
    world.assert_clean();
}

async fn a_pause_ends_though_all_nodes_were_started_anew(world: World) {
    let node = world.node_running("a", "key").await;
    node.operate().pause("key", "x").lasting(Duration::from_millis(500)).await.unwrap();
    node.close().await.unwrap();
    let next = world.node_with("b", 1).await;
    runs(&world, "key", 2).await;
    let job = next.inspect().job("key").await.unwrap().unwrap();
    assert_eq!(job.why.map(|why| why.cause), Some(Cause::PauseOver));
}

async fn a_longer_pause_takes_the_place_of_a_shorter_one(world: World) {
    let (hour, node) = (Duration::from_secs(3_600), world.node_with("a", 1).await);
    world.dispatch_one(&node, "key").await;
    node.operate().pause("key", "short").lasting(hour).await.unwrap();
    let first = end_of(&node, "key").await.unwrap();
    node.operate().pause("key", "shorter").lasting(hour / 2).await.unwrap();
    assert_eq!(
        (end_of(&node, "key").await, pause_of(&node, "key").await.unwrap().1),
        (Some(first), "short".into())
    );
    node.operate().pause("key", "long").by("ben").lasting(hour * 2).await.unwrap();
    assert!(end_of(&node, "key").await.unwrap() > first + hour / 2);
    assert_eq!(pause_of(&node, "key").await, Some(("ben".into(), "long".into())));
    node.operate().pause("key", "for good").await.unwrap();
    assert_eq!(
        (end_of(&node, "key").await, pause_of(&node, "key").await.unwrap().1),
        (None, "for good".into())
    );
    node.operate().pause("key", "short").lasting(hour).await.unwrap();
    assert_eq!(end_of(&node, "key").await, None);
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn only_a_pause_has_an_end(world: World) {
    let node = world.node_running("a", "key").await;
    let day = Duration::from_secs(86_400);
    for refused in [
        node.operate().park("key", "x").lasting(day),
        node.operate().bounce("key").lasting(day),
        node.operate().pause("key", "x").lasting(Duration::ZERO),
        node.operate().pause("key", "x").lasting(day * 1_001),
        node.operate().pause("key", "x").lasting(Duration::MAX),
    ] {
        let refused = refused.await;
        assert!(matches!(&refused, Err(Error::Setting(setting)) if setting.name == "for"), "{refused:?}");
    }
    assert!(world.recorder.is_running("key"));
}
