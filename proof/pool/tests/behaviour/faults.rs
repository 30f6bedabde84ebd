//! Handlers that hang, panic, refuse, block or will not end: each hurts its own key, and nothing else.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use tenure_pool::{
    BoxError, DispatchError, Job, JobHandler, JobState, Node, NodeBuilder, Settings, Start, StopReason,
};
use tenure_protocol::model::id::JobKey;

use crate::one_thread::OneThread;
use crate::recorder::{Act, Recorder, Release};
use crate::world::{SHORT, World, held_by, on_both_stores, until, workers_on};

on_both_stores!(
    a_start_that_hangs_delays_no_other_key,
    a_slow_start_delays_no_other_start_stop_or_notification,
    a_stop_that_hangs_delays_no_other_key,
    a_start_that_panics_is_reported_and_its_worker_lives,
    a_start_that_fails_is_reported_and_its_key_is_free,
    a_notification_that_panics_costs_only_itself,
    a_refused_notification_counts_and_the_rest_is_heard,
    a_body_that_panics_ends_its_job_and_its_worker_lives,
    a_stop_that_panics_ends_its_job_and_its_worker_lives,
    a_future_that_panics_when_it_is_dropped_hurts_only_its_key,
    a_refused_job_goes_to_the_next_worker_with_its_payload,
    a_refused_job_is_tried_again_by_its_only_worker,
    a_job_that_ends_by_itself_is_gone,
    a_handler_that_blocks_its_thread_hurts_only_its_key in real_time,
    a_handler_that_blocks_the_only_thread_costs_no_lease in real_time,
    a_handler_that_will_not_end_keeps_its_job_and_its_worker in real_time,
);

/// A worker that cannot join again, because its handler does not end, must not lose its lease to a busy machine.
const TTL: Duration = Duration::from_secs(4);

/// Dispatches, notifies and stops a job that is not in trouble.
async fn assert_at_ease(world: &World, node: &Node, key: &str) {
    world.dispatch_one(node, key).await;
    node.notify(key, "hello").await.unwrap();
    until("the notification", async || world.recorder.notes(key) == ["hello"]).await;
    world.stop(node, key).await;
    until("the stop", async || !world.recorder.is_running(key)).await;
}

/// A handler that does this with one key, and runs the others.
async fn acting(world: &World, node: &Node, trouble: &'static str, act: Act) {
    let handler =
        world.recorder.acting(move |job| if *job.key() == trouble { act.clone() } else { Act::Run });
    node.add_worker(handler).await.unwrap();
}

fn impatient(builder: NodeBuilder) -> NodeBuilder {
    builder.start_timeout(Duration::from_secs(1)).stop_timeout(SHORT)
}

