//! Jobs, sources and stores that fail, hang or panic.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tenure_connection::Client;
use tenure_sequence::{
    BoxError, Consumer, Delivery, Error, Irrecoverable, MemoryLog, MemoryProgress, Progress, ProgressError,
    RedisProgress, Retry, Sealed, Source, SourceError, Verdict,
};
use tenure_testing::{RedisServer, eventually};

use crate::{PATIENCE, Shelf, by_hand, started, state};

const SHORT: Duration = Duration::from_millis(10);

fn patient() -> Retry {
    Retry::forever(SHORT, Duration::from_millis(80))
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_tried_again_and_holds_up_no_other() {
    let tries = Arc::new(AtomicU32::new(0));
    let count = tries.clone();
    let builder =
        Consumer::builder(Shelf::with(1..=4), MemoryProgress::new()).concurrency(2).retry(patient());
    let handler = move |delivery: Delivery<u64>| {
        let count = count.clone();
        async move {
            match delivery.index() {
                1 if count.fetch_add(1, Ordering::SeqCst) < 5 => {
                    Err(format!("attempt {}", delivery.attempt()))
                }
                _ => Ok(()),
            }
        }
    };
    let consumer = started(builder, handler).await;
    assert_eq!(state(&consumer).await, "0# 1! 2* 3* 4*");
    let seen = consumer.explain();
    let head = seen.head().unwrap();
    assert_eq!((head.index, head.attempt, head.last_error.as_deref()), (1, 2, Some("attempt 1")));
    eventually(PATIENCE, "all to be done", async || consumer.stored() == 4).await;
    assert_eq!(tries.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_attempts_are_used_up_ends_the_consumer() {
    let builder = Consumer::builder(Shelf::with(1..=4), MemoryProgress::new()).retry(patient().attempts(3));
    let consumer = started(
        builder,
        async |delivery: Delivery<u64>| if delivery.index() == 3 { Err("always") } else { Ok(()) },
    )
    .await;
    let error = consumer.ended().await.unwrap_err();
    assert!(matches!(error, Error::Job { index: 3, attempts: 3, irrecoverable: false, .. }), "{error:?}");
    assert_eq!((consumer.stored(), consumer.begun()), (2, 4));
}

/// An error of a handler's own, with its cause.
#[derive(Debug, thiserror::Error)]
#[error("the payment has failed")]
struct Payment(#[source] BoxError);

#[tokio::test(start_paused = true)]
async fn an_irrecoverable_cause_of_another_error_is_found() {
    let builder = Consumer::builder(Shelf::with(1..=1), MemoryProgress::new()).retry(patient());
    let consumer = builder.build(async |_: Delivery<u64>| {
        let cause = Payment(Irrecoverable::new("no such account").into());
        Err::<(), _>(Payment(cause.into()))
    });
    let consumer = consumer.unwrap();
    consumer.start().await.unwrap();
    let error = tokio::time::timeout(PATIENCE, consumer.ended()).await.expect("an end").unwrap_err();
    assert!(matches!(error, Error::Job { index: 1, attempts: 1, irrecoverable: true, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_has_failed() {
    let builder = Consumer::builder(Shelf::with(1..=2), MemoryProgress::new()).concurrency(1);
    let builder = builder.retry(patient().attempts(2));
    // In the call itself, and in its future.
    let handler = |delivery: Delivery<u64>| {
        assert!(delivery.attempt() != 1 || delivery.index() != 1, "in the call");
        async move {
            assert!(delivery.index() != 2, "in the future");
            Ok::<_, BoxError>(())
        }
    };
    let consumer = started(builder, handler).await;
    let error = consumer.ended().await.unwrap_err();
    assert!(matches!(error, Error::Job { index: 2, attempts: 2, .. }), "{error:?}");
    assert!(tenure_testing::describe(&error).contains("the handler panicked: in the future"), "{error:?}");
    assert_eq!(consumer.stored(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_past_its_deadline_is_dropped_and_has_failed() {
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let count = dropped.clone();
    let builder = Consumer::builder(Shelf::with(1..=1), MemoryProgress::new()).retry(patient());
    let consumer = builder
        .deadline(Duration::from_secs(1))
        .build(move |delivery: Delivery<u64>| {
            let dropped = Dropped(count.clone());
            async move {
                let _dropped = dropped;
                if delivery.attempt() < 3 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(())
            }
        })
        .unwrap();
    consumer.start().await.unwrap();
    eventually(PATIENCE, "the third attempt", async || consumer.stored() == 1).await;
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_its_next_attempt_holds_up_no_stop() {
    let builder = Consumer::builder(Shelf::with(1..=2), MemoryProgress::new());
    let builder = builder.retry(Retry::forever(Duration::from_secs(3_600), Duration::from_secs(3_600)));
    let consumer = started(
        builder,
        async |delivery: Delivery<u64>| if delivery.index() == 2 { Err("later") } else { Ok(()) },
    )
    .await;
    consumer.settled().await;
    let stopped = consumer.stop().await.unwrap();
    assert_eq!((stopped.progress, stopped.unfinished), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_hangs_costs_one_slot() {
    let log = MemoryLog::new();
    log.append(1..=500_u64);
    let builder = Consumer::builder(log, MemoryProgress::new()).concurrency(2);
    let consumer = started(builder, async |delivery: Delivery<u64>| {
        if delivery.index() == 3 {
            std::future::pending::<()>().await;
        }
        Ok::<_, BoxError>(())
    })
    .await;
    eventually(PATIENCE, "all others to be done", async || {
        let seen = consumer.explain();
        (seen.progress, seen.held_up, seen.running.len()) == (2, 497, 1)
    })
    .await;
    assert_eq!(consumer.shutdown().await.unwrap().progress, 2);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_looked_at_again() {
    let shelf = Shelf::with(1..=2);
    shelf.fail(1, true);
    let consumer = Consumer::builder(shelf.clone(), MemoryProgress::new());
    let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    consumer.settled().await;
    assert!(matches!(consumer.explain().verdict, Verdict::SourceFails { .. }));
    eventually(PATIENCE, "further looks", async || shelf.reads() > 5).await;
    shelf.fail(1, false);
    eventually(PATIENCE, "both to be done", async || consumer.stored() == 2).await;
}

/// A source that does what the test says at its first calls, and then has no job.
struct Odd(Mutex<Vec<&'static str>>);

impl Source for Odd {
    type Job = u64;

    async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
        let next = self.0.lock().unwrap().pop();
        match next {
            Some("hangs") => std::future::pending().await,
            Some("panics") => panic!("the disk is a teapot"),
            Some("gone") => Err(SourceError::Gone { index, left: Some(index + 7) }),
            Some("broken") => Err(SourceError::broken("no such table")),
            _ => Ok(None),
        }
    }

    async fn head(&self) -> Result<u64, SourceError> {
        std::future::pending().await
    }
}

async fn odd(words: &[&'static str]) -> Consumer {
    let source = Odd(Mutex::new(words.iter().rev().copied().collect()));
    let consumer = Consumer::builder(source, MemoryProgress::new());
    started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_asked_again_after_a_deadline() {
    let consumer = odd(&["hangs"]).await;
    consumer.settled().await;
    assert!(
        matches!(consumer.explain().verdict, Verdict::SourceFails { error } if error.contains("no answer"))
    );
    eventually(PATIENCE, "the next look", async || {
        consumer.explain().verdict == Verdict::Waiting { next: 1 }
    })
    .await;
    assert!(consumer.head().await.unwrap_err().is_transient());
}

#[tokio::test(start_paused = true)]
async fn a_sealed_source_that_hangs_is_looked_into() {
    let (source, _seal) = Sealed::new(Odd(Mutex::new(vec!["hangs"])), 9);
    let news = tokio::time::timeout(Duration::from_secs(6), source.changed(0)).await;
    assert!(news.is_ok(), "a look finds out");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_holds_up_no_stop() {
    let consumer = odd(&["hangs"]).await;
    tokio::task::yield_now().await;
    tokio::time::timeout(SHORT, consumer.stop()).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_ends_the_consumer() {
    for (word, text) in [
        ("gone", "job 1 is gone, the first one left is 8"),
        ("broken", "no such table"),
        ("panics", "the source panicked (the disk is a teapot)"),
    ] {
        let error = odd(&[word]).await.ended().await.unwrap_err();
        assert!(tenure_testing::describe(&error).contains(text), "{error:?}");
    }
}

/// A progress that fails while a test says so.
#[derive(Clone, Default)]
struct Failing {
    kept: MemoryProgress,
    fails: Arc<AtomicBool>,
}

impl Progress for Failing {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        self.kept.load().await
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ProgressError::unavailable("the network is down"));
        }
        self.kept.init(default).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ProgressError::unavailable("the network is down"));
        }
        self.kept.save(index).await
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_run_on_while_the_progress_cannot_be_stored() {
    let (log, progress) = (MemoryLog::new(), Failing::default());
    let consumer = Consumer::builder(log.clone(), progress.clone()).look_ahead(0);
    let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    progress.fails.store(true, Ordering::SeqCst);
    log.append(1..=50);
    eventually(PATIENCE, "all to be done", async || consumer.progress() == 50).await;
    eventually(PATIENCE, "the trouble to be shown", async || consumer.explain().progress_error.is_some())
        .await;
    assert_eq!((consumer.stored(), progress.kept.get()), (0, Some(0)));
    progress.fails.store(false, Ordering::SeqCst);
    eventually(PATIENCE, "the progress to be stored", async || consumer.stored() == 50).await;
    assert_eq!(consumer.explain().progress_error, None);
}

#[tokio::test(start_paused = true)]
async fn the_highest_index_is_done_and_told_once() {
    let (progress, told) = (Failing::default(), Arc::new(Mutex::new(Vec::new())));
    let tell = told.clone();
    let builder = Consumer::builder(Shelf::with(u64::MAX - 1..=u64::MAX), progress.clone());
    let builder = builder.default_index(u64::MAX - 2).in_order(move |index| tell.lock().unwrap().push(index));
    let consumer = started(builder, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    progress.fails.store(true, Ordering::SeqCst);
    // Several saves fail.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((consumer.progress(), consumer.stored()), (u64::MAX, u64::MAX - 2));
    progress.fails.store(false, Ordering::SeqCst);
    eventually(PATIENCE, "the progress to be stored", async || consumer.stored() == u64::MAX).await;
    assert_eq!(*told.lock().unwrap(), [u64::MAX - 1, u64::MAX]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_may_be_made_again() {
    let progress = Failing::default();
    progress.fails.store(true, Ordering::SeqCst);
    let consumer = Consumer::builder(Shelf::with(1..=3), progress.clone());
    let consumer = consumer.build(async |_: Delivery<u64>| Ok::<_, BoxError>(())).unwrap();
    let error = consumer.start().await.unwrap_err();
    assert!(matches!(error, Error::Progress(ProgressError::Unavailable(_))), "{error:?}");
    assert_eq!(consumer.explain().verdict, Verdict::NotStarted);
    progress.fails.store(false, Ordering::SeqCst);
    assert_eq!(consumer.start().await.unwrap(), 0);
    eventually(PATIENCE, "all to be done", async || consumer.stored() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_last_progress_that_cannot_be_stored_is_an_error() {
    let progress = Failing::default();
    let consumer = Consumer::builder(Shelf::with(1..=3), progress.clone());
    let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    progress.fails.store(true, Ordering::SeqCst);
    eventually(PATIENCE, "all to be done", async || consumer.progress() == 3).await;
    let error = consumer.stop().await.unwrap_err();
    assert!(matches!(error, Error::NotSaved { done: 3, stored: 0, source: Some(_) }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_holds_up_an_end_for_two_calls() {
    // It hangs with the save under way, or fails until the last one, which hangs.
    for hangs_at_once in [true, false] {
        let (progress, gate) = crate::stores::Gated::new();
        let failing = Failing { kept: MemoryProgress::new(), fails: Arc::default() };
        let store = Both(progress, failing.clone());
        let consumer = Consumer::builder(Shelf::with(1..=1), store);
        let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
        failing.fails.store(!hangs_at_once, Ordering::SeqCst);
        if hangs_at_once {
            gate.close();
        }
        eventually(PATIENCE, "the job to be done", async || consumer.progress() == 1).await;
        let began = tokio::time::Instant::now();
        let ended = consumer.stop();
        let hang = async {
            tokio::time::sleep(Duration::from_millis(4_900)).await;
            gate.close();
        };
        let (ended, ()) = tokio::join!(ended, hang);
        assert!(matches!(ended, Err(Error::NotSaved { done: 1, stored: 0, .. })), "{ended:?}");
        assert!(began.elapsed() <= Duration::from_millis(10_200), "{:?}", began.elapsed());
        if !hangs_at_once {
            assert!(began.elapsed() <= Duration::from_millis(7_200), "{:?}", began.elapsed());
        }
    }
}

/// Passes the gate of the first one, and then does as the second one.
struct Both(crate::stores::Gated, Failing);

impl Progress for Both {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        self.1.load().await
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        self.1.init(default).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        self.0.save(0).await?;
        self.1.save(index).await
    }
}

#[tokio::test]
async fn a_former_owner_can_neither_save_nor_claim() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let of = |token| RedisProgress::new(&client, "set", "acme").unwrap().fenced(token);
    let (former, later) = (of(7), of(8));
    former.init(0).await.unwrap();
    former.save(5).await.unwrap();
    assert_eq!(later.init(0).await.unwrap(), 5);
    for refused in [former.save(6).await.err(), former.init(0).await.err(), of(0).save(9).await.err()] {
        assert!(matches!(refused, Some(ProgressError::Fenced { by: Some(8) })), "{refused:?}");
    }
    later.save(6).await.unwrap();
    assert_eq!(later.load().await.unwrap(), Some(6));
    // Tokens are compared to the last digit.
    let (high, higher) = (of(u64::MAX - 1), of(u64::MAX));
    higher.init(0).await.unwrap();
    assert!(matches!(high.save(7).await, Err(ProgressError::Fenced { by: Some(u64::MAX) })));
}

#[tokio::test]
async fn a_full_server_refuses_no_start_and_no_save() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let progress = RedisProgress::new(&client, "set", "acme").unwrap();
    let mut fill = redis::cmd("CONFIG");
    client.commands().command(fill.arg("SET").arg("maxmemory").arg(1)).await.unwrap();
    assert_eq!(progress.init(3).await.unwrap(), 3);
    progress.save(4).await.unwrap();
    assert_eq!(progress.clone().fenced(7).init(0).await.unwrap(), 4);
}

#[tokio::test]
async fn a_consumer_that_is_fenced_ends_and_drops_its_jobs() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let of = |token| RedisProgress::new(&client, "set", "acme").unwrap().fenced(token);
    let builder =
        Consumer::builder(Shelf::with(1..=9), of(1)).concurrency(2).grace(Duration::from_secs(3_600));
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    consumer.settled().await;
    of(2).init(0).await.unwrap();
    // Job 2 and those behind it hang, and the grace is long: a later owner runs them by now.
    finisher.finish(1).await.unwrap();
    let error = tokio::time::timeout(PATIENCE, consumer.ended()).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Progress(ProgressError::Fenced { by: Some(2) })), "{error:?}");
    assert_eq!(of(2).load().await.unwrap(), Some(0), "the former owner has stored nothing");
}

#[tokio::test]
async fn a_damaged_progress_is_an_error_and_stays() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let progress = RedisProgress::new(&client, "set", "acme").unwrap().fenced(1);
    for damage in ["", "7", "1|x|3", "2|1|3", "1|1|3|4"] {
        let mut write = redis::cmd("HSET");
        write.arg("tenure:sequence:{set}:progress").arg("acme").arg(damage);
        client.commands().command(&write).await.unwrap();
        for error in [progress.load().await.err(), progress.init(0).await.err(), progress.save(9).await.err()]
        {
            assert!(matches!(error, Some(ProgressError::Broken(_))), "{damage:?}: {error:?}");
        }
    }
}

/// A source each of whose answers takes a while.
struct Slow(Duration);

impl Source for Slow {
    type Job = u64;

    async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
        tokio::time::sleep(self.0).await;
        Ok((index <= 5_000).then_some(index))
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(5_000)
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_begins_however_many_may_run() {
    let began = tokio::time::Instant::now();
    let builder = Consumer::builder(Slow(Duration::from_millis(100)), MemoryProgress::new());
    let consumer = started(builder.concurrency(2_000), async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    tokio::time::timeout(Duration::from_secs(3_600), async {
        while consumer.stored() < 5_000 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("it to begin");
    // 5,000 answers take 500 s. The rest is the search for a size, and the looks that were too large.
    assert!(began.elapsed() < Duration::from_secs(600), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pauses_after_failed_looks_begin_anew_after_one_that_succeeds() {
    let shelf = Shelf::with(1..=2);
    shelf.fail(1, true);
    let builder = Consumer::builder(shelf.clone(), MemoryProgress::new()).concurrency(1);
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    shelf.fail(1, false);
    shelf.fail(2, true);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(state(&consumer).await, "0# 1!");
    finisher.finish(1).await.unwrap();
    consumer.settled().await;
    let before = shelf.reads();
    // The first pause, not the one after a minute of failures.
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(shelf.reads() > before);
}

/// A source that fails, and has its consumer checked whenever it is read.
#[derive(Clone, Default)]
struct Nagging(Arc<(OnceLock<Consumer>, AtomicU32)>);

impl Source for Nagging {
    type Job = u64;

    async fn at(&self, _: u64) -> Result<Option<u64>, SourceError> {
        let (consumer, reads) = &*self.0;
        assert!(reads.fetch_add(1, Ordering::SeqCst) < 10_000, "it is left alone");
        consumer.get().unwrap().check();
        Err(SourceError::unavailable("the disk is away"))
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(0)
    }
}

#[tokio::test(start_paused = true)]
async fn checks_leave_a_source_that_fails_its_first_pause() {
    let source = Nagging::default();
    let consumer = Consumer::builder(source.clone(), MemoryProgress::new());
    let consumer = consumer.build(async |_: Delivery<u64>| Ok::<_, BoxError>(())).unwrap();
    assert!(source.0.0.set(consumer.clone()).is_ok());
    consumer.start().await.unwrap();
    let reads = || source.0.1.load(Ordering::SeqCst);
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        consumer.check();
    }
    // 10 s have 200 pauses of 50 ms, and would have three of 5 s.
    assert!((100..=201).contains(&reads()), "{} reads", reads());
    assert!(matches!(consumer.explain().verdict, Verdict::SourceFails { .. }));
    consumer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_check_cuts_a_long_pause_of_a_source_that_failed() {
    let shelf = Shelf::with(1..=2);
    shelf.fail(1, true);
    let consumer = Consumer::builder(shelf.clone(), MemoryProgress::new());
    let consumer = started(consumer, async |_: Delivery<u64>| Ok::<_, BoxError>(())).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = shelf.reads();
    tokio::time::timeout(Duration::from_secs(6), async {
        while shelf.reads() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    // A look has just failed, and the next one would come after seconds.
    shelf.fail(1, false);
    consumer.check();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(consumer.stored(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_lasting_trouble_is_told_whatever_else_fails() {
    let lines = tenure_testing::Lines::default();
    let written = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
    // While there is only one, other threads without any switch its lines off.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
    let _local = tracing::subscriber::set_default(subscriber);
    let (shelf, progress) = (Shelf::with(1..=2), Failing::default());
    shelf.fail(3, true);
    let builder = Consumer::builder(shelf, progress.clone()).concurrency(2).retry(patient());
    let _consumer = started(
        builder,
        async |delivery: Delivery<u64>| if delivery.index() == 2 { Err("a bad job") } else { Ok(()) },
    )
    .await;
    progress.fails.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let all = lines.all();
    assert_eq!(all.len(), 3, "{all:?}");
    for trouble in ["nothing new begins", "an attempt has failed", "the progress is not stored yet"] {
        assert!(all.iter().any(|line| line.contains(trouble)), "{trouble}: {all:?}");
    }
    progress.fails.store(false, Ordering::SeqCst);
}

/// The same server as this user, and what the user may do from now on.
async fn user(server: &RedisServer, rules: &[&str]) -> Client {
    let admin = Client::open(&server.url()).unwrap();
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("app").arg(rules);
    admin.commands().command(&set).await.unwrap();
    let url = server.url().replace("redis://", "redis://app:secret@");
    Client::open(&url).unwrap()
}

#[tokio::test]
async fn a_permission_that_is_missing_for_a_while_ends_no_consumer() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = user(&server, &["on", ">secret", "~*", "&*", "+@all"]).await;
    let logs = tenure_sequence::RedisLogs::open(&client, "set").unwrap();
    let (log, progress) = (logs.log("acme").unwrap(), logs.progress("acme").unwrap());
    progress.init(0).await.unwrap();
    log.append(["a"]).await.unwrap();
    // The whole script, a command in it, all of the user's words, and the password.
    let troubles: [&[&str]; 4] = [&["-evalsha"], &["-hget", "-xrange"], &["-@all"], &["resetpass", ">other"]];
    for (at, rules) in (1..).zip(troubles) {
        let again = user(&server, rules).await;
        if rules.contains(&"resetpass") {
            let fresh = tenure_sequence::RedisLogs::open(&again, "set").unwrap();
            let error = fresh.log("acme").unwrap().read(1, 1).await.unwrap_err();
            assert!(error.is_transient(), "{rules:?}: {error:?}");
            let error = fresh.progress("acme").unwrap().load().await.unwrap_err();
            assert!(error.is_transient(), "{rules:?}: {error:?}");
            continue;
        }
        let error = log.read(1, 1).await.unwrap_err();
        assert!(error.is_transient(), "{rules:?}: {error:?}");
        let error = progress.save(at).await.unwrap_err();
        assert!(error.is_transient(), "{rules:?}: {error:?}");
        user(&server, &["+@all"]).await;
        progress.save(at).await.unwrap();
        assert_eq!(log.read(1, 1).await.unwrap(), ["a"]);
    }
    user(&server, &["resetpass", ">secret"]).await;
    // A consumer lives through it.
    let consumer = Consumer::builder(logs.log("acme").unwrap(), MemoryProgress::new());
    let consumer = consumer.build(async |_: Delivery<bytes::Bytes>| Ok::<_, BoxError>(())).unwrap();
    user(&server, &["-evalsha"]).await;
    consumer.start().await.unwrap();
    eventually(PATIENCE, "the trouble to be shown", async || {
        matches!(consumer.explain().verdict, Verdict::SourceFails { .. })
    })
    .await;
    user(&server, &["+@all"]).await;
    eventually(PATIENCE, "the job to be done", async || consumer.stored() == 1).await;
}
