//! A node that has ended leaves nothing in its process: no task, no thread, no connection. What the node leaves on an engine
//! thread that others share is seen in `engines.rs`, in a process without other nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_pool::{Error, Job, Node};
use tokio::runtime::{Handle, Id};
use tokio::sync::mpsc;

use crate::world::{Home, SHORT, World, handler_with, on_both_stores, until};

on_both_stores!(
    a_closed_node_leaves_nothing_running in real_time,
    an_abandoned_node_leaves_nothing_running in real_time,
    a_node_that_nobody_holds_closes_by_itself in real_time,
    a_refused_join_leaves_nothing_running,
    a_handler_goes_with_its_worker,
    a_handler_is_dropped_on_the_runtime_that_it_ran_on,
    an_abandoned_node_has_not_left_the_pool,
);

/// The number of the node's threads with its name: the one for its leases. The system shortens a thread's name to 15
/// bytes, so node names here are short and unique.
fn threads(name: &str) -> usize {
    let own = format!("lease {name}");
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let is_own = |thread: &std::fs::DirEntry| {
        // A thread may end during the look.
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim() == own)
    };
    threads.flatten().filter(is_own).count()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The numbers of the connections, except this test's own.
fn connections(world: &World) -> BTreeSet<u64> {
    match &world.home {
        Home::Memory(_) => BTreeSet::new(),
        Home::Redis(server) => server.clients().unwrap().into_iter().map(|client| client.id).collect(),
        Home::Elsewhere => panic!("this pool is not on a server of its own"),
    }
}

/// The process before the first node.
struct Before {
    tasks: usize,
    /// Some connections may close soon: the server notices a closed one a moment after its client.
    connections: BTreeSet<u64>,
}

impl Before {
    fn of(world: &World) -> Self {
        Self { tasks: tasks(), connections: connections(world) }
    }
}

/// Waits until the node has left nothing.
async fn left_nothing(world: &World, name: &str, before: &Before) {
    until("no task, thread or connection of the node", async || {
        let new = connections(world).difference(&before.connections).count();
        let left = (tasks(), threads(name), new);
        if left == (before.tasks, 0, 0) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// A node that has done some work.
async fn busy_node(world: &World, name: &str) -> Node {
    let node = world.node_with(name, 2).await;
    world.dispatch(&node, 10).await;
    assert_eq!(threads(name), 1);
    node
}

fn name_on(world: &World, stem: &str) -> String {
    let store = if matches!(world.home, Home::Memory(_)) { "m" } else { "r" };
    format!("{stem}-{store}")
}

async fn a_closed_node_leaves_nothing_running(world: World) {
    let (before, name) = (Before::of(&world), name_on(&world, "closed"));
    let node = busy_node(&world, &name).await;
    assert!(node.close().await.unwrap().left.is_empty());
    node.closed().await;
    assert!(node.close().await.unwrap().left.is_empty(), "closing a closed node is fine");
    drop(node);
    left_nothing(&world, &name, &before).await;
}

async fn an_abandoned_node_leaves_nothing_running(world: World) {
    let (before, name) = (Before::of(&world), name_on(&world, "aband"));
    let node = busy_node(&world, &name).await;
    node.abandon();
    node.closed().await;
    drop(node);
    left_nothing(&world, &name, &before).await;
    assert_eq!(world.recorder.running().len(), 0);
}

async fn a_node_that_nobody_holds_closes_by_itself(world: World) {
    // While another node serves, the number of its tasks may change. So the process is compared after that one has ended, too.
    let (before, name, stays) = (Before::of(&world), name_on(&world, "drop"), name_on(&world, "heir"));
    let other = world.node_with(&stays, 1).await;
    let node = busy_node(&world, &name).await;
    let clone = node.clone();
    drop(node);
    clone.notify("job-0", "still here").await.unwrap();
    drop(clone);
    let keys: Vec<_> = (0..10).map(|i| format!("job-{i}")).collect();
    until("its workers to have left", async || other.inspect().workers().await.unwrap().len() == 1).await;
    world.placed(&other, &keys).await;
    until("its thread to end", async || threads(&name) == 0).await;
    world.assert_clean();
    assert!(other.close().await.unwrap().left.is_empty());
    drop(other);
    left_nothing(&world, &stays, &before).await;
}

async fn a_refused_join_leaves_nothing_running(world: World) {
    let _node = world.node_running("stays", "key").await;
    let (before, name) = (Before::of(&world), name_on(&world, "other"));
    world.builder(&name).join_settle(SHORT * 2).join().await.expect_err("another setting");
    left_nothing(&world, &name, &before).await;
}

async fn a_handler_goes_with_its_worker(world: World) {
    let node = world.node("a").await;
    let held = Arc::new(());
    let handler = handler_with(held.clone(), |held, _| async move {
        drop(held);
        Ok(())
    });
    let worker = node.add_worker(handler).await.unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    worker.drain().await.unwrap();
    until("the handler to go", async || Arc::strong_count(&held) == 1).await;
    assert_eq!(worker.id(), None);
}

/// Reports on which runtime it is dropped.
struct Told(mpsc::UnboundedSender<Option<Id>>);

impl Drop for Told {
    fn drop(&mut self) {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        // After the test nobody listens.
        let _ = self.0.send(here);
    }
}

async fn a_handler_is_dropped_on_the_runtime_that_it_ran_on(world: World) {
    let node = world.node("a").await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let add = async || {
        let held = Told(tell.clone());
        let handler = tenure_pool::run(move |_: Job| {
            let _held = &held;
            async { Ok(()) }
        });
        node.add_worker(handler).await.unwrap()
    };
    let (drained, _abandoned) = (add().await, add().await);
    let home = Some(Some(Handle::current().id()));
    drained.drain().await.unwrap();
    assert_eq!(told.recv().await, home);
    node.abandon();
    assert_eq!(told.recv().await, home);
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
    runtime.block_on(until("its thread to end", async || threads("orphan") == 0));
    assert_eq!(world.recorder.running().len(), 0);
    drop(node);
}
