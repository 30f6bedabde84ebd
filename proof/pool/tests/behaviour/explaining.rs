//! Explanations of jobs whose pool is being opened or shut down, or whose node closes.

use std::sync::Arc;
use std::time::Duration;

use tenure_pool::JobState;
use tenure_pool::inspect::{AwaitedWorker, Explanation, PoolShutdown, Verdict};

use crate::recorder::{Act, SlowEnd};
use crate::server_loss::TTL;
use crate::world::{PATIENCE, World, beside, on_both_stores, until, workers_on};

on_both_stores!(
    a_pool_that_opens_names_the_worker_it_waits_for,
    a_shutdown_names_who_asked_and_the_time_that_is_left,
    a_job_of_a_node_that_closes_says_so,
);

async fn a_pool_that_opens_names_the_worker_it_waits_for(world: World) {
    let world = world.with_ttl(TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    world.dispatch_one(&b, "key").await;
    let dead = workers_on(&a).await;
    a.abandon();
    a.closed().await;
    world.replace_server();
    let seen = world.inspector().await;
    // The other worker reports at once, and this one never.
    let awaits = |explained: &Explanation| {
        let awaited = explained.opening.iter().flat_map(|opening| &opening.awaited);
        awaited.map(|AwaitedWorker { worker, node, .. }| (worker.0, node.clone())).collect::<Vec<_>>()
    };
    let explained = until("the dead worker to be named", async || {
        let explained = seen.explain("key").await.unwrap();
        (awaits(&explained) == [(dead[0], "a".to_owned())]).then_some(explained)
    })
    .await;
    let named = format!("\n  before the pool opens, it waits for the report of worker {} (node a)", dead[0]);
    assert!(explained.to_string().contains(&named), "{explained}");
    until("the pool to open", async || seen.explain("key").await.unwrap().opening.is_none()).await;
}

async fn a_shutdown_names_who_asked_and_the_time_that_is_left(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let slow = Arc::new(SlowEnd::default());
    let end = slow.clone();
    a.add_worker(world.recorder.acting(move |_| Act::EndWhenTold(end.clone()))).await.unwrap();
    a.dispatch(("runs", "")).await.unwrap();
    a.operate().hold(true).await.unwrap();
    a.submit(("waits", "")).await.unwrap();
    let seen = world.inspector().await;
    let shutdown = async |key: &str, wanted: &dyn Fn(&PoolShutdown) -> bool| {
        until("the shutdown to be named", async || {
            let explained = seen.explain(key).await.unwrap();
            explained.shutdown.as_ref().is_some_and(wanted).then_some(explained)
        })
        .await
    };
    let ends = beside(&a, |a| async move { a.operate().shutdown().closing(PATIENCE).await });
    for key in ["runs", "waits"] {
        let explained = shutdown(key, &|shutdown| shutdown.by == "a").await;
        let left = explained.shutdown.as_ref().and_then(|shutdown| shutdown.left).unwrap();
        assert!(left > Duration::ZERO && left <= PATIENCE, "{explained}");
        assert!(explained.to_string().contains("accepted jobs may begin for "), "{explained}");
    }
    let drops = beside(&b, |b| async move { b.operate().shutdown().drop_queued().await });
    let explained = shutdown("runs", &|shutdown| shutdown.left.is_none()).await;
    assert_eq!((explained.verdict.clone(), explained.state), (Verdict::Dropped, Some(JobState::Running)));
    let asked = "\n  node b asked for the shutdown of the pool: every job ends";
    assert!(explained.to_string().contains(asked), "{explained}");
    slow.asked.notified().await;
    slow.told.notify_one();
    for ended in [ends.await.unwrap(), drops.await.unwrap()] {
        ended.unwrap();
    }
}

async fn a_job_of_a_node_that_closes_says_so(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let slow = Arc::new(SlowEnd::default());
    let end = slow.clone();
    a.add_worker(world.recorder.acting(move |_| Act::EndWhenTold(end.clone()))).await.unwrap();
    a.dispatch(("runs", "")).await.unwrap();
    let closes = beside(&a, |a| async move { a.close().await });
    slow.asked.notified().await;
    b.submit(("waits", "")).await.unwrap();
    for (key, verdict) in [("runs", Verdict::Leaving), ("waits", Verdict::AllLeaving { workers: 1 })] {
        until("the end of the node to be named", async || {
            b.inspect().explain(key).await.unwrap().verdict == verdict
        })
        .await;
    }
    let explained = b.inspect().explain("runs").await.unwrap();
    assert!(explained.owner.as_ref().unwrap().node_leaves);
    assert!(
        explained.to_string().contains("\n  all workers of its node are leaving: the job is handed on"),
        "{explained}"
    );
    slow.told.notify_one();
    assert!(closes.await.unwrap().unwrap().complete);
}
