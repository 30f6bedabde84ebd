//! The job whose handler makes a call. A call that waits for the end of the caller's own job would never return.

use std::future::Future;

use super::Job;

tokio::task_local! {
    static OWN: Job;
}

/// Runs the calls of the job's handler. Tasks that the handler spawns are not among the calls: a task may outlive the job.
pub(crate) async fn calls_of<F: Future>(job: Job, calls: F) -> F::Output {
    OWN.scope(job, calls).await
}

/// The job of whose handler this is a call.
pub(crate) fn own() -> Option<Job> {
    OWN.try_with(Clone::clone).ok()
}
