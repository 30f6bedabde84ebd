//! Servers that have changed: another process, older data, no data, or only a part of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Commands, Connection};
use tenure_pool::{Node, RestartPolicy};
use tenure_testing::Data;
use tokio::sync::Notify;

use crate::recorder::Act;
use crate::world::{Holders, Home, POOL, World, beside, moved, on_both_stores, until, workers_on};

on_both_stores!(
    a_new_process_with_all_data_leaves_every_job_running,
    a_wiped_pool_is_made_again_from_what_runs,
    a_fenced_worker_s_jobs_start_again_after_a_wipe,
);

/// Long enough for a busy machine to notice the loss before a lease ends.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// For jobs that must lose their workers.
const SHORT_TTL: Duration = Duration::from_secs(1);

impl World {
    /// Another server process takes over the data.
    pub(crate) fn replace_server(&self) {
        match &self.home {
            Home::Memory(store) => store.new_process(),
            Home::Redis(_) | Home::Elsewhere => self.server().restart(Data::Keep).unwrap(),
        }
    }

    pub(crate) fn wipe(&self) {
        match &self.home {
            Home::Memory(store) => store.tamper(tenure_protocol::memory::Server::wipe),
            Home::Redis(_) | Home::Elsewhere => redis::cmd("FLUSHALL").query(&mut self.client()).unwrap(),
        }
    }
}

/// No running job notices the loss: the same workers have the same jobs under the same tokens, and every call about
/// them works.
pub(crate) async fn all_runs_on_after(world: &World, loss: impl AsyncFnOnce()) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let (keys, before) = world.dispatch_placed(&a, 30).await;
    loss().await;
    world.dispatch_one(&b, "another").await;
    runs_on(world, &b, &keys, &before).await;
    world.assert_clean();
    a.close().await.unwrap();
    b.close().await.unwrap();
}

async fn runs_on(world: &World, node: &Node, keys: &[String], before: &Holders) {
    assert_eq!(moved(before, &world.placed(node, keys).await), [""; 0]);
    for key in keys {
        assert_eq!((world.recorder.starts_of(key), world.recorder.stops(key)), (1, vec![]), "{key}");
    }
    let (told, stopped) = (&keys[0], &keys[1]);
    for note in ["one", "two"] {
        node.notify(told.as_str(), note).await.unwrap();
    }
    until("the notifications", async || world.recorder.notes(told) == ["one", "two"]).await;
    world.stop(node, stopped).await;
    until("the stopped job to end", async || !world.recorder.is_running(stopped)).await;
    until("its record to go", async || node.inspect().job(stopped.as_str()).await.unwrap().is_none()).await;
}

async fn a_new_process_with_all_data_leaves_every_job_running(world: World) {
    let world = world.with_ttl(TTL);
    all_runs_on_after(&world, async || world.replace_server()).await;
}

async fn a_wiped_pool_is_made_again_from_what_runs(world: World) {
    let world = world.with_ttl(TTL);
    all_runs_on_after(&world, async || world.wipe()).await;
}

