//! Levels: what a deployment of a newer version does, and what becomes of a node that it has forgotten.

use std::time::Duration;

use tenure_pool::error::TooOld;
use tenure_pool::health::Unhealthy;
use tenure_pool::node::Backend;
use tenure_pool::store::{Expire, PoolState, RaiseLevel, Raised, ReadIdentity, ReadState, RedisStore, Store};
use tenure_pool::{Client, DispatchError, Error, MemoryStore, Node, NodeBuilder};
use tenure_protocol::model::id::{PoolName, WorkerId};
use tenure_protocol::mutation::ScriptPatch;

use crate::world::{Home, POOL, World, on_both_stores, until};

on_both_stores!(
    a_node_below_the_floor_says_so_to_every_caller,
    a_deployment_ends_with_the_floor_raised,
    a_node_below_the_floor_closes_at_once,
    a_pool_that_is_made_again_has_its_floor,
    workers_show_their_level_and_their_address,
);

const NEWER: ScriptPatch = ScriptPatch { script: "", from: "local LEVEL = 1", to: "local LEVEL = 2" };

impl World {
    /// The pool as a version with level 2 sees it.
    fn newer(&self) -> Store {
        match &self.home {
            Home::Memory(store) => store.at_level(2).into(),
            Home::Redis(_) | Home::Elsewhere => {
                let client = Client::open(&self.server().url()).unwrap();
                RedisStore::open_patched(&client, &PoolName::new(POOL).unwrap(), false, &[NEWER]).into()
            }
        }
    }

    /// A node of that version.
    fn newer_builder(&self, name: &str) -> NodeBuilder {
        self.builder_on(Backend::from(self.newer()), name)
    }

    /// That version raises the floor to 2.
    async fn raise(&self) -> Raised {
        let store = self.newer();
        store.bless(&store.read(&ReadIdentity).await.unwrap().run_id);
        let PoolState::Present { incarnation, .. } = store.read(&ReadState).await.unwrap() else { panic!() };
        let raised = store.run(incarnation, &RaiseLevel { level: 2 }).await.unwrap();
        store.close().await;
        raised
    }
}

fn expire(worker: WorkerId) -> Expire {
    Expire { workers: vec![(worker, None)] }
}

fn is_too_old(why: TooOld) -> bool {
    (why.floor, why.level) == (2, 1)
}

/// The node has heard of the floor that is above its level.
async fn heard(node: &Node) {
    let reason = |reason: &Unhealthy| matches!(reason, Unhealthy::TooOld(why) if is_too_old(*why));
    until("the node to be refused", async || node.health().reasons.iter().any(reason)).await;
}

async fn a_node_below_the_floor_says_so_to_every_caller(world: World) {
    let old = world.node("old").await;
    let new = world.newer_builder("new").join().await.unwrap();
    world.add_worker(&new).await;
    world.dispatch_one(&new, "key").await;
    assert_eq!(world.raise().await, Raised::Floor(2));
    for refused in [
        old.submit(("late", "")).await.unwrap_err(),
        old.dispatch(("late", "")).await.unwrap_err(),
        old.dispatch(("late", "")).id("order-1").await.unwrap_err(),
    ] {
        assert!(matches!(&refused, DispatchError::TooOld(why) if is_too_old(*why)), "{refused:?}");
    }
    let settings = old.operate().change_settings(|settings| settings.max_queued += 1).await;
    for refused in [
        old.stop_job("key").await.unwrap_err(),
        old.notify("key", "").await.unwrap_err(),
        old.operate().unpark("key").await.unwrap_err(),
        old.add_worker(world.recorder.clone()).await.unwrap_err(),
        old.ticker("beat", Duration::from_secs(1)).await.map(drop).unwrap_err(),
        old.operate().shutdown().await.map(drop).unwrap_err(),
        old.operate().raise_level(1).await.unwrap_err(),
        settings.map(drop).unwrap_err(),
        world.builder("late").join().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(&refused, Error::TooOld(why) if is_too_old(*why)), "{refused:?}");
    }
    heard(&old).await;
    assert!(!old.health().needs_restart());
    assert_eq!(old.inspect().jobs().await.unwrap().len(), 1, "it may look");
    world.dispatch_one(&new, "another").await;
    assert!(new.health().is_healthy(), "{:?}", new.health().reasons);
    until("the new node to hear of it", async || new.operate().level().await.unwrap().floor == 2).await;
    assert!(world.recorder.is_running("key"));
}

