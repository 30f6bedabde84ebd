//! Where the job of a key is, as others ask: the guess, the owner, and the node that serves it.

use std::sync::{Arc, Mutex, OnceLock};

use tenure_pool::{BoxError, Error, Job, JobHandler, JobState, Node, Start, StopReason};

use crate::world::{PATIENCE, World, on_both_stores, until};

on_both_stores!(
    a_guess_names_the_owner_and_its_address,
    a_key_that_nobody_runs_has_no_owner,
    a_job_is_served_by_its_owner_and_by_no_other_node,
    a_drained_worker_serves_nothing_and_says_so,
    a_job_is_not_served_while_it_stops,
    a_job_that_ends_by_itself_is_no_longer_served,
    a_node_without_an_index_says_so,
);

/// A node that serves, with one worker that is up.
async fn serving_node(world: &World, name: &str) -> Node {
    let address = format!("http://{name}.example:8080");
    let node = world.builder(name).address(address).serves().join().await.unwrap();
    world.add_worker(&node).await;
    node
}

async fn a_guess_names_the_owner_and_its_address(world: World) {
    let client = world.node("client").await;
    assert_eq!(client.guess("key").unwrap(), None, "no worker is up");
    let (_a, _b) = (serving_node(&world, "a").await, serving_node(&world, "b").await);
    let (keys, _) = world.dispatch_placed(&client, 40).await;
    until("the client to know both workers", async || client.inspect().workers().await.unwrap().len() == 2)
        .await;
    let mut nodes = std::collections::BTreeSet::new();
    for key in &keys {
        let owner = client.inspect().owner(key).await.unwrap().unwrap();
        let guess = client.guess(key).unwrap().unwrap();
        assert_eq!(owner.state, JobState::Running);
        assert_eq!((guess.worker, Some(&guess.node)), (owner.worker, owner.node.as_ref()));
        assert_eq!(guess.address, format!("http://{}.example:8080", guess.node));
        assert_eq!(guess.address, owner.address);
        assert_eq!(owner.token, client.inspect().job(key).await.unwrap().unwrap().token);
        nodes.insert(guess.node);
    }
    assert_eq!(nodes.len(), 2, "each node has a share");
    assert!(client.guess("").is_err());
    assert!(matches!(client.inspect().owner("").await, Err(Error::Name(_))));
}

async fn a_key_that_nobody_runs_has_no_owner(world: World) {
    let node = world.node("a").await;
    assert_eq!(node.inspect().owner("missing").await.unwrap(), None);
    node.submit(("queued", "")).await.unwrap();
    assert_eq!(node.inspect().owner("queued").await.unwrap(), None);
}

async fn a_job_is_served_by_its_owner_and_by_no_other_node(world: World) {
    let (a, b) = (serving_node(&world, "a").await, serving_node(&world, "b").await);
    let (keys, _) = world.dispatch_placed(&a, 20).await;
    for key in &keys {
        let owner = a.inspect().owner(key).await.unwrap().unwrap();
        let (of_a, of_b) = (a.serving(key).unwrap(), b.serving(key).unwrap());
        assert_eq!(
            (of_a.is_some(), of_b.is_some()),
            (owner.node.as_deref() == Some("a"), owner.node.as_deref() == Some("b"))
        );
        let serving = of_a.or(of_b).unwrap();
        assert_eq!((serving.token(), serving.job().key().as_str()), (owner.token, Some(key.as_str())));
        assert!(serving.check());
    }
    assert!(a.serving("missing").unwrap().is_none());
    assert!(matches!(a.serving(""), Err(Error::Name(_))));
}

async fn a_drained_worker_serves_nothing_and_says_so(world: World) {
    let a = serving_node(&world, "a").await;
    let (keys, _) = world.dispatch_placed(&a, 10).await;
    let before: Vec<_> = keys.iter().map(|key| a.serving(key).unwrap().unwrap()).collect();
    let b = serving_node(&world, "b").await;
    a.close().await.unwrap();
    for (key, before) in keys.iter().zip(before) {
        tokio::time::timeout(PATIENCE, before.ended()).await.unwrap();
        assert!(!before.check());
        assert!(a.serving(key).unwrap().is_none());
        until("the next owner", async || {
            b.serving(key).unwrap().is_some_and(|serving| serving.token() > before.token())
        })
        .await;
    }
}

/// Looks, in its stop handler, whether the node still serves the job.
#[derive(Clone, Default)]
struct Looks {
    node: Arc<OnceLock<Node>>,
    seen: Arc<Mutex<Option<bool>>>,
}

impl JobHandler for Looks {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        let node = self.node.get().ok_or("no node")?;
        *self.seen.lock().unwrap() = Some(node.serving(job.key().clone())?.is_some());
        Ok(())
    }
}

async fn a_job_is_not_served_while_it_stops(world: World) {
    let node = world.builder("a").serves().join().await.unwrap();
    let handler = Looks::default();
    handler.node.set(node.clone()).unwrap();
    node.add_worker(handler.clone()).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    let serving = node.serving("key").unwrap().unwrap();
    node.stop_job("key").until_stopped().await.unwrap();
    tokio::time::timeout(PATIENCE, serving.ended()).await.unwrap();
    assert_eq!(*handler.seen.lock().unwrap(), Some(false));
    assert!(node.serving("key").unwrap().is_none());
}

async fn a_job_that_ends_by_itself_is_no_longer_served(world: World) {
    let node = world.builder("a").serves().join().await.unwrap();
    node.add_worker(tenure_pool::run(|job: Job| async move {
        job.notified().await;
        Ok(())
    }))
    .await
    .unwrap();
    node.dispatch(("key", "")).await.unwrap();
    let serving = node.serving("key").unwrap().unwrap();
    assert!(serving.check());
    node.notify("key", "end").await.unwrap();
    tokio::time::timeout(PATIENCE, serving.ended()).await.unwrap();
    assert!(!serving.check());
    assert!(node.serving("key").unwrap().is_none());
}

async fn a_node_without_an_index_says_so(world: World) {
    let node = world.node_running("a", "key").await;
    let refused = node.serving("key");
    assert!(matches!(refused, Err(Error::ServesNothing)), "{refused:?}");
}
