//! Events in one shard that its users cannot bring about, on stores in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_testing::{Lines, eventually};
use tokio::time::Instant;

use crate::api::builder::NodeBuilder;
use crate::api::health::Health;
use crate::api::node::Node;
use crate::api::node::joining::Limit;
use crate::api::node::operator::CLOSING;
use crate::core::ctx::Purpose;
use crate::error::Error;
use crate::job::Job;
use crate::job::handler::JobHandler;
use crate::job::plan::{Plan, Tick};
use crate::model::id::NodeName;
use crate::model::settings::{Settings, ShardId, ShutdownFlag};
use crate::store::Content;
use crate::store::{
    Bootstrap, MemoryStore, ReadIdentity, ScheduleEntry, Seen, ShutDown, ShutdownMode, Store,
};

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn builder(store: &MemoryStore, shards: u32) -> NodeBuilder {
    let builder = Node::builder("p", store).shards(shards).name("a").assume_fresh(true);
    builder.join_settle(SHORT).stable_after(SHORT)
}

/// Counts the running jobs.
fn counting(running: &Arc<AtomicUsize>) -> impl JobHandler + use<> {
    let running = running.clone();
    crate::job::handler::run(move |job: Job| {
        let running = running.clone();
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            job.cancelled().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    })
}

/// Ends no job before its time to stop is over.
fn lasting() -> impl JobHandler {
    crate::job::handler::run(|_: Job| std::future::pending())
}

