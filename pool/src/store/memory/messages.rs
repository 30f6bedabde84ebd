//! Messages to the owner of a job: stop and notify, and the owner's take.

use async_trait::async_trait;
use tenure_streaming::EntryId;

use super::MemoryStore;
use crate::model::id::{Incarnation, JobKey, NodeName, Revision, WorkerId};
use crate::store::{
    Messages, NotifyItem, NotifyOrStartItem, NotifyOrStartReply, NotifyReply, Result, StopItem, StopReply,
    TakeItem, Taken, Turn, Waiting, check_batch,
};

#[async_trait]
impl Messages for MemoryStore {
    async fn stop(
        &self,
        inc: Incarnation,
        repeat: bool,
        waiting: Option<&NodeName>,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.stop(now, inc, None, repeat, waiting, items)).await
    }

    async fn stop_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.stop(now, inc, Some(turn), false, None, items)).await
    }

    async fn notify(&self, inc: Incarnation, items: &[NotifyItem]) -> Result<Vec<NotifyReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.notify(now, inc, items)).await
    }

    async fn notify_or_start(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[NotifyOrStartItem],
    ) -> Result<Vec<NotifyOrStartReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.notify_or_start(now, inc, ring, items)).await
    }

    async fn take(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>> {
        check_batch(items.len())?;
        self.step(|state, _| state.take(inc, worker, finished, items)).await
    }

    async fn notifications(&self, key: &JobKey, from: u64) -> Result<Waiting> {
        self.step(|state, _| Ok(state.notifications(key, from))).await
    }

    async fn drop_notifications(&self, inc: Incarnation, key: &JobKey, through: u64) -> Result<Option<u64>> {
        self.step(|state, _| state.drop_notifications(inc, key, through)).await
    }
}