async fn a_start_that_hangs_delays_no_other_key(world: World) {
    let node = impatient(world.builder("a")).start_permits(2).join().await.unwrap();
    acting(&world, &node, "hangs", Act::HangStart).await;
    node.submit(("hangs", "")).await.unwrap();
    until("the start to hang", async || world.recorder.is_running("hangs")).await;
    assert_at_ease(&world, &node, "other").await;
    // Cancelled, aborted, given back, and retried.
    until("the start to be tried again", async || world.recorder.starts_of("hangs") > 1).await;
    world.stop(&node, "hangs").await;
    until("the hung job to go", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    world.assert_clean_at_end();
}

async fn a_slow_start_delays_no_other_start_stop_or_notification(world: World) {
    let node = world.node("a").await;
    let told = Arc::new(tokio::sync::Notify::new());
    acting(&world, &node, "slow", Act::StartWhenTold(told.clone())).await;
    let slow = node.submit(("slow", "")).await.unwrap();
    until("the start to be under way", async || world.recorder.is_running("slow")).await;
    for i in 0..20 {
        assert_at_ease(&world, &node, &format!("other-{i}")).await;
    }
    told.notify_one();
    node.wait(&slow).await.unwrap();
    assert_eq!(world.recorder.starts_of("slow"), 1, "it was under way all the time");
    node.notify("slow", "hello").await.unwrap();
    until("the notification", async || world.recorder.notes("slow") == ["hello"]).await;
    world.assert_clean();
}

async fn a_stop_that_hangs_delays_no_other_key(world: World) {
    let node = world.builder("a").stop_timeout(Duration::from_secs(1)).join().await.unwrap();
    acting(&world, &node, "hangs", Act::HangStop).await;
    world.dispatch_one(&node, "hangs").await;
    world.stop(&node, "hangs").await;
    assert_eq!(node.inspect().job("hangs").await.unwrap().unwrap().state, JobState::Stopping);
    assert_at_ease(&world, &node, "other").await;
    until("the hung stop to be aborted", async || !world.recorder.is_running("hangs")).await;
    until("the hung job to go", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    world.assert_clean_at_end();
}

async fn a_start_that_panics_is_reported_and_its_worker_lives(world: World) {
    let node = world.node("a").await;
    acting(&world, &node, "panics", Act::Panic("no feed today")).await;
    match node.dispatch(("panics", "")).await {
        Err(DispatchError::StartFailed(text)) => assert!(text.contains("no feed today"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(node.inspect().job("panics").await.unwrap(), None);
    assert_at_ease(&world, &node, "other").await;
}

async fn a_start_that_fails_is_reported_and_its_key_is_free(world: World) {
    let node = world.node("a").await;
    acting(&world, &node, "fails", Act::Fail("bad credentials")).await;
    for _ in 0..2 {
        match node.dispatch(("fails", "")).await {
            Err(DispatchError::StartFailed(text)) => assert_eq!(text, "bad credentials"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.recorder.starts_of("fails"), 2);
    assert_at_ease(&world, &node, "other").await;
}

async fn a_notification_that_panics_costs_only_itself(world: World) {
    let node = world.node("a").await;
    acting(&world, &node, "does nothing", Act::Hold).await;
    for key in ["runs", "does nothing"] {
        world.dispatch_one(&node, key).await;
        for body in ["before", "panic", "after"] {
            node.notify(key, body).await.unwrap();
        }
        until("what follows", async || world.recorder.notes(key) == ["before", "after"]).await;
    }
    assert_at_ease(&world, &node, "other").await;
    for key in ["runs", "does nothing"] {
        assert_eq!(world.recorder.starts_of(key), 1);
    }
    world.assert_clean();
}

async fn a_refused_notification_counts_and_the_rest_is_heard(world: World) {
    let node = world.node("a").await;
    let told = Arc::new(tokio::sync::Notify::new());
    acting(&world, &node, "key", Act::StartWhenTold(told.clone())).await;
    let submitted = node.submit(("key", "")).await.unwrap();
    until("the start to be under way", async || world.recorder.is_running("key")).await;
    // All of them wait when the job has started, so they are delivered together.
    for body in ["before", "refuse", "panic", "refuse", "after"] {
        node.notify("key", body).await.unwrap();
    }
    told.notify_one();
    node.wait(&submitted).await.unwrap();
    node.notify("key", "last").await.unwrap();
    let heard = ["before", "refuse", "refuse", "after", "last"];
    until("what follows", async || {
        let notes = world.recorder.notes("key");
        if notes.len() >= heard.len() { Ok(()) } else { Err(notes) }
    })
    .await;
    world.stop(&node, "key").await;
    until("the job to end", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    assert_eq!(world.recorder.notes("key"), heard, "each once, in their order");
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_body_that_panics_ends_its_job_and_its_worker_lives(world: World) {
    let node = world.node("a").await;
    acting(&world, &node, "panics", Act::Body(|_| async { panic!("as it was told") }.boxed())).await;
    node.dispatch(("panics", "")).await.unwrap();
    until("the job to be gone", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    assert_at_ease(&world, &node, "other").await;
    assert_eq!(world.recorder.starts_of("panics"), 1);
}

/// Panics in unusual places.
struct Bomb {
    ends: bool,
}

impl Future for Bomb {
    type Output = Result<(), BoxError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.ends { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "as it was told");
    }
}

/// Handles one key differently from the others.
struct Rigged {
    others: Recorder,
}

impl JobHandler for Rigged {
    async fn start(&self, job: Job) -> Start {
        match job.key().to_string().as_str() {
            "panics in stop" => Start::Started,
            "panics when dropped" => Start::Running(Box::pin(Bomb { ends: true })),
            "panics when aborted" => Start::Running(Box::pin(Bomb { ends: false })),
            _ => self.others.start(job).await,
        }
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        assert!(*job.key() != "panics in stop", "as it was told");
        self.others.stop(job, why).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.others.notify(job, body).await
    }
}

async fn a_stop_that_panics_ends_its_job_and_its_worker_lives(world: World) {
    let node = world.node("a").await;
    node.add_worker(Rigged { others: world.recorder.clone() }).await.unwrap();
    node.dispatch(("panics in stop", "")).await.unwrap();
    node.stop_job("panics in stop").await.unwrap();
    until("the job to be gone", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    assert_at_ease(&world, &node, "other").await;
}

async fn a_future_that_panics_when_it_is_dropped_hurts_only_its_key(world: World) {
    let node = impatient(world.builder("a")).join().await.unwrap();
    node.add_worker(Rigged { others: world.recorder.clone() }).await.unwrap();
    node.dispatch(("panics when dropped", "")).await.unwrap();
    node.dispatch(("panics when aborted", "")).await.unwrap();
    node.stop_job("panics when aborted").await.unwrap();
    until("the jobs to be gone", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    assert_at_ease(&world, &node, "other").await;
}

async fn a_refused_job_goes_to_the_next_worker_with_its_payload(world: World) {
    let ttl = world.ttl();
    let settings = Settings { worker_ttl: ttl, join_settle: SHORT, strikes: 2, ..Settings::default() };
    let build = |name| world.builder(name).settings(settings.clone());
    let (a, b) = (build("a").join().await.unwrap(), build("b").join().await.unwrap());
    let refusing = a.add_worker(world.recorder.acting(|_| Act::Refuse(SHORT))).await.unwrap();
    until("the first to be up", async || refusing.info().is_some_and(|i| i.slot.is_some())).await;
    world.add_worker(&b).await;
    for i in 0..10 {
        world.dispatch_one(&a, &format!("job-{i}")).await;
    }
    let mut refused = 0;
    for (key, starts) in world.recorder.starts() {
        assert!(starts == 1 || starts == 3, "{key} was started {starts} times");
        refused += usize::from(starts == 3);
        let payloads = world.recorder.payloads(&key);
        assert!(payloads.iter().all(|payload| payload == &format!("payload of {key}")), "{key}");
    }
    assert!(refused > 0, "some keys belong to the one that refuses");
    for held in world.holders(&b).await.into_values() {
        assert_ne!(held.owner, refusing.id().unwrap().0);
    }
    world.assert_clean();
}

async fn a_refused_job_is_tried_again_by_its_only_worker(world: World) {
    let node = world.node("a").await;
    let refusals = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let handler = world.recorder.acting(move |_| {
        if refusals.fetch_add(1, Ordering::SeqCst) < 5 {
            Act::Refuse(Duration::from_millis(10))
        } else {
            Act::Run
        }
    });
    node.add_worker(handler).await.unwrap();
    world.dispatch_one(&node, "key").await;
    assert_eq!(world.recorder.starts_of("key"), 6);
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().attempts, 1, "a refusal is no attempt");
    world.assert_clean();
}

async fn a_job_that_ends_by_itself_is_gone(world: World) {
    let node = world.node("a").await;
    let handler = world.recorder.acting(|job| match job.key().to_string().as_str() {
        "ends" => Act::End,
        "cancels itself" => Act::CancelItself,
        _ => Act::Run,
    });
    node.add_worker(handler).await.unwrap();
    for key in ["ends", "cancels itself"] {
        node.dispatch((key, "")).await.unwrap();
        until("the job to be gone", async || node.inspect().jobs().await.unwrap().is_empty()).await;
        assert_eq!(world.recorder.starts_of(key), 1);
    }
    assert_at_ease(&world, &node, "other").await;
}

async fn a_handler_that_blocks_its_thread_hurts_only_its_key(world: World) {
    let world = world.with_ttl(TTL);
    let node = world.node("a").await;
    let released = Arc::new(AtomicBool::new(false));
    let release = Release(released.clone());
    acting(&world, &node, "blocks", Act::Block(released)).await;
    let blocked = node.submit(("blocks", "")).await.unwrap();
    until("the thread to be blocked", async || world.recorder.is_running("blocks")).await;
    let beats = node.inspect().workers().await.unwrap()[0].id;
    let since = tokio::time::Instant::now();
    let mut rounds = 0;
    while since.elapsed() < world.ttl() * 2 {
        assert_at_ease(&world, &node, &format!("other-{rounds}")).await;
        rounds += 1;
    }
    assert_eq!(node.inspect().workers().await.unwrap()[0].id, beats, "the lease went on");
    drop(release);
    node.wait(&blocked).await.unwrap();
    assert_eq!(world.recorder.starts_of("blocks"), 1);
    world.stop(&node, "blocks").await;
    until("the job to end", async || node.inspect().jobs().await.unwrap().is_empty()).await;
}

/// Runs jobs as usual, but keeps its thread after the notification `block`.
struct BlocksWhenTold {
    others: Recorder,
    released: Arc<AtomicBool>,
}

impl JobHandler for BlocksWhenTold {
    async fn start(&self, job: Job) -> Start {
        self.others.start(job).await
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.others.stop(job, why).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        while body == "block" && !self.released.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.others.notify(job, body).await
    }
}

async fn a_handler_that_blocks_the_only_thread_costs_no_lease(world: World) {
    let world = world.with_ttl(TTL);
    let home = OneThread::start();
    let released = Arc::new(AtomicBool::new(false));
    let release = Release(released.clone());
    let a = home.runtime.spawn(world.builder("a").join()).await.unwrap().unwrap();
    a.add_worker(BlocksWhenTold { others: world.recorder.clone(), released }).await.unwrap();
    until("its worker to be up", async || {
        a.inspect().workers().await.unwrap().iter().all(|w| w.slot.is_some())
    })
    .await;
    let b = world.node_with("b", 1).await;
    let (keys, before) = world.dispatch_placed(&b, 20).await;
    let (on_a, on_b) = (held_by(&before, &workers_on(&a).await), held_by(&before, &workers_on(&b).await));
    let [blocks, waits, ..] = &on_a[..] else { panic!("{on_a:?}") };

    b.notify(blocks.as_str(), "block").await.unwrap();
    until("the job to be named", async || {
        let blocked = a.health().blocked_jobs;
        if blocked.iter().any(|job| job.key.to_string() == *blocks) { Ok(()) } else { Err(blocked) }
    })
    .await;
    b.notify(waits.as_str(), "hello").await.unwrap();
    let since = tokio::time::Instant::now();
    let mut heard = Vec::new();
    while since.elapsed() < TTL * 2 {
        heard.push(format!("round {}", heard.len()));
        b.notify(on_b[0].as_str(), heard[heard.len() - 1].clone()).await.unwrap();
        until("the other node's job to hear", async || world.recorder.notes(&on_b[0]) == heard).await;
        let health = a.health();
        assert!(health.is_healthy() && health.engine_idle < TTL, "{health:?}");
        assert_eq!(world.holders(&b).await, before, "nothing moves");
    }
    assert_eq!(world.recorder.notes(waits), Vec::<String>::new(), "its thread is blocked");

    drop(release);
    until("what was said meanwhile", async || world.recorder.notes(waits) == ["hello"]).await;
    until("no job to be named", async || a.health().blocked_jobs.is_empty()).await;
    for key in &keys {
        assert_eq!(world.recorder.starts_of(key), 1, "{key}");
    }
    world.assert_clean();
}

async fn a_handler_that_will_not_end_keeps_its_job_and_its_worker(world: World) {
    let world = world.with_ttl(TTL);
    let (a, b) = (impatient(world.builder("a")).join().await.unwrap(), world.node("b").await);
    let released = Arc::new(AtomicBool::new(false));
    let release = Release(released.clone());
    acting(&world, &a, "stays", Act::Block(released)).await;
    for key in ["stays", "goes"] {
        a.submit((key, "")).await.unwrap();
        until("the job to run", async || world.recorder.is_running(key)).await;
    }
    world.add_worker(&b).await;
    // Long enough for the node to give up the abort, and for two leases.
    let budget = TTL * 2 + Duration::from_secs(1);
    let report = a.close_within(budget).await.unwrap();
    assert_eq!(report.left, [JobKey::new("stays").unwrap()]);
    assert_eq!(world.recorder.starts_of("stays"), 1, "nobody else runs it");
    assert!(
        a.inspect().workers().await.unwrap().iter().any(|worker| worker.node == "a"),
        "its worker has kept its lease"
    );
    until("the other job to have moved", async || {
        let (job, own) = (b.inspect().job("goes").await.unwrap(), workers_on(&b).await);
        job.and_then(|job| job.owner).is_some_and(|owner| own.contains(&owner.0))
    })
    .await;
    drop(release);
    assert!(a.close().await.unwrap().complete);
    until("the job to move", async || world.recorder.starts_of("stays") == 2).await;
    world.assert_clean();
}
