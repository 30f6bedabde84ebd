//! Nodes that only dispatch, and several pools and workers in one process.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use tenure_pool::{
    BoxError, Client, DispatchError, Error, JobSpec, JobState, MemoryStore, Node, Plan, RestartPolicy,
    Settings, Tick,
};
use tenure_testing::Proxy;

use crate::recorder::Act;
use crate::world::{Home, PATIENCE, POOL, SHORT, World, on_both_stores, until, workers_on};

on_both_stores!(
    a_client_may_have_no_worker_and_may_not_shut_the_pool_down,
    a_client_does_with_jobs_whatever_a_full_node_does,
    a_first_client_makes_the_pool_and_its_jobs_wait_for_a_worker,
    a_client_ensures_waits_and_cancels,
    a_client_lists_in_pages,
    a_client_sees_what_is_parked_and_has_it_tried_again,
    a_client_plans_and_gets_ticks,
    a_client_leaves_at_once_and_is_told_of_the_pools_end,
    two_pools_in_one_process_know_nothing_of_each_other,
);

async fn client(world: &World) -> Node {
    world.builder("client").client_only().join().await.unwrap()
}

async fn a_client_may_have_no_worker_and_may_not_shut_the_pool_down(world: World) {
    let (a, client) = (world.node_with("a", 1).await, client(&world).await);
    let refused = client.add_worker(world.recorder.clone()).await;
    assert!(matches!(refused, Err(Error::ClientOnly)), "{refused:?}");
    let refused = client.operate().shutdown().await;
    assert!(matches!(refused, Err(Error::ClientOnly)), "{refused:?}");
    world.dispatch_one(&client, "key").await;
    assert_eq!(client.inspect().workers().await.unwrap().len(), 1);
    assert!(a.operate().shutdown().await.unwrap().complete);
}

async fn a_client_does_with_jobs_whatever_a_full_node_does(world: World) {
    let (a, client) = (world.node_with("a", 2).await, client(&world).await);
    world.dispatch_placed(&client, 20).await;
    client.notify("job-0", "hello").await.unwrap();
    until("the notification", async || world.recorder.notes("job-0") == ["hello"]).await;
    assert_eq!(client.inspect().payload("job-0").await.unwrap().unwrap(), "payload of job-0");
    world.stop(&client, "job-1").await;
    until("the job to be gone", async || client.inspect().jobs().await.unwrap().len() == 19).await;
    assert_eq!(workers_on(&a).await.len(), 2);
    world.assert_clean();
}

async fn a_first_client_makes_the_pool_and_its_jobs_wait_for_a_worker(world: World) {
    let client = client(&world).await;
    let ticket = client.submit(("key", "")).await.unwrap();
    let a = world.node("a").await;
    assert_eq!(client.inspect().job("key").await.unwrap().unwrap().state, JobState::Queued);
    world.add_worker(&a).await;
    client.wait(&ticket).await.unwrap();
    assert!(world.recorder.is_running("key"));
}

async fn a_client_ensures_waits_and_cancels(world: World) {
    let (a, client) = (world.node("a").await, client(&world).await);
    let (waited, cancelled) =
        (client.submit(("waited", "")).await.unwrap(), client.submit(("cancelled", "")).await.unwrap());
    client.cancel(&cancelled).await.unwrap();
    world.add_worker(&a).await;
    client.wait(&waited).await.unwrap();
    for _ in 0..2 {
        client.ensure(("ensured", "payload")).await.unwrap();
        client.ensure(JobSpec::new("ensured", "other")).await.unwrap();
    }
    let starts = world.recorder.starts();
    assert_eq!(starts, [("ensured".to_owned(), 1), ("waited".to_owned(), 1)].into());
    assert_eq!(client.inspect().payload("ensured").await.unwrap().unwrap(), "payload");
    assert!(matches!(
        client.wait(&cancelled).await,
        Err(DispatchError::Ended | DispatchError::Cancelled { .. })
    ));
}

