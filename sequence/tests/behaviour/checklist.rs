//! The checklist, one test a line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tenure_sequence::{
    BoxError, Builder, Consumer, Delivery, Error, Finisher, Irrecoverable, Jobs, MemoryLog, MemoryProgress,
    Progress, Sealed, Source, converted,
};
use tokio::time::{Instant, timeout};

use crate::stores::{Gated, each_store};
use crate::{PATIENCE, Shelf, by_hand, shown, started, state};

/// A consumer of these jobs whose ends are told by the test.
struct Manual {
    consumer: Consumer,
    jobs: Jobs<u64>,
    finisher: Finisher,
}

impl Manual {
    fn new(shelf: &Shelf, progress: impl Progress, limit: usize) -> Self {
        Self::of(Consumer::builder(shelf.clone(), progress).concurrency(limit))
    }

    fn of<P: Progress>(builder: Builder<Shelf, P>) -> Self {
        let (consumer, jobs, finisher) = builder.manual().unwrap();
        Self { consumer, jobs, finisher }
    }

    async fn started(shelf: &Shelf, progress: impl Progress, limit: usize) -> Self {
        let this = Self::new(shelf, progress, limit);
        this.consumer.start().await.unwrap();
        this.consumer.settled().await;
        this
    }

    /// Tells that these are done, one after the other, and returns the progress after each.
    async fn finish(&self, indexes: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut progress = Vec::new();
        for index in indexes {
            self.finisher.finish(index).await.unwrap();
            self.consumer.settled().await;
            progress.push(self.consumer.stored());
        }
        progress
    }

    async fn state(&self) -> String {
        state(&self.consumer).await
    }
}

async fn stored(index: u64) -> MemoryProgress {
    let progress = MemoryProgress::new();
    progress.init(index).await.unwrap();
    progress
}

// Start.

#[tokio::test]
async fn work_starts_behind_the_stored_progress() {
    let mut run = Manual::started(&Shelf::with(1..=9), stored(4).await, 1).await;
    assert_eq!(run.jobs.next().await.unwrap().index(), 5);
}

#[tokio::test]
async fn an_empty_source_starts_nothing_and_leaves_the_progress() {
    let (each, _stores) = each_store("empty").await;
    for progress in each {
        progress.init(7).await.unwrap();
        let run = Manual::started(&Shelf::default(), progress.clone(), 3).await;
        run.consumer.check();
        assert_eq!(run.state().await, "7#");
        assert_eq!(progress.load().await.unwrap(), Some(7));
    }
}

#[tokio::test]
async fn the_default_index_counts_only_where_nothing_is_stored() {
    let (each, _stores) = each_store("default").await;
    for progress in each {
        let start = async |default| {
            let consumer = Consumer::builder(Shelf::default(), progress.clone()).default_index(default);
            consumer.manual().unwrap().0.start().await.unwrap()
        };
        assert_eq!(progress.load().await.unwrap(), None);
        assert_eq!(start(9).await, 9);
        assert_eq!(start(0).await, 9, "9 is stored");
        assert_eq!(start(20).await, 9);
    }
}

#[tokio::test]
async fn initialising_is_idempotent() {
    let (each, _stores) = each_store("twice").await;
    for progress in each {
        for _ in 0..3 {
            assert_eq!(progress.init(5).await.unwrap(), 5);
        }
        progress.save(8).await.unwrap();
        assert_eq!(progress.init(5).await.unwrap(), 8);
        assert_eq!(progress.load().await.unwrap(), Some(8));
    }
}

#[tokio::test]
async fn a_double_start_is_an_error() {
    let run = Manual::started(&Shelf::with(1..=2), MemoryProgress::new(), 1).await;
    assert!(matches!(run.consumer.start().await, Err(Error::AlreadyStarted)));
    assert_eq!(run.state().await, "0# 1!", "it goes on as it was");
    run.finish([1, 2]).await;
    run.consumer.stop().await.unwrap();
    assert!(matches!(run.consumer.start().await, Err(Error::Ended)));
}

