//! The store's interface over the state: each step under one lock.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure_streaming::EntryId;
use tokio::sync::watch;

use super::MemoryStore;
use super::log::Log;
use super::state::State;
use crate::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId,
};
use crate::model::member::{Member, Members};
use crate::model::settings::{Settings, ShutdownFlag, StoredSettings};
use crate::store::{
    AttestItem, AttestReply, Attestation, Bootstrapped, Checkpoint, Checkpoints, Counts, Cursors,
    DispatchItem, DispatchReply, Events, Evidence, Expired, History, HistoryPage, Inspected, Jobs, JobsPage,
    JoinRequest, Lookup, Membership, NodeEvents, Outcome, OwnedPage, Ownership, ParkedPage, Parking, Pause,
    PlannedPage, PoolEvent, PoolState, Raised, Reaped, ReleaseItem, ReleaseReply, Renewal, Result,
    RouteReply, SaveItem, SaveReply, ScheduleChange, ScheduleEntry, ScheduleKey, ScheduleState, Schedules,
    Seat, Seen, ServerIdentity, SettingChange, ShutdownMode, SteerItem, SteerReply, Store, Swept, TermItem,
    Terms, TickReply, Turn, UnparkReply, Upkeep, WorkerBegins, WorkerBegun, WorkerStarts, check_batch,
};

#[async_trait]
impl Membership for MemoryStore {
    async fn bootstrap(&self, seen: Seen, run_id: &str, settings: &Settings) -> Result<Bootstrapped> {
        self.execute(&mut *self.reach()?, |state, now| state.bootstrap(now, seen, run_id, settings))
    }

    async fn recover(&self, inc: Incarnation, seen: Seen, run_id: &str, lost: &str) -> Result<Incarnation> {
        self.execute(&mut *self.reach()?, |state, now| state.recover(now, inc, seen, run_id, lost))
    }

    async fn open_normal(&self, inc: Incarnation) -> Result<Option<WorkerId>> {
        self.step(|state, _| state.open_normal(inc)).await
    }

    async fn change_settings(&self, inc: Incarnation, changes: &[SettingChange]) -> Result<Revision> {
        self.step(|state, _| state.change_settings(inc, changes)).await
    }

    async fn cordon(&self, inc: Incarnation, seen: Revision, node: &NodeName, on: bool) -> Result<()> {
        self.step(|state, _| state.cordon(inc, seen, node, on)).await
    }

    async fn raise_level(&self, inc: Incarnation, level: u32) -> Result<Raised> {
        self.step(|state, _| state.raise_level(inc, level)).await
    }

    async fn join(&self, inc: Incarnation, request: &JoinRequest) -> Result<Seat> {
        self.step(|state, now| state.join(now, inc, request)).await
    }

    async fn settle(&self, inc: Incarnation, worker: WorkerId) -> Result<Seat> {
        self.step(|state, now| state.settle(now, inc, worker)).await
    }

    async fn renew_saying(
        &self,
        inc: Incarnation,
        seen: Seen,
        node: Option<&NodeName>,
        workers: &[WorkerId],
        status: &Bytes,
    ) -> Result<Renewal> {
        let mut server = self.admitted()?;
        let run_id = server.run_id();
        self.execute(&mut server, |state, now| {
            let renewal = state.renew(now, inc, seen, node, workers, &run_id)?;
            state.say(node, &renewal, status);
            Ok(renewal)
        })
    }

    async fn statuses(&self) -> Result<BTreeMap<String, Bytes>> {
        self.step(|state, _| {
            Ok(state.statuses.iter().map(|(node, said)| (node.to_string(), said.clone())).collect())
        })
        .await
    }

    async fn drain_all(&self, inc: Incarnation, workers: &[WorkerId]) -> Result<Vec<Option<Member>>> {
        check_batch(workers.len())?;
        self.step(|state, _| state.drain(inc, workers)).await
    }