async fn a_deployment_ends_with_the_floor_raised(world: World) {
    let old = world.node_with("old", 1).await;
    let keys = world.dispatch(&old, 10).await;
    let new = world.newer_builder("new").join().await.unwrap();
    let worker = old.inspect().workers().await.unwrap()[0].id;
    assert_eq!(world.raise().await, Raised::Below { worker, level: 1 });
    world.add_worker(&new).await;
    until("the level of each worker", async || {
        let mut levels: Vec<_> =
            new.inspect().workers().await.unwrap().iter().map(|worker| worker.level).collect();
        levels.sort_unstable();
        levels == [1, 2]
    })
    .await;
    assert_eq!(
        (new.operate().level().await.unwrap().floor, new.operate().level().await.unwrap().lowest_member),
        (1, Some(1))
    );
    assert!(matches!(world.raise().await, Raised::Below { .. }), "a roll-back is still possible");
    old.close().await.unwrap();
    assert_eq!(world.raise().await, Raised::Floor(2));
    until("all jobs on the new node", async || {
        keys.iter().all(|key| world.recorder.is_running(key))
            && new.operate().level().await.unwrap().floor == 2
    })
    .await;
    assert_eq!(new.operate().level().await.unwrap().lowest_member, Some(2));
    world.assert_clean();
}

/// A worker that ran jobs is expired by the others, and its node does not wait for that.
async fn a_node_below_the_floor_closes_at_once(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let old = world.node_running("old", "key").await;
    let new = world.newer_builder("new").join().await.unwrap();
    let worker = old.inspect().workers().await.unwrap()[0].id;
    let store = world.newer();
    store.bless(&store.read(&ReadIdentity).await.unwrap().run_id);
    let PoolState::Present { incarnation, .. } = store.read(&ReadState).await.unwrap() else { panic!() };
    store.run(incarnation, &expire(worker)).await.unwrap();
    // It may come back before the floor rises.
    while let Raised::Below { worker, .. } = world.raise().await {
        store.run(incarnation, &expire(worker)).await.unwrap();
    }
    world.add_worker(&new).await;
    until("the job to move", async || {
        !world.recorder.stops("key").is_empty() && world.recorder.is_running("key")
    })
    .await;
    heard(&old).await;
    old.close().await.unwrap();
    store.close().await;
}

async fn a_pool_that_is_made_again_has_its_floor(world: World) {
    let new = world.newer_builder("new").join().await.unwrap();
    world.add_worker(&new).await;
    world.dispatch_one(&new, "key").await;
    assert_eq!(world.raise().await, Raised::Floor(2));
    until("the node to hear of the floor", async || new.operate().level().await.unwrap().floor == 2).await;
    world.wipe();
    let late = async || world.builder("late").join().await.map(drop);
    until(
        "older nodes to be refused again",
        async || matches!(late().await, Err(Error::TooOld(why)) if is_too_old(why)),
    )
    .await;
    assert_eq!(world.recorder.starts_of("key"), 1, "the job has run on");
}

