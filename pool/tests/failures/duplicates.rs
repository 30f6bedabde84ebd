//! Two workers run one key: a01 to a11.

use tenure_pool::breakage::ScriptPatch;

use crate::ground::{cases, patch, scripts};

/// A router assigns whatever it hears of, also what runs already.
const ROUTES_ANYTHING: ScriptPatch = patch("route", "'^1|Q||%d+()'", "'^1|[QAR]|%d*|%d+()'");

cases! {
    a01_a_start_event_that_comes_again_starts_nothing: scripts(&[ROUTES_ANYTHING]), "started 2 times";
    a05_many_start_events_of_one_key_start_it_once: scripts(&[ROUTES_ANYTHING]), "both ran";
}

mod cases {
    use std::sync::Arc;

    use tenure_testing::eventually;
    use tokio::sync::Notify;

    use crate::ground::{Ground, key as key_of};
    use crate::recorder::Act;

    /// The router dies between assigning the job and hearing that it runs; its event is claimed and routed again, while
    /// the start still takes its time.
    pub(super) async fn a01_a_start_event_that_comes_again_starts_nothing(ground: Ground) {
        let node = ground.node("a").await;
        let told = Arc::new(Notify::new());
        let slow = told.clone();
        let worker = ground
            .add_worker_with(
                &node,
                ground.recorder.acting(move |job| match job.key().as_bytes() {
                    b"job-0" => Act::StartWhenTold(slow.clone()),
                    _ => Act::Run,
                }),
            )
            .await;
        let keys = vec!["job-0".to_owned()];
        let ticket = node.submit("job-0", "").await.unwrap();
        ground.started(&keys, 1).await;
        ground.leave_to_a_dead_router(&["job-0"]);
        ground.events_handled().await;
        ground.worker_events_handled(worker.id().unwrap()).await;
        ground.dispatch_one(&node, "another").await;
        ground.assert_starts(&keys, 1);
        told.notify_one();
        node.wait(&ticket).await.unwrap();
        ground.assert_starts(&keys, 1);
        ground.assert_clean();
    }

    /// Every node finds the same job without a worker, and says so: as many events as nodes, routed by all of them.
    pub(super) async fn a05_many_start_events_of_one_key_start_it_once(ground: Ground) {
        let a = ground.node_with("a", 1).await;
        let _b = ground.node_with("b", 1).await;
        let _c = ground.node_with("c", 1).await;
        let mut redis = ground.redis();
        for round in 0..20 {
            let key = format!("job-{round}");
            let mut events = redis::pipe();
            for _ in 0..16 {
                events.cmd("XADD").arg(key_of("ps")).arg("*").arg("s").arg(&key);
            }
            ground.submit(&a, &key).await;
            events.exec(&mut redis).unwrap();
        }
        ground.events_handled().await;
        for info in a.workers() {
            ground.worker_events_handled(info.id).await;
        }
        let keys: Vec<_> = (0..20).map(|round| format!("job-{round}")).collect();
        ground.started(&keys, 1).await;
        eventually(ground.patience, "every job to run", async || ground.recorder.running().len() == 20).await;
        ground.assert_clean();
        ground.assert_starts(&keys, 1);
    }
}
