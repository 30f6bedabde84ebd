//! Nodes that only take jobs in, and several pools and workers in one process.

use tenure_pool::{Client, Error, JobState, MemoryStore, Node};
use tenure_testing::eventually;

use crate::world::{Home, PATIENCE, SHORT, World, on_both_stores, workers_on};

on_both_stores!(
    a_client_may_have_no_worker_and_may_not_shut_the_pool_down,
    a_client_does_with_jobs_whatever_a_full_node_does,
    a_client_that_comes_first_makes_the_pool_and_its_jobs_wait_for_a_worker,
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
    let refused = client.shutdown().await;
    assert!(matches!(refused, Err(Error::ClientOnly)), "{refused:?}");
    world.dispatch_one(&client, "key").await;
    assert_eq!(client.workers().len(), 1);
    assert!(a.shutdown().await.unwrap().complete);
}

async fn a_client_does_with_jobs_whatever_a_full_node_does(world: World) {
    let (a, client) = (world.node_with("a", 2).await, client(&world).await);
    let keys = world.dispatch(&client, 20).await;
    world.placed(&client, &keys).await;
    client.notify("job-0", "hello").await.unwrap();
    eventually(PATIENCE, "the notification", async || world.recorder.notes("job-0") == ["hello"]).await;
    assert_eq!(client.payload("job-0").await.unwrap().unwrap(), "payload of job-0");
    world.stop(&client, "job-1").await;
    eventually(PATIENCE, "the job to be gone", async || client.jobs().await.unwrap().len() == 19).await;
    assert_eq!(workers_on(&a).len(), 2);
    world.assert_clean();
}

async fn a_client_that_comes_first_makes_the_pool_and_its_jobs_wait_for_a_worker(world: World) {
    let client = client(&world).await;
    let ticket = client.submit("key", "").await.unwrap();
    let a = world.node("a").await;
    assert_eq!(client.job("key").await.unwrap().unwrap().state, JobState::Queued);
    world.add_worker(&a).await;
    client.wait(&ticket).await.unwrap();
    assert!(world.recorder.is_running("key"));
}

async fn a_client_leaves_at_once_and_is_told_of_the_pools_end(world: World) {
    let (a, stays) = (world.node_with("a", 1).await, client(&world).await);
    let leaves = world.builder("leaves").client_only().join().await.unwrap();
    leaves.dispatch("key", "").await.unwrap();
    assert!(leaves.close().await.unwrap().complete);
    assert!(a.shutdown().await.unwrap().complete);
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
    assert_eq!(other.jobs().await.unwrap(), []);
    other.dispatch("job-0", "of the other").await.unwrap();
    other.dispatch("more", "").await.unwrap();
    assert_eq!((a.jobs().await.unwrap().len(), other.jobs().await.unwrap().len()), (10, 2));
    other.stop_job("job-0").await.unwrap();
    eventually(PATIENCE, "the other's job to end", async || other.jobs().await.unwrap().len() == 1).await;
    assert!(other.shutdown().await.unwrap().complete);
    let holders = world.placed(&a, &keys).await;
    assert_eq!(holders.len(), 10);
    a.dispatch("still", "here").await.unwrap();
}
