//! A pool of several shards, in the same world as a pool of one.

mod counts;
mod ends;
mod jobs;
mod listings;
mod schedules;
mod workers;

use tenure_pool::{JobInfo, JobState, Node, NodeBuilder, Worker};

use crate::world::{Home, POOL, World, until};

/// The number of shards, unless a test says otherwise.
const SHARDS: u32 = 3;

/// Makes two tests of each scenario, one per store, in a pool of [`SHARDS`] shards.
macro_rules! on_both_stores {
    ($($scenario:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = $crate::world::World::in_memory();
                super::$scenario(world.with_shards($crate::shards::SHARDS)).await;
            })*
        }
        mod on_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                let world = $crate::world::World::on_redis();
                super::$scenario(world.with_shards($crate::shards::SHARDS)).await;
            })*
        }
    };
}
use on_both_stores;

fn on_redis() -> World {
    World::on_redis().with_shards(SHARDS)
}

fn builder(world: &World, name: &str, shards: u32) -> NodeBuilder {
    world.builder(name).shards(shards)
}

/// A node with a worker that is up in every shard.
async fn node_with_worker(world: &World, name: &str) -> (Node, Worker) {
    let node = world.node(name).await;
    let worker = world.add_worker(&node).await;
    (node, worker)
}

fn stop_requested(world: &World, keys: &[String]) {
    for key in keys {
        world.history().stop_requested(key);
    }
}

/// Waits until every one of these jobs runs, on any worker except this node's.
async fn all_run(world: &World, node: &Node, keys: &[String], but_on: &str) {
    until("every job to run", async || {
        let workers = node.inspect().workers().await.unwrap();
        let jobs = node.inspect().jobs().await.unwrap_or_default();
        let good = |job: &&JobInfo| {
            let shard = node.inspect().shard_of(&job.key).unwrap();
            let owner = workers.iter().find(|w| w.shard == shard && Some(w.id) == job.owner);
            job.state == JobState::Running && owner.is_some_and(|w| w.node != but_on)
        };
        jobs.iter().filter(good).count() == keys.len() && world.recorder.running().len() == keys.len()
    })
    .await;
}

/// The keys in Redis, in order. None in memory.
fn keys_of(world: &World) -> Option<Vec<String>> {
    let Home::Redis(server) = &world.home else { return None };
    let mut keys = server.keys().unwrap();
    keys.sort();
    Some(keys)
}

/// The tombstones of a pool with this number of shards, which is more than one.
fn tombstones(shards: usize) -> Vec<String> {
    (0..shards).map(|shard| format!("tenure:{{{POOL}#{shard}}}:pool")).collect()
}