/// Lets all other tasks run until none has anything to do. Only in virtual time.
async fn idle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_before_the_start_has_no_effect() {
    let mut reads = Vec::new();
    for checks in [0, 7] {
        let shelf = Shelf::with(1..=3);
        let run = Manual::new(&shelf, MemoryProgress::new(), 3);
        (0..checks).for_each(|_| run.consumer.check());
        idle().await;
        assert_eq!((shown(&run.consumer.explain()).as_str(), shelf.reads()), ("0#", 0));
        run.consumer.start().await.unwrap();
        idle().await;
        assert_eq!(run.state().await, "0# 1! 2! 3!");
        reads.push(shelf.reads());
    }
    assert_eq!(reads[0], reads[1], "nor is it kept for later");
}

#[tokio::test]
async fn concurrent_checks_are_one_look() {
    let shelf = Shelf::default();
    let run = Manual::started(&shelf, MemoryProgress::new(), 3).await;
    run.consumer.settled().await;
    let before = shelf.reads();
    let gate = shelf.hold().await;
    // The first one looks, and all others together make one more.
    run.consumer.check();
    while shelf.reads() == before {
        tokio::task::yield_now().await;
    }
    join_all((0..1_000).map(|_| async { run.consumer.check() })).await;
    drop(gate);
    run.consumer.settled().await;
    assert_eq!(shelf.reads() - before, 2);
}

// Window.

#[tokio::test]
async fn only_unfinished_jobs_count_against_the_limit() {
    let run = Manual::started(&Shelf::with(1..=9), MemoryProgress::new(), 3).await;
    assert_eq!(run.state().await, "0# 1! 2! 3!");
    run.finish([1, 2]).await;
    assert_eq!(run.state().await, "2# 3! 4! 5!");
}

#[tokio::test]
async fn jobs_done_ahead_of_a_hole_hold_no_slot() {
    let run = Manual::started(&Shelf::with(1..=9), MemoryProgress::new(), 3).await;
    run.finish([2, 3, 4, 5]).await;
    assert_eq!(run.state().await, "0# 1! 2* 3* 4* 5* 6! 7!");
}

#[tokio::test]
async fn a_job_that_appears_begins_when_a_slot_is_free() {
    let shelf = Shelf::with(1..=2);
    let run = Manual::started(&shelf, MemoryProgress::new(), 2).await;
    run.consumer.settled().await;
    // Nobody checks: the end of a job does.
    shelf.add(3);
    run.finish([2]).await;
    assert_eq!(run.state().await, "0# 1! 2* 3!");
}

#[tokio::test]
async fn the_progress_waits_for_the_lowest_index() {
    let run = Manual::started(&Shelf::with(1..=3), MemoryProgress::new(), 3).await;
    assert_eq!(run.finish([3, 2, 1]).await, [0, 0, 3]);
    let run = Manual::started(&Shelf::with(1..=4), MemoryProgress::new(), 4).await;
    assert_eq!(run.finish([3, 4, 1]).await, [0, 0, 1]);
    assert_eq!(run.finish([2]).await, [4]);
}

#[tokio::test]
async fn a_look_ahead_pauses_and_goes_on() {
    let builder = Consumer::builder(Shelf::with(1..=20), MemoryProgress::new()).concurrency(4).look_ahead(5);
    let run = Manual::of(builder);
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    run.finish([2, 3, 4, 5]).await;
    assert_eq!(run.state().await, "0# 1! 2* 3* 4* 5*");
    run.finish([1]).await;
    assert_eq!(run.state().await, "5# 6! 7! 8! 9!");
}

#[tokio::test]
async fn a_look_ahead_of_0_is_unlimited() {
    let run = Manual::of(
        Consumer::builder(Shelf::with(1..=5_000), MemoryProgress::new()).concurrency(2).look_ahead(0),
    );
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    run.finish(2..=5_000).await;
    let seen = run.consumer.explain();
    assert_eq!((seen.progress, seen.begun, seen.held_up, seen.running.len()), (0, 5_000, 4_999, 1));
    assert_eq!(run.finish([1]).await, [5_000]);
}