async fn run_jobs(pool: &Node, running: &Arc<AtomicUsize>) {
    pool.add_worker(counting(running)).await.unwrap();
    for i in 0..20 {
        pool.dispatch((format!("job-{i}"), "")).await.unwrap();
    }
    eventually(PATIENCE, "all to run", async || running.load(Ordering::SeqCst) == 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_that_one_shard_has_heard_of_is_one_of_all() {
    for heard in [0, 2] {
        let (store, running) = (MemoryStore::new(), Arc::default());
        let (a, b) =
            (builder(&store, 3).join().await.unwrap(), builder(&store, 3).name("b").join().await.unwrap());
        run_jobs(&a, &running).await;
        assert!(a.shards[heard].shut_down(ShutdownMode::Closing(CLOSING), PATIENCE).await.unwrap().complete);
        for pool in [&a, &b] {
            tokio::time::timeout(PATIENCE, pool.closed()).await.expect("all shards to end");
        }
        assert_eq!(running.load(Ordering::SeqCst), 0, "no handler is left");
        for shard in 0..3 {
            assert_eq!(
                store.shard(shard).tamper(|server| server.dump()).names().collect::<Vec<_>>(),
                ["pool"],
                "{shard}"
            );
        }
    }
}

/// The first shard has no waiting jobs and stops at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shard_gives_accepted_jobs_the_time_of_a_shutdown() {
    let store = MemoryStore::new();
    let a = builder(&store, 3).join().await.unwrap();
    let _b = builder(&store, 3).name("b").join().await.unwrap();
    let key =
        (0..100).map(|i| format!("job-{i}")).find(|key| a.inspect().shard_of(key).unwrap() == 2).unwrap();
    a.submit((&key, "")).await.unwrap();
    let asked = a.shards[0].shut_down(ShutdownMode::Closing(PATIENCE * 10), SHORT).await.unwrap();
    assert!(!asked.complete);
    let flag = |shard| Store::from(store.shard(shard)).settings().borrow().flag();
    eventually(PATIENCE, "both to hear of it", async || {
        flag(2).is_some() && flag(0).is_some_and(|flag| flag.is_stopping())
    })
    .await;
    let (
        Some(ShutdownFlag::Stopping { deadline_ms: Some(first), .. }),
        Some(ShutdownFlag::Closing { deadline_ms, .. }),
    ) = (flag(0), flag(2))
    else {
        panic!("{:?} {:?}", flag(0), flag(2))
    };
    assert!(deadline_ms.abs_diff(first) < 60_000, "{deadline_ms} {first}");
    assert!(a.inspect().job(&key).await.unwrap().is_some(), "it still waits");
    let report = a.operate().shutdown().drop_queued().within(PATIENCE).await.unwrap();
    assert!(report.complete);
}

/// The first shard loses its data, and is created again with another number of shards.
async fn made_with_two_shards(store: &MemoryStore) {
    let shard = store.shard(0);
    let first = Store::from(shard.clone());
    let run_id = first.read(&ReadIdentity).await.unwrap().run_id;
    let settings = Settings { shard: Some(ShardId { index: 0, count: 2 }), ..Settings::default() };
    let step = Bootstrap { seen: Seen::default(), run_id, settings: Box::new(settings) };
    // The node creates its shard again if it is quicker.
    let made_with_two = async || {
        shard.tamper(tenure_protocol::memory::Server::wipe);
        first.read(&step).await.unwrap().created
    };
    eventually(PATIENCE, "the pool to be made anew with two shards", made_with_two).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_pool_returns_with_other_shards_drops_all() {
    let (store, running) = (MemoryStore::new(), Arc::default());
    let pool = builder(&store, 3).join().await.unwrap();
    run_jobs(&pool, &running).await;
    made_with_two_shards(&store).await;
    tokio::time::timeout(PATIENCE, pool.closed()).await.expect("all shards to be dropped");
    assert!(pool.health().needs_restart());
    assert!(matches!(pool.stop_job("job-1").await, Err(Error::NodeClosed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_first_shard_keeps_the_number_of_shards() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    pool.close().await.unwrap();
    store.shard(0).tamper(tenure_protocol::memory::Server::wipe);
    for other in [2, 4] {
        match builder(&store, other).join().await {
            Err(Error::OtherShards { theirs: 3, ours }) => assert_eq!(ours, other),
            joined => panic!("{joined:?}"),
        }
    }
    assert_eq!(builder(&store, 3).join().await.unwrap().inspect().shards(), 3);
}

/// A worker that died holds up the last shard, and the first one is shut down meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_shuts_down_while_it_is_joined_is_not_joined() {
    let store = MemoryStore::new();
    let joining = |name: &str| builder(&store, 3).name(name).worker_ttl(Duration::from_secs(2));
    let a = joining("a").join().await.unwrap();
    a.add_worker(counting(&Arc::default())).await.unwrap();
    let last = store.shard(2);
    let flag = async |store: MemoryStore| {
        let store = Store::from(store);
        store.bless(&store.read(&ReadIdentity).await.unwrap().run_id);
        let incarnation = store.settings().borrow().incarnation.unwrap();
        store
            .run(incarnation, &ShutDown { by: NodeName::new("a").unwrap(), mode: ShutdownMode::DropQueued })
            .await
            .unwrap();
    };
    a.abandon();
    a.closed().await;
    flag(last.clone()).await;
    let joined = tokio::spawn(joining("b").join());
    let second = store.shard(1);
    eventually(PATIENCE, "the node to be in the second shard", async || {
        second.tamper(|server| server.dump()).names().any(|name| name == "node:b")
    })
    .await;
    flag(store.shard(0)).await;
    let refused = joined.await.unwrap();
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    assert_eq!(joining("c").join().await.unwrap().inspect().jobs().await.unwrap(), []);
}

/// A shutdown has ended the second shard, waits for a job in the third, and has not reached the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_refused_in_a_shutdown_leaves_no_shard_behind() {
    let store = MemoryStore::new();
    let mut shards = Vec::new();
    for index in 0..3 {
        let limit = Limit::new(PATIENCE);
        let shard = Some(ShardId { index, count: 3 });
        shards.push(builder(&store, 3).join_as(shard, Purpose::Part, limit).await.unwrap());
    }
    let living = Node::new([shards.remove(2)]);
    let mode = ShutdownMode::Closing(CLOSING);
    assert!(shards[1].shut_down(mode, PATIENCE).await.unwrap().complete);
    living.add_worker(lasting()).await.unwrap();
    living.dispatch(("lasts", "")).await.unwrap();
    assert!(!living.shards[0].shut_down(mode, SHORT).await.unwrap().complete);
    let refused = builder(&store, 3).name("b").join().await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    assert_eq!(store.shard(1).tamper(|server| server.dump()).names().collect::<Vec<_>>(), ["pool"]);
    assert!(Store::from(store.shard(1)).settings().borrow().incarnation.is_none(), "only a tombstone");
}

/// Changes the settings of one shard.
async fn of_shard(pool: &Node, shard: usize, change: impl Fn(&mut Settings)) {
    pool.shards[shard].change_settings(change, Instant::now() + PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_differ_come_to_those_of_the_first_shard() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    of_shard(&pool, 1, |settings| settings.max_queued = 7).await;
    let changed = pool.operate().change_settings(|settings| settings.max_queued += 1).await.unwrap();
    assert_eq!(changed.max_queued, 10_001);
    assert!(pool.shards.iter().all(|node| node.settings().max_queued == 10_001));
    of_shard(&pool, 2, |settings| settings.max_queued = 7).await;
    pool.operate().change_settings(|_| {}).await.unwrap();
    assert_eq!(pool.shards[2].settings().max_queued, 10_001);
    // Of two calls at once, each adds to the result of the other.
    let operator = pool.operate();
    let double = || operator.change_settings(|settings| settings.strikes += 1);
    let both = tokio::join!(double(), double(), double());
    for changed in [both.0, both.1, both.2] {
        changed.unwrap();
    }
    assert!(pool.shards.iter().all(|node| node.settings().strikes == 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shard_hears_who_wants_all_moves_now() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    of_shard(&pool, 1, |settings| settings.move_now = 7).await;
    for next in [8, 9] {
        pool.operate().move_now().await.unwrap();
        assert!(pool.shards.iter().all(|shard| shard.settings().move_now == next), "{next}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_cannot_be_joined_has_the_others_left_again() {
    let store = MemoryStore::new();
    // A pool with one shard has the name of the third shard.
    let plain = Node::builder("p", store.shard(2)).assume_fresh(true).join().await.unwrap();
    match builder(&store, 4).join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, ours } => {
            assert_eq!([&*name, &*theirs, &*ours], ["shard", "none", "2/4"]);
        }
        other => panic!("{other:?}"),
    }
    for shard in [0, 1, 3] {
        let store = store.shard(shard);
        eventually(PATIENCE, "the node to be gone", async || {
            !store.tamper(|server| server.dump()).names().any(|name| name.starts_with("node:"))
        })
        .await;
    }
    assert!(plain.health().is_healthy());
    // A node of a pool with one shard does not join a shard, either: the first one, which is created before the
    // others are tried.
    match Node::builder("p", store.shard(0)).join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, ours } => {
            assert_eq!([&*name, &*theirs, &*ours], ["shard", "0/4", "none"]);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_by_one_shard_is_undone_in_the_others() {
    let (store, running) = (MemoryStore::new(), Arc::default());
    let pool = builder(&store, 2).join().await.unwrap();
    pool.shards[1].close_within(PATIENCE).await.unwrap();
    let refused = pool.add_worker(counting(&running)).await;
    assert!(matches!(refused, Err(Error::NodeClosed)), "{refused:?}");
    assert_eq!(pool.inspect().workers().await.unwrap(), []);
    let asked = Arc::new(AtomicUsize::new(0));
    let planner = {
        let asked = asked.clone();
        move |_: Tick| {
            asked.fetch_add(1, Ordering::SeqCst);
            async { Ok(Plan::new()) }
        }
    };
    let refused = pool.schedule("s", planner, Duration::from_millis(1)).await;
    assert!(matches!(refused, Err(Error::NodeClosed)), "{refused:?}");
    // The planner is no longer held.
    eventually(PATIENCE, "the planner to be dropped", async || Arc::strong_count(&asked) == 1).await;
}

/// Whether a node has a turn in this shard.
fn has_turn(store: &MemoryStore, shard: u32) -> bool {
    let dump = store.shard(shard).tamper(|server| server.dump());
    let Some(Content::Hash(entries)) = dump.get("schedules") else { return false };
    entries.values().any(|entry| ScheduleEntry::parse(&entry.to_string()).unwrap().holder.is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_schedule_call_leaves_no_planner_in_any_shard() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    let planner = Arc::new(AtomicUsize::new(0));
    let held = planner.clone();
    let plan = move |_: Tick| {
        held.fetch_add(1, Ordering::SeqCst);
        async { Ok(Plan::new()) }
    };
    store.shard(2).set_available(false);
    let call = tokio::spawn({
        let pool = pool.clone();
        async move { pool.schedule("s", plan, SHORT).await }
    });
    eventually(PATIENCE, "two shards to plan", async || has_turn(&store, 0) && has_turn(&store, 1)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    store.shard(2).set_available(true);
    eventually(PATIENCE, "the planner to be dropped", async || Arc::strong_count(&planner) == 1).await;
    eventually(PATIENCE, "the turns to be left", async || !(0..3).any(|shard| has_turn(&store, shard))).await;
    // The name is free, so a repeated call has the only part.
    let again = pool.schedule("s", |_: Tick| async { Ok(Plan::new()) }, SHORT).await.unwrap();
    again.close().await.unwrap();
}

/// Each shard opens after a worker TTL, and the others wait for the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_of_several_shards_keeps_to_its_time() {
    let store = MemoryStore::new();
    for shard in 0..3 {
        store.shard(shard).tamper(tenure_protocol::memory::Server::wipe);
    }
    let (ttl, timeout) = (Duration::from_secs(2), Duration::from_secs(3));
    let joining = || builder(&store, 3).assume_fresh(false).worker_ttl(ttl);
    match joining().join_timeout(timeout).join().await {
        Err(Error::NotJoined { within, .. }) => assert_eq!(within, timeout),
        joined => panic!("{joined:?}"),
    }
    assert_eq!(joining().name("b").join().await.unwrap().inspect().shards(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_does_not_answer_ends_a_join_in_time() {
    for silent in [0, 1] {
        let store = MemoryStore::new();
        store.shard(silent).set_available(false);
        let timeout = Duration::from_secs(1);
        let join = tokio::time::timeout(PATIENCE, builder(&store, 2).join_timeout(timeout).join());
        match join.await.expect("an answer") {
            Err(Error::NotJoined { within, last: Some(last) }) => {
                assert_eq!(within, timeout);
                assert!(last.to_string().contains("switched off"), "{silent}: {last}");
            }
            joined => panic!("{silent}: {joined:?}"),
        }
    }
}

#[tokio::test]
async fn a_join_of_several_shards_logs_why_it_waits() {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _log = tracing::subscriber::set_default(log);
    let store = MemoryStore::new();
    store.shard(0).set_available(false);
    let joining = tokio::spawn(builder(&store, 2).join());
    let says = |line: &String| line.contains("not joined yet") && line.contains("p#0");
    eventually(PATIENCE, "a line", async || lines.all().iter().any(says)).await;
    store.shard(0).set_available(true);
    joining.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_shard_delays_the_settings_of_no_other() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    store.shard(1).set_available(false);
    let change = tokio::spawn({
        let pool = pool.clone();
        async move { pool.operate().change_settings(|settings| settings.max_queued = 7).await }
    });
    let last = &pool.shards[2];
    eventually(PATIENCE, "the last to change", async || last.settings().max_queued == 7).await;
    store.shard(1).set_available(true);
    change.await.unwrap().unwrap();
    assert!(pool.shards.iter().all(|shard| shard.settings().max_queued == 7));
}

/// Another call, which raises it further, has changed the second shard by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_raise_a_setting_at_once_both_succeed() {
    let store = MemoryStore::new();
    let pool = builder(&store, 3).join().await.unwrap();
    let [low, high] = [1, 2].map(|more| pool.settings().max_dispatch_deadline + Duration::from_secs(more));
    of_shard(&pool, 1, |settings| settings.max_dispatch_deadline = high).await;
    store.shard(2).set_available(false);
    let change = tokio::spawn({
        let pool = pool.clone();
        async move { pool.operate().change_settings(|settings| settings.max_dispatch_deadline = low).await }
    });
    eventually(PATIENCE, "the first to change", async || pool.settings().max_dispatch_deadline == low).await;
    of_shard(&pool, 0, |settings| settings.max_dispatch_deadline = high).await;
    store.shard(2).set_available(true);
    assert_eq!(change.await.unwrap().unwrap().max_dispatch_deadline, high);
    assert!(pool.shards.iter().all(|shard| shard.settings().max_dispatch_deadline == high));
}

/// The test blocks the only thread of the runtime on which the node was joined.
#[tokio::test]
async fn a_blocked_runtime_does_not_stop_the_supervisor() {
    let (store, running) = (MemoryStore::new(), Arc::default());
    let pool = builder(&store, 3).join().await.unwrap();
    run_jobs(&pool, &running).await;
    made_with_two_shards(&store).await;
    let deadline = Instant::now() + PATIENCE;
    while !pool.shard_health().iter().all(Health::needs_restart) {
        assert!(Instant::now() < deadline, "all shards are to be dropped");
        std::thread::yield_now();
    }
}