    async fn expire_all(
        &self,
        inc: Incarnation,
        workers: &[(WorkerId, Option<u64>)],
    ) -> Result<Vec<Expired>> {
        check_batch(workers.len())?;
        self.step(|state, now| state.expire(now, inc, workers)).await
    }

    async fn reap(&self, inc: Incarnation, worker: WorkerId, limit: usize) -> Result<Reaped> {
        self.step(|state, now| state.reap(now, inc, worker, limit)).await
    }
}

#[async_trait]
impl Attestation for MemoryStore {
    async fn attest(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        member: &Member,
        items: &[AttestItem],
    ) -> Result<Vec<AttestReply>> {
        self.step(|state, now| state.attest(now, inc, worker, member, items)).await
    }

    async fn attend(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Option<JobKey>> {
        self.step(|state, now| state.attend(now, inc, worker, after, limit)).await
    }
}

#[async_trait]
impl Jobs for MemoryStore {
    async fn dispatch(
        &self,
        inc: Incarnation,
        ring: Revision,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.dispatch(now, inc, None, Some(ring), items)).await
    }

    async fn dispatch_planned(
        &self,
        inc: Incarnation,
        turn: &Turn,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.dispatch(now, inc, Some(turn), None, items)).await
    }

    async fn route(
        &self,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>> {
        check_batch(jobs.len())?;
        self.step(|state, now| state.route(now, inc, ring, entries, jobs)).await
    }

    async fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Result<Vec<Lookup>> {
        self.step(|state, _| Ok(state.lookup(items))).await
    }

    async fn payload(&self, key: &JobKey) -> Result<Option<Bytes>> {
        self.step(|state, _| Ok(state.payload(key))).await
    }

    async fn explain(&self, key: &JobKey, id: Option<&DispatchId>) -> Result<Evidence> {
        self.step(|state, now| state.explain(now, key, id)).await
    }

    async fn figures(&self, look: usize, workers: &[WorkerId]) -> Result<Counts> {
        self.step(|state, now| state.figures(now, look, workers)).await
    }

    async fn jobs_page(&self, cursor: u64, limit: usize) -> Result<JobsPage> {
        self.step(|state, _| Ok(state.jobs_page(cursor, limit))).await
    }
}

#[async_trait]
impl Ownership for MemoryStore {
    async fn begin_all(&self, inc: Incarnation, begins: &[WorkerBegins]) -> Result<Vec<WorkerBegun>> {
        check_batch(begins.iter().map(|of| of.jobs.len()).sum())?;
        self.step(|state, now| state.begin(now, inc, begins)).await
    }

    async fn started_all(&self, inc: Incarnation, starts: &[WorkerStarts]) -> Result<Vec<bool>> {
        check_batch(starts.iter().map(|of| of.items.len()).sum())?;
        self.step(|state, now| state.started(now, inc, starts)).await
    }

    async fn release(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReleaseItem],
    ) -> Result<Vec<ReleaseReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.release(now, inc, worker, finished, items)).await
    }

    async fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage> {
        self.step(|state, _| state.owned(inc, worker, after, limit)).await
    }
}

#[async_trait]
impl Checkpoints for MemoryStore {
    async fn save(&self, inc: Incarnation, worker: WorkerId, items: &[SaveItem]) -> Result<Vec<SaveReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.save(now, inc, worker, items)).await
    }

    async fn checkpoint(&self, key: &JobKey) -> Result<Option<Checkpoint>> {
        self.step(|state, _| Ok(state.checkpoint(key))).await
    }
}

#[async_trait]
impl Parking for MemoryStore {
    async fn unpark(&self, inc: Incarnation, jobs: &[(JobKey, DispatchId)]) -> Result<Vec<UnparkReply>> {
        check_batch(jobs.len())?;
        self.step(|state, now| state.unpark(now, inc, jobs)).await
    }

