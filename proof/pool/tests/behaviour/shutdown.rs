//! The end of a whole pool: every handler is stopped, every node is closed, and nothing remains.

use std::future::IntoFuture;
use std::time::{Duration, UNIX_EPOCH};

use futures::future::join_all;
use tenure_pool::{DispatchError, Error, Node, StopReason};

use crate::world::{Home, PATIENCE, POOL, SHORT, World, beside, on_both_stores, until};

on_both_stores!(
    a_shutdown_ends_every_node_and_leaves_nothing,
    jobs_that_nobody_began_are_dropped_and_their_waiters_told,
    the_others_finish_what_a_vanished_node_began,
    a_join_cleans_up_after_a_pool_that_died_in_the_middle,
    a_join_is_refused_while_the_pool_shuts_down,
    accepted_jobs_begin_before_the_pool_stops,
    jobs_that_have_not_begun_are_dropped_at_once_on_request,
    a_shutdown_is_hastened_by_an_operator_without_a_node,
    a_pool_is_ended_by_an_operator_without_a_node,
    an_operator_ends_a_closing_pool_in_which_nobody_lives,
    a_shutdown_past_its_time_names_the_workers_left_and_goes_on,
    two_nodes_may_ask_for_it_at_once,
    a_pool_closes_for_10_s_unless_told_otherwise,
);

/// The pool's keys that the store holds.
fn keys_left(world: &World) -> Vec<String> {
    match &world.home {
        Home::Memory(store) => store.tamper(|server| server.dump()).names().map(str::to_owned).collect(),
        Home::Redis(_) | Home::Elsewhere => {
            let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut world.client()).unwrap();
            let prefix = format!("tenure:{{{POOL}}}:");
            let mut names: Vec<_> = keys.iter().map(|key| key.replace(&prefix, "")).collect();
            names.sort();
            names
        }
    }
}

async fn all_closed(nodes: &[&Node]) {
    for node in nodes {
        tokio::time::timeout(PATIENCE, node.closed()).await.expect("the node to close");
    }
}

async fn a_shutdown_ends_every_node_and_leaves_nothing(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let c = world.node("c").await;
    let keys = world.dispatch(&c, 50).await;
    for key in &keys {
        world.history().stop_requested(key);
    }
    let report = a.operate().shutdown().await.unwrap();
    assert!(report.complete);
    assert_eq!((report.dropped_here, report.left), (0, vec![]));
    all_closed(&[&a, &b, &c]).await;
    assert_eq!(world.recorder.running().len(), 0);
    for key in &keys {
        assert_eq!(world.recorder.stops(key), [StopReason::Shutdown], "{key}");
        assert_eq!(world.recorder.starts_of(key), 1, "{key}");
    }
    assert_eq!(keys_left(&world), ["pool"]);
    world.assert_clean_at_end();
    assert!(matches!(a.dispatch(("late", "")).await, Err(DispatchError::NodeClosed)));

    let _again = world.node_running("a", "anew").await;
    assert!(world.recorder.is_running("anew"));
}

async fn jobs_that_nobody_began_are_dropped_and_their_waiters_told(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let ticket = a.submit(("never", "")).await.unwrap();
    let waiter = tokio::spawn({
        let (b, ticket) = (b.clone(), ticket.clone());
        async move { b.wait(&ticket).await }
    });
    let dispatcher = beside(&b, |b| async move { b.dispatch(("neither", "")).await });
    until("both to be accepted", async || a.inspect().jobs().await.unwrap().len() == 2).await;
    // Nothing can begin, and its time must pass.
    let report = a.operate().shutdown().closing(SHORT).await.unwrap();
    assert_eq!(report.left, vec![]);
    for answer in [waiter.await.unwrap(), dispatcher.await.unwrap()] {
        assert!(matches!(answer, Err(DispatchError::ShuttingDown)), "{answer:?}");
    }
    all_closed(&[&a, &b]).await;
    assert_eq!(keys_left(&world), ["pool"]);
    assert_eq!(world.recorder.starts_of("never"), 0);
}

async fn the_others_finish_what_a_vanished_node_began(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let a = world.node("a").await;
    // The shutdown is not over before this node has vanished.
    a.add_worker(world.recorder.acting(|_| crate::recorder::Act::HangStop)).await.unwrap();
    let b = world.node_with("b", 2).await;
    let keys = world.dispatch(&b, 30).await;
    for key in &keys {
        world.history().stop_requested(key);
    }
    let asked = beside(&a, |a| async move { a.operate().shutdown().await });
    world.shutting_down().await;
    a.abandon();
    asked.await.unwrap().expect_err("the node has vanished");
    all_closed(&[&a, &b]).await;
    assert_eq!(world.recorder.running().len(), 0);
    // No other node deletes the stream of the vanished node, so it must expire.
    assert_eq!(keys_left(&world), ["node:a", "pool"]);
    world.assert_clean_at_end();
}

