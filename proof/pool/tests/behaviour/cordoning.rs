//! Cordons: a cordoned node keeps its jobs and gets no new one, also when it is started anew.

use tenure_pool::error::Obstacle;
use tenure_pool::inspect::Verdict;
use tenure_pool::{DispatchError, Error};

use crate::world::{SHORT, World, moved, on_both_stores, until};

on_both_stores!(
    a_cordoned_node_keeps_its_jobs_and_gets_no_new_ones,
    a_cordon_outlasts_its_node,
    a_pool_whose_nodes_are_all_cordoned_says_so,
    a_name_that_no_node_can_have_is_refused,
);

/// Every job, sorted by whether a worker of this node has it.
async fn on(world: &World, node: &tenure_pool::Node) -> (Vec<String>, Vec<String>) {
    let own = crate::world::workers_on(node).await;
    let holders = world.holders(node).await;
    let (here, there): (Vec<_>, Vec<_>) =
        holders.into_iter().partition(|(_, held)| own.contains(&held.owner));
    let keys = |held: Vec<(String, _)>| held.into_iter().map(|(key, _)| key).collect();
    (keys(here), keys(there))
}

async fn a_cordoned_node_keeps_its_jobs_and_gets_no_new_ones(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (_, held) = world.dispatch_placed(&a, 40).await;
    b.operate().cordon("a").await.unwrap();
    until("the node to hear of it", async || {
        a.inspect().cordoned().await.unwrap() == ["a".to_owned()].into()
    })
    .await;
    assert!(
        a.inspect().workers().await.unwrap().iter().all(|worker| worker.cordoned == (worker.node == "a"))
    );
    let (here, _) = on(&world, &a).await;
    for n in 0..40 {
        world.dispatch_one(&a, &format!("new-{n}")).await;
    }
    let (now, _) = on(&world, &a).await;
    assert_eq!(now, here, "it gets no new job");
    let after = world.holders(&a).await;
    let old: Vec<_> = moved(&held, &after);
    assert!(old.is_empty(), "{old:?} have moved");
    assert_eq!(b.inspect().explain(&*here[0]).await.unwrap().verdict, Verdict::Cordoned);
    a.operate().uncordon("a").await.unwrap();
    let all: Vec<_> = after.into_keys().collect();
    world.placed(&a, &all).await;
    world.assert_clean();
}

async fn a_cordon_outlasts_its_node(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    a.operate().cordon("a").await.unwrap();
    a.close().await.unwrap();
    let a = world.node_with("a", 1).await;
    until("two workers to be up", async || {
        b.inspect().workers().await.unwrap().iter().filter(|w| w.slot.is_some()).count() == 2
    })
    .await;
    world.dispatch(&b, 20).await;
    assert_eq!(on(&world, &a).await.0, Vec::<String>::new());
    assert_eq!(b.inspect().cordoned().await.unwrap(), ["a".to_owned()].into());
}

async fn a_pool_whose_nodes_are_all_cordoned_says_so(world: World) {
    let a = world.node_with("a", 1).await;
    a.operate().cordon("a").await.unwrap();
    let ticket = a.submit(("key", "")).await.unwrap();
    let late = a.wait(&ticket).deadline(SHORT).await.unwrap_err();
    assert!(matches!(late, DispatchError::Deadline { obstacle: Some(Obstacle::Cordoned), .. }), "{late}");
    assert_eq!(a.inspect().explain("key").await.unwrap().verdict, Verdict::AllCordoned);
    a.operate().uncordon("a").await.unwrap();
    until("the job to start", async || world.recorder.is_running("key")).await;
}

async fn a_name_that_no_node_can_have_is_refused(world: World) {
    let a = world.node("a").await;
    for name in ["", "a.b", "a b"] {
        let refused = a.operate().cordon(name).await;
        assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    }
    assert!(a.inspect().cordoned().await.unwrap().is_empty());
}
