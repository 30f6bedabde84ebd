//! The life of a consumer at its edges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tenure_sequence::{
    BoxError, Consumer, Delivery, Error, FileStore, MemoryProgress, Progress, Retry, Verdict,
};
use tenure_testing::{ChildProcess, eventually};

use crate::stores::Gated;
use crate::{PATIENCE, Shelf, by_hand, started, state};

fn nothing() -> impl Fn(Delivery<u64>) -> std::future::Ready<Result<(), BoxError>> + Send + Sync {
    |_| std::future::ready(Ok(()))
}

#[tokio::test]
async fn a_consumer_that_is_dropped_drops_its_jobs() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = dropped.clone();
    let builder = Consumer::builder(Shelf::with(1..=1), MemoryProgress::new());
    let consumer = started(builder, move |_: Delivery<u64>| {
        let dropped = Dropped(flag.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<Result<(), BoxError>>().await
        }
    })
    .await;
    consumer.settled().await;
    let other = consumer.clone();
    drop(consumer);
    assert_eq!(state(&other).await, "0# 1!", "a clone is left");
    drop(other);
    eventually(PATIENCE, "the job to be dropped", async || dropped.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn a_stop_before_the_start_ends_the_consumer() {
    let shelf = Shelf::with(1..=3);
    let consumer = Consumer::builder(shelf.clone(), MemoryProgress::new()).build(nothing()).unwrap();
    let stopped = consumer.stop().await.unwrap();
    assert_eq!((stopped.progress, stopped.unfinished, shelf.reads()), (0, 0, 0));
    assert!(matches!(consumer.start().await, Err(Error::Ended)));
    assert!(matches!(consumer.ready().await, Err(Error::Ended)));
}

#[tokio::test]
async fn a_stop_during_the_start_wins() {
    let (progress, gate) = Gated::new();
    let shelf = Shelf::with(1..=3);
    let consumer = Consumer::builder(shelf.clone(), progress).build(nothing()).unwrap();
    gate.close();
    let mut start = Box::pin(consumer.start());
    assert!((&mut start).now_or_never().is_none());
    consumer.stop().await.unwrap();
    gate.open();
    assert!(matches!(start.await, Err(Error::Ended)));
    assert_eq!((consumer.explain().verdict, shelf.reads()), (Verdict::Ended { error: None }, 0));
}

#[tokio::test]
async fn a_start_that_is_dropped_may_be_made_again() {
    let (progress, gate) = Gated::new();
    let consumer = Consumer::builder(Shelf::with(1..=3), progress).build(nothing()).unwrap();
    gate.close();
    let mut start = Box::pin(consumer.start());
    assert!((&mut start).now_or_never().is_none());
    assert!(matches!(consumer.start().await, Err(Error::AlreadyStarted)));
    drop(start);
    gate.open();
    consumer.start().await.unwrap();
    assert_eq!(state(&consumer).await, "3#");
}

#[tokio::test]
async fn a_save_under_way_is_followed_by_the_newest_only() {
    let (progress, gate) = Gated::new();
    let builder = Consumer::builder(Shelf::with(1..=9), progress.clone()).concurrency(9);
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    consumer.settled().await;
    gate.close();
    finisher.finish(1).await.unwrap();
    gate.waited_for().await;
    for index in 2..=9 {
        finisher.finish(index).await.unwrap();
    }
    assert_eq!((consumer.progress(), consumer.stored()), (9, 0));
    gate.open();
    consumer.settled().await;
    assert_eq!((consumer.stored(), progress.saves()), (9, 2));
}

#[tokio::test]
async fn a_notification_that_panics_ends_the_consumer() {
    let tell = |index| assert!(index != 2, "no");
    for which in ["before", "in_order", "after"] {
        let builder = Consumer::builder(Shelf::with(1..=3), MemoryProgress::new()).concurrency(1);
        let builder = match which {
            "before" => builder.before(tell),
            "in_order" => builder.in_order(tell),
            _ => builder.after(tell),
        };
        let consumer = started(builder, nothing()).await;
        let error = consumer.ended().await.unwrap_err();
        assert!(
            matches!(&error, Error::Panicked { who: "a notification", text } if &**text == "no"),
            "{error:?}"
        );
        assert_eq!(consumer.progress() >= 2, which != "before", "{which}");
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused_by_name() {
    let builder = || Consumer::builder(Shelf::default(), MemoryProgress::new());
    let (none, long) = (Duration::ZERO, Duration::MAX);
    for (name, builder) in [
        ("name", builder().name("")),
        ("name", builder().name("x".repeat(257))),
        ("concurrency", builder().concurrency(0)),
        ("concurrency", builder().concurrency(65_537)),
        ("deadline", builder().deadline(none)),
        ("deadline", builder().deadline(long)),
        ("retry", builder().retry(Retry::forever(Duration::from_secs(2), Duration::from_secs(1)))),
        ("retry", builder().retry(Retry::never().attempts(0))),
        ("grace", builder().grace(long)),
        ("call_deadline", builder().call_deadline(none)),
        ("stuck_after", builder().stuck_after(long)),
    ] {
        let error = builder.build(nothing()).unwrap_err();
        assert!(matches!(error, Error::Setting { name: named, .. } if named == name), "{name}: {error}");
    }
}

/// The child of the test below: saves until it is killed.
async fn save_for_ever(path: &str) {
    let progress = FileStore::open(path).await.unwrap().progress("one");
    progress.init(0).await.unwrap();
    for index in 1.. {
        progress.save(index).await.unwrap();
        println!("saved {index}");
    }
}

#[tokio::test]
async fn a_progress_in_a_file_survives_kill_9() {
    const FILE: &str = "TENURE_SEQUENCE_FILE";
    if let Ok(path) = std::env::var(FILE) {
        return save_for_ever(&path).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("progress").display().to_string();
    for _ in 0..3 {
        let name = "ending::a_progress_in_a_file_survives_kill_9";
        let mut child = ChildProcess::of_test(name, (FILE, &path)).unwrap();
        let mut saved = 0;
        while saved < 20 {
            let line = child.line(PATIENCE).await.unwrap();
            saved = line.strip_prefix("saved ").map_or(saved, |index| index.parse::<u64>().unwrap());
        }
        child.kill().await.unwrap();
        let stored = FileStore::open(&path).await.unwrap().progress("one").load().await.unwrap();
        assert!(stored >= Some(saved), "{stored:?} after {saved}");
    }
}

#[tokio::test]
async fn the_stream_of_jobs_ends_with_the_consumer() {
    let builder = || Consumer::builder(Shelf::with(1..=9), MemoryProgress::new()).concurrency(2);
    // The handle stays, and a job is on its way out.
    let (consumer, mut jobs, _finisher) = by_hand(builder()).await;
    assert_eq!(jobs.next().await.unwrap().index(), 1);
    consumer.settled().await;
    consumer.shutdown().await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, jobs.next()).await.unwrap().is_none());
    // It waits while the consumer ends; before a start, too.
    let (consumer, mut jobs, _finisher) = builder().manual().unwrap();
    let mut next = Box::pin(jobs.next());
    assert!((&mut next).now_or_never().is_none());
    consumer.stop().await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, next).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn jobs_that_nobody_takes_do_not_pile_up() {
    let builder = Consumer::builder(Shelf::with(1..=9), MemoryProgress::new()).concurrency(2);
    let builder =
        builder.deadline(Duration::from_secs(1)).retry(Retry::forever(Duration::ZERO, Duration::ZERO));
    let (_consumer, mut jobs, finisher) = by_hand(builder).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let there = std::iter::from_fn(|| jobs.next().now_or_never().flatten()).count();
    assert!(there <= 2, "{there} are kept");
    // Those that are taken late can be told as done.
    assert_eq!(finisher.finish(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_word_between_two_attempts_counts_at_once() {
    let hour = Duration::from_secs(3_600);
    let builder = Consumer::builder(Shelf::with(1..=2), MemoryProgress::new()).concurrency(2);
    let builder = builder.deadline(Duration::from_secs(1)).retry(Retry::forever(hour, hour));
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(state(&consumer).await, "0# 1! 2!");
    let told = tokio::time::timeout(Duration::from_secs(1), finisher.finish(1)).await;
    assert_eq!(told.unwrap().unwrap(), 1);
    // And it wins over a stop.
    let (told, stopped) = tokio::join!(finisher.finish(2), consumer.stop());
    assert_eq!((told.unwrap(), stopped.unwrap().progress), (2, 2));
}

#[tokio::test]
async fn a_word_that_was_taken_is_no_error_though_the_consumer_ends() {
    for _ in 0..50 {
        let builder = Consumer::builder(Shelf::with(1..=1), MemoryProgress::new());
        let (consumer, _jobs, finisher) = by_hand(builder).await;
        consumer.settled().await;
        // The consumer ends as soon as the job is done.
        assert!(consumer.stop().now_or_never().is_none());
        let ended = tokio::spawn({
            let consumer = consumer.clone();
            async move { consumer.ended().await }
        });
        let mut finish = Box::pin(finisher.finish(1));
        assert!((&mut finish).now_or_never().is_none());
        ended.await.unwrap().unwrap();
        assert_eq!(finish.await.unwrap(), 1);
        assert!(matches!(finisher.finish(1).await, Err(Error::Ended)));
    }
}

#[tokio::test]
async fn a_job_that_ends_when_it_is_dropped_is_not_done() {
    let told = Arc::new(AtomicBool::new(false));
    let flag = told.clone();
    let builder = Consumer::builder(Shelf::with(1..=1), MemoryProgress::new());
    let builder = builder.before(move |_| flag.store(true, Ordering::SeqCst));
    let (says, began) = tokio::sync::oneshot::channel();
    let says = std::sync::Mutex::new(Some(says));
    let consumer = started(builder, move |delivery: Delivery<u64>| {
        let says = says.lock().unwrap().take();
        async move {
            // It keeps the state of its consumer, which tells when all has ended.
            let _ = says.unwrap().send(delivery.clone());
            delivery.cancelled().await;
            Ok::<_, BoxError>(())
        }
    })
    .await;
    let delivery = began.await.unwrap();
    // With the last handle, the job is asked to end and dropped in the same moment.
    drop(consumer);
    delivery.cancelled().await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!told.load(Ordering::SeqCst), "somebody else may run it by now");
}
