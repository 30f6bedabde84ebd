//! The engine threads of a process. The tests run one after another, because these threads belong to the process.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(target_os = "linux")]

mod metering;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use tenure_connection::{Client, Thread};
use tenure_pool::node::Backend;
use tenure_pool::{Job, MemoryStore, Node, NodeBuilder};
use tenure_testing::{RedisServer, eventually};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

/// The engine threads are this test's.
static ALONE: Mutex<()> = Mutex::const_new(());

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The names of the threads for engines and leases.
fn threads() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may have ended meanwhile.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let is_ours = |name: &String| name.starts_with("engine ") || name.starts_with("lease ");
    names.map(|name| name.trim_end().to_owned()).filter(is_ours).collect()
}

fn engines() -> Vec<String> {
    threads().into_iter().filter(|name| name.starts_with("engine ")).collect()
}

/// The names of this many engine threads.
fn named(count: usize) -> Vec<String> {
    let names: BTreeSet<_> = (1..=count).map(|number| format!("engine {number}")).collect();
    names.into_iter().collect()
}

async fn no_thread_is_left() {
    eventually(PATIENCE, "no thread", async || {
        let left = threads();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

fn builder(backend: impl Into<Backend>, name: impl Into<String>) -> NodeBuilder {
    let builder = Node::builder("engines", backend).name(name).assume_fresh(true);
    builder.join_settle(SHORT).stable_after(SHORT).worker_ttl(Duration::from_secs(4))
}

/// A node with a worker that runs this job.
async fn busy_node(backend: impl Into<Backend>, name: &str) -> Node {
    let node = builder(backend, name).join().await.unwrap();
    let handler = tenure_pool::run(|job: Job| async move {
        job.cancelled().await;
        Ok(())
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch((name, "")).await.unwrap();
    node
}

/// The tasks of an engine thread, without the one that looks.
async fn tasks(place: &Thread) -> usize {
    place.run(async { Handle::current().metrics().num_alive_tasks() }).await.unwrap() - 1
}

#[tokio::test]
async fn only_a_node_that_may_have_workers_has_an_engine_thread() {
    let _alone = ALONE.lock().await;
    let store = MemoryStore::new();
    let client = builder(store.clone(), "guest").client_only().join().await.unwrap();
    assert_eq!(engines(), named(0));
    let full = builder(store, "own").join().await.unwrap();
    assert_eq!(engines(), named(1));
    full.close().await.unwrap();
    client.close().await.unwrap();
    no_thread_is_left().await;
}

#[tokio::test]
async fn nodes_have_engine_threads_of_their_own_up_to_the_cores() {
    let _alone = ALONE.lock().await;
    let store = MemoryStore::new();
    let mut nodes = Vec::new();
    for number in 1..=cores() * 2 + 1 {
        nodes.push(busy_node(store.clone(), &format!("n{number}")).await);
        assert_eq!(engines(), named(number.min(cores())));
    }
    for node in nodes {
        node.close().await.unwrap();
    }
    no_thread_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_leaves_nothing_on_a_thread_that_others_share() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start().unwrap();
    let client = || Client::open(&server.url()).unwrap();
    let places: Vec<_> = (0..cores()).map(|_| Thread::shared().unwrap()).collect();
    let mut nodes = Vec::new();
    for number in 0..=cores() * 2 {
        nodes.push(busy_node(client(), &format!("n{number}")).await);
    }
    assert_eq!(engines(), named(cores()));
    for place in &places {
        assert!(tasks(place).await >= 2, "the driver and connections of a node");
    }
    let refused = builder(client(), "other").join_settle(SHORT * 2).join().await;
    refused.expect_err("another setting");
    // The last one stays, and has all jobs in the end.
    let last = nodes.pop().unwrap();
    for (number, node) in nodes.into_iter().enumerate() {
        if number % 2 == 0 {
            node.close().await.unwrap();
        } else {
            node.abandon();
        }
    }
    eventually(PATIENCE, "all jobs at the node that stays", async || {
        let workers = last.inspect().workers().await.unwrap();
        let jobs: Vec<_> = last.inspect().jobs().await.unwrap();
        if workers.len() == 1 && jobs.iter().all(|job| job.owner == Some(workers[0].id)) {
            Ok(())
        } else {
            Err(jobs)
        }
    })
    .await;
    last.close().await.unwrap();
    drop(last);
    eventually(PATIENCE, "no task or connection of a node", async || {
        let mut left = Vec::new();
        for place in &places {
            left.push(tasks(place).await);
        }
        let connections = server.clients().unwrap();
        if left.iter().all(|tasks| *tasks == 0) && connections.is_empty() {
            Ok(())
        } else {
            Err((left, connections))
        }
    })
    .await;
    assert_eq!(threads().into_iter().collect::<Vec<_>>(), named(cores()));
    drop(places);
    no_thread_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_panics_leaves_its_neighbours_running() {
    let _alone = ALONE.lock().await;
    let store = MemoryStore::new();
    let panics = metering::panics();
    let armed = metrics::set_default_local_recorder(&panics);
    let fails = builder(store.clone(), "fails").join().await.unwrap();
    drop(armed);
    let mut neighbours = Vec::new();
    for number in 1..=cores() {
        neighbours.push(builder(store.clone(), format!("n{number}")).join().await.unwrap());
    }
    assert_eq!(engines(), named(cores()), "one of them shares the thread");
    fails.add_worker(tenure_pool::run(|_: Job| std::future::pending())).await.unwrap();
    fails.dispatch(("key", "")).await.unwrap();
    let _ = fails.notify("key", "hello").await;
    fails.closed().await;
    assert!(fails.health().needs_restart());
    for node in &neighbours {
        assert!(!node.health().needs_restart());
        node.inspect().workers().await.unwrap();
        node.close().await.unwrap();
    }
    no_thread_is_left().await;
}
