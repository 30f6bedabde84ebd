//! Jobs that come by the calendar: in virtual time on the store in memory, and on Redis.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use serde::de::IgnoredAny;
use tenure_jobs::{
    CatchUp, Client, Cron, Ctx, Error, JobId, Jobs, MemoryStore, Outcome, Planner, Queue, State, Worker,
};
use tenure_testing::{RedisServer, eventually};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
/// 2026-11-22T12:00:00Z
const NOON: u64 = 1_795_348_800_000;

/// A set whose clock is the runtime's, which stands still and leaps.
fn set() -> MemoryStore {
    let began = Instant::now();
    MemoryStore::with_clock(move || NOON + began.elapsed().as_millis() as u64)
}

async fn node(store: &MemoryStore, name: &str) -> Jobs {
    Jobs::over(Arc::new(store.clone())).name(name).queue(Queue::new("q")).join().await.unwrap()
}

/// The occurrences that have run, with their data.
#[derive(Clone, Default)]
struct Ran(Arc<Mutex<Vec<String>>>);

impl Ran {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn of(&self, name: &str) -> Vec<String> {
        let all = self.all();
        let of = all.iter().filter_map(|line| line.split_once('@').filter(|(of, _)| *of == name));
        of.map(|(_, at)| at.to_owned()).collect()
    }
}

/// Runs occurrences, and checks that they come at their time.
fn worker(jobs: &Jobs, ran: &Ran, began: Option<Instant>) -> Worker {
    let ran = ran.clone();
    let builder = jobs.worker("q", move |ctx: Ctx, what: String| {
        let ran = ran.clone();
        async move {
            if let Some(began) = began {
                let due = ctx.due_at().unwrap().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
                assert!(NOON + began.elapsed().as_millis() as u64 >= due, "{} runs early", ctx.id());
            }
            ran.0.lock().unwrap().push(format!("{} {what}", ctx.id()).trim().to_owned());
            Ok(())
        }
    });
    builder.start().unwrap()
}

fn cron(name: &str, expression: &str) -> Cron {
    Cron::new(name, expression, "q", "")
}

async fn plan(jobs: &Jobs, crons: &[Cron]) -> Planner {
    jobs.plan(crons.to_vec()).await.unwrap()
}

