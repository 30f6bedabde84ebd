//! An entry in a history for each time that a worker attends to a tenant, from before its first act to after its last.

use std::sync::Arc;

use tenure_testing::history::History;

use super::wire::Hello;

/// A worker attends to a tenant, until this is dropped.
///
/// Whatever acts for the tenant has to be dropped before it: the end is written down by whoever drops it, so that a
/// handler that is aborted has an end as well. One whose process dies has none.
#[derive(Debug)]
pub struct Attendance {
    history: Arc<History>,
    tenant: String,
    token: u64,
    worker: String,
}

impl Attendance {
    /// Writes down that the worker begins.
    pub fn begin(history: Arc<History>, hello: &Hello) -> Self {
        let Hello { tenant, token, worker, .. } = hello.clone();
        history.started(&tenant, token, &worker);
        Self { history, tenant, token, worker }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.history.stopped(&self.tenant, self.token, &self.worker);
    }
}
