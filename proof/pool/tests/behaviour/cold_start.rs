//! A fleet starts while no worker is up and jobs wait: each job is placed once.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use tenure_pool::{JobSpec, Node};

use crate::world::{World, on_both_stores, until, workers_on};

on_both_stores!(
    jobs_that_wait_for_a_fleet_are_placed_once,
    jobs_of_a_fleet_that_is_killed_are_placed_once,
    a_fleet_that_finds_no_job_is_up_at_once,
);

const NODES: usize = 3;
const JOBS: usize = 1_000;
/// How long a standby waits for a leaving worker. The other workers are up long before.
const SETTLE: Duration = Duration::from_secs(16);
/// A killed fleet is gone by the time new workers have waited for leaving ones, or long before. Until then all of the
/// new workers join, even on a loaded machine.
const TTL: Duration = Duration::from_secs(8);

/// Nodes with one worker each that start together.
async fn fleet(world: &World, generation: &str) -> Vec<Node> {
    let started = (0..NODES).map(async |number| {
        let builder = world.builder(&format!("{generation}{number}")).join_settle(SETTLE);
        let node = builder.join().await.unwrap();
        node.add_worker(world.recorder.clone()).await.unwrap();
        node
    });
    join_all(started).await
}

async fn recorded(world: &World) -> (Node, Vec<String>) {
    let client = world.builder("client").join_settle(SETTLE).client_only().join().await.unwrap();
    let keys: Vec<_> = (0..JOBS).map(|number| format!("job-{number}")).collect();
    for key in &keys {
        world.history().submitted(key);
    }
    let specs: Vec<_> = keys.iter().map(|key| JobSpec::new(key.as_str(), "")).collect();
    for accepted in client.submit_many(specs).await {
        accepted.unwrap();
    }
    for key in &keys {
        world.history().accepted(key);
    }
    (client, keys)
}

/// Waits until each of these nodes runs its share and all keys have started at least this often. Returns the counts.
async fn shared_out(
    world: &World,
    client: &Node,
    nodes: &[Node],
    keys: &[String],
    times: usize,
) -> BTreeSet<usize> {
    until("each node to have its share", async || {
        let holders = world.holders(client).await;
        let at = async |node: &Node| {
            let own = workers_on(node).await;
            holders.values().filter(|held| own.contains(&held.owner)).count()
        };
        let shares = join_all(nodes.iter().map(at)).await;
        let whole = shares.iter().sum::<usize>() == keys.len();
        let starts = world.recorder.starts();
        // A job that has begun will start soon.
        let started = keys.iter().all(|key| starts.get(key).is_some_and(|starts| *starts >= times));
        if whole && started && shares.iter().all(|share| *share > JOBS / 10) {
            Ok(())
        } else {
            Err(format!("{shares:?}"))
        }
    })
    .await;
    world.recorder.starts().into_values().collect()
}

async fn jobs_that_wait_for_a_fleet_are_placed_once(world: World) {
    let (client, keys) = recorded(&world).await;
    let nodes = fleet(&world, "a").await;
    let starts = shared_out(&world, &client, &nodes, &keys, 1).await;
    assert_eq!(starts, BTreeSet::from([1]));
    world.assert_clean();
}

async fn jobs_of_a_fleet_that_is_killed_are_placed_once(world: World) {
    let world = world.with_ttl(TTL);
    let (client, keys) = recorded(&world).await;
    let killed = fleet(&world, "a").await;
    shared_out(&world, &client, &killed, &keys, 1).await;
    killed.iter().for_each(Node::abandon);
    join_all(killed.iter().map(Node::closed)).await;
    // One worker more than before. It takes its share with the others.
    let mut nodes = fleet(&world, "b").await;
    nodes.extend(fleet(&world, "c").await);
    let starts = shared_out(&world, &client, &nodes, &keys, 2).await;
    assert_eq!(starts, BTreeSet::from([2]));
    world.assert_clean();
}

async fn a_fleet_that_finds_no_job_is_up_at_once(world: World) {
    let nodes = fleet(&world, "a").await;
    let client = world.builder("client").join_settle(SETTLE).client_only().join().await.unwrap();
    let keys = world.dispatch(&client, JOBS / 10).await;
    let up: BTreeSet<_> = world.holders(&client).await.into_values().map(|held| held.owner).collect();
    let own = join_all(nodes.iter().map(workers_on)).await;
    assert_eq!(up, own.concat().into_iter().collect());
    assert_eq!(world.recorder.starts().len(), keys.len());
    world.assert_clean();
}
