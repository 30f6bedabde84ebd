//! Steps for one worker, whose answer is the one that this worker gets.

use std::time::Duration;

use tenure_pool::store::{
    Begin, BeginReply, Cursors, Drain, EntryId, Expire, Expired, ReadNode, Refusal, Result, Store,
    StoreError, WorkerBegins,
};
use tenure_protocol::model::id::{Incarnation, JobKey, NodeName, Token, WorkerId};
use tenure_protocol::model::member::Member;

pub(crate) trait Single {
    /// The oldest entry of a worker's stream.
    async fn oldest(&self, worker: WorkerId) -> Option<EntryId>;
    /// Drains a member. One that is none is refused.
    async fn drain_one(&self, inc: Incarnation, worker: WorkerId) -> Result<Member>;
    /// Ends a worker.
    async fn expire_one(&self, inc: Incarnation, worker: WorkerId, seq: Option<u64>) -> Result<Expired>;
    /// Begins jobs. The refusal of the worker is the refusal of the step.
    async fn begin_one(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        jobs: &[(JobKey, Token)],
    ) -> Result<Vec<BeginReply>>;
}

impl Single for Store {
    async fn oldest(&self, worker: WorkerId) -> Option<EntryId> {
        let cursors = Cursors { workers: [(worker, EntryId::MIN)].into(), ..Cursors::default() };
        let nobody = NodeName::new("nobody").ok()?;
        let read = self.read(&ReadNode { node: nobody, cursors, max: 1, block: Duration::ZERO }).await;
        Some(read.ok()?.workers.first()?.1)
    }

    async fn drain_one(&self, inc: Incarnation, worker: WorkerId) -> Result<Member> {
        let drained = self.run(inc, &Drain { workers: vec![worker] }).await?.remove(0);
        drained.ok_or(StoreError::Refused(Refusal::Fenced))
    }

    async fn expire_one(&self, inc: Incarnation, worker: WorkerId, seq: Option<u64>) -> Result<Expired> {
        Ok(self.run(inc, &Expire { workers: vec![(worker, seq)] }).await?.remove(0))
    }

    async fn begin_one(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        jobs: &[(JobKey, Token)],
    ) -> Result<Vec<BeginReply>> {
        let begins = vec![WorkerBegins { worker, finished: finished.to_vec(), jobs: jobs.to_vec() }];
        self.run(inc, &Begin { begins }).await?.remove(0).map_err(StoreError::Refused)
    }
}
