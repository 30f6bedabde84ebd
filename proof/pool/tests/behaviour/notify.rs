//! Notifications: kept with the job, in order, across owners, up to a bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tenure_pool::job::NotYet;
use tenure_pool::{
    BoxError, DispatchError, Error, Job, JobHandler, JobSpec, RestartPolicy, Settings, Start, StopReason, run,
};

use crate::recorder::{Act, SlowEnd};
use crate::world::{SHORT, World, handler_with, on_both_stores, until};

on_both_stores!(
    notifications_keep_their_order_over_a_hand_over,
    notifications_outlast_the_crash_of_their_jobs_owner,
    notifications_wait_for_a_job_that_nobody_runs_yet,
    the_bound_of_waiting_notifications_holds,
    notifications_that_a_future_never_took_go_to_the_next_owner,
    a_running_future_that_takes_nothing_can_still_end,
    a_notification_that_panics_at_once_leaves_its_job_running,
    a_notification_that_fails_its_job_comes_once,
    a_job_that_is_to_end_hears_no_more,
    a_notification_that_hangs_does_not_hide_the_end_of_its_job,
    a_job_whose_notification_hangs_is_handed_off_and_stopped,
    a_refused_notification_comes_again_before_all_later_ones,
    a_refused_notification_goes_to_the_next_owner,
    a_message_starts_its_job_and_is_its_first,
    many_messages_to_an_absent_key_start_one_job,
    a_message_to_a_job_that_is_there_starts_nothing,
    a_message_waits_for_the_end_of_a_job_that_stops,
    a_parked_job_keeps_its_messages,
    a_message_with_another_job_to_start_is_refused,
    a_full_pool_neither_keeps_nor_starts,
    a_message_is_kept_before_any_worker_is_there,
    a_pool_of_shards_starts_jobs_for_messages,
);

/// The bodies, in the order of their first arrival.
fn first_deliveries(world: &World, key: &str) -> Vec<String> {
    let mut first = Vec::new();
    for note in world.recorder.notes(key) {
        if !first.contains(&note) {
            first.push(note);
        }
    }
    first
}