async fn a_fenced_worker_s_jobs_start_again_after_a_wipe(world: World) {
    let world = world.with_ttl(SHORT_TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys = world.dispatch(&b, 10).await;
    let old = workers_on(&a).await;
    for key in &keys {
        world.history().stop_requested(key);
    }
    match &world.home {
        Home::Memory(store) => store.set_available(false),
        Home::Redis(_) | Home::Elsewhere => world.server().pause().unwrap(),
    }
    until("the handlers to end with their lease", async || world.recorder.running().is_empty()).await;
    match &world.home {
        Home::Memory(store) => {
            store.tamper(tenure_protocol::memory::Server::wipe);
            store.set_available(true);
        }
        Home::Redis(_) | Home::Elsewhere => {
            world.server().resume().unwrap();
            world.wipe();
        }
    }
    until("a new worker for the old one", async || {
        b.inspect().workers().await.unwrap().iter().any(|worker| !old.contains(&worker.id.0))
    })
    .await;
    for key in &keys {
        world.dispatch_one(&b, key).await;
    }
    world.assert_clean();
    assert_eq!(b.inspect().jobs().await.unwrap().len(), keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_dispatch_outlives_a_wipe_with_its_caller() {
    for world in [World::in_memory(), World::on_redis()] {
        let world = world.with_ttl(SHORT_TTL);
        let node = world.node("a").await;
        let open = beside(&node, |node| async move { node.dispatch(("open", "kept")).await });
        until("it to be accepted", async || node.inspect().job("open").await.unwrap().is_some()).await;
        world.wipe();
        node.add_worker(world.recorder.clone()).await.unwrap();
        open.await.unwrap().unwrap();
        assert_eq!(world.recorder.payloads("open"), ["kept"]);
        assert_eq!(world.recorder.starts_of("open"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_data_brings_nothing_back_and_ends_nothing() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let mut keys = world.dispatch(&a, 20).await;
    world.placed(&a, &keys).await;
    let old = store.tamper(|server| server.snapshot());
    // From here on the store forgets everything that happens.
    world.add_worker(&a).await;
    world.dispatch_one(&b, "forgotten").await;
    // The store alone knows of the stop of a job that is on its way to another worker.
    world.placed(&a, &keys).await;
    let stopped = keys.remove(0);
    world.stop(&b, &stopped).await;
    until("the stopped job to go", async || b.inspect().job(stopped.as_str()).await.unwrap().is_none()).await;
    keys.push("forgotten".to_owned());
    let before = world.placed(&a, &keys).await;
    let starts = world.recorder.starts();
    store.tamper(|server| server.restore(old));
    store.new_process();
    world.dispatch_one(&a, "another").await;
    assert_eq!(moved(&before, &world.placed(&b, &keys).await), [""; 0]);
    world.recorder.starts().into_iter().filter(|(key, _)| key != "another").for_each(|(key, count)| {
        assert_eq!(count, starts[&key], "{key}");
    });
    assert!(b.inspect().job(stopped.as_str()).await.unwrap().is_none());
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_jobs_survive_a_pool_that_a_new_node_opened_first() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let a = world.node_with("a", 1).await;
    let (keys, before) = world.dispatch_placed(&a, 10).await;
    store.tamper(tenure_protocol::memory::Server::wipe);
    let b = world.node("b").await;
    world.dispatch_one(&b, "another").await;
    runs_on(&world, &b, &keys, &before).await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_drains_goes_on_with_it() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, _) = world.dispatch_placed(&b, 20).await;
    store.new_process();
    let closing = tokio::spawn(async move { a.close().await });
    assert!(closing.await.unwrap().unwrap().complete);
    world.placed(&b, &keys).await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_shuts_down_does_so_all_the_same() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let (a, b) = (world.node("a").await, world.node("b").await);
    let released = Arc::new(AtomicBool::new(false));
    let waits = released.clone();
    let handler = world.recorder.acting(move |_| Act::Block(waits.clone()));
    a.add_worker(handler).await.unwrap();
    world.dispatch_one(&b, "held").await;
    let old = store.tamper(|server| server.snapshot());
    world.history().stop_requested("held");
    let ending = beside(&a, |a| async move { a.operate().shutdown().await });
    world.shutting_down().await;
    store.tamper(|server| server.restore(old));
    store.new_process();
    world.shutting_down().await;
    released.store(true, Ordering::Release);
    assert!(ending.await.unwrap().unwrap().complete);
    b.closed().await;
    world.assert_clean_at_end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_with_a_log_loses_nothing() {
    let server = tenure_testing::RedisServer::builder().append_only().start().unwrap();
    let world = World::on_server(server).with_ttl(TTL);
    all_runs_on_after(&world, async || {
        world.server().kill().unwrap();
        world.server().restart(Data::Keep).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_data_ends_nothing() {
    let world = World::on_redis().with_ttl(TTL);
    all_runs_on_after(&world, async || world.server().restart(Data::Wipe).unwrap()).await;
}

/// A part of the server's data is lost, and no running job notices.
async fn nothing_moves_after(loss: impl Fn(&mut Connection)) {
    nothing_moves_until(loss, |_| true).await;
}

/// The same loss, several times.
async fn nothing_moves_until(loss: impl Fn(&mut Connection), is_back: impl Fn(&mut Connection) -> bool) {
    let world = World::on_redis();
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let mut keys = world.dispatch(&a, 20).await;
    let before = world.placed(&a, &keys).await;
    for round in 0..3 {
        loss(&mut world.client());
        let key = format!("round-{round}");
        world.dispatch_one(&b, &key).await;
        b.notify(key.as_str(), "hello").await.unwrap();
        until("the notification", async || world.recorder.notes(&key) == ["hello"]).await;
        keys.push(key);
        until("what was lost", async || is_back(&mut world.client())).await;
    }
    let after = world.placed(&a, &keys).await;
    assert!(before.iter().all(|(key, held)| after[key] == *held));
    let _third = world.node_with("c", 1).await;
    world.placed(&a, &keys).await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_are_loaded_again() {
    nothing_moves_after(|connection| redis::cmd("SCRIPT").arg("FLUSH").query(connection).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_are_made_again() {
    nothing_moves_after(|connection| {
        for kind in ["normal", "pubsub"] {
            let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg(kind).query::<u64>(connection);
            kill.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destroyed_group_is_made_again() {
    let stream = format!("tenure:{{{POOL}}}:starts");
    let destroy = |connection: &mut Connection| {
        let destroyed: u64 = connection.xgroup_destroy(&stream, "routers").unwrap();
        assert_eq!(destroyed, 1);
    };
    let is_there = |connection: &mut Connection| {
        let groups: redis::streams::StreamInfoGroupsReply = connection.xinfo_groups(&stream).unwrap();
        groups.groups.iter().any(|group| group.name == "routers")
    };
    nothing_moves_until(destroy, is_there).await;
}

static SERVER_IS_GONE: AtomicBool = AtomicBool::new(false);
static TOLD: Notify = Notify::const_new();

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_fail_when_the_data_go_are_tried_again() {
    let world = World::in_memory().with_ttl(TTL);
    let (a, b) = (world.node("a").await, world.node("b").await);
    let handler = world.recorder.acting(|_| {
        if SERVER_IS_GONE.load(Ordering::Acquire) {
            return Act::Run;
        }
        Act::Body(|_| {
            Box::pin(async {
                let told = TOLD.notified();
                if !SERVER_IS_GONE.load(Ordering::Acquire) {
                    told.await;
                }
                Err("the server is gone".into())
            })
        })
    });
    a.add_worker(handler).await.unwrap();
    let keys: Vec<_> = (0..20).map(|i| format!("k{i}")).collect();
    for key in &keys {
        b.submit((key.as_str(), "x")).restart(RestartPolicy::Always).await.unwrap();
    }
    for key in &keys {
        until("the job to run", async || world.recorder.is_running(key)).await;
    }
    world.wipe();
    SERVER_IS_GONE.store(true, Ordering::Release);
    TOLD.notify_waiters();
    for key in &keys {
        until("the job to be tried again", async || {
            world.recorder.starts_of(key) == 2 && world.recorder.is_running(key)
        })
        .await;
    }
    assert_eq!(b.inspect().jobs().await.unwrap().len(), keys.len());
    world.assert_clean();
}
