//! Dispatches with the caller's own id have one start and one outcome. That holds for any number of retries, from any
//! node, and through any loss.

use std::time::Duration;

use futures::future::join_all;
use tenure_pool::job::TraceContext;
use tenure_pool::{Client, DispatchError, JobSpec, JobState, Node, RestartPolicy};
use tenure_testing::Proxy;

use crate::recorder::Act;
use crate::world::{POOL, SHORT, World, on_both_stores, until};

on_both_stores!(
    a_retry_gets_the_first_outcome_from_any_node,
    a_retry_of_a_failed_start_gets_its_error_and_starts_nothing,
    a_retry_of_a_stopped_dispatch_says_so,
    the_same_id_with_another_key_or_other_bytes_is_a_conflict,
    an_own_id_is_waited_for_from_any_node,
    two_hundred_retries_on_four_nodes_are_one_start,
    two_hundred_callers_on_four_nodes_make_one_job_of_a_key,
    two_hundred_callers_on_four_nodes_fill_the_pool_exactly,
    a_bad_id_is_refused,
);

/// Four nodes, two of them with a worker.
async fn four(world: &World) -> [Node; 4] {
    [
        world.node_with("a", 1).await,
        world.node_with("b", 1).await,
        world.node("c").await,
        world.node("d").await,
    ]
}

async fn a_retry_gets_the_first_outcome_from_any_node(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    for node in [&a, &a, &b] {
        node.dispatch(("key", "payload")).id("order-17").await.unwrap();
        node.submit(("key", "payload")).id("order-17").await.unwrap();
    }
    b.stop_job("key").until_stopped().await.unwrap();
    for node in [&a, &b] {
        node.dispatch(("key", "payload")).id("order-17").await.unwrap();
    }
    assert_eq!(a.inspect().job("key").await.unwrap(), None);
    assert_eq!(world.recorder.starts_of("key"), 1);
    b.dispatch(("key", "payload")).id("order-18").await.unwrap();
    assert!(matches!(a.dispatch(("key", "payload")).await, Err(DispatchError::JobExists { .. })));
    assert_eq!(world.recorder.starts_of("key"), 2);
}

async fn a_retry_of_a_failed_start_gets_its_error_and_starts_nothing(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.add_worker(world.recorder.acting(|_| Act::Fail("no such tenant"))).await.unwrap();
    for node in [&a, &b, &a] {
        let outcome = node.dispatch(("key", "")).id("order-17").await;
        assert!(
            matches!(&outcome, Err(DispatchError::StartFailed(text)) if text == "no such tenant"),
            "{outcome:?}"
        );
    }
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn a_retry_of_a_stopped_dispatch_says_so(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.submit(("key", "")).id("order-17").await.unwrap();
    b.stop_job("key").await.unwrap();
    world.add_worker(&a).await;
    for node in [&a, &b] {
        let outcome = node.dispatch(("key", "")).id("order-17").await;
        assert!(matches!(outcome, Err(DispatchError::Stopped)), "{outcome:?}");
    }
    assert_eq!(world.recorder.starts_of("key"), 0);
}

async fn the_same_id_with_another_key_or_other_bytes_is_a_conflict(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    a.dispatch(("key", "payload")).id("order-17").await.unwrap();
    let job = || JobSpec::new("key", "payload").id("order-17");
    let others = [
        JobSpec::new("key", "other payload").id("order-17"),
        JobSpec::new("other key", "payload").id("order-17"),
        job().restart(RestartPolicy::Always),
        job().progress_timeout(Duration::from_secs(30)),
    ];
    for node in [&a, &b] {
        for other in others.clone() {
            let outcome = node.dispatch(other).await;
            assert!(matches!(outcome, Err(DispatchError::Conflict)), "{outcome:?}");
        }
        let trace = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "").unwrap();
        node.dispatch(job().trace(trace)).await.unwrap();
    }
    assert_eq!(a.inspect().jobs().await.unwrap().len(), 1);
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn an_own_id_is_waited_for_from_any_node(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.submit(("key", "")).id("order-17").await.unwrap();
    let ticket = b.ticket("key", "order-17").unwrap();
    let waiter = tokio::spawn(b.wait(&ticket).into_future());
    world.add_worker(&a).await;
    waiter.await.unwrap().unwrap();
    b.stop_job("key").until_stopped().await.unwrap();
    b.wait(&ticket).await.unwrap();
    let never = b.wait(&b.ticket("key", "order-18").unwrap()).await;
    assert!(matches!(never, Err(DispatchError::Unknown)), "{never:?}");
}

async fn two_hundred_retries_on_four_nodes_are_one_start(world: World) {
    let nodes = four(&world).await;
    let calls = (0..200).map(|i| nodes[i % 4].dispatch(("key", "payload")).id("order-17").into_future());
    for outcome in join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn two_hundred_callers_on_four_nodes_make_one_job_of_a_key(world: World) {
    let nodes = four(&world).await;
    let calls = (0..200).map(|i| nodes[i % 4].dispatch(("key", i.to_string())).into_future());
    let (won, lost): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 199));
    assert!(lost.iter().all(|answer| matches!(answer, Err(DispatchError::JobExists { .. }))), "{lost:?}");
    assert_eq!(world.recorder.starts_of("key"), 1);
}