#[tokio::test]
async fn holes_leave_the_window_where_it_is() {
    let run = Manual::started(&Shelf::with(3..=12), stored(2).await, 3).await;
    run.consumer.settled().await;
    run.finish([4, 6, 7, 8, 9, 10, 11]).await;
    assert_eq!(run.state().await, "2# 3! 4* 5! 6* 7* 8* 9* 10* 11* 12!", "3 and 5 leave a slot");
    // 3, 5 and 6 take all slots.
    let run = Manual::started(&Shelf::with(3..=12), stored(2).await, 3).await;
    run.finish([4]).await;
    run.consumer.check();
    assert_eq!(run.state().await, "2# 3! 4* 5! 6!");
    let run = Manual::started(&Shelf::with(3..=8), stored(2).await, 3).await;
    run.consumer.settled().await;
    run.finish([3, 5]).await;
    assert_eq!(run.state().await, "3# 4! 5* 6! 7!");
}

#[tokio::test]
async fn a_look_ends_at_the_first_missing_index() {
    let run = Manual::started(&Shelf::with([1, 2, 4, 5]), MemoryProgress::new(), 5).await;
    run.consumer.check();
    assert_eq!(run.state().await, "0# 1! 2!");
}

// Faults.

#[tokio::test]
async fn a_restart_runs_all_above_the_stored_progress_again() {
    let (each, _stores) = each_store("restart").await;
    for progress in each {
        let run = Manual::started(&Shelf::with(1..=5), progress.clone(), 4).await;
        run.consumer.settled().await;
        run.finish([1, 3, 4]).await;
        drop(run);
        let mut run = Manual::started(&Shelf::with(1..=5), progress, 4).await;
        for index in 2..=5 {
            assert_eq!(run.jobs.next().await.unwrap().index(), index);
        }
    }
}

#[tokio::test]
async fn a_stop_starts_nothing_and_waits_for_what_runs() {
    let shelf = Shelf::with(1..=9);
    let run = Manual::started(&shelf, MemoryProgress::new(), 2).await;
    run.consumer.settled().await;
    let mut stop = Box::pin(run.consumer.stop());
    assert!((&mut stop).now_or_never().is_none());
    run.finisher.finish(1).await.unwrap();
    run.consumer.check();
    assert!((&mut stop).now_or_never().is_none(), "2 runs");
    assert_eq!(run.state().await, "1# 2!");
    assert_eq!(run.finisher.finish(2).await.unwrap(), 2);
    let stopped = stop.await.unwrap();
    assert_eq!((stopped.progress, stopped.unfinished), (2, 0));
}

#[tokio::test]
async fn what_is_done_after_a_stop_moves_the_stored_progress() {
    let (each, _stores) = each_store("late").await;
    for progress in each {
        let run = Manual::started(&Shelf::with(1..=3), progress.clone(), 3).await;
        run.consumer.settled().await;
        assert!(run.consumer.stop().now_or_never().is_none());
        run.finisher.finish(2).await.unwrap();
        run.finisher.finish(1).await.unwrap();
        run.consumer.settled().await;
        assert_eq!(progress.load().await.unwrap(), Some(2));
        assert_eq!(run.finisher.finish(3).await.unwrap(), 3);
        assert_eq!(run.consumer.ended().await.unwrap().progress, 3);
        assert_eq!(progress.load().await.unwrap(), Some(3));
    }
}

#[tokio::test]
async fn done_of_an_unknown_or_finished_index_changes_nothing() {
    let run = Manual::started(&Shelf::with(1..=3), MemoryProgress::new(), 2).await;
    run.consumer.settled().await;
    run.finish([2]).await;
    let before = run.state().await;
    assert_eq!(run.finish([2, 2, 0, 4, 77, u64::MAX]).await, [0; 6]);
    assert_eq!(run.state().await, before);
}

#[tokio::test]
async fn not_found_ends_a_look_quietly() {
    let run = Manual::started(&Shelf::with(1..=2), MemoryProgress::new(), 5).await;
    assert_eq!(run.state().await, "0# 1! 2!");
    assert!(run.consumer.explain().to_string().contains("it waits for index 3"));
}