    async fn steer(&self, inc: Incarnation, items: &[SteerItem]) -> Result<Vec<SteerReply>> {
        check_batch(items.len())?;
        self.step(|state, now| state.steer(now, inc, items)).await
    }

    async fn parked_page(&self, cursor: u64, limit: usize) -> Result<ParkedPage> {
        self.step(|state, _| Ok(state.parked_page(cursor, limit))).await
    }

    async fn pauses(&self, keys: &[JobKey]) -> Result<Vec<Pause>> {
        self.step(|state, _| Ok(keys.iter().map(|key| state.pause(key)).collect())).await
    }
}

#[async_trait]
impl Schedules for MemoryStore {
    async fn schedules(&self) -> Result<Vec<(ScheduleKey, ScheduleEntry)>> {
        self.step(|state, _| Ok(state.all_schedules())).await
    }

    async fn sched(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        change: &ScheduleChange,
    ) -> Result<ScheduleState> {
        self.step(|state, now| state.sched(now, inc, schedule, change)).await
    }

    async fn term(&self, inc: Incarnation, node: &NodeName, items: &[TermItem]) -> Result<Terms> {
        self.step(|state, now| state.term(now, inc, node, items)).await
    }

    async fn tick(
        &self,
        inc: Incarnation,
        schedule: &ScheduleKey,
        turn: (ScheduleId, Term),
        number: u64,
    ) -> Result<TickReply> {
        self.step(|state, now| state.tick(now, inc, schedule, turn, number)).await
    }

    async fn planned(
        &self,
        inc: Incarnation,
        plan: &ScheduleName,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<PlannedPage> {
        self.step(|state, _| state.planned(inc, plan, after, limit)).await
    }
}

#[async_trait]
impl Events for MemoryStore {
    async fn pool_events(
        &self,
        consumer: &NodeName,
        max: usize,
        block: Duration,
    ) -> Result<Option<Vec<PoolEvent>>> {
        let look = |state: &mut State, now| match state.pool_events(now, consumer, max) {
            Some(events) if events.is_empty() => None,
            found => Some(found),
        };
        Ok(self.wait_for(block, look).await?.unwrap_or_else(|| Some(Vec::new())))
    }

    async fn claim_events(
        &self,
        consumer: &NodeName,
        min_idle: Duration,
        max: usize,
    ) -> Result<Option<Vec<PoolEvent>>> {
        self.step(|state, now| Ok(state.claim_events(now, consumer, min_idle, max))).await
    }

    async fn node_events(
        &self,
        node: &NodeName,
        cursors: &Cursors,
        max: usize,
        block: Duration,
    ) -> Result<NodeEvents> {
        let look = |state: &mut State, _| {
            let events = state.node_events(node, cursors, max);
            (!events.workers.is_empty() || !events.outcomes.is_empty()).then_some(events)
        };
        Ok(self.wait_for(block, look).await?.unwrap_or_default())
    }

    async fn oldest_worker_event(&self, worker: WorkerId) -> Result<Option<EntryId>> {
        self.step(|state, _| Ok(state.worker_streams.get(&worker).and_then(Log::oldest))).await
    }

    async fn heartbeats(&self, workers: Option<&[WorkerId]>) -> Result<BTreeMap<WorkerId, u64>> {
        self.step(|state, _| {
            let wanted = |worker: &WorkerId| workers.is_none_or(|workers| workers.contains(worker));
            let found = state.heartbeats.iter().filter(|(worker, _)| wanted(worker));
            Ok(found.map(|(worker, seq)| (*worker, *seq)).collect())
        })
        .await
    }

    async fn tell(&self, outcomes: &[(DispatchId, Outcome)]) -> Result<()> {
        let addressed = outcomes
            .iter()
            .filter_map(|(id, outcome)| Some((NodeName::new(id.node()).ok()?, id.clone(), outcome.clone())));
        self.step(|state, now| {
            state.tell_nodes(now, addressed);
            Ok(())
        })
        .await
    }