async fn a_client_lists_in_pages(world: World) {
    let (a, client) = (world.node_with("a", 1).await, client(&world).await);
    let keys: BTreeSet<_> = world.dispatch(&client, 150).await.into_iter().collect();
    let (mut listed, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = client.inspect().jobs_page(cursor, 20).await.unwrap();
        listed.extend(page.items.into_iter().map(|job| job.key.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, keys);
    let streamed: Vec<_> = client.inspect().job_stream().try_collect().await.unwrap();
    assert_eq!(streamed.iter().map(|job| job.key.to_string()).collect::<BTreeSet<_>>(), keys);
    let worker = &a.inspect().workers().await.unwrap()[0];
    let first = client.inspect().jobs_of(worker, None, 1).await.unwrap().remove(0);
    let rest = client.inspect().jobs_of(worker, Some(&first.key), 1_000).await.unwrap();
    assert_eq!((first.owner, rest.len()), (Some(worker.id), 149));
}

async fn a_client_sees_what_is_parked_and_has_it_tried_again(world: World) {
    let settings =
        Settings { worker_ttl: world.ttl(), join_settle: SHORT, max_attempts: 1, ..Settings::default() };
    let a = world.builder("a").settings(settings.clone()).join().await.unwrap();
    let client = world.builder("client").settings(settings).client_only().join().await.unwrap();
    let failing = a.add_worker(world.recorder.acting(|_| Act::Fail("as it was told"))).await.unwrap();
    client.submit(("key", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    until("the job to be parked", async || client.inspect().parked().await.unwrap().len() == 1).await;
    assert_eq!(client.inspect().parked_page(None, 10).await.unwrap().items[0].error, "as it was told");
    failing.drain().await.unwrap();
    world.add_worker(&a).await;
    client.operate().unpark("key").await.unwrap();
    until("the job to run", async || world.recorder.is_running("key")).await;
    assert_eq!(client.inspect().parked().await.unwrap(), []);
}

async fn a_client_plans_and_gets_ticks(world: World) {
    let (_a, client) = (world.node_with("a", 1).await, client(&world).await);
    let mut ticker = client.ticker("beat", Duration::from_millis(20)).await.unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let tick = ticker.next().await.unwrap();
        assert!(tick.number > last, "{tick:?}");
        last = tick.number;
    }
    let planner = |_: Tick| async { Ok::<_, BoxError>(Plan::exactly([JobSpec::new("planned", "")])) };
    let schedule = client.schedule("plan", planner, SHORT).await.unwrap();
    until("the planned job", async || world.recorder.is_running("planned")).await;
    schedule.end().await.unwrap();
    ticker.stop().await.unwrap();
}

async fn a_client_leaves_at_once_and_is_told_of_the_pools_end(world: World) {
    let (a, stays) = (world.node_with("a", 1).await, client(&world).await);
    let leaves = world.builder("leaves").client_only().join().await.unwrap();
    leaves.dispatch(("key", "")).await.unwrap();
    assert!(leaves.close().await.unwrap().complete);
    assert!(a.operate().shutdown().await.unwrap().complete);
    tokio::time::timeout(PATIENCE, stays.closed()).await.expect("the client to close");
    assert!(stays.close().await.unwrap().complete);
}

async fn two_pools_in_one_process_know_nothing_of_each_other(world: World) {
    let a = world.node_with("a", 2).await;
    let other = match &world.home {
        Home::Memory(_) => Node::builder("other", MemoryStore::new()),
        Home::Redis(server) => Node::builder("other", Client::open(&server.url()).unwrap()),
        Home::Elsewhere => unreachable!("these pools have a home"),
    };
    // The same name, and other settings: another pool.
    let other = other.name("a").max_queued(3).join_settle(SHORT).assume_fresh(true).join().await.unwrap();
    let handlers = [world.recorder.clone(), world.recorder.clone()];
    for handler in handlers {
        other.add_worker(handler).await.unwrap();
    }
    let keys = world.dispatch(&a, 10).await;
    assert_eq!(other.inspect().jobs().await.unwrap(), []);
    other.dispatch(("job-0", "of the other")).await.unwrap();
    other.dispatch(("more", "")).await.unwrap();
    assert_eq!(
        (a.inspect().jobs().await.unwrap().len(), other.inspect().jobs().await.unwrap().len()),
        (10, 2)
    );
    other.stop_job("job-0").await.unwrap();
    until("the other's job to end", async || other.inspect().jobs().await.unwrap().len() == 1).await;
    assert!(other.operate().shutdown().await.unwrap().complete);
    let holders = world.placed(&a, &keys).await;
    assert_eq!(holders.len(), 10);
    a.dispatch(("still", "here")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_lists_jobs_without_their_payloads() {
    const PAYLOAD: usize = 100 << 10;
    let world = World::on_redis();
    let a = world.node("a").await;
    let jobs = (0..100).map(|i| JobSpec::new(format!("job-{i}"), vec![0; PAYLOAD]));
    assert!(a.submit_many(jobs).await.iter().all(Result::is_ok));
    let proxy = Proxy::start(world.server()).await.unwrap();
    let builder = Node::builder(POOL, Client::open(&proxy.url()).unwrap()).name("client").client_only();
    let client = builder.worker_ttl(world.ttl()).join_settle(SHORT).join().await.unwrap();
    assert_eq!(client.inspect().jobs().await.unwrap().len(), 100);
    assert_eq!(client.inspect().job_stream().try_collect::<Vec<_>>().await.unwrap().len(), 100);
    assert!(client.inspect().job("job-1").await.unwrap().is_some());
    let received = proxy.counts().to_client;
    assert!(received < 5 * PAYLOAD as u64, "{received} bytes");
    assert_eq!(client.inspect().payload("job-1").await.unwrap().unwrap().len(), PAYLOAD);
    assert!(proxy.counts().to_client >= received + PAYLOAD as u64, "the count sees what it should");
}
