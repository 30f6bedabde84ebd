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
use crate::{PATIENCE, Shelf, state};

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
    let consumer = builder
        .build(move |_: Delivery<u64>| {
            let dropped = Dropped(flag.clone());
            async move {
                let _dropped = dropped;
                std::future::pending::<Result<(), BoxError>>().await
            }
        })
        .unwrap();
    consumer.start().await.unwrap();
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
    let (consumer, _jobs, finisher) = builder.manual().unwrap();
    consumer.start().await.unwrap();
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
        let consumer = builder.build(nothing()).unwrap();
        consumer.start().await.unwrap();
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
