//! `graceful-shutdown`: two services; one gets SIGTERM, hands its jobs off and ends well.

use std::collections::BTreeMap;
use std::env;
use std::future::IntoFuture;
use std::path::Path;
use std::process::{ExitCode, Termination};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tenure_examples::PATIENCE;
use tenure_pool::inspect::{MemberState, WorkerInfo};
use tenure_pool::{Client, CloseReport, Job, Node, NodeBuilder};
use tenure_testing::history::{Event, Expect, History, check};
use tenure_testing::{ChildProcess, Endpoint, Failure, end_with_parent, within};

const POOL: &str = "example-shutdown";
const JOBS: usize = 30;
/// The time in which a service must leave. Its supervisor kills it after a longer time.
const BUDGET: Duration = Duration::from_secs(20);

type Result<T> = std::result::Result<T, Failure>;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    match &words[..] {
        [name, history] => {
            end_with_parent();
            Ok(service(name, Path::new(history)).await?.report())
        }
        [] => story().await.map(|()| ExitCode::SUCCESS),
        _ => Err("usage: graceful-shutdown".into()),
    }
}

/// One service, in a process of its own. For an orderly end it only needs `close_on_signal`.
async fn service(name: &str, history: &Path) -> Result<CloseReport> {
    let node = node(&Endpoint::from_env()?, name)?.join().await?;
    let told_to_end = node.close_on_signal(BUDGET);
    let worker = (name.to_owned(), Arc::new(History::append_to(history)?));
    let handler = tenure_pool::run(move |job: Job| {
        let (worker, history) = worker.clone();
        async move {
            let key = job.key().to_string();
            history.started(&key, job.token().0, &worker);
            job.cancelled().await;
            history.stopped(&key, job.token().0, &worker);
            Ok(())
        }
    });
    node.add_worker(handler).await?;
    println!("ready");
    Ok(told_to_end.await?)
}

fn node(redis: &Endpoint, name: &str) -> Result<NodeBuilder> {
    let node = Node::builder(POOL, Client::open(redis.url())?).name(name);
    Ok(node.join_settle(Duration::from_millis(100)).assume_fresh(redis.private().is_some()))
}

async fn story() -> Result<()> {
    let redis = Endpoint::from_env()?;
    let dir = tempfile::tempdir()?;
    let history = dir.path().join("history");
    let caller = node(&redis, "caller")?.join().await?;
    let mut services = Vec::new();
    for name in ["one", "two"] {
        let args = [name.as_ref(), history.as_os_str()];
        let mut service = ChildProcess::of_this_program(name, args, &[("REDIS_URL", redis.url())])?;
        service.line(PATIENCE).await?;
        services.push(service);
        let is_up = |worker: &WorkerInfo| worker.node == name && worker.state == MemberState::Up;
        within(PATIENCE, "a service's worker", async || {
            caller.inspect().workers().await.is_ok_and(|workers| workers.iter().any(is_up))
        })
        .await?;
    }
    let jobs = (0..JOBS).map(|number| caller.dispatch((format!("job-{number}"), "")).into_future());
    try_join_all(jobs).await?;
    let before = all_running(&history).await?;
    show(&before);

    println!("one is told to end");
    services.remove(0).leave_well(PATIENCE).await?;
    println!("one has ended, with exit code 0");
    show(&all_running(&history).await?);

    let report = check(&History::load(&history)?, &Expect::default());
    let of_one = before.get("one").copied().unwrap_or_default();
    println!("jobs that were started again, besides those of one: {}", report.starts - report.keys - of_one);
    println!("jobs that ran twice at once, or not at all: {}", report.faults.len());
    caller.operate().shutdown().await?;
    for mut service in services {
        service.leave_well(PATIENCE).await?;
    }
    Ok(())
}

/// The split differs from pool to pool, since each draws the keys of its placement.
fn show(by_service: &BTreeMap<String, usize>) {
    let services: Vec<_> = by_service.keys().map(String::as_str).collect();
    println!("{} jobs run on: {}", by_service.values().sum::<usize>(), services.join(", "));
}

/// Waits until every job's handler runs, and counts them by the service that runs them. The pool says that a job runs
/// as soon as its worker may call the handler, which is a moment earlier.
async fn all_running(history: &Path) -> Result<BTreeMap<String, usize>> {
    let all_run = async || running(history).is_ok_and(|running| running.len() == JOBS);
    within(PATIENCE, "every job to run", all_run).await?;
    let mut by_service = BTreeMap::new();
    for service in running(history)?.into_values() {
        *by_service.entry(service).or_default() += 1;
    }
    Ok(by_service)
}

/// The running handlers, each as its job's key and its service.
fn running(history: &Path) -> Result<BTreeMap<String, String>> {
    let mut running = BTreeMap::new();
    for entry in History::load(history)?.entries() {
        match entry.event {
            Event::Started { key, worker, .. } => {
                running.insert(key, worker);
            }
            Event::Stopped { key, .. } => {
                running.remove(&key);
            }
            _ => {}
        }
    }
    Ok(running)
}
