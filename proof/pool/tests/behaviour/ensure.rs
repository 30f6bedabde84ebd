//! `ensure` by many at once: one job, one start, and a success for each.

use std::time::Duration;

use futures::future::join_all;
use tenure_pool::Node;
use tenure_pool::node::Ensured;

use crate::recorder::Act;
use crate::world::{World, on_both_stores};

on_both_stores!(
    two_hundred_who_ensure_a_key_make_one_job,
    two_hundred_ensures_of_a_stopping_key_make_one_new_job,
);

/// 200 callers on the nodes, all at once. How many of them have started the job.
async fn ensure_by_all(nodes: &[Node]) -> usize {
    let calls = (0..200).map(|i| nodes[i % nodes.len()].ensure(("key", i.to_string())).into_future());
    let found = join_all(calls).await.into_iter().map(Result::unwrap);
    found.filter(|found| *found == Ensured::Started).count()
}

async fn two_hundred_who_ensure_a_key_make_one_job(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let nodes = [a, b, world.node("c").await, world.node("d").await];
    assert_eq!(ensure_by_all(&nodes).await, 1);
    assert_eq!(ensure_by_all(&nodes).await, 0);
    assert_eq!(world.recorder.starts_of("key"), 1);
    assert_eq!(nodes[3].inspect().jobs().await.unwrap().len(), 1);
    world.assert_clean();
}

async fn two_hundred_ensures_of_a_stopping_key_make_one_new_job(world: World) {
    let join = async |name| {
        let builder = world.builder(name).stop_timeout(Duration::from_millis(500));
        builder.join().await.unwrap()
    };
    let nodes = [join("a").await, join("b").await, join("c").await, join("d").await];
    nodes[0].add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    world.dispatch_one(&nodes[1], "key").await;
    world.stop(&nodes[2], "key").await;
    ensure_by_all(&nodes).await;
    assert_eq!(world.recorder.starts_of("key"), 2);
    assert_eq!(nodes[3].inspect().jobs().await.unwrap().len(), 1);
    nodes[3].stop_job("key").until_stopped().await.unwrap();
    assert_eq!(world.recorder.starts_of("key"), 2);
}