fn every_five_minutes() -> Vec<String> {
    (1..=12).map(|n| format!("2026-11-22T{:02}:{:02}:00Z", 12 + n / 12, 5 * n % 60)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_occurrence_runs_once_however_many_nodes_plan() {
    let (store, ran, began) = (set(), Ran::default(), Instant::now());
    let nodes = [node(&store, "a").await, node(&store, "b").await, node(&store, "c").await];
    let mut parts = Vec::new();
    for jobs in &nodes {
        parts.push((plan(jobs, &[cron("report", "*/5 * * * *")]).await, worker(jobs, &ran, Some(began))));
    }
    sleep(61 * MINUTE).await;
    assert_eq!(ran.of("report"), every_five_minutes());
}

#[tokio::test(start_paused = true)]
async fn a_planner_that_dies_is_replaced() {
    let (store, ran) = (set(), Ran::default());
    let (first, second) = (node(&store, "first").await, node(&store, "second").await);
    let _first = plan(&first, &[cron("report", "*/5 * * * *")]).await;
    sleep(Duration::from_millis(10)).await;
    // In the middle of its run, perhaps.
    first.abandon();
    let _second = plan(&second, &[]).await;
    let _worker = worker(&second, &ran, None);
    sleep(61 * MINUTE).await;
    assert_eq!(ran.of("report"), every_five_minutes());
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_caught_up_as_asked() {
    let (store, ran) = (set(), Ran::default());
    let every = |name: &str, catch_up| cron(name, "*/10 * * * *").catch_up(catch_up);
    let crons =
        [every("none", CatchUp::None), every("last", CatchUp::Last), every("three", CatchUp::Most(3))];
    {
        let jobs = node(&store, "a").await;
        let planner = plan(&jobs, &crons).await;
        sleep(5 * MINUTE).await;
        planner.close(MINUTE).await.unwrap();
        jobs.close();
    }
    // Nobody is there from 12:05 to 13:05.
    sleep(60 * MINUTE).await;
    let jobs = node(&store, "b").await;
    let _worker = worker(&jobs, &ran, None);
    let _planner = plan(&jobs, &crons).await;
    sleep(10 * MINUTE).await;
    assert_eq!(ran.of("none"), ["2026-11-22T13:10:00Z"]);
    assert_eq!(ran.of("last"), ["2026-11-22T13:00:00Z", "2026-11-22T13:10:00Z"]);
    let minutes: Vec<_> = ran.of("three").iter().map(|at| at[11..16].to_owned()).collect();
    assert_eq!(minutes, ["12:40", "12:50", "13:00", "13:10"]);
}

#[tokio::test(start_paused = true)]
async fn a_cron_that_is_replaced_takes_its_occurrences_back() {
    let (store, ran) = (set(), Ran::default());
    let (first, second) = (node(&store, "a").await, node(&store, "b").await);
    let _worker = worker(&first, &ran, None);
    let _first = plan(&first, &[Cron::new("x", "* * * * *", "q", "old")]).await;
    sleep(Duration::from_secs(30)).await;
    let planned = first.crons().await.unwrap()[0].planned_until;
    assert!(planned.is_some_and(|until| until > UNIX_EPOCH + Duration::from_millis(NOON) + MINUTE));
    // 12:01 is there already.
    let _second = plan(&second, &[Cron::new("x", "*/2 * * * *", "q", "new")]).await;
    sleep(4 * MINUTE).await;
    assert_eq!(ran.of("x"), ["2026-11-22T12:02:00Z new", "2026-11-22T12:04:00Z new"]);
    let crons = second.crons().await.unwrap();
    assert_eq!((crons.len(), &*crons[0].name, &*crons[0].expression), (1, "x", "*/2 * * * *"));
}

#[tokio::test(start_paused = true)]
async fn a_cron_that_is_brought_in_again_goes_on() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let mut planners = Vec::new();
    for _ in 0..30 {
        planners.push(plan(&jobs, &[cron("report", "*/5 * * * *")]).await);
        sleep(2 * MINUTE).await;
    }
    sleep(MINUTE).await;
    assert_eq!(ran.of("report"), every_five_minutes());
}

#[tokio::test(start_paused = true)]
async fn a_cron_that_is_removed_comes_no_more() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let _planner = plan(&jobs, &[cron("x", "* * * * *"), cron("y", "*/3 * * * *")]).await;
    sleep(Duration::from_secs(90)).await;
    // 12:02 is there already.
    assert!(jobs.remove_cron("x").await.unwrap());
    assert!(!jobs.remove_cron("x").await.unwrap() && !jobs.remove_cron("z").await.unwrap());
    sleep(5 * MINUTE).await;
    assert_eq!(ran.all(), ["x@2026-11-22T12:01:00Z", "y@2026-11-22T12:03:00Z", "y@2026-11-22T12:06:00Z"]);
    assert_eq!(jobs.crons().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_removal_that_was_cut_off_leaves_no_occurrence_behind() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let jobs = Jobs::builder("s", client).name("a").queue(Queue::new("q")).join().await.unwrap();
    let _planner = plan(&jobs, &[cron("x", "*/10 * * * * *")]).await;
    let delayed = async || jobs.queue("q").unwrap().figures().await.unwrap().delayed;
    eventually(MINUTE, "it is planned", async || {
        let planned = jobs.crons().await.unwrap()[0].planned_until;
        if planned.is_some() && delayed().await >= 8 { Ok(()) } else { Err(planned) }
    })
    .await;
    {
        // The cron is gone, and nobody waits for the rest.
        let mut removal = pin!(jobs.remove_cron("x"));
        while futures::poll!(&mut removal).is_pending() && !jobs.crons().await.unwrap().is_empty() {}
    }
    jobs.remove_cron("x").await.unwrap();
    assert_eq!(delayed().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_cron_goes_on_soon_after_long_trouble() {
    let (store, ran) = (set(), Ran::default());
    // For an hour nobody has declared its queue.
    let first = Jobs::over(Arc::new(store.clone())).name("a").join().await.unwrap();
    let _planner = plan(&first, &[cron("x", "* * * * *")]).await;
    sleep(60 * MINUTE + Duration::from_secs(1)).await;
    let second = node(&store, "b").await;
    let _worker = worker(&second, &ran, None);
    sleep(2 * MINUTE).await;
    assert_eq!(ran.of("x"), ["2026-11-22T13:01:00Z", "2026-11-22T13:02:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_cron_loses_nothing_when_its_first_run_is_cut_off() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let every = |queue: &str, what: &str| Cron::new("x", "*/10 * * * * *", queue, what);
    let _first = plan(&jobs, &[every("q", "old")]).await;
    sleep(Duration::from_secs(32)).await;
    // The old ones are taken back. The new ones cannot be added: their queue is not there yet.
    let _second = plan(&jobs, &[every("late", "new")]).await;
    sleep(Duration::from_secs(50)).await;
    let late =
        Jobs::over(Arc::new(store.clone())).name("late").queue(Queue::new("late")).join().await.unwrap();
    let all = ran.clone();
    let late_worker = late.worker("late", move |ctx: Ctx, what: String| {
        let all = all.clone();
        async move {
            all.0.lock().unwrap().push(format!("{} {what}", ctx.id()));
            Ok(())
        }
    });
    let _late = late_worker.start().unwrap();
    sleep(Duration::from_secs(20)).await;
    let mut seconds: Vec<_> = ran.of("x").iter().map(|at| format!("{}{}", &at[14..19], &at[20..])).collect();
    seconds.sort();
    let expected = (1..=10).map(|n| {
        let what = if n <= 3 { "old" } else { "new" };
        format!("{:02}:{:02} {what}", n / 6, n % 6 * 10)
    });
    assert_eq!(seconds, expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_changed_cron_catches_up_as_asked_after_long_trouble() {
    for (catch_up, expected) in [
        (CatchUp::None, &[][..]),
        (CatchUp::Last, &["12:10"]),
        (CatchUp::Most(3), &["12:08", "12:09", "12:10"]),
        // From the change on, though the former one was planned further than that.
        (CatchUp::Most(100), &["12:01", "12:02", "12:03"]),
    ] {
        for changed_again in [true, false] {
            let (store, ran) = (set(), Ran::default());
            let jobs = Jobs::over(Arc::new(store.clone())).name("a").queue(Queue::new("old"));
            let jobs = jobs.join().await.unwrap();
            let mut parts = vec![plan(&jobs, &[Cron::new("x", "* * * * *", "old", "")]).await];
            sleep(Duration::from_secs(30)).await;
            // The old ones are taken back. For ten minutes the new ones cannot be added: their queue is not there.
            let queue = if changed_again { "late" } else { "q" };
            let changed = Cron::new("x", "* * * * *", queue, "late").catch_up(catch_up);
            parts.push(plan(&jobs, &[changed]).await);
            sleep(10 * MINUTE).await;
            let after = node(&store, "b").await;
            let _worker = worker(&after, &ran, None);
            if changed_again {
                parts.push(plan(&after, &[cron("x", "* * * * *").catch_up(catch_up)]).await);
            }
            sleep(2 * MINUTE).await;
            let mut minutes: Vec<_> = ran.of("x").iter().map(|at| at[11..16].to_owned()).collect();
            minutes.sort();
            let caught_up = minutes.len() - 2;
            assert_eq!(minutes[caught_up..], ["12:11", "12:12"], "{catch_up:?} {changed_again}");
            minutes.truncate(caught_up);
            if catch_up == CatchUp::Most(100) {
                assert_eq!(minutes.len(), 10);
                minutes.truncate(3);
            }
            assert_eq!(minutes, expected, "{catch_up:?} {changed_again}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cron_that_is_changed_twice_keeps_nothing_of_the_first() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let mut parts = vec![plan(&jobs, &[Cron::new("x", "* * * * *", "q", "old")]).await];
    sleep(Duration::from_secs(30)).await;
    // 12:01 and 12:02 are there already. Nothing is planned meanwhile.
    let plans = jobs.queue("tenure:cron").unwrap();
    plans.pause().await.unwrap();
    for (expression, what) in [("*/3 * * * *", "second"), ("*/2 * * * *", "third"), ("*/2 * * * *", "new")] {
        parts.push(plan(&jobs, &[Cron::new("x", expression, "q", what)]).await);
    }
    plans.resume().await.unwrap();
    sleep(4 * MINUTE).await;
    assert_eq!(ran.of("x"), ["2026-11-22T12:02:00Z new", "2026-11-22T12:04:00Z new"]);
}

#[tokio::test(start_paused = true)]
async fn a_changed_cron_that_is_removed_leaves_nothing_of_the_first() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let _first = plan(&jobs, &[cron("x", "* * * * *")]).await;
    sleep(Duration::from_secs(30)).await;
    jobs.queue("tenure:cron").unwrap().pause().await.unwrap();
    let _second = plan(&jobs, &[cron("x", "*/7 * * * *")]).await;
    assert!(jobs.remove_cron("x").await.unwrap());
    sleep(4 * MINUTE).await;
    assert_eq!(ran.of("x"), Vec::<String>::new());
}

/// A cron whose planning job runs while all data are lost is there again, and is listed again when that run has ended. A
/// node that brings it in does not wait for that.
async fn is_listed_again_after_a_loss(jobs: &Jobs, lose: impl AsyncFnOnce()) {
    let x = || cron("x", "0 0 1 1 *");
    let planner = plan(jobs, &[x()]).await;
    eventually(MINUTE, "it is planned", async || {
        let crons = jobs.crons().await.unwrap();
        if crons[0].planned_until.is_some() { Ok(()) } else { Err(crons) }
    })
    .await;
    planner.close(MINUTE).await.unwrap();
    drop(planner);
    // In the place of the planner: a run that does not end.
    let (id, begun) = (JobId::new("cron:x").unwrap(), Arc::new(Notify::new()));
    let begins = begun.clone();
    let goes_on = Arc::new(Notify::new());
    let ends = goes_on.clone();
    let hangs = jobs.worker("tenure:cron", move |_: Ctx, _: IgnoredAny| {
        let ends = ends.clone();
        begins.notify_one();
        async move {
            ends.notified().await;
            Ok(Outcome::later(MINUTE, "as planned"))
        }
    });
    let hangs = hangs.start().unwrap();
    jobs.run_now(&id).await.unwrap();
    begun.notified().await;
    lose().await;
    eventually(MINUTE, "it runs again", async || match jobs.get(&id).await.unwrap() {
        Some(view) if view.state() == State::Running => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(jobs.crons().await.unwrap(), []);
    let _planner = plan(jobs, &[x()]).await;
    assert_eq!(jobs.get(&id).await.unwrap().unwrap().state(), State::Running);
    // It takes no other run, and this one ends.
    tokio::join!(async { hangs.close(MINUTE).await.unwrap() }, async { goes_on.notify_one() });
    let crons = eventually(MINUTE, "it is listed", async || {
        let crons = jobs.crons().await.unwrap();
        if crons.is_empty() { Err(crons) } else { Ok(crons) }
    })
    .await;
    assert_eq!((crons.len(), &*crons[0].name), (1, "x"));
    assert!(crons[0].planned_until.is_some(), "it goes on from where it was");
}

#[tokio::test(start_paused = true)]
async fn a_cron_is_listed_again_after_a_loss() {
    let store = set();
    let jobs = node(&store, "a").await;
    is_listed_again_after_a_loss(&jobs, async || store.wipe()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cron_is_listed_again_after_a_loss_on_redis() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let jobs = Jobs::builder("s", client.clone()).name("a").queue(Queue::new("q")).join().await.unwrap();
    is_listed_again_after_a_loss(&jobs, async || {
        client.commands().command(&redis::cmd("FLUSHALL")).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn crons_go_on_after_a_loss_of_all_data() {
    let (store, ran) = (set(), Ran::default());
    let jobs = node(&store, "a").await;
    let _worker = worker(&jobs, &ran, None);
    let _planner = plan(&jobs, &[cron("x", "*/10 * * * *")]).await;
    sleep(15 * MINUTE).await;
    store.wipe();
    sleep(15 * MINUTE + Duration::from_secs(1)).await;
    let minutes: Vec<_> = ran.of("x").iter().map(|at| at[14..16].to_owned()).collect();
    assert_eq!(minutes, ["10", "20", "30"]);
}

#[tokio::test(start_paused = true)]
async fn a_cron_that_cannot_be_is_refused_before_anything_is_written() {
    let store = set();
    let jobs = node(&store, "a").await;
    let before = store.dump_without_lanes();
    let good = || cron("good", "@hourly");
    for bad in [
        cron("x", "61 * * * *"),
        cron("x", "0 0 30 2 *"),
        cron("x", ""),
        cron(&"x".repeat(129), "@daily"),
        good().zone("Mars/Olympus"),
        good().catch_up(CatchUp::Most(1_001)),
    ] {
        let refused = jobs.plan([good(), bad.clone()]).await;
        assert!(matches!(refused, Err(Error::Cron { .. })), "{bad:?}: {refused:?}");
    }
    assert!(matches!(jobs.plan([good().priority(10)]).await, Err(Error::Setting(_))));
    for bad in [cron("", "@daily"), Cron::new("x", "@daily", "no queue", ""), good().group("")] {
        assert!(matches!(jobs.plan([bad]).await, Err(Error::Name(_))));
    }
    assert_eq!(store.dump_without_lanes(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_second_comes_once_on_redis() {
    let (server, ran) = (RedisServer::start().unwrap(), Ran::default());
    let mut parts = Vec::new();
    for name in ["a", "b"] {
        let client = Client::open(&server.url()).unwrap();
        let jobs = Jobs::builder("s", client).name(name).queue(Queue::new("q")).join().await.unwrap();
        let crons = ["one two", "three"].map(|name| cron(name, "* * * * * *").zone("Asia/Kolkata"));
        parts.push((plan(&jobs, &crons).await, worker(&jobs, &ran, None), jobs));
    }
    eventually(MINUTE, "four seconds pass", async || {
        let all = ran.all();
        if ran.of("one%20two").len() >= 4 && ran.of("three").len() >= 4 { Ok(()) } else { Err(all) }
    })
    .await;
    let all = ran.all();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
}
