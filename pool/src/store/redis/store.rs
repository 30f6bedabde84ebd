//! The store's interface, step by step. The module of each group carries its steps out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_streaming::EntryId;
use tokio::sync::watch;

use super::{
    RedisStore, attesting, events, heartbeats, jobs, membership, messages, ownership, parking, schedules,
    server, upkeep,
};
use crate::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId,
};
use crate::model::member::{Member, Members};
use crate::model::settings::{Settings, ShutdownFlag, StoredSettings};
use crate::store::{
    AttestItem, AttestReply, Bootstrapped, Cursors, DispatchItem, DispatchReply, Expired, Inspected,
    JobsPage, JoinRequest, Lookup, NodeEvents, NotifyItem, NotifyReply, Outcome, OwnedPage, ParkedPage,
    Pause, PlannedPage, PoolEvent, PoolState, Reaped, ReleaseItem, ReleaseReply, Renewal, Result, RouteReply,
    ScheduleChange, ScheduleKey, ScheduleState, Seat, Seen, ServerIdentity, SettingChange, ShutdownMode,
    StopItem, StopReply, Store, StoreError, Swept, TakeItem, Taken, TermItem, Terms, TickReply, Turn,
    UnparkReply, Waiting, WorkerBegins, WorkerBegun, WorkerStarts,
};

#[async_trait]
impl Store for RedisStore {
    async fn pool_state(&self) -> Result<PoolState> {
        server::pool_state(&self.open).await
    }

    async fn server_identity(&self) -> Result<ServerIdentity> {
        server::identity(&self.open).await
    }

    async fn server_checks(&self) -> Result<()> {
        server::checks(&self.open).await
    }

    fn bless(&self, run_id: &str) {
        self.blessed.send_replace(Some(run_id.into()));
    }

    async fn bootstrap(&self, seen: Seen, run_id: &str, settings: &Settings) -> Result<Bootstrapped> {
        membership::bootstrap(&self.open, seen, run_id, settings).await
    }

    async fn recover(&self, inc: Incarnation, seen: Seen, run_id: &str, lost: &str) -> Result<Incarnation> {
        membership::recover(&self.open, inc, seen, run_id, lost).await
    }

    async fn attest(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        member: &Member,
        items: &[AttestItem],
    ) -> Result<Vec<AttestReply>> {
        attesting::attest(&self.steps, inc, worker, member, items).await
    }