async fn notifications_keep_their_order_over_a_hand_over(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch_one(&a, "key").await;
    let bodies: Vec<_> = (0..200).map(|i| i.to_string()).collect();
    let sender = tokio::spawn({
        let (b, bodies) = (b.clone(), bodies.clone());
        async move {
            for body in bodies {
                while let Err(Error::NotifyFull(_)) = b.notify("key", body.clone()).await {
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    until("some to arrive", async || world.recorder.notes("key").len() > 20).await;
    world.add_worker(&b).await;
    assert!(a.close().await.unwrap().complete);
    sender.await.unwrap();
    until("the last to arrive", async || world.recorder.notes("key").iter().any(|note| note == "199")).await;
    assert_eq!(first_deliveries(&world, "key"), bodies);
    until("the hand-over", async || world.recorder.starts_of("key") == 2).await;
    world.assert_clean();
}

async fn notifications_outlast_the_crash_of_their_jobs_owner(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (a, b) = (world.node("a").await, world.node("b").await);
    // Its first owner takes one notification, and is lost with it.
    let slow = Listener { waits_for_the_end: true, ..Listener::default() };
    a.add_worker(slow.clone()).await.unwrap();
    b.dispatch(("key", "")).await.unwrap();
    let bodies: Vec<_> = (0..5).map(|i| i.to_string()).collect();
    for body in &bodies {
        b.notify("key", body.clone()).await.unwrap();
    }
    until("the first", async || slow.heard.lock().unwrap().len() == 1).await;
    let next = Listener::default();
    a.abandon();
    a.closed().await;
    b.notify("key", "after the crash").await.unwrap();
    b.add_worker(next.clone()).await.unwrap();
    let all: Vec<_> = bodies.iter().map(String::as_str).chain(["after the crash"]).collect();
    until("all of them, in order", async || *next.heard.lock().unwrap() == all).await;
}

async fn notifications_wait_for_a_job_that_nobody_runs_yet(world: World) {
    let node = world.node("a").await;
    node.submit(("key", "")).await.unwrap();
    for i in 0..20 {
        node.notify("key", i.to_string()).await.unwrap();
    }
    world.add_worker(&node).await;
    until("all to arrive", async || world.recorder.notes("key").len() == 20).await;
    assert_eq!(world.recorder.notes("key"), (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
}

async fn the_bound_of_waiting_notifications_holds(world: World) {
    let settings = Settings {
        worker_ttl: world.ttl(),
        join_settle: SHORT,
        notify_cap: 3,
        notify_bytes: 100,
        ..Settings::default()
    };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    for key in ["many", "long"] {
        node.submit((key, "")).await.unwrap();
    }
    for i in 0..3 {
        node.notify("many", i.to_string()).await.unwrap();
    }
    assert!(matches!(node.notify("many", "3").await, Err(Error::NotifyFull(_))));
    node.notify("long", "x".repeat(60)).await.unwrap();
    assert!(matches!(node.notify("long", "x".repeat(60)).await, Err(Error::NotifyFull(_))));
    let too_long = node.notify("long", "x".repeat(101)).await;
    assert!(matches!(too_long, Err(Error::TooLong { len: 101, max: 100, .. })), "{too_long:?}");
    world.add_worker(&node).await;
    until("what was kept", async || world.recorder.notes("many") == ["0", "1", "2"]).await;
    until("room again", async || node.notify("many", "3").await.is_ok()).await;
}

async fn notifications_that_a_future_never_took_go_to_the_next_owner(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let deaf = a.add_worker(tenure_pool::run(async |job: Job| {
        job.cancelled().await;
        Ok(())
    }));
    let deaf = deaf.await.unwrap();
    a.dispatch(("key", "")).await.unwrap();
    let bodies: Vec<_> = (0..5).map(|i| i.to_string()).collect();
    for body in &bodies {
        b.notify("key", body.clone()).await.unwrap();
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let handler = handler_with(heard.clone(), |heard, job| async move {
        loop {
            tokio::select! {
                () = job.cancelled() => return Ok(()),
                body = job.notified() => heard.lock().unwrap().push(body),
            }
        }
    });
    b.add_worker(handler).await.unwrap();
    deaf.drain().await.unwrap();
    until("all to arrive", async || *heard.lock().unwrap() == bodies).await;
}

async fn a_running_future_that_takes_nothing_can_still_end(world: World) {
    let node = world.node("a").await;
    let done = Arc::new(tokio::sync::Notify::new());
    let handler = handler_with(done.clone(), |done, _| async move {
        done.notified().await;
        Ok(())
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    node.notify("key", "nobody hears").await.unwrap();
    done.notify_one();
    until("the record to go", async || node.inspect().job("key").await.unwrap().is_none()).await;
}

/// Handles one body at a time, for as long as it is told.
#[derive(Clone, Default)]
struct Listener {
    heard: Arc<Mutex<Vec<Bytes>>>,
    first_panics: Arc<AtomicBool>,
    waits_for_the_end: bool,
}

impl JobHandler for Listener {
    async fn start(&self, _job: Job) -> Start {
        Start::Started
    }

    // Not an async function: it can panic before there is a future.
    #[allow(clippy::manual_async_fn)]
    fn notify(&self, job: &Job, body: Bytes) -> impl Future<Output = Result<(), BoxError>> + Send {
        assert!(!self.first_panics.swap(false, Ordering::AcqRel), "as it was told");
        self.heard.lock().unwrap().push(body);
        let (waits, job) = (self.waits_for_the_end, job.clone());
        async move {
            if waits {
                job.cancelled().await;
            }
            Ok(())
        }
    }
}

async fn a_notification_that_panics_at_once_leaves_its_job_running(world: World) {
    let node = world.node("a").await;
    let listener = Listener { first_panics: Arc::new(true.into()), ..Listener::default() };
    node.add_worker(listener.clone()).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    let token = node.inspect().job("key").await.unwrap().unwrap().token;
    for body in ["panics", "is heard"] {
        node.notify("key", body).await.unwrap();
    }
    until("the second", async || *listener.heard.lock().unwrap() == ["is heard"]).await;
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().token, token, "it was not started again");
}

async fn a_notification_that_fails_its_job_comes_once(world: World) {
    let node = world.builder("a").join().await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let parses = run(move |job: Job| {
        let heard = hears.clone();
        async move {
            loop {
                let body = job.notified().await;
                heard.lock().unwrap().push(body.clone());
                // With nothing awaited in between.
                std::str::from_utf8(&body)?.parse::<u32>()?;
            }
        }
    });
    node.add_worker(parses).await.unwrap();
    let job = JobSpec::new("k", "").restart(RestartPolicy::OnFailure);
    node.dispatch(job).await.unwrap();
    for body in ["1", "no number", "2", "3"] {
        node.notify("k", body).await.unwrap();
    }
    until("the last to be heard", async || heard.lock().unwrap().last().is_some_and(|body| body == "3"))
        .await;
    assert_eq!(*heard.lock().unwrap(), ["1", "no number", "2", "3"]);
}

async fn a_job_that_is_to_end_hears_no_more(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    // All of them are kept before the job starts, so they come at once.
    b.submit(("key", "")).await.unwrap();
    let bodies: Vec<_> = (0..5).map(|i| i.to_string()).collect();
    for body in &bodies {
        b.notify("key", body.clone()).await.unwrap();
    }
    let slow = Listener { waits_for_the_end: true, ..Listener::default() };
    let worker = a.add_worker(slow.clone()).await.unwrap();
    until("the first", async || *slow.heard.lock().unwrap() == bodies[..1]).await;
    let next = Listener::default();
    b.add_worker(next.clone()).await.unwrap();
    worker.drain().await.unwrap();
    until("the others", async || *next.heard.lock().unwrap() == bodies[1..]).await;
    assert_eq!(*slow.heard.lock().unwrap(), bodies[..1]);
}

/// Takes notifications, and never returns from one.
#[derive(Clone, Default)]
struct Hanging {
    /// The job is a future that ends when it is told to or cancelled.
    as_future: bool,
    told: Arc<tokio::sync::Notify>,
    heard: Arc<Mutex<Vec<String>>>,
    stopped: Arc<Mutex<Vec<StopReason>>>,
}

impl JobHandler for Hanging {
    async fn start(&self, job: Job) -> Start {
        if !self.as_future {
            return Start::Started;
        }
        let told = self.told.clone();
        Start::Running(Box::pin(async move {
            tokio::select! {
                () = told.notified() => {}
                () = job.cancelled() => {}
            }
            Ok(())
        }))
    }

    async fn notify(&self, job: &Job, _: Bytes) -> Result<(), BoxError> {
        self.heard.lock().unwrap().push(job.key().to_string());
        std::future::pending().await
    }

    async fn stop(&self, _: &Job, why: StopReason) -> Result<(), BoxError> {
        self.stopped.lock().unwrap().push(why);
        Ok(())
    }
}

async fn a_notification_that_hangs_does_not_hide_the_end_of_its_job(world: World) {
    let node = world.node("a").await;
    let hanging = Hanging { as_future: true, ..Hanging::default() };
    node.add_worker(hanging.clone()).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    node.notify("key", "hangs").await.unwrap();
    until("the notification", async || *hanging.heard.lock().unwrap() == ["key"]).await;
    hanging.told.notify_one();
    until("the record to go", async || node.inspect().job("key").await.unwrap().is_none()).await;
    assert_eq!(*hanging.stopped.lock().unwrap(), []);
}

async fn a_job_whose_notification_hangs_is_handed_off_and_stopped(world: World) {
    for as_future in [false, true] {
        let (a, b) = (world.node("a").await, world.node("b").await);
        let hanging = Hanging { as_future, ..Hanging::default() };
        let worker = a.add_worker(hanging.clone()).await.unwrap();
        for key in ["key", "other"] {
            b.dispatch((key, "")).await.unwrap();
            b.notify(key, "hangs").await.unwrap();
            until("the notification", async || hanging.heard.lock().unwrap().contains(&key.to_owned())).await;
        }
        b.stop_job("other").until_stopped().await.unwrap();
        assert_eq!(*hanging.stopped.lock().unwrap(), [StopReason::Stopped]);
        let next = Listener::default();
        b.add_worker(next.clone()).await.unwrap();
        worker.drain().await.unwrap();
        let hung = hanging.stopped.lock().unwrap().clone();
        assert!(matches!(hung[..], [_, StopReason::Draining | StopReason::Moved]), "{hung:?}");
        until("the next owner", async || *next.heard.lock().unwrap() == ["hangs"]).await;
        b.stop_job("key").until_stopped().await.unwrap();
        for node in [a, b] {
            node.close().await.unwrap();
        }
    }
}

/// Refuses each notification this often for now, and says what it was given and how often it had refused that.
#[derive(Clone)]
struct Refusing {
    times: u32,
    pause: Duration,
    as_future: bool,
    given: Arc<Mutex<Vec<(String, u32)>>>,
}

impl Refusing {
    fn new(times: u32, pause: Duration) -> Self {
        Self { times, pause, as_future: false, given: Arc::default() }
    }

    fn given(&self) -> Vec<(String, u32)> {
        self.given.lock().unwrap().clone()
    }
}

impl JobHandler for Refusing {
    async fn start(&self, job: Job) -> Start {
        if !self.as_future {
            return Start::Started;
        }
        Start::Running(Box::pin(async move {
            job.cancelled().await;
            Ok(())
        }))
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        let body = String::from_utf8(body.to_vec())?;
        self.given.lock().unwrap().push((body, job.refusals()));
        if job.refusals() < self.times {
            return Err(NotYet::after(self.pause).because("the ledger is closed").into());
        }
        Ok(())
    }
}

async fn a_refused_notification_comes_again_before_all_later_ones(world: World) {
    for as_future in [false, true] {
        let node = world.node("a").await;
        let refusing = Refusing { as_future, ..Refusing::new(2, Duration::from_millis(30)) };
        node.add_worker(refusing.clone()).await.unwrap();
        node.dispatch(("key", "")).await.unwrap();
        for body in ["a", "b"] {
            node.notify("key", body).await.unwrap();
        }
        let each = |body: &str| (0..3).map(|refusals| (body.to_owned(), refusals)).collect::<Vec<_>>();
        let all = [each("a"), each("b")].concat();
        until("both, three times each", async || refusing.given() == all).await;
        until("none to wait", async || node.inspect().notifications("key").await.unwrap().is_empty()).await;
        node.stop_job("key").until_stopped().await.unwrap();
        node.close().await.unwrap();
    }
}

async fn a_refused_notification_goes_to_the_next_owner(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let refusing = Refusing::new(u32::MAX, Duration::from_secs(200));
    let worker = a.add_worker(refusing.clone()).await.unwrap();
    b.dispatch(("key", "")).await.unwrap();
    for body in ["a", "b"] {
        b.notify("key", body).await.unwrap();
    }
    until("the refusal", async || refusing.given().len() == 1).await;
    let next = Listener::default();
    b.add_worker(next.clone()).await.unwrap();
    worker.drain().await.unwrap();
    until("both, without the pause", async || *next.heard.lock().unwrap() == ["a", "b"]).await;
    assert_eq!(refusing.given(), [("a".to_owned(), 0)]);
}

async fn heard(world: &World, key: &str, bodies: &[&str]) {
    until("the messages", async || first_deliveries(world, key) == bodies).await;
}

async fn a_message_starts_its_job_and_is_its_first(world: World) {
    let (_worker, node) = (world.node_with("a", 1).await, world.node("b").await);
    node.notify("key", "one").or_start(("key", "payload")).await.unwrap();
    node.notify("key", "two").await.unwrap();
    heard(&world, "key", &["one", "two"]).await;
    assert_eq!(node.inspect().payload("key").await.unwrap().unwrap(), "payload");
    assert_eq!(world.recorder.starts_of("key"), 1);
    node.stop_job("key").until_stopped().await.unwrap();
    node.notify("key", "three").or_start(("key", "")).await.unwrap();
    heard(&world, "key", &["one", "two", "three"]).await;
    assert_eq!(world.recorder.starts_of("key"), 2);
}

async fn many_messages_to_an_absent_key_start_one_job(world: World) {
    let nodes = [world.node_with("a", 1).await, world.node_with("b", 1).await, world.node("c").await];
    let send = |i: usize| nodes[i % 3].notify("key", i.to_string()).or_start(("key", "")).into_future();
    for sent in join_all((0..60).map(send)).await {
        sent.unwrap();
    }
    until("all messages", async || first_deliveries(&world, "key").len() == 60).await;
    assert_eq!(world.recorder.starts_of("key"), 1);
    world.assert_clean();
}

async fn a_message_to_a_job_that_is_there_starts_nothing(world: World) {
    let node = world.node_running("a", "key").await;
    let before = node.inspect().payload("key").await.unwrap();
    for body in ["one", "two"] {
        node.notify("key", body).or_start(("key", "another payload")).await.unwrap();
    }
    heard(&world, "key", &["one", "two"]).await;
    assert_eq!((world.recorder.starts_of("key"), node.inspect().payload("key").await.unwrap()), (1, before));
}

async fn a_message_waits_for_the_end_of_a_job_that_stops(world: World) {
    let node = world.node("a").await;
    let slow = Arc::new(SlowEnd::default());
    let end = slow.clone();
    node.add_worker(world.recorder.acting(move |_| Act::EndWhenTold(end.clone()))).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    node.stop_job("key").await.unwrap();
    slow.asked.notified().await;
    let sent = tokio::spawn(node.notify("key", "one").or_start(("key", "")).into_future());
    assert!(matches!(node.notify("key", "to nobody").await, Err(Error::JobNotFound(_))));
    slow.told.notify_one();
    sent.await.unwrap().unwrap();
    heard(&world, "key", &["one"]).await;
    assert_eq!(world.recorder.starts_of("key"), 2);
    slow.told.notify_one();
}

async fn a_parked_job_keeps_its_messages(world: World) {
    let settings =
        Settings { max_attempts: 1, worker_ttl: world.ttl(), join_settle: SHORT, ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    let works = Arc::new(AtomicBool::new(false));
    let now = works.clone();
    let act = move |_: &Job| if now.load(Ordering::SeqCst) { Act::Run } else { Act::Fail("not yet") };
    node.add_worker(world.recorder.acting(act)).await.unwrap();
    node.submit(JobSpec::new("key", "").restart(RestartPolicy::Always)).await.unwrap();
    until("the job to be parked", async || !node.inspect().parked().await.unwrap().is_empty()).await;
    node.notify("key", "one").or_start(("key", "")).await.unwrap();
    assert_eq!(node.inspect().notifications("key").await.unwrap().len(), 1);
    works.store(true, Ordering::SeqCst);
    node.operate().unpark("key").await.unwrap();
    heard(&world, "key", &["one"]).await;
}

async fn a_message_with_another_job_to_start_is_refused(world: World) {
    let node = world.node("a").await;
    let too_long = vec![0; node.settings().payload_max as usize + 1];
    for job in [JobSpec::new("other", ""), JobSpec::new("key", "").id("order-17")] {
        let refused = node.notify("key", "x").or_start(job).await;
        assert!(matches!(refused, Err(Error::WrongStart { .. })), "{refused:?}");
    }
    for job in [JobSpec::new("", ""), JobSpec::new("key", too_long)] {
        let refused = node.notify("key", "x").or_start(job).await;
        assert!(matches!(refused, Err(Error::NotStarted(_))), "{refused:?}");
    }
    assert!(matches!(node.notify("", "x").or_start(("", "")).await, Err(Error::Name(_))));
    assert_eq!(node.inspect().jobs().await.unwrap(), []);
}

async fn a_full_pool_neither_keeps_nor_starts(world: World) {
    let settings =
        Settings { max_queued: 1, worker_ttl: world.ttl(), join_settle: SHORT, ..Settings::default() };
    let node = world.builder("a").settings(settings).join().await.unwrap();
    node.notify("first", "x").or_start(("first", "")).await.unwrap();
    let full = node.notify("second", "x").or_start(("second", "")).await;
    assert!(
        matches!(&full, Err(Error::NotStarted(why)) if matches!(**why, DispatchError::PoolFull)),
        "{full:?}"
    );
    assert!(node.inspect().job("second").await.unwrap().is_none());
    node.notify("first", "y").or_start(("first", "")).await.unwrap();
}

async fn a_message_is_kept_before_any_worker_is_there(world: World) {
    let node = world.node("a").await;
    for body in ["one", "two", "three"] {
        node.notify("key", body).or_start(("key", "")).await.unwrap();
    }
    world.add_worker(&node).await;
    heard(&world, "key", &["one", "two", "three"]).await;
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_pool_of_shards_starts_jobs_for_messages(world: World) {
    let world = world.with_shards(3);
    let node = world.node_with("a", 1).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        node.notify(key, key).or_start((key, "")).await.unwrap();
        heard(&world, key, &[key]).await;
    }
}
