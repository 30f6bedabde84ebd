//! Workers of this process, for commands and pages that show a pool.

use std::time::Duration;

use tenure_pool::inspect::WorkerInfo;
use tenure_pool::{BoxError, Job, Node};
use tenure_testing::eventually;

/// Long enough for everything on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Adds a worker whose jobs run until they are told to end, or fail if their payload is `fail`.
pub(crate) async fn add_worker(node: &Node) -> WorkerInfo {
    let run = |job: Job| async move {
        if job.payload().as_ref() == b"fail" {
            return Err::<(), BoxError>("out of stock".into());
        }
        job.cancelled().await;
        Ok(())
    };
    let worker = node.add_worker(tenure_pool::run(run)).await.unwrap();
    eventually(PATIENCE, "the worker is up", || async { worker.info().filter(|info| info.slot.is_some()) })
        .await
}
