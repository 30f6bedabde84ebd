//! A node that leaves its pool when its process is asked to end. These tests send signals to their own process, which
//! is one for all of them, so each test has it exclusively.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{ExitCode, Termination};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tenure_pool::node::Backend;
use tenure_pool::{Client, CloseReport, Error, Job, JobHandler, JobState, MemoryStore, Node};
use tenure_testing::{ChildProcess, RedisServer, eventually};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, MutexGuard, Semaphore};

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

async fn signals() -> MutexGuard<'static, ()> {
    static PROCESS: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);
    // A run in the background begins with SIGINT ignored.
    drop(signal(SignalKind::interrupt()).unwrap());
    PROCESS.lock().await
}

fn tell(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

async fn join(store: impl Into<Backend>, name: &str) -> Node {
    let builder = Node::builder("service", store).name(name).assume_fresh(true);
    builder.join_settle(SHORT).stable_after(SHORT).join().await.unwrap()
}

fn obedient() -> impl JobHandler {
    tenure_pool::run(|job: Job| async move {
        job.cancelled().await;
        Ok(())
    })
}

/// Its jobs end only when they are allowed to.
fn stubborn(allowed: &Arc<Semaphore>) -> impl JobHandler + use<> {
    let allowed = allowed.clone();
    tenure_pool::run(move |_: Job| {
        let allowed = allowed.clone();
        async move {
            allowed.acquire().await?.forget();
            Ok(())
        }
    })
}

async fn owner(node: &Node, key: &str) -> Option<String> {
    let job = node.inspect().job(key).await.unwrap()?;
    let worker =
        node.inspect().workers().await.unwrap().into_iter().find(|worker| Some(worker.id) == job.owner)?;
    (job.state == JobState::Running).then_some(worker.node)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_hands_every_job_on_and_the_report_is_a_success() {
    let _signals = signals().await;
    let server = RedisServer::start().unwrap();
    let on_redis = Client::open(&server.url()).unwrap();
    let stores: [Backend; 2] = [MemoryStore::new().into(), on_redis.into()];
    for (signal, store) in [Signal::TERM, Signal::INT].into_iter().zip(stores) {
        let leaves = join(store.clone(), "leaves").await;
        let serving = tokio::spawn(leaves.close_on_signal(PATIENCE));
        leaves.add_worker(obedient()).await.unwrap();
        for number in 0..20 {
            leaves.dispatch((format!("job-{number}"), "")).await.unwrap();
        }
        let stays = join(store, "stays").await;
        stays.add_worker(obedient()).await.unwrap();
        tell(signal);
        let report = serving.await.unwrap().unwrap();
        assert!(report.complete && report.left.is_empty(), "{report:?}");
        assert_eq!(report.report(), ExitCode::SUCCESS);
        for number in 0..20 {
            let key = format!("job-{number}");
            eventually(PATIENCE, "the job to move", async || {
                owner(&stays, &key).await.as_deref() == Some("stays")
            })
            .await;
        }
        stays.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_hands_off_the_jobs_of_all_shards() {
    let _signals = signals().await;
    let store = MemoryStore::new();
    let join = async |name: &str| {
        let builder = Node::builder("service", &store).shards(3).name(name).assume_fresh(true);
        builder.join_settle(SHORT).stable_after(SHORT).join().await.unwrap()
    };
    let (leaves, stays) = (join("leaves").await, join("stays").await);
    let serving = tokio::spawn(leaves.close_on_signal(PATIENCE));
    leaves.add_worker(obedient()).await.unwrap();
    for number in 0..20 {
        leaves.dispatch((format!("job-{number}"), "")).await.unwrap();
    }
    stays.add_worker(obedient()).await.unwrap();
    tell(Signal::TERM);
    let report = serving.await.unwrap().unwrap();
    assert!(report.complete && report.left.is_empty(), "{report:?}");
    eventually(PATIENCE, "every job to move", async || {
        let workers = stays.inspect().workers().await.unwrap();
        let jobs = stays.inspect().jobs().await.unwrap();
        let running = jobs.iter().filter(|job| job.state == JobState::Running).count();
        running == 20 && workers.len() == 3 && workers.iter().all(|w| w.node == "stays")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_past_its_time_names_the_rest_and_the_node_goes_on() {
    let _signals = signals().await;
    let (store, allowed) = (MemoryStore::new(), Arc::new(Semaphore::new(0)));
    let node = join(&store, "slow").await;
    let serving = node.close_on_signal(Duration::from_millis(300));
    node.add_worker(stubborn(&allowed)).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    tell(Signal::TERM);
    let report = serving.await.unwrap();
    assert!(!report.complete);
    assert_eq!(report.left.iter().map(ToString::to_string).collect::<Vec<_>>(), ["key"]);
    assert_eq!(report.report(), ExitCode::FAILURE);
    allowed.add_permits(1);
    assert!(node.close().await.unwrap().complete, "it can be closed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_drops_everything_at_once() {
    let _signals = signals().await;
    let (store, allowed) = (MemoryStore::new(), Arc::new(Semaphore::new(0)));
    let node = join(&store, "stuck").await;
    let serving = tokio::spawn(node.close_on_signal(Duration::from_secs(3600)));
    node.add_worker(stubborn(&allowed)).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    tell(Signal::TERM);
    eventually(PATIENCE, "the node to leave", async || {
        node.inspect()
            .workers()
            .await
            .unwrap()
            .iter()
            .all(|worker| worker.state == tenure_pool::inspect::MemberState::Draining)
    })
    .await;
    // The same signal once more, as from a supervisor that sends it to the process and to its group.
    tell(Signal::TERM);
    let told = tokio::time::Instant::now();
    eventually(PATIENCE, "half a second to pass", async || told.elapsed() > Duration::from_millis(600)).await;
    assert!(!serving.is_finished(), "a signal that comes twice is one");
    tell(Signal::INT);
    let report = tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert!(!report.complete);
    assert_eq!(report.left.len(), 1, "{report:?}");
    node.closed().await;
    assert!(matches!(node.close().await, Err(Error::NodeClosed)), "it has not left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_pool_is_shut_down_needs_no_signal() {
    let _signals = signals().await;
    let store = MemoryStore::new();
    let (a, b) = (join(&store, "a").await, join(&store, "b").await);
    let serving = tokio::spawn(a.close_on_signal(PATIENCE));
    assert!(b.operate().shutdown().await.unwrap().complete);
    let report: CloseReport = tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert!(report.complete);
}

#[test]
fn without_a_runtime_it_says_so() {
    let store = MemoryStore::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let node = runtime.block_on(join(&store, "elsewhere"));
    let serving = node.close_on_signal(PATIENCE);
    let refused = runtime.block_on(serving);
    assert!(matches!(refused, Err(Error::Signals(_))), "{refused:?}");
}

/// A process whose only job blocks its thread for ever.
fn blocked_process() -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let node = join(&MemoryStore::new(), "blocked").await;
        let serving = node.close_on_signal(Duration::from_millis(300));
        let blocks = tenure_pool::run(|_: Job| async {
            println!("blocked");
            loop {
                std::thread::park();
            }
        });
        node.add_worker(blocks).await.unwrap();
        node.submit(("key", "")).await.unwrap();
        serving.await.unwrap().exit()
    })
}

#[tokio::test]
async fn a_process_ends_within_its_budget_with_a_blocked_thread() {
    const CHILD: &str = "TENURE_BLOCKED_PROCESS";
    if std::env::var_os(CHILD).is_some() {
        std::thread::spawn(|| blocked_process()).join().unwrap();
    }
    let name = "a_process_ends_within_its_budget_with_a_blocked_thread";
    let mut child = ChildProcess::of_test(name, (CHILD, "")).unwrap();
    while !child.line(PATIENCE).await.unwrap().contains("blocked") {}
    let ended = child.leave(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(1));
}

#[tokio::test]
async fn a_process_that_ignores_ctrl_c_goes_on_ignoring_it() {
    const CHILD: &str = "TENURE_IGNORING_PROCESS";
    let name = "a_process_that_ignores_ctrl_c_goes_on_ignoring_it";
    if std::env::var_os(CHILD).is_some() {
        let node = join(&MemoryStore::new(), "background").await;
        let serving = tokio::spawn(node.close_on_signal(PATIENCE));
        tell(Signal::INT);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 2, 2, "SIGINT is ignored as before");
        assert!(!serving.is_finished());
        tell(Signal::TERM);
        assert!(serving.await.unwrap().unwrap().complete);
        return;
    }
    // As a script starts a program in the background.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' INT; exec \"$0\" --exact \"$1\" --nocapture"]);
    let output = command.arg(std::env::current_exe().unwrap()).arg(name).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
