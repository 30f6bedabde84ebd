//! Workers with a capacity, and start handlers that send their jobs elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_pool::inspect::{Figures, Verdict};
use tenure_pool::{DispatchError, Error, JobState, Node};

use crate::recorder::Act;
use crate::world::{Holders, World, on_both_stores, until};

on_both_stores!(
    what_exceeds_a_capacity_goes_to_the_next_worker_at_once,
    a_full_pool_lets_jobs_wait_until_a_worker_comes,
    a_place_that_becomes_free_is_given_away,
    a_start_handler_sends_its_job_elsewhere,
    the_last_refusal_is_named_to_all_who_ask,
    a_refusal_is_not_blamed_for_a_slow_start_elsewhere,
    a_refusal_without_a_reason_is_no_trouble,
    a_capacity_holds_for_all_shards_together,
    a_capacity_of_nothing_is_refused
);

async fn up(node: &Node, workers: usize) {
    until("the workers to be up", async || {
        node.inspect().workers().await.unwrap().iter().filter(|worker| worker.slot.is_some()).count()
            == workers
    })
    .await;
}

/// Waits until this many jobs run, and says who has them.
async fn running(world: &World, node: &Node, jobs: usize) -> Holders {
    until("the jobs to run", async || world.recorder.running().len() == jobs).await;
    world.holders(node).await
}

/// How many jobs each worker has.
async fn loads(world: &World, node: &Node) -> BTreeMap<u64, usize> {
    let mut loads = BTreeMap::new();
    for held in world.holders(node).await.into_values() {
        *loads.entry(held.owner).or_default() += 1;
    }
    loads
}

async fn what_exceeds_a_capacity_goes_to_the_next_worker_at_once(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    for node in [&a, &b] {
        node.add_worker(world.recorder.acting(|_| Act::Hold)).capacity(10).await.unwrap();
    }
    up(&a, 2).await;
    let keys = world.dispatch(&a, 20).await;
    let holders = running(&world, &b, 20).await;
    assert_eq!(loads(&world, &a).await.into_values().collect::<Vec<_>>(), [10, 10]);
    let health = a.health().workers.remove(0);
    assert_eq!((health.jobs, health.capacity, health.full), (10, Some(10), true));
    assert!(a.health().is_healthy());
    let seen = world.inspector().await;
    until("the figures to name the capacities", async || {
        let of_each = |figures: Figures| {
            figures.workers.into_iter().map(|of| (of.jobs, of.capacity)).collect::<Vec<_>>()
        };
        let figures =
            [a.inspect().figures().await, seen.figures().await, seen.overview().await.map(|all| all.figures)];
        figures.into_iter().all(|figures| of_each(figures.unwrap()) == [(10, Some(10)); 2])
    })
    .await;
    // Some have passed their first worker. Nothing moves them back while the ring stays as it is.
    let passed = keys.iter().filter(|key| a.guess(key.as_str()).unwrap().is_some());
    assert_eq!(passed.count(), 20);
    assert_eq!(world.holders(&a).await, holders);
    world.assert_clean();
}

async fn a_full_pool_lets_jobs_wait_until_a_worker_comes(world: World) {
    let a = world.node("a").await;
    a.add_worker(world.recorder.acting(|_| Act::Hold)).capacity(2).await.unwrap();
    up(&a, 1).await;
    let keys: Vec<_> = (0..6).map(|i| format!("job-{i}")).collect();
    for key in &keys {
        world.history().submitted(key);
        a.submit((&**key, "")).await.unwrap();
        world.history().accepted(key);
    }
    until("two to start", async || world.recorder.running().len() == 2).await;
    let waits = keys.iter().find(|key| !world.recorder.is_running(key)).unwrap();
    until("the full pool to be named", async || {
        let seen = a.inspect().explain(waits.as_str()).await.unwrap();
        seen.state == Some(JobState::Queued) && seen.verdict == Verdict::NoRoom { workers: 1 }
    })
    .await;
    // It has room for all, and what waits hears of it.
    let b = world.node_with("b", 1).await;
    running(&world, &b, 6).await;
    world.assert_clean();
}

async fn a_place_that_becomes_free_is_given_away(world: World) {
    let a = world.node("a").await;
    a.add_worker(world.recorder.acting(|_| Act::Hold)).capacity(1).await.unwrap();
    world.dispatch_one(&a, "first").await;
    world.history().submitted("second");
    a.submit(("second", "")).await.unwrap();
    world.history().accepted("second");
    world.stop(&a, "first").await;
    until("the second to start", async || world.recorder.is_running("second")).await;
    world.assert_clean();
}

