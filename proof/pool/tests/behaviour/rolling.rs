//! A small rolling deploy: every node is replaced by a new one, one after the other, while all jobs run. `make
//! deploy-drill` is the full version, with processes and with bounds on time.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_pool::Node;
use tenure_pool::inspect::MemberState;
use tenure_testing::history::{Expect, Percentiles, check};

use crate::world::{World, on_both_stores, until};

on_both_stores!(a_rolling_deploy_moves_each_job_about_once);

const NODES: usize = 5;
const JOBS: usize = 250;
/// The oldest node leaves as soon as a new one has joined, long before this time is over.
const SETTLE: Duration = Duration::from_secs(5);

async fn add(world: &World, number: usize) -> Node {
    let node = world.builder(&format!("node-{number}")).join_settle(SETTLE).join().await.unwrap();
    node.add_worker(world.recorder.clone()).await.unwrap();
    node
}

async fn a_rolling_deploy_moves_each_job_about_once(world: World) {
    let caller = world.builder("caller").join_settle(SETTLE).join().await.unwrap();
    let mut fleet = VecDeque::new();
    for number in 0..NODES {
        fleet.push_back(add(&world, number).await);
    }
    until("all workers to be up", async || {
        caller
            .inspect()
            .workers()
            .await
            .unwrap()
            .iter()
            .filter(|worker| worker.state == MemberState::Up)
            .count()
            == NODES
    })
    .await;
    let (keys, _) = world.dispatch_placed(&caller, JOBS).await;

    for number in NODES..2 * NODES {
        fleet.push_back(add(&world, number).await);
        let oldest = fleet.pop_front().unwrap();
        assert!(oldest.close().await.unwrap().complete);
    }
    let holders = world.placed(&caller, &keys).await;
    assert_eq!(holders.len(), JOBS);

    let report = check(world.history(), &Expect::default());
    report.assert_clean();
    let moves = (report.starts - JOBS) as f64 / JOBS as f64;
    let Percentiles { p50, p99, max } = report.gap_percentiles();
    println!(
        "{JOBS} jobs, {NODES} deploys: {moves:.2} moves per job, gaps p50 {p50:?}, p99 {p99:?}, max {max:?}"
    );
    assert!(moves <= 1.2, "{moves} moves per job");
}