async fn workers_show_their_level_and_their_address(world: World) {
    let address = "http://10.0.0.7:8080";
    let a = world.builder("a").address(address).join().await.unwrap();
    assert_eq!(
        (
            a.operate().level().await.unwrap().own,
            a.operate().level().await.unwrap().floor,
            a.operate().level().await.unwrap().lowest_member
        ),
        (1, 1, None)
    );
    a.add_worker(world.recorder.clone()).await.unwrap();
    let b = world.node("b").await;
    until("the worker to be seen", async || b.operate().level().await.unwrap().lowest_member == Some(1))
        .await;
    let worker = &b.inspect().workers().await.unwrap()[0];
    assert_eq!((worker.address.as_str(), worker.level), (address, 1));
    assert_eq!(b.operate().raise_level(1).await.unwrap(), 1);
    for unknown in [0, 2] {
        assert!(matches!(b.operate().raise_level(unknown).await, Err(Error::Setting(_))), "{unknown}");
    }
    let refused = world.builder("c").address("a b").join().await;
    assert!(matches!(refused, Err(Error::Setting(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_that_is_lost_comes_back_with_a_renewal() {
    let world = World::on_redis().with_ttl(Duration::from_secs(2));
    let newer = world.newer_builder("newer").join().await.unwrap();
    assert_eq!(world.raise().await, Raised::Floor(2));
    until("the node to hear of the floor", async || newer.operate().level().await.unwrap().floor == 2).await;
    let key = format!("tenure:{{{POOL}}}:pool");
    for damage in [None, Some("x"), Some("1")] {
        let command = if damage.is_some() { "HSET" } else { "HDEL" };
        let () = redis::cmd(command).arg(&key).arg("floor").arg(damage).query(&mut world.client()).unwrap();
        until("the floor to come back", async || {
            let floor: Option<String> =
                redis::cmd("HGET").arg(&key).arg("floor").query(&mut world.client()).unwrap();
            floor.as_deref() == Some("2")
        })
        .await;
    }
    let refused = world.builder("older").join().await;
    assert!(matches!(refused, Err(Error::TooOld(why)) if is_too_old(why)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_floor_is_raised_on_every_shard() {
    let store = MemoryStore::new();
    let join = |store: MemoryStore, name: &str| {
        Node::builder(POOL, store).name(name).shards(3).assume_fresh(true).join()
    };
    let (old, new) =
        (join(store.clone(), "old").await.unwrap(), join(store.at_level(2), "new").await.unwrap());
    let recorder = World::in_memory().recorder;
    let worker = old.add_worker(recorder.clone()).await.unwrap();
    let refused = new.operate().raise_level(2).await;
    assert!(matches!(refused, Err(Error::MemberBelow { level: 1, wanted: 2, .. })), "{refused:?}");
    assert_eq!(new.operate().level().await.unwrap().floor, 1);
    worker.drain().await.unwrap();
    assert!(matches!(new.operate().raise_level(3).await, Err(Error::Setting(_))), "it does not know level 3");
    for _ in 0..2 {
        assert_eq!(new.operate().raise_level(2).await.unwrap(), 2);
    }
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert!(matches!(old.submit((key, "")).await, Err(DispatchError::TooOld(_))), "{key}");
    }
    until("the floor to be heard of", async || new.operate().level().await.unwrap().floor == 2).await;
    assert!(matches!(join(store, "late").await, Err(Error::TooOld(_))));
}

/// An operator writes a floor that no node has, and takes it back before a lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_that_is_taken_back_costs_no_job() {
    let world = World::on_redis();
    let node = world.node_running("a", "key").await;
    let key = format!("tenure:{{{POOL}}}:pool");
    let () = redis::cmd("HSET").arg(&key).arg("floor").arg("2").query(&mut world.client()).unwrap();
    heard(&node).await;
    assert!(matches!(node.submit(("late", "")).await, Err(DispatchError::TooOld(_))));
    let () = redis::cmd("HDEL").arg(&key).arg("floor").query(&mut world.client()).unwrap();
    until("the node to be heard again", async || node.submit(("next", "")).await.is_ok()).await;
    until("it to run", async || world.recorder.is_running("next")).await;
    assert_eq!(node.inspect().jobs().await.unwrap().len(), 2, "what was refused is not done later");
    assert_eq!(world.recorder.starts_of("key"), 1);
    world.assert_clean();
}