async fn a_start_handler_sends_its_job_elsewhere(world: World) {
    let (a, b) = (world.node("a").await, world.node_with("b", 1).await);
    a.add_worker(world.recorder.acting(|_| Act::Elsewhere)).await.unwrap();
    up(&a, 2).await;
    let keys = world.dispatch(&a, 20).await;
    let on_b: Vec<_> = b
        .inspect()
        .workers()
        .await
        .unwrap()
        .into_iter()
        .filter(|worker| worker.node.as_str() == "b")
        .collect();
    let holders = running(&world, &a, 20).await;
    assert!(holders.values().all(|held| held.owner == on_b[0].id.0), "{holders:?}");
    for key in &keys {
        assert_eq!(
            a.inspect().job(key.as_str()).await.unwrap().unwrap().attempts,
            1,
            "elsewhere is no attempt"
        );
    }
}

async fn the_last_refusal_is_named_to_all_who_ask(world: World) {
    let a = world.node("a").await;
    a.add_worker(world.recorder.acting(|_| Act::Unable("no program"))).await.unwrap();
    up(&a, 1).await;
    let late = a.dispatch(("k", "")).deadline(Duration::from_secs(4)).await.unwrap_err();
    let DispatchError::Deadline { accepted: true, refusal, .. } = &late else { panic!("{late:?}") };
    assert_eq!(refusal.as_deref(), Some("no program"));
    assert!(late.to_string().ends_with("; the last worker refused it: no program"), "{late}");
    let waits = async || a.inspect().job("k").await.unwrap().filter(|job| job.refusal.is_some()).ok_or(());
    let job = until("the job to wait", waits).await;
    assert_eq!((job.refusal.as_deref(), job.error), (Some("no program"), None));
    let told = async || a.inspect().explain("k").await.ok().filter(|seen| seen.refusal.is_some()).ok_or(());
    let seen = until("the job to wait", told).await.to_string();
    let worker = a.inspect().workers().await.unwrap()[0].id;
    assert!(seen.contains(&format!("here because worker {worker} refused it: no program")), "{seen}");
    // Another worker runs it: nothing is left of the refusal.
    let b = world.node_with("b", 1).await;
    running(&world, &b, 1).await;
    let job = b.inspect().job("k").await.unwrap().unwrap();
    assert_eq!((job.state, job.refusal, job.error), (JobState::Running, None, None));
    assert_eq!(b.inspect().explain("k").await.unwrap().refusal, None);
}

async fn a_refusal_is_not_blamed_for_a_slow_start_elsewhere(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.add_worker(world.recorder.acting(|_| Act::Unable("no program"))).await.unwrap();
    b.add_worker(world.recorder.acting(|_| Act::HangStart)).await.unwrap();
    up(&a, 2).await;
    let of_a = |key: &String| a.guess(key.as_str()).unwrap().is_some_and(|guess| guess.node == "a");
    let key = (0..1_000).map(|i| format!("job-{i}")).find(of_a).unwrap();
    let late = a.dispatch((&*key, "")).deadline(Duration::from_secs(3)).await.unwrap_err();
    let DispatchError::Deadline { accepted: true, refusal: None, .. } = &late else { panic!("{late:?}") };
    assert!(!late.to_string().contains("refused"), "{late}");
    let job = a.inspect().job(key.as_str()).await.unwrap().unwrap();
    assert_eq!((job.state, job.strikes > 0, job.refusal), (JobState::Running, true, None));
}

async fn a_refusal_without_a_reason_is_no_trouble(world: World) {
    let a = world.node("a").await;
    a.add_worker(world.recorder.acting(|_| Act::Refuse(Duration::from_secs(200)))).await.unwrap();
    up(&a, 1).await;
    a.submit(("k", "")).await.unwrap();
    let refused = async || a.inspect().job("k").await.unwrap().filter(|job| job.strikes > 0).ok_or(());
    let job = until("the refusal", refused).await;
    assert_eq!((job.state, job.error, job.refusal), (JobState::Queued, None, None));
    let late = a.dispatch(("l", "")).deadline(Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(late, DispatchError::Deadline { refusal: None, .. }), "{late:?}");
}

async fn a_capacity_holds_for_all_shards_together(world: World) {
    let world = world.with_shards(4);
    let a = world.node("a").await;
    a.add_worker(world.recorder.acting(|_| Act::Hold)).capacity(8).await.unwrap();
    for i in 0..8 {
        world.dispatch_one(&a, &format!("job-{i}")).await;
    }
    let late = a.dispatch(("late", "")).deadline(Duration::from_millis(500)).await;
    assert!(late.is_err(), "{late:?}");
    assert_eq!(world.recorder.running().len(), 8);
}

async fn a_capacity_of_nothing_is_refused(world: World) {
    let a = world.node("a").await;
    for jobs in [0, 1_000_001] {
        let refused = a.add_worker(world.recorder.acting(|_| Act::Hold)).capacity(jobs).await;
        assert!(matches!(&refused, Err(Error::Setting(why)) if why.name == "capacity"), "{refused:?}");
    }
    assert_eq!(a.inspect().workers().await.unwrap().len(), 0);
}