    async fn attend(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Option<JobKey>> {
        attesting::attend(&self.steps, inc, worker, after, limit).await
    }

    async fn open_normal(&self, inc: Incarnation) -> Result<Option<WorkerId>> {
        membership::open_normal(&self.steps, inc).await
    }

    async fn change_settings(&self, inc: Incarnation, changes: &[SettingChange]) -> Result<Revision> {
        membership::change_settings(&self.steps, inc, changes).await
    }

    async fn join(&self, inc: Incarnation, request: &JoinRequest) -> Result<Seat> {
        membership::join(&self.steps, inc, request).await
    }

    async fn settle(&self, inc: Incarnation, worker: WorkerId) -> Result<Seat> {
        membership::settle(&self.steps, inc, worker).await
    }

    async fn renew(
        &self,
        inc: Incarnation,
        high_water: Token,
        node: Option<&NodeName>,
        workers: &[WorkerId],
    ) -> Result<Renewal> {
        let blessed = self.blessed.borrow().clone();
        let renewal = membership::renew(&self.steps, inc, high_water, node, workers).await?;
        // A server that is demoted and promoted again closes no connection.
        if blessed.as_deref() != Some(&*renewal.run_id) {
            return Err(StoreError::OtherServer { run_id: renewal.run_id });
        }
        Ok(renewal)
    }

    async fn drain(&self, inc: Incarnation, worker: WorkerId) -> Result<Member> {
        membership::drain(&self.steps, inc, worker).await
    }

    async fn expire_all(
        &self,
        inc: Incarnation,
        workers: &[(WorkerId, Option<u64>)],
    ) -> Result<Vec<Expired>> {
        membership::expire(&self.steps, inc, workers).await
    }

    async fn reap(&self, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped> {
        membership::reap(&self.steps, inc, worker, limit).await
    }

    async fn dispatch(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        jobs::dispatch(&self.steps, inc, None, Some(ring), items).await
    }

    async fn route(
        &self,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>> {
        jobs::route(&self.steps, inc, ring, entries, jobs).await
    }

    async fn begin_all(&self, inc: Incarnation, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>> {
        ownership::begin(&self.steps, inc, begins).await
    }

    async fn started_all(&self, inc: Incarnation, starts: &[WorkerStarts]) -> Result<Vec<bool>> {
        ownership::started(&self.steps, inc, starts).await
    }

    async fn release(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReleaseItem],
    ) -> Result<Vec<ReleaseReply>> {
        ownership::release(&self.steps, inc, worker, finished, items).await
    }

    async fn stop(
        &self,
        inc: Incarnation,
        repeat: bool,
        waiting: Option<&NodeName>,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>> {
        messages::stop(&self.steps, inc, None, repeat, waiting, items).await
    }

    async fn notify(&self, inc: Incarnation, items: &[NotifyItem]) -> Result<Vec<NotifyReply>> {
        messages::notify(&self.steps, inc, items).await
    }

    async fn take(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[TakeItem],
    ) -> Result<Vec<Option<Taken>>> {
        messages::take(&self.steps, inc, worker, finished, items).await
    }

    async fn notifications(&self, key: &JobKey, from: u64) -> Result<Waiting> {
        messages::notifications(&self.steps, key, from).await
    }

    async fn drop_notifications(&self, inc: Incarnation, key: &JobKey, through: u64) -> Result<Option<u64>> {
        messages::drop_notifications(&self.steps, inc, key, through).await
    }

    async fn sweep(&self, inc: Incarnation, limit: usize, kick: bool) -> Result<Swept> {
        upkeep::sweep(&self.steps, inc, limit, kick).await
    }

    async fn inspect(
        &self,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected> {
        upkeep::inspect(&self.steps, inc, cursor, limit, held).await
    }

    async fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage> {
        ownership::owned(&self.steps, inc, worker, after, limit).await
    }

    async fn sched(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        change: &ScheduleChange,
    ) -> Result<ScheduleState> {
        schedules::sched(&self.steps, inc, schedule, change).await
    }

    async fn term(&self, inc: Incarnation, node: &NodeName, items: &[TermItem]) -> Result<Terms> {
        schedules::term(&self.steps, inc, node, items).await
    }

    async fn tick(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        turn: (ScheduleId, Term),
        number: u64,
    ) -> Result<TickReply> {
        schedules::tick(&self.steps, inc, schedule, turn, number).await
    }

    async fn dispatch_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        jobs::dispatch(&self.steps, inc, Some(turn), None, items).await
    }

    async fn stop_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>> {
        messages::stop(&self.steps, inc, Some(turn), false, None, items).await
    }

    async fn planned(
        &self,
        inc: Incarnation,
        plan: &ScheduleName,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<PlannedPage> {
        schedules::planned(&self.steps, inc, plan, after, limit).await
    }

    async fn shutdown(
        &self,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>> {
        upkeep::shutdown(&self.steps, inc, by, mode).await
    }

    async fn purge(&self, inc: Incarnation, limit: usize) -> Result<Vec<(DispatchId, Outcome)>> {
        upkeep::purge(&self.steps, inc, limit).await
    }

    async fn cleanup(&self, inc: Incarnation, tombstone: Duration) -> Result<u64> {
        upkeep::cleanup(&self.steps, inc, tombstone).await
    }

    async fn forget_node(&self, node: &NodeName) -> Result<()> {
        events::forget_node(&self.steps, node).await
    }

    async fn pool_events(
        &self,
        consumer: &NodeName,
        max: usize,
        block: Duration,
    ) -> Result<Option<Vec<PoolEvent>>> {
        events::of_pool(&self.steps.keys, &self.pool_reads, consumer, max, block).await
    }

    async fn claim_events(
        &self,
        consumer: &NodeName,
        min_idle: Duration,
        max: usize,
    ) -> Result<Option<Vec<PoolEvent>>> {
        events::claim(&self.steps, consumer, min_idle, max).await
    }

    async fn restore_group(&self, inc: Incarnation) -> Result<()> {
        upkeep::restore_group(&self.steps, inc).await
    }

    async fn prune_consumers(&self, inc: Incarnation, idle: Duration) -> Result<()> {
        upkeep::prune_consumers(&self.steps, inc, idle).await
    }

    async fn node_events(
        &self,
        node: &NodeName,
        cursors: &Cursors,
        max: usize,
        block: Duration,
    ) -> Result<NodeEvents> {
        events::of_node(&self.steps.keys, &self.node_reads, node, cursors, max, block).await
    }

    async fn oldest_worker_event(&self, worker: WorkerId) -> Result<Option<EntryId>> {
        events::oldest_of_worker(&self.steps, worker).await
    }

    async fn heartbeats(&self, workers: Option<&[WorkerId]>) -> Result<BTreeMap<WorkerId, u64>> {
        heartbeats::read(&self.steps, workers).await
    }

    async fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>> {
        jobs::lookup(&self.steps, items).await
    }

    async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>> {
        jobs::payload(&self.steps, key).await
    }

    async fn jobs_page(&self, cursor: u64, limit: usize) -> Result<JobsPage> {
        jobs::page(&self.steps, cursor, limit).await
    }

    async fn unpark(&self, inc: Incarnation, jobs: &[(JobKey, DispatchId)]) -> Result<Vec<UnparkReply>> {
        parking::unpark(&self.steps, inc, jobs).await
    }

    async fn parked_page(&self, cursor: u64, limit: usize) -> Result<ParkedPage> {
        parking::page(&self.steps, cursor, limit).await
    }

    async fn pauses(&self, keys: &[JobKey]) -> Result<Vec<Pause>> {
        parking::pauses(&self.steps, keys).await
    }

    async fn tell(&self, outcomes: &[(DispatchId, Outcome)]) -> Result<()> {
        events::tell(&self.steps, outcomes).await
    }

    async fn server_time(&self) -> Result<u64> {
        server::time(&self.steps, self.clock).await
    }

    fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.maps.members()
    }

    fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.maps.settings()
    }

    fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        self.maps.expect(inc, members, settings);
    }

    fn reread(&self, members: bool) {
        self.maps.reread(members);
    }

    fn unfollowed(&self) -> Option<StoreError> {
        self.maps.trouble()
    }

    fn apart(&self) -> Arc<dyn Store> {
        Arc::new(self.over_own_connections())
    }

    async fn close(&self) {
        self.maps.close().await;
        for reads in [&self.pool_reads, &self.node_reads] {
            // A read in flight closes its connection itself when its future ends.
            if let Ok(mut reads) = reads.try_lock() {
                reads.close();
            }
        }
    }
}
