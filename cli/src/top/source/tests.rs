#![allow(clippy::unwrap_used)]

use tenure_pool::{BoxError, Job, JobSpec, JobState, MemoryStore, Node};
use tenure_testing::eventually;

use super::*;
use crate::top::picture::Supposed;
use crate::top::sample::key;

const PATIENCE: Duration = Duration::from_secs(30);

/// A pool in memory with these jobs, which wait for a worker.
async fn pool(jobs: u64) -> (Node, Source) {
    let store = MemoryStore::new();
    let node = Node::builder("feeds", store.clone()).name("n1").assume_fresh(true);
    // The ring stays as it is: nothing moves while a test looks.
    let node = node.join_settle(Duration::ZERO).stable_after(Duration::from_secs(3_600));
    let node = node.join().await.unwrap();
    let jobs: Vec<_> = (0..jobs).map(|n| JobSpec::new(format!("k{n:05}"), "x")).collect();
    for accepted in node.submit_many(jobs).await {
        accepted.unwrap();
    }
    let inspector = Inspector::open("feeds", store).await.unwrap();
    (node, Source::new(inspector))
}

fn jobs(filter: &str) -> Wanted {
    Wanted { jobs: Some(filter.to_owned()), ..Wanted::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_looks_at_some_thousand_jobs_however_many_there_are() {
    let (node, mut source) = pool(5_000).await;
    let first = source.read(&jobs("")).await.unwrap().jobs.unwrap();
    let looked = first.looked.unwrap();
    assert!((1..5_000).contains(&looked), "{looked}");
    assert_eq!(first.jobs.len(), 2_000);
    let whole = loop {
        let found = source.read(&jobs("")).await.unwrap().jobs.unwrap();
        if found.matching == 5_000 {
            break found;
        }
    };
    assert_eq!((whole.jobs.len(), whole.jobs[0].key.as_str()), (2_000, Some("k00000")), "the first by key");
    let one = loop {
        let found = source.read(&jobs("k04321")).await.unwrap().jobs.unwrap();
        if !found.jobs.is_empty() {
            break found;
        }
    };
    assert_eq!((one.filter.as_str(), one.matching), ("k04321", 1), "another filter begins anew");
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_worker_are_read_from_it() {
    let (node, mut source) = pool(40).await;
    let run = |job: Job| async move {
        job.cancelled().await;
        Ok::<_, BoxError>(())
    };
    let workers =
        [node.add_worker(tenure_pool::run(run)).await, node.add_worker(tenure_pool::run(run)).await];
    eventually(PATIENCE, "both workers to have jobs", async || {
        let figures = node.inspect().figures().await.unwrap();
        figures.workers.len() == 2 && figures.workers.iter().map(|of| of.jobs).sum::<u64>() == 40
    })
    .await;
    let mut all = 0;
    for worker in workers {
        let id = worker.unwrap().id().unwrap().0;
        let found = source.read(&jobs(&format!("worker:{id}"))).await.unwrap().jobs.unwrap();
        assert!(found.jobs.iter().all(|job| job.worker == Some(id) && job.node.as_deref() == Some("n1")));
        all += found.jobs.len();
    }
    assert_eq!(all, 40);
    let picture = source.read(&jobs("node:n1 state:queued")).await.unwrap();
    assert_eq!(picture.jobs.unwrap().matching, 0);
    assert_eq!(picture.workers.iter().map(|worker| worker.jobs).sum::<u64>(), 40);
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forecast_grows_until_it_is_that_of_the_command() {
    let (node, mut source) = pool(5_000).await;
    let run = |job: Job| async move {
        job.cancelled().await;
        Ok::<_, BoxError>(())
    };
    let mut workers = Vec::new();
    for _ in 0..2 {
        workers.push(node.add_worker(tenure_pool::run(run)).await.unwrap());
    }
    eventually(PATIENCE, "both workers to have all jobs", async || {
        let figures = node.inspect().figures().await.unwrap();
        figures.workers.len() == 2 && figures.workers.iter().map(|of| of.jobs).sum::<u64>() == 5_000
    })
    .await;
    let goes = workers[0].id().unwrap();
    let supposed = Supposed { goes: [(0, goes.0)].into(), joins: 1 };
    let wanted = Wanted { supposed: Some(supposed.clone()), ..Wanted::default() };
    let first = source.read(&wanted).await.unwrap().simulated.unwrap();
    assert!(!first.whole && (1..5_000).contains(&first.forecast.jobs), "{first:?}");
    let whole = async {
        loop {
            let seen = source.read(&wanted).await.unwrap().simulated.unwrap();
            if seen.whole {
                break seen.forecast;
            }
        }
    };
    let whole = tokio::time::timeout(PATIENCE, whole).await.unwrap();
    let all = source.pool.workers().await.unwrap();
    let command = crate::view::moves::forecast(&source.pool, &all, |worker| worker.id == goes, 1).await;
    let (Ok(command), json) = (command, |forecast| serde_json::to_value(forecast).unwrap()) else { panic!() };
    assert_eq!(json(&whole), json(&command));
    assert_eq!(whole.waits(), 0);
    // Without both, they wait. Something else is supposed, so the forecast begins anew.
    let both = workers.iter().map(|worker| (0, worker.id().unwrap().0)).collect();
    let nobody = Supposed { goes: both, joins: 0 };
    let wanted = Wanted { supposed: Some(nobody), ..Wanted::default() };
    let seen = source.read(&wanted).await.unwrap().simulated.unwrap();
    assert!(!seen.whole && seen.forecast.waits() == seen.forecast.jobs, "{seen:?}");
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_has_what_its_screen_wants() {
    let (node, mut source) = pool(3).await;
    node.operate().park("k00001", "by hand").await.unwrap();
    let wanted = Wanted { parked: Some("k0".to_owned()), explained: Some(key("k00001")), ..jobs("k00001") };
    let picture = source.read(&wanted).await.unwrap();
    let parked = picture.parked.unwrap().jobs;
    assert_eq!((parked.len(), parked[0].state), (1, JobState::Parked));
    assert!(picture.explained.unwrap().text.contains("by hand"));
    assert!(picture.rings.is_empty(), "nothing is read that is not shown");
    let ring = Wanted { ring: true, chain: Some(key("k00001")), ..Wanted::default() };
    let picture = source.read(&ring).await.unwrap();
    assert_eq!((picture.rings.len(), picture.chain.unwrap().workers.len()), (1, 0));
    assert!(picture.jobs.is_none() && picture.parked.is_none());
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_in_one_picture_only() {
    let (node, mut source) = pool(1).await;
    node.operate().park("k00000", "by hand").await.unwrap();
    let mut news = Vec::new();
    eventually(PATIENCE, "the event of the parked job", async || {
        news.extend(source.read(&Wanted::default()).await.unwrap().news);
        news.iter().any(|event| event.why.contains("by hand"))
    })
    .await;
    let again = source.read(&Wanted::default()).await.unwrap().news;
    assert!(again.iter().all(|event| !event.why.contains("by hand")));
    node.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_nobody_hears_ends() {
    let (node, source) = pool(0).await;
    let (wanted, asked) = watch::channel(Wanted::default());
    let (to, mut from) = mpsc::channel(1);
    let reading = tokio::spawn(run(source.pool, Duration::from_millis(10), asked, to));
    assert!(matches!(from.recv().await, Some(Msg::Read(_))));
    drop((from, wanted));
    tokio::time::timeout(PATIENCE, reading).await.unwrap().unwrap();
    node.close().await.unwrap();
}
