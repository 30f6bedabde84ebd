//! Plans of all shards, and tickers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::select;
use tenure_pool::{BoxError, JobSpec, Plan, Tick};

use super::{node_with_worker, on_both_stores};
use crate::world::{PATIENCE, World, until};

on_both_stores!(jobs_of_all_shards_follow_what_is_wanted, a_ticker_ticks_on_one_node_of_all);

const OFTEN: Duration = Duration::from_millis(50);

async fn jobs_of_all_shards_follow_what_is_wanted(world: World) {
    let (node, _) = node_with_worker(&world, "a").await;
    let all: BTreeSet<_> = (0..30).map(|i| format!("tenant-{i:03}")).collect();
    let wanted = Arc::new(Mutex::new((all.clone(), false)));
    let said = wanted.clone();
    let planner = move |_: Tick| {
        let (keys, ends) = said.lock().unwrap().clone();
        async move {
            let plan = Plan::exactly(keys.into_iter().map(|key| JobSpec::new(key, "")));
            Ok::<_, BoxError>(if ends { plan.end() } else { plan })
        }
    };
    let schedule = node.schedule("tenants", planner, OFTEN).await.unwrap();
    assert_eq!(schedule.name(), "tenants");
    world.dispatch_one(&node, "nobody planned it").await;
    let running = || {
        let mut running = world.recorder.running();
        assert!(running.remove("nobody planned it"));
        running
    };
    until("all that is wanted to run", async || running() == all).await;
    assert!(all.iter().all(|key| world.recorder.starts_of(key) == 1), "in one shard each");
    let fewer: BTreeSet<_> = all.into_iter().step_by(3).collect();
    wanted.lock().unwrap().0.clone_from(&fewer);
    schedule.set_period(OFTEN / 2).await.unwrap();
    until("the others to end", async || running() == fewer).await;
    *wanted.lock().unwrap() = (BTreeSet::new(), true);
    tokio::time::timeout(PATIENCE, schedule.ended()).await.expect("it to end in every shard");
    until("all planned jobs to end", async || running().is_empty()).await;
    schedule.end().await.unwrap();
}

async fn a_ticker_ticks_on_one_node_of_all(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let (first, second) =
        (a.ticker("report", OFTEN).await.unwrap(), b.ticker("report", OFTEN).await.unwrap());
    let mut both = select(first, second);
    let few =
        tokio::time::timeout(PATIENCE, both.by_ref().take(3).map(|tick| tick.number).collect::<Vec<_>>());
    assert_eq!(few.await.expect("ticks"), [1, 2, 3]);
    let (first, second) = both.into_inner();
    second.stop().await.unwrap();
    let rest = tokio::time::timeout(PATIENCE, async { (first.count().await, second.count().await) });
    rest.await.expect("the ticker to end on both nodes");
}
