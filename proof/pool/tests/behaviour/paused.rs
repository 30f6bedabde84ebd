//! Nodes in the paused time of a test, with the times to live that a fleet has.

use std::time::{Duration, UNIX_EPOCH};

use tenure_pool::inspect::Cause;
use tenure_pool::{DispatchError, Error, Job, JobHandler, MemoryStore, Node, RestartPolicy, Start};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A job that was begun: its node, its key, its attempt and its token.
type Begun = (String, String, u32, u64);

/// What is told next, within a day of the test's time.
async fn next<T>(heard: &mut mpsc::UnboundedReceiver<T>) -> Option<T> {
    tokio::time::timeout(DAY, heard.recv()).await.expect("it comes within a day")
}

async fn join(store: &MemoryStore, name: &str, told: &mpsc::UnboundedSender<Begun>) -> Node {
    let node = Node::builder("paused", store).name(name).assume_fresh(true).join().await.unwrap();
    let (name, told) = (name.to_owned(), told.clone());
    let handler = tenure_pool::run(move |job: Job| {
        let (name, told) = (name.clone(), told.clone());
        async move {
            told.send((name, job.key().to_string(), job.attempts(), job.token().0))?;
            if job.key().as_str() == Some("flaky") && job.attempts() < 7 {
                return Err("not yet".into());
            }
            job.cancelled().await;
            Ok(())
        }
    });
    node.add_worker(handler).await.unwrap();
    node
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_crashed_node_moves_within_its_time_to_live() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let store = MemoryStore::paused();
    let first = join(&store, "first", &told).await;
    first.dispatch(("a", "")).await.unwrap();
    assert_eq!(next(&mut heard).await.unwrap().0, "first");
    let second = join(&store, "second", &told).await;
    let crashed = Instant::now();
    first.abandon();
    let (node, key, attempt, _) = next(&mut heard).await.unwrap();
    assert_eq!((&*node, &*key, attempt), ("second", "a", 2));
    let gap = crashed.elapsed();
    assert!(gap >= 5 * SECOND && gap < 13 * SECOND, "the lease is 10 s: {gap:?}");
    second.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn attempts_wait_their_pauses_in_no_real_time() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let store = MemoryStore::paused();
    let (node, began) = (join(&store, "first", &told).await, Instant::now());
    node.dispatch(("flaky", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    for attempt in 1..=7 {
        assert_eq!(next(&mut heard).await.unwrap().2, attempt);
    }
    assert!(began.elapsed() > 30 * SECOND, "the pauses double: {:?}", began.elapsed());
    sleep(HOUR).await;
    assert!(heard.try_recv().is_err(), "the lease is renewed for an hour");
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_failed_twice_starts_when_its_worker_is_back() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let store = MemoryStore::paused();
    // It routes, and has no worker.
    let other = Node::builder("paused", &store).name("other").assume_fresh(true).join().await.unwrap();
    let first = join(&store, "first", &told).await;
    first.submit(("flaky", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    for attempt in 1..=3 {
        assert_eq!(next(&mut heard).await.unwrap().2, attempt);
    }
    first.close().await.unwrap();
    let why = async || other.inspect().job("flaky").await.unwrap().unwrap().why.map(|why| why.cause);
    while why().await != Some(Cause::NoWorker) {
        sleep(SECOND).await;
    }
    let back = Instant::now();
    let second = join(&store, "second", &told).await;
    assert_eq!(next(&mut heard).await.unwrap().0, "second");
    assert!(back.elapsed() < 5 * SECOND, "it waited for a worker, and not for a time: {:?}", back.elapsed());
    second.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_for_its_own_end_hears_so_at_once() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let store = MemoryStore::paused();
    let node = Node::builder("paused", &store).assume_fresh(true).join().await.unwrap();
    let own = node.clone();
    let handler = tenure_pool::run(move |job: Job| {
        let (node, told) = (own.clone(), told.clone());
        async move {
            if job.key().as_str() == Some("other") {
                job.cancelled().await;
                return Ok(());
            }
            let (ops, began) = (node.operate(), Instant::now());
            let refused = [
                ops.pause("acme", "").await,
                ops.park("acme", "").await,
                ops.restart("acme").await,
                ops.bounce("acme").await,
                node.stop_job("acme").until_stopped().await,
            ];
            told.send((refused, began.elapsed()))?;
            ops.pause("other", "of another job").await?;
            // It does not wait for a task of its own.
            tokio::spawn(async move { node.operate().pause("acme", "enough").await });
            job.cancelled().await;
            Ok(())
        }
    });
    node.submit(("other", "")).await.unwrap();
    node.submit(("acme", "")).await.unwrap();
    node.add_worker(handler).await.unwrap();
    let (refused, took) = next(&mut heard).await.unwrap();
    for answer in refused {
        assert!(matches!(&answer, Err(Error::OwnHandler(key)) if key.as_str() == Some("acme")), "{answer:?}");
    }
    assert!(took < SECOND, "{took:?}");
    while node.inspect().job("acme").await.unwrap().unwrap().paused.is_none() {
        sleep(SECOND).await;
    }
    node.close().await.unwrap();
}

/// Has no connection to start a job with.
struct Refused;

impl JobHandler for Refused {
    async fn start(&self, _: Job) -> Start {
        Start::Failed("connection refused".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_dispatch_says_the_last_error_and_the_next_try() {
    let store = MemoryStore::paused();
    let node = Node::builder("paused", &store).assume_fresh(true).join().await.unwrap();
    node.add_worker(Refused).await.unwrap();
    let job = node.dispatch(("acme", "")).restart(RestartPolicy::OnFailure);
    let late = job.deadline(5 * SECOND).await.unwrap_err();
    let DispatchError::Deadline { ticket, failure: Some(failure), .. } = &late else { panic!("{late}") };
    assert_eq!((failure.attempt, &*failure.error), (3, "connection refused"));
    assert!(failure.next_in.is_some_and(|left| left <= 4 * SECOND), "{failure:?}");
    assert!(
        late.to_string().contains("; attempt 3 failed: connection refused; the next one is in "),
        "{late}"
    );
    let waited = node.wait(ticket).deadline(SECOND).await.unwrap_err();
    let DispatchError::Deadline { failure: Some(failure), .. } = &waited else { panic!("{waited}") };
    assert!(failure.attempt >= 3, "{failure:?}");
    node.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_a_month_is_skipped_and_no_lease_ends() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let store = MemoryStore::paused();
    assert_eq!(store.now(), UNIX_EPOCH + Duration::from_secs(1_767_225_600));
    let node = join(&store, "first", &told).await;
    node.dispatch(("acme", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    node.dispatch(("other", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    let tokens = [next(&mut heard).await.unwrap().3, next(&mut heard).await.unwrap().3];
    node.operate().pause("acme", "until next month").lasting(30 * 24 * HOUR).await.unwrap();
    sleep(HOUR).await;
    assert!(heard.try_recv().is_err());
    let skipped = Instant::now();
    store.skip_to(store.now() + 30 * 24 * HOUR);
    let (_, key, _, token) = next(&mut heard).await.unwrap();
    assert!(key == "acme" && !tokens.contains(&token));
    assert!(skipped.elapsed() < 2 * SECOND, "a sweep sees that it is due: {:?}", skipped.elapsed());
    assert_eq!(
        node.inspect().job("other").await.unwrap().unwrap().token.0,
        tokens[1],
        "its lease has not ended"
    );
    node.close().await.unwrap();
}

/// What happens and when, in a runtime of its own: joins, moves, a crash, retries and a stop.
fn story() -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (told, mut heard) = mpsc::unbounded_channel();
        let (store, began, mut log) = (MemoryStore::paused(), Instant::now(), Vec::new());
        let first = join(&store, "first", &told).await;
        for key in ["a", "b", "c", "d", "flaky"] {
            first.dispatch((key, "")).restart(RestartPolicy::OnFailure).await.unwrap();
        }
        let second = join(&store, "second", &told).await;
        // Workers that settle in the same millisecond take their slots in any order.
        sleep(5 * SECOND).await;
        let third = join(&store, "third", &told).await;
        sleep(90 * SECOND).await;
        first.abandon();
        sleep(90 * SECOND).await;
        second.stop_job("a").until_stopped().await.unwrap();
        second.close().await.unwrap();
        third.close().await.unwrap();
        log.push(format!("closed after {:?}", began.elapsed()));
        while let Ok(begun) = heard.try_recv() {
            log.push(format!("{begun:?}"));
        }
        log
    })
}

#[test]
fn a_story_in_paused_time_is_the_same_each_time() {
    let first = story();
    assert!(first.len() > 10, "{first:?}");
    for _ in 0..5 {
        assert_eq!(story(), first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_shards_lives_in_paused_time() {
    let store = MemoryStore::paused();
    let (told, mut heard) = mpsc::unbounded_channel();
    let handler = move |job: Job| {
        let told = told.clone();
        async move {
            told.send(job.key().to_string())?;
            job.cancelled().await;
            Ok(())
        }
    };
    let node = Node::builder("shards", &store).shards(3).assume_fresh(true).join().await.unwrap();
    node.add_worker(tenure_pool::run(handler)).await.unwrap();
    for key in 0..20 {
        node.dispatch((format!("{key}"), "")).await.unwrap();
        next(&mut heard).await.unwrap();
    }
    node.operate().shutdown().await.unwrap();
    node.closed().await;
}
