//! Pool-wide settings: equal on all nodes, even when they change while the pool runs.

use std::time::Duration;

use futures::future::join_all;
use tenure_pool::store::{
    ChangeSettings, PoolState, ReadIdentity, ReadState, RedisStore, SettingChange, Store,
};
use tenure_pool::{Client, DispatchError, Error, Node, Settings};
use tenure_protocol::model::id::PoolName;
use tenure_testing::Proxy;

use crate::world::{Home, POOL, SHORT, World, on_both_stores, until};

on_both_stores!(
    a_change_holds_on_every_node_at_once,
    a_later_join_takes_settings_that_it_was_not_given,
    a_tool_that_was_given_nothing_lists_any_pool,
    leases_go_by_the_worker_ttl_of_the_pool,
    settings_that_leases_rest_on_do_not_change,
    changes_made_at_once_are_all_kept,
    the_memory_of_ended_dispatches_only_grows,
    a_closed_node_changes_nothing_and_says_so,
    a_stored_value_that_this_version_cannot_use_can_be_replaced,
);

async fn heard(node: &Node, max_queued: u64) {
    until("the node to hear of it", async || node.settings().max_queued == max_queued).await;
}

async fn a_change_holds_on_every_node_at_once(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let settings = a
        .operate()
        .change_settings(|settings| {
            settings.max_queued = 2;
            settings.payload_max = 100;
        })
        .await
        .unwrap();
    assert_eq!((settings.max_queued, settings.payload_max, settings.strikes), (2, 100, 3));
    assert_eq!(a.settings(), settings, "whoever changed them goes by them when the call returns");
    heard(&b, 2).await;
    assert_eq!(b.settings(), settings);
    match b.submit(("long", vec![0; 100])).await {
        Err(DispatchError::PayloadTooLong { max: 100, .. }) => {}
        other => panic!("{other:?}"),
    }
    for key in ["first", "second"] {
        b.submit((key, "")).await.unwrap();
    }
    assert!(matches!(b.submit(("third", "")).await, Err(DispatchError::PoolFull)));
    a.operate().change_settings(|settings| settings.max_queued = 3).await.unwrap();
    b.submit(("third", "")).await.unwrap();
}

async fn a_later_join_takes_settings_that_it_was_not_given(world: World) {
    let a = world.node_running("a", "key").await;
    a.operate().change_settings(|settings| settings.max_queued = 7).await.unwrap();
    match world.builder("old").max_queued(10_000).join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, ours } => {
            assert_eq!((name.as_str(), theirs.as_str(), ours.as_str()), ("max_queued", "7", "10000"));
        }
        other => panic!("{other:?}"),
    }
    // A node that was not given the new value, like an old binary after a restart.
    let old = world.builder("old").join().await.unwrap();
    assert_eq!(old.settings().max_queued, 7);
    world.add_worker(&old).await;
    old.close().await.unwrap();
    let b = world.builder("new").max_queued(7).join().await.unwrap();
    world.add_worker(&b).await;
    // An older node's new workers join with the stored settings, too.
    world.add_worker(&a).await;
    world.placed(&b, &["key".to_owned()]).await;
    world.assert_clean();
}

async fn a_tool_that_was_given_nothing_lists_any_pool(world: World) {
    let own = Settings { max_attempts: 25, notify_cap: 7, hash_keys: Some((1, 2)), ..Settings::default() };
    let own = Settings { worker_ttl: Duration::from_secs(7), join_settle: SHORT, ..own };
    let node = world.builder("service").settings(own.clone()).join().await.unwrap();
    world.add_worker(&node).await;
    world.dispatch_one(&node, "key").await;
    let tool = Node::builder(POOL, world.backend()).client_only().join().await.unwrap();
    assert_eq!(*tool.settings(), own);
    assert_eq!(tool.inspect().jobs().await.unwrap().len(), 1);
    tool.notify("key", "x").await.unwrap();
    // A second service of the same binary, which uses the default.
    let other = Node::builder(POOL, world.backend()).name("other").stable_after(SHORT).join().await.unwrap();
    world.add_worker(&other).await;
    world.placed(&node, &["key".to_owned()]).await;
    world.assert_clean();
}

/// Otherwise its worker would go on for the default of ten seconds, while others take its jobs after two.
async fn leases_go_by_the_worker_ttl_of_the_pool(world: World) {
    let ttl = Duration::from_secs(2);
    let _service = world.builder("service").worker_ttl(ttl).join().await.unwrap();
    let other = Node::builder(POOL, world.backend()).join_settle(SHORT).join().await.unwrap();
    let _worker = other.add_worker(world.recorder.clone()).await.unwrap();
    for _ in 0..20 {
        let left = other.health().workers[0].lease_left;
        assert!(left <= ttl * 6 / 10, "{left:?}");
        tokio::time::sleep(SHORT).await;
    }
    assert_eq!(other.settings().worker_ttl, ttl);
}

async fn settings_that_leases_rest_on_do_not_change(world: World) {
    let node = world.node("a").await;
    let before = node.settings();
    let refused = node.operate().change_settings(|settings| settings.worker_ttl *= 2).await;
    assert!(matches!(refused, Err(Error::FixedSetting { name: "worker_ttl" })), "{refused:?}");
    let refused =
        node.operate().change_settings(|s| s.hash_keys = s.hash_keys.map(|(k1, k2)| (k1, k2 + 1))).await;
    assert!(matches!(refused, Err(Error::FixedSetting { name: "hash_keys" })), "{refused:?}");
    let refused = node.operate().change_settings(|settings| settings.strikes = 0).await;
    assert!(matches!(refused, Err(Error::Setting(_))), "{refused:?}");
    assert_eq!(node.operate().change_settings(|_| {}).await.unwrap(), before, "nothing to change is fine");
}

