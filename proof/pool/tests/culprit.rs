//! A payload that crashes its process again and again, with processes that restart at once. It is parked, and no
//! other job is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tenure_pool::{Client, Job, JobSpec, JobState, Node, NodeBuilder, Settings};
use tenure_testing::{ChildProcess, RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(240);
const CHILD: &str = "TENURE_CRASHING_PROCESS";
const BYSTANDERS: usize = 8;

/// A job is proven after two seconds, so pauses end at eight.
fn builder(url: &str) -> NodeBuilder {
    let settings = Settings {
        worker_ttl: Duration::from_secs(2),
        join_settle: Duration::from_millis(50),
        stable_run: Duration::from_secs(2),
        max_attempts: 8,
        ..Settings::default()
    };
    Node::builder("crash-loop", Client::open(url).unwrap()).settings(settings).assume_fresh(true)
}

/// A process that runs its jobs until it gets the culprit.
fn doomed_process(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let node = builder(url).join().await.unwrap();
        let work = tenure_pool::run(|job: Job| async move {
            if &job.payload()[..] == b"poison" {
                std::process::abort();
            }
            job.cancelled().await;
            Ok(())
        });
        node.add_worker(work).await.unwrap();
        node.closed().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_that_aborts_its_process_is_parked_alone() {
    if let Ok(url) = std::env::var(CHILD) {
        std::thread::spawn(move || doomed_process(&url)).join().unwrap();
        return;
    }
    let server = RedisServer::start().unwrap();
    let start = || {
        let name = "a_payload_that_aborts_its_process_is_parked_alone";
        ChildProcess::of_test(name, (CHILD, &server.url())).unwrap()
    };
    let mut child = start();
    let watcher = builder(&server.url()).client_only().join().await.unwrap();
    let bystanders = (0..BYSTANDERS).map(|n| JobSpec::new(format!("tenant-{n}"), "work"));
    for accepted in watcher.submit_many(bystanders.collect::<Vec<_>>()).await {
        accepted.unwrap();
    }
    watcher.submit(("culprit", "poison")).await.unwrap();
    let mut crashes = 0;
    eventually(PATIENCE, "the culprit to be parked", async || {
        if !child.is_running() {
            crashes += 1;
            child = start();
        }
        matches!(watcher.inspect().job("culprit").await, Ok(Some(job)) if job.state == JobState::Parked)
    })
    .await;
    let parked = watcher.inspect().parked().await.unwrap();
    let parked: Vec<_> = parked.iter().map(|job| job.key.to_string()).collect();
    assert_eq!(parked, ["culprit"], "after {crashes} crashes");
    eventually(PATIENCE, "all others to run", async || {
        let jobs = watcher.inspect().jobs().await.unwrap_or_default();
        jobs.iter().filter(|job| job.state == JobState::Running).count() == BYSTANDERS
    })
    .await;
    assert!(crashes >= 8, "{crashes}");
}
