//! Background jobs in the paused time of a test.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_jobs::{Cron, Ctx, Jobs, MemoryStore, Queue};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// What is told next, within a day of the test's time.
async fn next<T>(heard: &mut mpsc::UnboundedReceiver<T>) -> Option<T> {
    tokio::time::timeout(DAY, heard.recv()).await.expect("it comes within a day")
}

async fn join(store: &MemoryStore, name: &str, queue: Queue) -> Jobs {
    Jobs::in_memory(store.clone()).name(name).queue(queue).join().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_crashed_node_runs_again_when_its_lease_ends() {
    let store = MemoryStore::paused();
    let (told, mut heard) = mpsc::unbounded_channel();
    let work = |name: &'static str| {
        let told = told.clone();
        move |ctx: Ctx, (): ()| {
            let told = told.clone();
            async move {
                told.send((name, ctx.attempt()))?;
                if name == "first" {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        }
    };
    let first = join(&store, "first", Queue::new("q").lease(30 * SECOND)).await;
    let _worker = first.worker("q", work("first")).start().unwrap();
    first.add("q", &()).await.unwrap();
    assert_eq!(next(&mut heard).await.unwrap().0, "first");
    let second = join(&store, "second", Queue::new("q").lease(30 * SECOND)).await;
    let _worker = second.worker("q", work("second")).start().unwrap();
    sleep(5 * MINUTE).await;
    assert!(heard.try_recv().is_err(), "its lease is renewed");
    let crashed = Instant::now();
    first.abandon();
    assert_eq!(next(&mut heard).await.unwrap().0, "second");
    let gap = crashed.elapsed();
    assert!(gap > 10 * SECOND && gap < 40 * SECOND, "{gap:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_a_month_is_skipped() {
    let store = MemoryStore::paused();
    let (told, mut heard) = mpsc::unbounded_channel();
    let jobs = join(&store, "node", Queue::new("q")).await;
    let worker = jobs.worker("q", move |_: Ctx, (): ()| {
        let told = told.clone();
        async move { Ok(told.send(())?) }
    });
    let _worker = worker.start().unwrap();
    jobs.add("q", &()).delay(30 * DAY).await.unwrap();
    sleep(10 * MINUTE).await;
    assert!(heard.try_recv().is_err());
    let skipped = Instant::now();
    store.skip(30 * DAY);
    next(&mut heard).await.unwrap();
    assert!(skipped.elapsed() < 2 * SECOND, "the next tick sees that it is due: {:?}", skipped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_keeps_its_lease_over_any_skip() {
    let store = MemoryStore::paused();
    let (told, mut heard) = mpsc::unbounded_channel();
    let jobs = join(&store, "node", Queue::new("q").lease(10 * MINUTE)).await;
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let told = told.clone();
        async move {
            told.send(ctx.attempt())?;
            sleep(30 * MINUTE).await;
            Ok(())
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).keep(100 * DAY).await.unwrap().id;
    next(&mut heard).await;
    for _ in 0..12 {
        sleep(MINUTE).await;
        store.skip(DAY);
    }
    assert!(jobs.wait(&id).await.unwrap().is_done());
    assert!(heard.try_recv().is_err(), "it has run once");
}

/// 2026-10-25 00:00 UTC. In Berlin the clocks go back an hour at 01:00 UTC of this day: 02:30 comes twice.
const NIGHT: Duration = Duration::from_secs(1_792_886_400);

#[tokio::test(start_paused = true)]
async fn a_cron_comes_once_in_the_night_of_two_half_past_two() {
    let store = MemoryStore::paused();
    let (told, mut heard) = mpsc::unbounded_channel();
    let jobs = join(&store, "node", Queue::new("q")).await;
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let told = told.clone();
        async move { Ok(told.send(ctx.due_at())?) }
    });
    let _worker = worker.start().unwrap();
    store.skip_to(UNIX_EPOCH + NIGHT);
    let cron = Cron::new("report", "30 2 * * *", "q", &()).zone("Europe/Berlin");
    let _planner = jobs.plan([cron]).await.unwrap();
    let at = |minutes: u32| -> SystemTime { UNIX_EPOCH + NIGHT + minutes * MINUTE };
    // Nothing is due for half an hour. A skip into the 90 s that are planned ahead misses no occurrence.
    store.skip_to(at(29));
    assert_eq!(next(&mut heard).await, Some(Some(at(30))));
    // The other 02:30 of this night.
    store.skip_to(at(89));
    sleep(5 * MINUTE).await;
    assert!(heard.try_recv().is_err());
    // The next day's.
    store.skip_to(at(90) + DAY - MINUTE);
    assert_eq!(next(&mut heard).await, Some(Some(at(90) + DAY)));
}