async fn changes_made_at_once_are_all_kept(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let changes: [fn(&mut Settings); 4] = [
        |settings| settings.max_queued = 7,
        |settings| settings.strikes = 7,
        |settings| settings.notify_cap = 7,
        |settings| settings.stable_run = Duration::from_millis(7),
    ];
    let nodes = [&a, &b].into_iter().cycle();
    for change in join_all(
        changes
            .into_iter()
            .zip(nodes)
            .map(async |(change, node)| node.operate().change_settings(change).await),
    )
    .await
    {
        change.unwrap();
    }
    for node in [&a, &b] {
        until("the node to hear of all", async || {
            let settings = node.settings();
            let Settings { max_queued, strikes, notify_cap, stable_run, .. } = *settings;
            (max_queued, strikes, notify_cap, stable_run) == (7, 7, 7, Duration::from_millis(7))
        })
        .await;
    }
}

async fn the_memory_of_ended_dispatches_only_grows(world: World) {
    let node = world.node("a").await;
    let operator = node.operate();
    let set = |seconds| {
        let time = Duration::from_secs(seconds);
        operator.change_settings(move |settings| settings.max_dispatch_deadline = time)
    };
    set(60).await.unwrap();
    let refused = set(59).await;
    assert!(matches!(refused, Err(Error::LoweredSetting { name: "max_dispatch_deadline" })), "{refused:?}");
    assert_eq!(node.settings().max_dispatch_deadline, Duration::from_secs(60));
}

async fn a_closed_node_changes_nothing_and_says_so(world: World) {
    let (closed, other) = (world.node("closed").await, world.node("other").await);
    closed.close().await.unwrap();
    let refused = closed.operate().change_settings(|settings| settings.max_queued = 7).await;
    assert!(matches!(refused, Err(Error::NodeClosed)), "{refused:?}");
    other.operate().shutdown().await.unwrap();
    other.closed().await;
    let refused = other.operate().change_settings(|settings| settings.max_queued = 7).await;
    assert!(matches!(refused, Err(Error::PoolClosed)), "{refused:?}");
}

async fn a_stored_value_that_this_version_cannot_use_can_be_replaced(world: World) {
    let node = world.node("a").await;
    let from = Settings::default().max_attempts.to_string();
    let change = SettingChange { name: "max_attempts".into(), from, to: "0".into() };
    let change_in = async |store: Store| {
        let identity = store.read(&ReadIdentity).await.unwrap();
        store.bless(&identity.run_id);
        let PoolState::Present { incarnation, .. } = store.read(&ReadState).await.unwrap() else { panic!() };
        store.run(incarnation, &ChangeSettings { changes: vec![change] }).await.unwrap();
        store.close().await;
    };
    match &world.home {
        Home::Memory(store) => change_in(store.clone().into()).await,
        Home::Redis(_) | Home::Elsewhere => {
            let client = Client::open(&world.server().url()).unwrap();
            change_in(RedisStore::open(&client, &PoolName::new(POOL).unwrap()).into()).await;
        }
    }
    let settings = node.operate().change_settings(|settings| settings.max_attempts = 7).await.unwrap();
    assert_eq!((settings.max_attempts, node.settings().max_attempts), (7, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_loses_its_data_keeps_its_changed_settings() {
    let world = World::in_memory().with_ttl(Duration::from_secs(1));
    let node = world.node_with("a", 1).await;
    node.operate().change_settings(|settings| settings.max_queued = 7).await.unwrap();
    let Home::Memory(store) = &world.home else { unreachable!() };
    store.tamper(tenure_protocol::memory::Server::wipe);
    until("the pool to be made again", async || {
        world.data().await.iter().any(|line| line == "settings max_queued = 7")
    })
    .await;
    node.dispatch(("key", "")).await.unwrap();
    assert_eq!(node.settings().max_queued, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_cut_off_while_the_settings_changed_comes_back() {
    let world = World::on_redis().with_ttl(Duration::from_secs(1));
    let a = world.node("a").await;
    let proxy = Proxy::start(world.server()).await.unwrap();
    let b = Node::builder(POOL, Client::open(&proxy.url()).unwrap()).name("b").worker_ttl(world.ttl());
    let b = b.join_settle(SHORT).stable_after(SHORT).join().await.unwrap();
    world.add_worker(&b).await;
    for (round, max_queued) in (7..10).enumerate() {
        proxy.pause();
        until("the worker to be fenced", async || b.health().workers[0].id.is_none()).await;
        a.operate().change_settings(|settings| settings.max_queued = max_queued).await.unwrap();
        proxy.resume();
        until("the worker to be back", async || {
            let health = b.health();
            if health.is_healthy() { Ok(()) } else { Err(health) }
        })
        .await;
        world.dispatch_one(&b, &format!("job-{round}")).await;
        heard(&b, max_queued).await;
    }
    // The first job has lost its worker more than once soon after its start, so it pauses.
    let keys: Vec<_> = (0..3).map(|round| format!("job-{round}")).collect();
    world.placed(&b, &keys).await;
    world.assert_clean();
}