    async fn forget_node(&self, node: &NodeName) -> Result<()> {
        self.step(|state, _| {
            state.node_streams.remove(node);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl History for MemoryStore {
    async fn note(&self, inc: Incarnation, most: u64, entry: &Bytes) -> Result<()> {
        self.step(|state, now| state.note(now, inc, most, entry)).await
    }

    async fn history(&self, after: EntryId, limit: usize) -> Result<HistoryPage> {
        self.step(|state, _| state.history(after, limit)).await
    }

    async fn await_history(&self, after: EntryId, block: Duration) -> Result<bool> {
        let look = |state: &mut State, _| state.history.after(after).next().map(|_| ());
        Ok(self.wait_for(block, look).await?.is_some())
    }
}

#[async_trait]
impl Upkeep for MemoryStore {
    async fn sweep(&self, inc: Incarnation, limit: usize, kick: Option<usize>) -> Result<Swept> {
        self.step(|state, now| state.sweep(now, inc, limit, kick)).await
    }

    async fn inspect(
        &self,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected> {
        check_batch(held.len())?;
        self.step(|state, now| state.inspect(now, inc, cursor, limit, held)).await
    }

    async fn shutdown(
        &self,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>> {
        self.step(|state, now| state.shutdown(now, inc, by, mode)).await
    }

    async fn purge(&self, inc: Incarnation, limit: usize) -> Result<Vec<(DispatchId, Outcome)>> {
        self.step(|state, now| state.purge(now, inc, limit)).await
    }

    async fn cleanup(&self, inc: Incarnation, tombstone: Duration) -> Result<u64> {
        self.step(|state, now| state.cleanup(now, inc, tombstone)).await
    }

    async fn restore_group(&self, inc: Incarnation) -> Result<()> {
        self.step(|state, _| state.restore_group(inc)).await
    }

    async fn prune_consumers(&self, inc: Incarnation, idle: Duration) -> Result<()> {
        self.step(|state, now| state.prune_consumers(now, inc, idle)).await
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn level(&self) -> u32 {
        self.level
    }

    async fn pool_state(&self) -> Result<PoolState> {
        self.execute(&mut *self.reach()?, |state, _| Ok(state.pool_state()))
    }

    async fn server_identity(&self) -> Result<ServerIdentity> {
        let server = self.reach()?;
        let uptime = Duration::from_millis((self.shared.clock)().saturating_sub(server.started));
        Ok(ServerIdentity { run_id: server.run_id(), uptime, promoted: false, flushed: server.flushed })
    }

    async fn server_checks(&self) -> Result<()> {
        self.reach().map(drop)
    }

    fn bless(&self, run_id: &str) {
        *self.blessed.lock().unwrap_or_else(PoisonError::into_inner) = Some(run_id.to_owned());
    }

    fn blessed(&self) -> Option<Box<str>> {
        self.blessed.lock().unwrap_or_else(PoisonError::into_inner).as_deref().map(Box::from)
    }

    async fn server_time(&self) -> Result<u64> {
        self.step(|_, now| Ok(now)).await
    }

    fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.shared.members.subscribe()
    }

    fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.shared.settings.subscribe()
    }

    fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        let known = (self.shared.members.borrow().incarnation, self.shared.members.borrow().revision);
        let stale = known != (Some(inc), members) || self.shared.settings.borrow().revision != settings;
        if let (true, Ok(server)) = (stale, self.admitted()) {
            self.shared.publish(&server.state);
        }
    }

    fn reread(&self, members: bool) {
        if let Ok(server) = self.admitted() {
            self.shared.publish_again(&server.state, members);
        }
    }

    fn apart(&self) -> Arc<dyn Store> {
        Arc::new(Self { blessed: Arc::clone(&self.blessed), ..self.clone() })
    }

    async fn close(&self) {}
}