#[tokio::test]
async fn another_error_gives_the_look_up_without_a_change() {
    let shelf = Shelf::with(1..=5);
    shelf.fail(3, true);
    let run = Manual::started(&shelf, MemoryProgress::new(), 5).await;
    assert_eq!(run.state().await, "0#", "neither 1 nor 2");
    assert!(run.consumer.explain().to_string().contains("the source fails: "));
    shelf.fail(3, false);
    run.consumer.check();
    assert_eq!(run.state().await, "0# 1! 2! 3! 4! 5!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_concurrent_adds_and_ends_run_each_once() {
    let (log, progress) = (MemoryLog::new(), MemoryProgress::new());
    let runs = Arc::new(Mutex::new(BTreeMap::<u64, u32>::new()));
    let seen = runs.clone();
    let consumer = Consumer::builder(log.clone(), progress.clone()).concurrency(7).build(
        move |delivery: Delivery<u64>| {
            let seen = seen.clone();
            async move {
                *seen.lock().unwrap().entry(delivery.index()).or_default() += 1;
                for _ in 0..delivery.index() % 5 {
                    tokio::task::yield_now().await;
                }
                Ok::<_, BoxError>(())
            }
        },
    );
    let consumer = consumer.unwrap();
    consumer.start().await.unwrap();
    let adds = (0..100).map(|_| {
        let (log, consumer) = (log.clone(), consumer.clone());
        tokio::spawn(async move {
            log.append([0]);
            consumer.check();
        })
    });
    join_all(adds).await;
    tenure_testing::eventually(PATIENCE, "all to be done", async || consumer.stored() == 100).await;
    assert!(
        runs.lock().unwrap().iter().eq((1..=100).map(|index| (index, 1)).collect::<BTreeMap<_, _>>().iter())
    );
    let seen = consumer.explain();
    assert_eq!((shown(&seen).as_str(), seen.held_up), ("100#", 0), "nothing is kept");
    assert_eq!(progress.get(), Some(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_jobs_are_told_as_done_concurrently() {
    let (log, progress) = (MemoryLog::new(), MemoryProgress::new());
    let builder = Consumer::builder(log.clone(), progress.clone()).concurrency(100);
    let (consumer, mut jobs, finisher) = by_hand(builder).await;
    let adds = (0..100).map(|_| {
        let log = log.clone();
        tokio::spawn(async move { log.append([0_u64]) })
    });
    join_all(adds).await;
    let mut told = Vec::new();
    for _ in 0..100 {
        let (job, finisher) = (jobs.next().await.unwrap(), finisher.clone());
        // Twice each, at the same time.
        for _ in 0..2 {
            let (finisher, index) = (finisher.clone(), job.index());
            told.push(tokio::spawn(async move { finisher.finish(index).await.unwrap() }));
        }
    }
    let seen = join_all(told).await.into_iter().map(Result::unwrap).max();
    assert_eq!((seen, consumer.progress(), consumer.running()), (Some(100), 100, 0));
    assert_eq!(consumer.stop().await.unwrap().progress, 100);
    assert_eq!((progress.get(), jobs.next().await.is_none()), (Some(100), true));
}

// The component.

/// The notifications of a test, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn listener(&self, what: &'static str) -> impl Fn(u64) + Send + Sync + 'static {
        let told = self.clone();
        move |index| told.0.lock().unwrap().push(format!("{what} {index}"))
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn before_is_told_before_the_progress_moves() {
    let told = Told::default();
    let (progress, gate) = Gated::new();
    let builder = Consumer::builder(Shelf::with(1..=3), progress.clone()).concurrency(3);
    let run = Manual::of(builder.before(told.listener("before")));
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    gate.close();
    for index in [3, 1] {
        run.finisher.finish(index).await.unwrap();
    }
    assert_eq!(told.all(), ["before 3", "before 1"], "in the order of their ends");
    assert_eq!(progress.load().await.unwrap(), Some(0), "nothing is stored yet");
    drop(run);
    // At least once: the next life tells it again.
    gate.open();
    let builder = Consumer::builder(Shelf::with(1..=3), progress.clone()).concurrency(3);
    let run = Manual::of(builder.before(told.listener("again")));
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    run.finish([1]).await;
    assert_eq!(told.all()[2..], ["again 1"]);
}

#[tokio::test]
async fn after_is_told_when_the_progress_is_stored() {
    let told = Told::default();
    let (progress, gate) = Gated::new();
    let builder = Consumer::builder(Shelf::with(1..=4), progress.clone()).concurrency(4);
    let run = Manual::of(builder.after(told.listener("after")));
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    gate.close();
    for index in [2, 1, 4] {
        run.finisher.finish(index).await.unwrap();
    }
    assert!(told.all().is_empty(), "nothing is stored yet");
    gate.open();
    run.consumer.settled().await;
    assert_eq!(told.all(), ["after 1", "after 2"]);
    run.finish([3]).await;
    assert_eq!(told.all(), ["after 1", "after 2", "after 3", "after 4"]);
}

#[tokio::test]
async fn each_consecutive_index_is_told_in_order_before_it_is_stored() {
    let told = Told::default();
    let (progress, gate) = Gated::new();
    let builder = Consumer::builder(Shelf::with(1..=5), progress.clone()).concurrency(5);
    let run = Manual::of(builder.in_order(told.listener("done")).after(told.listener("stored")));
    run.consumer.start().await.unwrap();
    run.consumer.settled().await;
    gate.close();
    for index in [2, 4, 5] {
        run.finisher.finish(index).await.unwrap();
    }
    assert!(told.all().is_empty(), "1 is a hole");
    run.finisher.finish(1).await.unwrap();
    gate.waited_for().await;
    assert_eq!(told.all(), ["done 1", "done 2"]);
    gate.open();
    run.finish([3]).await;
    let expected = ["done 1", "done 2", "stored 1", "stored 2", "done 3", "done 4", "done 5"];
    assert_eq!(told.all()[..7], expected);
    assert_eq!(told.all()[7..], ["stored 3", "stored 4", "stored 5"]);
}

#[tokio::test(start_paused = true)]
async fn signals_before_ready_do_nothing() {
    let shelf = Shelf::with(1..=3);
    let (progress, gate) = Gated::new();
    let run = Manual::new(&shelf, progress, 3);
    gate.close();
    let mut start = Box::pin(run.consumer.start());
    assert!((&mut start).now_or_never().is_none(), "its progress is not there yet");
    run.consumer.check();
    assert_eq!(run.finisher.finish(1).await.unwrap(), 0);
    idle().await;
    assert!(run.consumer.ready().now_or_never().is_none());
    assert_eq!((shown(&run.consumer.explain()).as_str(), shelf.reads()), ("0#", 0));
    gate.open();
    start.await.unwrap();
    run.consumer.ready().await.unwrap();
    idle().await;
    assert_eq!(run.state().await, "0# 1! 2! 3!", "and 1 is not done");
}

#[tokio::test]
async fn an_irrecoverable_error_reaches_the_parent_and_is_no_done() {
    let (told, progress) = (Told::default(), MemoryProgress::new());
    let builder = Consumer::builder(Shelf::with(1..=3), progress.clone()).concurrency(1);
    let builder = builder.retry(tenure_sequence::Retry::forever(Duration::ZERO, Duration::ZERO));
    let builder = builder.before(told.listener("done")).after(told.listener("stored"));
    let consumer = builder.build(async |delivery: Delivery<u64>| match delivery.index() {
        2 => Err(Irrecoverable::new("no such account").into()),
        _ => Ok::<_, BoxError>(()),
    });
    let consumer = consumer.unwrap();
    consumer.start().await.unwrap();
    let error = consumer.ended().await.unwrap_err();
    assert!(matches!(&error, Error::Job { index: 2, attempts: 1, irrecoverable: true, .. }), "{error:?}");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such account");
    assert_eq!((told.all(), progress.get()), (vec!["done 1".to_owned(), "stored 1".to_owned()], Some(1)));
    assert!(consumer.ready().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_within_100_ms() {
    let (shelf, progress) = (Shelf::with(1..=9), MemoryProgress::new());
    // One job hears of it, and one hangs.
    let consumer = Consumer::builder(shelf, progress).concurrency(2).build(
        async |delivery: Delivery<u64>| match delivery.index() {
            1 => {
                delivery.cancelled().await;
                Err("it was told to end".into())
            }
            _ => std::future::pending::<Result<(), BoxError>>().await,
        },
    );
    let consumer = consumer.unwrap();
    consumer.start().await.unwrap();
    consumer.settled().await;
    let began = Instant::now();
    let ended = timeout(Duration::from_millis(101), consumer.shutdown()).await.expect("in time");
    assert_eq!((ended.unwrap().unfinished, consumer.progress()), (2, 0), "neither is done");
    assert!(began.elapsed() <= Duration::from_millis(101));
    assert!(consumer.explain().to_string().contains("it has ended"));
}

#[tokio::test]
async fn work_handed_in_after_the_end_is_refused() {
    let mut run = Manual::started(&Shelf::with(1..=2), MemoryProgress::new(), 2).await;
    assert_eq!(run.jobs.next().await.unwrap().index(), 1);
    run.consumer.settled().await;
    run.consumer.shutdown().await.unwrap();
    for index in [1, 2, 3] {
        assert!(matches!(run.finisher.finish(index).await, Err(Error::Ended)));
    }
    run.consumer.check();
    assert_eq!(run.consumer.progress(), 0);
    let stopped = run.consumer.stop().await.unwrap();
    assert_eq!((stopped.progress, stopped.unfinished), (0, 2));
}

#[tokio::test]
async fn above_a_sealed_head_nothing_is_found() {
    let (source, seal) = Sealed::new(Shelf::with(1..=9), 2);
    assert_eq!((source.at(2).await.unwrap(), source.at(3).await.unwrap()), (Some(2), None));
    assert_eq!((source.read(1, 9).await.unwrap().len(), source.head().await.unwrap()), (2, 2));
    let (unsealed, _) = Sealed::new(Shelf::with(1..=9), u64::MAX);
    assert_eq!(unsealed.read(1, 9).await.unwrap().len(), 9);
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let handler = move |_: Delivery<u64>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, BoxError>(()) }
    };
    let log = MemoryLog::new();
    log.append(1..=9_u64);
    let (source, higher) = Sealed::new(log, 2);
    let consumer = started(Consumer::builder(source, MemoryProgress::new()), handler).await;
    tenure_testing::eventually(PATIENCE, "2 to be done", async || consumer.stored() == 2).await;
    assert_eq!(state(&consumer).await, "2#");
    // Nobody checks: the seal tells.
    higher.up_to(5);
    higher.up_to(4);
    tenure_testing::eventually(PATIENCE, "5 to be done", async || consumer.stored() == 5).await;
    assert_eq!((state(&consumer).await.as_str(), done.load(Ordering::SeqCst)), ("5#", 5));
    assert_eq!(higher.index(), 5);
    drop(seal);
}

#[tokio::test]
async fn a_seal_that_moves_wakes_though_its_source_cannot_tell() {
    let shelf = Shelf::with(1..=4);
    let (source, seal) = Sealed::new(shelf.clone(), 2);
    let source = Arc::new(source);
    let consumer = Consumer::builder(source.clone(), MemoryProgress::new());
    let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    // Nobody checks.
    for (up_to, done) in [(2, 2), (3, 3), (9, 4)] {
        seal.up_to(up_to);
        tenure_testing::eventually(PATIENCE, "all to be done", async || consumer.stored() == done).await;
    }
    for _ in 0..2 {
        // However many wait for it.
        assert!(source.changed(3).now_or_never().is_some(), "4 is there");
        assert!(source.changed(4).now_or_never().is_none(), "5 is not there, and the shelf tells of nothing");
        assert!(source.changed(9).now_or_never().is_none(), "10 is above the seal");
    }
    shelf.fail(5, true);
    assert!(source.changed(4).now_or_never().is_some(), "a look says why");
}

/// An even number.
struct Even(u64);

impl TryFrom<&u64> for Even {
    type Error = std::io::Error;

    fn try_from(number: &u64) -> Result<Self, Self::Error> {
        if number.is_multiple_of(2) { Ok(Self(*number)) } else { Err(std::io::Error::other("it is odd")) }
    }
}

#[tokio::test]
async fn a_job_of_a_wrong_type_is_a_conversion_error() {
    let (log, progress) = (MemoryLog::new(), MemoryProgress::new());
    log.append([2, 4, 5, 6]);
    let sum = Arc::new(Mutex::new(0));
    let total = sum.clone();
    let handler = converted(move |even: Delivery<Even>| {
        *total.lock().unwrap() += even.job().0;
        async { Ok::<_, BoxError>(()) }
    });
    let consumer = started(Consumer::builder(log, progress.clone()).concurrency(1), handler).await;
    let error = consumer.ended().await.unwrap_err();
    assert!(matches!(error, Error::Job { index: 3, irrecoverable: true, .. }), "{error:?}");
    let text = tenure_testing::describe(&error);
    assert!(text.contains("job 3 is not of the type") && text.contains("it is odd"), "{text}");
    assert_eq!((progress.get(), *sum.lock().unwrap()), (Some(2), 6), "nothing behind it has begun");
}