async fn a_join_cleans_up_after_a_pool_that_died_in_the_middle(world: World) {
    let world = world.with_ttl(Duration::from_secs(1));
    let (a, b) = (
        world.builder("a").stop_timeout(Duration::from_secs(60)).join().await.unwrap(),
        world.builder("b").stop_timeout(Duration::from_secs(60)).join().await.unwrap(),
    );
    for node in [&a, &b] {
        node.add_worker(world.recorder.acting(|_| crate::recorder::Act::HangStop)).await.unwrap();
    }
    world.dispatch(&a, 10).await;
    let asked = beside(&a, |a| async move { a.operate().shutdown().await });
    world.shutting_down().await;
    a.abandon();
    b.abandon();
    all_closed(&[&a, &b]).await;
    assert!(asked.await.unwrap().is_err());
    let c = world.node_with("c", 1).await;
    assert_eq!(c.inspect().jobs().await.unwrap(), vec![], "the old pool's jobs are gone");
    world.dispatch_one(&c, "anew").await;
    assert!(world.recorder.is_running("anew"));
    assert_eq!(c.inspect().workers().await.unwrap().len(), 1);
}

async fn a_join_is_refused_while_the_pool_shuts_down(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let a = world.builder("a").stop_timeout(Duration::from_secs(60)).join().await.unwrap();
    a.add_worker(world.recorder.acting(|_| crate::recorder::Act::HangStop)).await.unwrap();
    world.dispatch_one(&a, "holds it up").await;
    let _asked = beside(&a, |a| async move { a.operate().shutdown().await });
    world.shutting_down().await;
    let refused = world.builder("b").join().await.expect_err("the pool is shutting down");
    assert!(matches!(refused, Error::ShuttingDown | Error::PoolClosed), "{refused:?}");
}

async fn accepted_jobs_begin_before_the_pool_stops(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let submitted = join_all((0..300).map(|i| {
        let a = &a;
        async move { a.submit((format!("job-{i}"), "")).await.map(|_| format!("job-{i}")) }
    }));
    // Some are accepted before it and some are not. Many have not begun.
    let (submitted, report) = tokio::join!(submitted, async {
        until("some to be accepted", async || !b.inspect().jobs().await.unwrap().is_empty()).await;
        b.operate().shutdown().await
    });
    let report = report.unwrap();
    assert!(report.complete, "{report:?}");
    for accepted in submitted.into_iter().flatten() {
        assert_eq!(world.recorder.starts_of(&accepted), 1, "{accepted}");
    }
    all_closed(&[&a, &b]).await;
    assert_eq!(keys_left(&world), ["pool"]);
}

async fn jobs_that_have_not_begun_are_dropped_at_once_on_request(world: World) {
    // Without a worker no job begins.
    let (a, b) = (world.node("a").await, world.node("b").await);
    let tickets = join_all((0..20).map(|i| a.submit((format!("job-{i}"), "")).into_future())).await;
    assert!(tickets.iter().all(Result::is_ok));
    let waiter = beside(&b, |b| async move { b.dispatch(("waits", "")).await });
    until("all to be accepted", async || a.inspect().jobs().await.unwrap().len() == 21).await;
    let (of_a, of_b) = tokio::join!(
        a.operate().shutdown().drop_queued().into_future(),
        b.operate().shutdown().drop_queued().into_future()
    );
    match (of_a, of_b) {
        (Ok(of_a), Ok(of_b)) => {
            assert!(of_a.complete && of_b.complete, "{of_a:?} {of_b:?}");
            assert_eq!(of_a.dropped_here + of_b.dropped_here, 21, "{of_a:?} {of_b:?}");
        }
        // This node was asked after the end, and no longer reports how many jobs it dropped.
        (Ok(report), Err(Error::PoolClosed | Error::NodeClosed))
        | (Err(Error::PoolClosed | Error::NodeClosed), Ok(report)) => assert!(report.complete),
        ends => panic!("{ends:?}"),
    }
    assert!(matches!(waiter.await.unwrap(), Err(DispatchError::ShuttingDown)));
    all_closed(&[&a, &b]).await;
    assert_eq!(keys_left(&world), ["pool"]);
}

/// The stream of a node that vanished expires later.
fn assert_ended(world: &World) {
    let mut keys = keys_left(world);
    keys.retain(|key| !key.starts_with("node:"));
    assert_eq!(keys, ["pool"]);
}

