//! A server that is not what it was: another process, older data, none at all, or only something of it gone.

use std::time::Duration;

use redis::{Commands, Connection};
use tenure_testing::{Data, eventually};

use crate::world::{Home, PATIENCE, POOL, World, on_both_stores, workers_on};

on_both_stores!(
    a_new_process_with_all_data_starts_every_job_again,
    a_wiped_pool_is_made_again_and_open_dispatches_return,
);

const TTL: Duration = Duration::from_secs(1);

impl World {
    /// Another server process takes over the data.
    fn replace_server(&self) {
        match &self.home {
            Home::Memory(store) => store.new_process(),
            Home::Redis(_) | Home::Elsewhere => self.server().restart(Data::Keep).unwrap(),
        }
    }

    pub(crate) fn wipe(&self) {
        match &self.home {
            Home::Memory(store) => store.wipe(),
            Home::Redis(_) | Home::Elsewhere => redis::cmd("FLUSHALL").query(&mut self.client()).unwrap(),
        }
    }
}

/// All jobs run again under higher tokens, after every old handler has ended.
pub(crate) async fn all_start_again_after(world: &World, loss: impl AsyncFnOnce()) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let keys = world.dispatch(&a, 30).await;
    let before = world.placed(&a, &keys).await;
    let old = [workers_on(&a), workers_on(&b)].concat();
    loss().await;
    eventually(PATIENCE, "new workers for the old ones", async || {
        let now = a.workers();
        now.len() == 3 && now.iter().all(|worker| !old.contains(&worker.id.0) && worker.slot.is_some())
    })
    .await;
    let after = world.placed(&b, &keys).await;
    for (key, held) in after {
        assert!(held.token > before[&key].token, "{key}");
    }
    world.dispatch_one(&b, "another").await;
    world.assert_clean();
}

async fn a_new_process_with_all_data_starts_every_job_again(world: World) {
    let world = world.with_ttl(TTL);
    all_start_again_after(&world, async || world.replace_server()).await;
}

async fn a_wiped_pool_is_made_again_and_open_dispatches_return(world: World) {
    let world = world.with_ttl(TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys = world.dispatch(&b, 10).await;
    let old = workers_on(&a);
    for key in &keys {
        world.history().stop_requested(key);
    }
    world.wipe();
    let open = tokio::spawn({
        let b = b.clone();
        async move { b.dispatch("open", "").await }
    });
    eventually(PATIENCE, "the old handlers to end", async || {
        keys.iter().all(|key| !world.recorder.is_running(key))
    })
    .await;
    open.await.unwrap().unwrap();
    eventually(PATIENCE, "a new worker for the old one", async || {
        b.workers().iter().any(|worker| !old.contains(&worker.id.0))
    })
    .await;
    for key in &keys {
        world.dispatch_one(&b, key).await;
    }
    world.assert_clean();
    assert_eq!(b.jobs().await.unwrap().len(), keys.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_dispatch_outlives_a_wipe_with_its_caller() {
    for world in [World::in_memory(), World::on_redis()] {
        let world = world.with_ttl(TTL);
        let node = world.node("a").await;
        let open = tokio::spawn({
            let node = node.clone();
            async move { node.dispatch("open", "kept").await }
        });
        eventually(PATIENCE, "it to be accepted", async || node.job("open").await.unwrap().is_some()).await;
        world.wipe();
        node.add_worker(world.recorder.clone()).await.unwrap();
        open.await.unwrap().unwrap();
        assert_eq!(world.recorder.payloads("open"), ["kept"]);
        assert_eq!(world.recorder.starts_of("open"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_data_brings_stopped_jobs_back_and_no_overlap() {
    let world = World::in_memory().with_ttl(TTL);
    let Home::Memory(store) = &world.home else { panic!("in memory") };
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let keys = world.dispatch(&a, 20).await;
    world.placed(&a, &keys).await;
    let old = store.snapshot();
    world.add_worker(&a).await;
    let before = world.placed(&a, &keys).await;
    store.restore(old);
    store.new_process();
    eventually(PATIENCE, "every job to start again", async || {
        let now = world.holders(&b).await;
        now.len() == keys.len() && now.iter().all(|(key, held)| held.token > before[key].token)
    })
    .await;
    world.placed(&b, &keys).await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_with_a_log_loses_nothing() {
    let server = tenure_testing::RedisServer::builder().append_only().start().unwrap();
    let world = World::on_server(server).with_ttl(TTL);
    all_start_again_after(&world, async || {
        world.server().kill().unwrap();
        world.server().restart(Data::Keep).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_without_data_leaves_a_working_pool() {
    let world = World::on_redis().with_ttl(TTL);
    let node = world.node_with("a", 1).await;
    let keys = world.dispatch(&node, 10).await;
    for key in &keys {
        world.history().stop_requested(key);
    }
    world.server().restart(Data::Wipe).unwrap();
    eventually(PATIENCE, "the old handlers to end", async || world.recorder.running().is_empty()).await;
    for key in &keys {
        world.dispatch_one(&node, key).await;
    }
    world.assert_clean();
}

/// Something of the server goes, and nothing that runs notices.
async fn nothing_moves_after(loss: impl Fn(&mut Connection)) {
    let world = World::on_redis();
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let mut keys = world.dispatch(&a, 20).await;
    let before = world.placed(&a, &keys).await;
    for round in 0..3 {
        loss(&mut world.client());
        let key = format!("round-{round}");
        world.dispatch_one(&b, &key).await;
        b.notify(key.as_str(), "hello").await.unwrap();
        eventually(PATIENCE, "the notification", async || world.recorder.notes(&key) == ["hello"]).await;
        keys.push(key);
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
    nothing_moves_after(|connection| {
        let stream = format!("tenure:{{{POOL}}}:ps");
        let destroyed: u64 = connection.xgroup_destroy(stream, "r").unwrap();
        assert_eq!(destroyed, 1);
    })
    .await;
}
