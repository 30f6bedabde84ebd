//! What a node leaves in its process when it has ended: no task, no thread, no connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_pool::{Error, Job, Node};
use tenure_testing::eventually;

use crate::world::{Home, PATIENCE, SHORT, World, on_both_stores};

on_both_stores!(
    a_closed_node_leaves_nothing_running,
    an_abandoned_node_leaves_nothing_running,
    a_node_that_nobody_holds_closes_by_itself,
    a_refused_join_leaves_nothing_running,
    a_handler_goes_with_its_worker,
    an_abandoned_node_has_not_left_the_pool,
);

/// The system shortens a thread's name to 15 bytes: node names here are short and used once.
fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads.flatten().any(|thread| {
        // A thread may end while it is looked at.
        std::fs::read_to_string(thread.path().join("comm"))
            .is_ok_and(|comm| comm.trim() == format!("lease {name}"))
    })
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// The numbers of the connections that others than this test hold.
fn connections(world: &World) -> BTreeSet<u64> {
    match &world.home {
        Home::Memory(_) => BTreeSet::new(),
        Home::Redis(server) => server.clients().unwrap().into_iter().map(|client| client.id).collect(),
        Home::Elsewhere => panic!("this pool is not on a server of its own"),
    }
}

/// What there is before a node comes.
struct Before {
    tasks: usize,
    /// Some may be about to go: the server notices a connection's end a moment after its client.
    connections: BTreeSet<u64>,
}

impl Before {
    fn of(world: &World) -> Self {
        Self { tasks: tasks(), connections: connections(world) }
    }
}

/// The client belongs to the caller, and keeps its one connection, which is one task.
fn kept_by_client(world: &World) -> usize {
    usize::from(matches!(world.home, Home::Redis(_)))
}

/// Waits until the node has left nothing but so many tasks and connections.
async fn left_only(world: &World, name: &str, before: &Before, more_tasks: usize, more_connections: usize) {
    eventually(PATIENCE, "no task, thread or connection of the node", async || {
        let new = connections(world).difference(&before.connections).count();
        let left = (tasks(), has_thread(name), new);
        if left == (before.tasks + more_tasks, false, more_connections) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// A node that has done something.
async fn busy_node(world: &World, name: &str) -> Node {
    let node = world.node_with(name, 2).await;
    world.dispatch(&node, 10).await;
    assert!(has_thread(name));
    node
}

fn name_on(world: &World, stem: &str) -> String {
    let store = if matches!(world.home, Home::Memory(_)) { "m" } else { "r" };
    format!("{stem}-{store}")
}

async fn a_closed_node_leaves_nothing_running(world: World) {
    let (before, name) = (Before::of(&world), name_on(&world, "closed"));
    let node = busy_node(&world, &name).await;
    assert_eq!(node.close().await.unwrap().left, vec![]);
    node.closed().await;
    assert_eq!(node.close().await.unwrap().left, vec![], "closing a closed node is fine");
    drop(node);
    let kept = kept_by_client(&world);
    left_only(&world, &name, &before, kept, kept).await;
}

async fn an_abandoned_node_leaves_nothing_running(world: World) {
    let (before, name) = (Before::of(&world), name_on(&world, "aband"));
    let node = busy_node(&world, &name).await;
    node.abandon();
    node.closed().await;
    drop(node);
    let kept = kept_by_client(&world);
    left_only(&world, &name, &before, kept, kept).await;
    assert_eq!(world.recorder.running().len(), 0);
}

async fn a_node_that_nobody_holds_closes_by_itself(world: World) {
    let other = world.node_with("stays", 1).await;
    // From now on it has all the connections that it needs.
    world.dispatch_one(&other, "first").await;
    let (before, name) = (Before::of(&world), name_on(&world, "drop"));
    let node = busy_node(&world, &name).await;
    let clone = node.clone();
    drop(node);
    clone.notify("job-0", "still here").await.unwrap();
    drop(clone);
    let keys: Vec<_> = (0..10).map(|i| format!("job-{i}")).collect();
    eventually(PATIENCE, "its workers to have left", async || other.workers().len() == 1).await;
    world.placed(&other, &keys).await;
    // The other node now runs its jobs.
    left_only(&world, &name, &before, keys.len(), 0).await;
    world.assert_clean();
}

async fn a_refused_join_leaves_nothing_running(world: World) {
    let node = world.node_with("stays", 1).await;
    world.dispatch_one(&node, "key").await;
    let (before, name) = (Before::of(&world), name_on(&world, "other"));
    world.builder(&name).join_settle(SHORT * 2).join().await.expect_err("another setting");
    left_only(&world, &name, &before, 0, 0).await;
}

async fn a_handler_goes_with_its_worker(world: World) {
    let node = world.node("a").await;
    let held = Arc::new(());
    let handler = tenure_pool::run({
        let held = held.clone();
        move |_: Job| {
            let held = held.clone();
            async move {
                drop(held);
                Ok(())
            }
        }
    });
    let worker = node.add_worker(handler).await.unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    worker.drain().await.unwrap();
    eventually(PATIENCE, "the handler to go", async || Arc::strong_count(&held) == 1).await;
    assert_eq!(worker.id(), None);
}

async fn an_abandoned_node_has_not_left_the_pool(world: World) {
    let node = world.node_with("a", 1).await;
    node.abandon();
    node.closed().await;
    let close = node.close().await;
    assert!(matches!(close, Err(Error::NodeClosed)), "{close:?}");
}

#[test]
fn a_node_whose_runtime_ends_leaves_no_thread() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = World::in_memory();
    let node = runtime.block_on(busy_node(&world, "orphan"));
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(eventually(PATIENCE, "the lease thread to end", async || !has_thread("orphan")));
    assert_eq!(world.recorder.running().len(), 0);
    drop(node);
}
