//! A history entry for each time that a worker attends to a tenant, from before its first act to after its last.

use std::sync::Arc;

use tenure_testing::history::History;

use super::wire::Hello;

/// A worker's attendance to a tenant, until this is dropped.
///
/// Everything that acts for the tenant must be dropped before this. The drop records the end, so an aborted handler has
/// an end as well. A handler whose process dies has none.
#[derive(Debug)]
pub struct Attendance {
    history: Arc<History>,
    tenant: String,
    token: u64,
    worker: String,
}

impl Attendance {
    /// Records that the worker begins.
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