async fn two_hundred_callers_on_four_nodes_fill_the_pool_exactly(world: World) {
    let join = async |name| world.builder(name).max_queued(50).join().await.unwrap();
    let nodes = [join("a").await, join("b").await, join("c").await, join("d").await];
    let calls = (0..200).map(|i| nodes[i % 4].submit((format!("job-{i}"), "")).into_future());
    let (taken, refused): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (50, 150));
    assert!(refused.iter().all(|answer| matches!(answer, Err(DispatchError::PoolFull))), "{refused:?}");
    assert_eq!(nodes[3].inspect().jobs().await.unwrap().len(), 50);
}

async fn a_bad_id_is_refused(world: World) {
    let node = world.node("a").await;
    for id in ["", "with space", "!order", &"i".repeat(65)] {
        let refused = node.dispatch(("key", "")).id(id).await;
        assert!(matches!(refused, Err(DispatchError::Key(_))), "{refused:?}");
        node.ticket("key", id).unwrap_err();
    }
    assert_eq!(node.inspect().jobs().await.unwrap(), vec![]);
}

/// A node that reaches the pool's server through a proxy.
async fn behind(world: &World, name: &str, proxy: &Proxy, max_queued: u64) -> Node {
    let client = Client::open(&proxy.url()).unwrap();
    let builder = Node::builder(POOL, client).name(name).worker_ttl(world.ttl()).join_settle(SHORT);
    builder.max_queued(max_queued).assume_fresh(true).join().await.unwrap()
}

