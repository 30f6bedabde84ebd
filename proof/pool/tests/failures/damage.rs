//! Strange writes into the pool's keys: a46.

use tenure_pool::Node;
use tenure_protocol::mutation::ScriptPatch;
use tenure_testing::eventually;

use crate::ground::{Ground, cases, key, patch, scripts};

/// A deletion raises an error if it cannot read a header of notifications.
const RAISES_AT_DAMAGE: ScriptPatch =
    patch("", "  if not text then return end\n", "  if not text then error('damage', 0) end\n");
/// Releases raise an error for one job.
const RAISES_FOR_ONE: ScriptPatch = patch(
    "release",
    "local function give_up(key, r, token, way)\n",
    "local function give_up(key, r, token, way)\n  if key == 'job-3' then error('poison', 0) end\n",
);

cases! {
    a46_a_damaged_header_of_notifications_stops_nothing: scripts(&[RAISES_AT_DAMAGE]), "job-3 to be gone";
}

mod cases {
    use super::{Ground, headers_are_damaged, is_gone, others_move_and_stop, stop};

    /// Their releases, and the releases of other jobs, delete the notifications that the headers name.
    pub(super) async fn a46_a_damaged_header_of_notifications_stops_nothing(ground: Ground) {
        let a = ground.node_with("a", 1).await;
        let keys = ground.dispatch(&a, 12).await;
        headers_are_damaged(&ground);
        stop(&ground, &a, "job-3").await;
        stop(&ground, &a, "job-7").await;
        others_move_and_stop(&ground, &a, &keys).await;
        is_gone(&ground, &a, "job-3").await;
        is_gone(&ground, &a, "job-7").await;
        ground.assert_clean();
    }
}

/// One header names more notifications than a call has arguments for, and one would hold the server up for minutes.
fn headers_are_damaged(ground: &Ground) {
    let mut headers = redis::cmd("HSET");
    headers.arg(key("notifications")).arg("h:job-3").arg("1|9000|5").arg("h:job-7").arg("1|30000000|5");
    headers.exec(&mut ground.redis()).unwrap();
}

async fn stop(ground: &Ground, node: &Node, key: &str) {
    ground.history().stop_requested(key);
    node.stop_job(key).await.unwrap();
    ground.history().stop_acknowledged(key);
}

async fn is_gone(ground: &Ground, node: &Node, key: &str) {
    let what = format!("{key} to be gone");
    eventually(ground.patience, &what, async || node.inspect().job(key).await.is_ok_and(|job| job.is_none()))
        .await;
}

/// A second node joins: jobs move there, and all but two are stopped.
async fn others_move_and_stop(ground: &Ground, a: &Node, keys: &[String]) {
    let others = keys.iter().filter(|key| !["job-3", "job-7"].contains(&key.as_str()));
    let others: Vec<_> = others.cloned().collect();
    let b = ground.node_with("b", 1).await;
    eventually(ground.patience, "jobs to move", async || !ground.keys_on(&b).await.is_empty()).await;
    ground.each_runs_once(&others).await;
    for key in &others {
        stop(ground, a, key).await;
    }
    for key in &others {
        is_gone(ground, a, key).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_fails_for_one_job_holds_up_no_other() {
    let ground = Ground::sound();
    let store = ground.store_by(&ground.server.url(), &[RAISES_FOR_ONE]);
    let a = ground.builder_on("a", store).join().await.unwrap();
    ground.add_worker(&a).await;
    let keys = ground.dispatch(&a, 12).await;
    stop(&ground, &a, "job-3").await;
    stop(&ground, &a, "job-7").await;
    others_move_and_stop(&ground, &a, &keys).await;
    is_gone(&ground, &a, "job-7").await;
    assert!(a.inspect().job("job-3").await.unwrap().is_some(), "it waits until its release is carried out");
    ground.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_counted_where_no_node_can_be_heard() {
    let ground = Ground::sound();
    let a = ground.node_with("a", 1).await;
    ground.dispatch(&a, 3).await;
    let mut redis = ground.redis();
    loop {
        redis::pipe().atomic().del(key("nodes")).set(key("nodes"), "a text").exec(&mut redis).unwrap();
        let figures = a.inspect().figures().await.unwrap();
        assert_eq!((figures.jobs, figures.workers[0].jobs, figures.workers[0].capacity), (3, 3, None));
        // The next renewal replaces the text.
        let found: String = redis::cmd("TYPE").arg(key("nodes")).query(&mut redis).unwrap();
        if found == "string" {
            break;
        }
    }
}