async fn a_shutdown_is_hastened_by_an_operator_without_a_node(world: World) {
    // Without a worker no job begins.
    let node = world.node("a").await;
    let waiter = beside(&node, |node| async move { node.dispatch(("waits", "")).await });
    until("the job to be accepted", async || !node.inspect().jobs().await.unwrap().is_empty()).await;
    let operator = world.builder("x").operate().await.unwrap();
    let asked = beside(&node, |node| async move {
        node.operate().shutdown().closing(PATIENCE * 10).within(PATIENCE).await
    });
    world.shutting_down().await;
    let ended = operator.shutdown().drop_queued().within(PATIENCE).await.unwrap();
    assert_eq!((ended.complete, ended.left), (true, vec![]));
    assert!(matches!(waiter.await.unwrap(), Err(DispatchError::ShuttingDown)));
    assert!(asked.await.unwrap().unwrap().complete);
    all_closed(&[&node]).await;
    let none = world.builder("x").operate().await;
    assert!(matches!(none, Err(Error::PoolClosed)), "{none:?}");
    assert_ended(&world);
}

async fn a_pool_is_ended_by_an_operator_without_a_node(world: World) {
    let node = world.node_with("a", 1).await;
    let keys = world.dispatch(&node, 3).await;
    let operator = world.builder("x").operate().await.unwrap();
    let report = operator.shutdown().within(PATIENCE).await.unwrap();
    assert_eq!((report.complete, report.left), (true, vec![]));
    assert!(keys.iter().all(|key| world.recorder.stops(key) == [StopReason::Shutdown]));
    all_closed(&[&node]).await;
    assert_ended(&world);
}

async fn an_operator_ends_a_closing_pool_in_which_nobody_lives(world: World) {
    let node = world.node("a").await;
    node.submit(("never begun", "")).await.unwrap();
    let asked = beside(&node, |node| async move { node.operate().shutdown().closing(PATIENCE * 10).await });
    world.shutting_down().await;
    node.abandon();
    assert!(asked.await.unwrap().is_err());
    let operator = world.builder("x").operate().await.unwrap();
    assert!(operator.shutdown().drop_queued().within(PATIENCE).await.unwrap().complete);
    assert_ended(&world);
}

async fn a_shutdown_past_its_time_names_the_workers_left_and_goes_on(world: World) {
    let a = world.builder("a").stop_timeout(SHORT).join().await.unwrap();
    let b = world.node("b").await;
    let worker = a.add_worker(world.recorder.acting(|_| crate::recorder::Act::HangStop)).await.unwrap();
    world.dispatch_one(&a, "holds it up").await;
    until("the other node to hear of the worker", async || b.inspect().workers().await.unwrap().len() == 1)
        .await;
    let report = b.operate().shutdown().within(Duration::ZERO).await.unwrap();
    assert!(!report.complete);
    assert_eq!(report.left, [worker.id().unwrap()]);
    // The shutdown can be asked for again, and waits for the same end.
    assert!(a.operate().shutdown().await.unwrap().complete);
    all_closed(&[&a, &b]).await;
}

async fn two_nodes_may_ask_for_it_at_once(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    world.dispatch(&a, 20).await;
    let (first, second) = tokio::join!(
        a.operate().shutdown().into_future(),
        b.operate().shutdown().drop_queued().into_future()
    );
    // A node that was asked after the end says so.
    let over = |error: &Error| matches!(error, Error::PoolClosed | Error::NodeClosed);
    assert!(first.is_ok() || second.is_ok());
    for end in [first, second] {
        assert!(end.as_ref().map_or_else(over, |report| report.complete), "{end:?}");
    }
    all_closed(&[&a, &b]).await;
    assert_eq!(world.recorder.running().len(), 0);
    assert_eq!(keys_left(&world), ["pool"]);
}

async fn a_pool_closes_for_10_s_unless_told_otherwise(world: World) {
    let now = || u64::try_from(world.now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let node = world.node("a").await;
    node.submit(("never begun", "")).await.unwrap();
    let before = now();
    let asked = beside(&node, |node| async move { node.operate().shutdown().await });
    world.shutting_down().await;
    let after = now();
    let data = world.data().await;
    let flag = data.iter().find_map(|line| line.strip_prefix("settings shutdown = C|")).unwrap();
    let deadline: u64 = flag.split('|').next().unwrap().parse().unwrap();
    assert!((before + 10_000..=after + 10_000).contains(&deadline), "{flag}");
    node.abandon();
    node.closed().await;
    assert!(asked.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tombstone_lasts_for_an_hour() {
    let world = World::on_redis();
    let node = world.node("a").await;
    assert!(node.operate().shutdown().await.unwrap().complete);
    let name = format!("tenure:{{{POOL}}}:pool");
    let left: u64 = redis::cmd("PTTL").arg(name).query(&mut world.client()).unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left} ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_node_that_is_no_more_goes_by_itself() {
    let world = World::on_redis();
    let node = world.node("a").await;
    world.add_worker(&node).await;
    let name = format!("tenure:{{{POOL}}}:node:a");
    let life: i64 = redis::cmd("PTTL").arg(name).query(&mut world.client()).unwrap();
    assert!(life > 0 && life <= 2 * i64::try_from(world.ttl().as_millis()).unwrap().max(30_000), "{life} ms");
}