/// The answers to 200 callers on four nodes when every answer to their first calls is lost.
async fn with_lost_replies<F>(world: &World, max_queued: u64, call: F) -> Vec<Result<(), DispatchError>>
where
    F: Fn(&Node, usize) -> tenure_pool::node::Dispatch<tenure_pool::Ticket>,
{
    let watcher = world.builder("watcher").max_queued(max_queued).join().await.unwrap();
    let (mut proxies, mut nodes) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c", "d"] {
        let proxy = Proxy::start(world.server()).await.unwrap();
        let node = behind(world, name, &proxy, max_queued).await;
        // By then it has read the server's clock, which a dispatch needs.
        node.submit(("first", "")).await.unwrap();
        node.stop_job("first").await.unwrap();
        nodes.push(node);
        proxies.push(proxy);
    }
    proxies.iter().for_each(Proxy::drop_replies);
    let calls = (0..200).map(|i| call(&nodes[i % 4], i).into_future());
    let calls = tokio::spawn(join_all(calls.collect::<Vec<_>>()));
    until("a job to be accepted", async || !watcher.inspect().jobs().await.unwrap().is_empty()).await;
    proxies.iter().for_each(Proxy::resume);
    calls.await.unwrap().into_iter().map(|outcome| outcome.map(|_| ())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_of_a_key_is_made_through_lost_replies() {
    let world = World::on_redis();
    let outcomes = with_lost_replies(&world, 10_000, |node, i| node.submit(("key", i.to_string()))).await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 199));
    assert!(lost.iter().all(|answer| matches!(answer, Err(DispatchError::JobExists { .. }))), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_is_filled_exactly_through_lost_replies() {
    let world = World::on_redis();
    let outcomes = with_lost_replies(&world, 50, |node, i| node.submit((format!("job-{i}"), ""))).await;
    let (taken, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (50, 150));
    assert!(refused.iter().all(|answer| matches!(answer, Err(DispatchError::PoolFull))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_are_one_start_through_lost_replies() {
    let world = World::on_redis();
    let call = |node: &Node, _| node.submit(("key", "payload")).id("order-17");
    for outcome in with_lost_replies(&world, 10_000, call).await {
        outcome.unwrap();
    }
    let node = world.node_with("late", 1).await;
    node.dispatch(("key", "payload")).id("order-17").await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 1);
    assert_eq!(node.inspect().job("key").await.unwrap().unwrap().state, JobState::Running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatch_whose_answers_are_lost_is_cancelled_all_the_same() {
    let world = World::on_redis();
    let watcher = world.node_with("watcher", 1).await;
    let proxy = Proxy::start(world.server()).await.unwrap();
    let node = behind(&world, "a", &proxy, 10_000).await;
    node.dispatch(("first", "")).await.unwrap();
    proxy.drop_replies();
    let call = node.dispatch(("key", "")).deadline(Duration::from_millis(500)).cancel_on_deadline();
    let call = tokio::spawn(call.into_future());
    until("the job to run past its deadline", async || {
        let job = watcher.inspect().job("key").await.unwrap();
        job.is_some_and(|job| job.created.elapsed().is_ok_and(|age| age > Duration::from_secs(1)))
    })
    .await;
    proxy.resume();
    let outcome = call.await.unwrap();
    assert!(matches!(outcome, Err(DispatchError::Cancelled { .. })), "{outcome:?}");
    until("the job to be gone", async || watcher.inspect().job("key").await.unwrap().is_none()).await;
    assert!(world.recorder.is_running("first") && !world.recorder.is_running("key"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_whose_answer_is_lost_says_that_it_cancelled() {
    let world = World::on_redis();
    let watcher = world.node("watcher").await;
    let proxy = Proxy::start(world.server()).await.unwrap();
    let node = behind(&world, "a", &proxy, 10_000).await;
    // By then the server has the script.
    node.cancel(&node.submit(("first", "")).await.unwrap()).await.unwrap();
    let queued = node.submit(("queued", "")).await.unwrap();
    let named = node.submit(("named", "")).id("order-1").await.unwrap();
    let unaccepted = node.ticket("never", "order-2").unwrap();
    for ticket in [queued, named, unaccepted] {
        proxy.drop_replies();
        let (canceller, cancelled) = (node.clone(), ticket.clone());
        let cancel = tokio::spawn(async move { canceller.cancel(&cancelled).await });
        until("the cancel to be carried out", async || {
            let ended = watcher.wait(&ticket).deadline(SHORT).await;
            matches!(ended, Err(DispatchError::Ended | DispatchError::Cancelled { .. }))
        })
        .await;
        proxy.resume();
        cancel.await.unwrap().unwrap_or_else(|error| panic!("{ticket}: {error}"));
    }
    assert_eq!(watcher.inspect().jobs().await.unwrap(), vec![]);
}
