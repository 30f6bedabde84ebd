//! The store's interface over the state: each step under one lock.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::MemoryStore;
use super::log::Log;
use super::server::{Applied, Transition};
use super::state::State;
use crate::model::id::{Incarnation, NodeName, Revision, WorkerId};
use crate::model::member::Members;
use crate::model::settings::StoredSettings;
use crate::store::{
    Attend, AttestJobs, AwaitHistory, Begin, Bootstrap, ChangeSchedule, ChangeSettings, ClaimPool, CleanUp,
    Cordon, Dispatch, Drain, Expire, Explain, ForgetNode, HoldTurns, Inspect, Join, ListJobs, ListOwned,
    ListParked, ListPlanned, LookUp, NodeEvents, Note, OnMemory, OpenNormal, PoolEvent, PoolState,
    PruneConsumers, Purge, RaiseLevel, ReadCheckpoint, ReadFigures, ReadHeartbeats, ReadHistory,
    ReadIdentity, ReadNode, ReadOldest, ReadPauses, ReadPayload, ReadPool, ReadSchedules, ReadState,
    ReadStatuses, ReadTime, Reap, Recover, Release, Renew, Renewal, RestoreGroup, Result, Route, Save,
    ServerIdentity, Settle, ShutDown, Started, Steer, Survey, Sweep, TakeTick, Tell, Unpark,
};

impl Transition for Bootstrap {
    const ANY_SERVER: bool = true;
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        state.bootstrap(now, self.seen, &self.run_id, &self.settings)
    }
}

impl Transition for Recover {
    const ANY_SERVER: bool = true;
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.recover(now, inc, self.seen, &self.run_id, &self.lost)
    }
}

impl Transition for OpenNormal {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.open_normal(inc)
    }
}

impl Transition for ChangeSettings {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.change_settings(inc, &self.changes)
    }
}

impl Transition for Cordon {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.cordon(inc, self.seen, &self.node, self.on)
    }
}

impl Transition for RaiseLevel {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.raise_level(inc, self.level)
    }
}

impl Transition for Join {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.join(now, inc, &self.request)
    }
}

impl Transition for Settle {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.settle(now, inc, self.worker)
    }
}

impl OnMemory for Renew {
    async fn on_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<Renewal> {
        let &Self { seen, ref node, ref workers, ref status } = self;
        let node = node.as_ref();
        let mut server = store.admitted()?;
        let run_id = server.run_id();
        store.execute(&mut server, |state, now| {
            let renewal = state.renew(now, inc, seen, node, workers, &run_id)?;
            state.say(node, &renewal, status);
            Ok(renewal)
        })
    }
}

impl Transition for ReadStatuses {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.statuses.iter().map(|(node, said)| (node.to_string(), said.clone())).collect())
    }
}

impl Transition for Drain {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.drain(inc, &self.workers)
    }
}

impl Transition for Expire {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.expire(now, inc, &self.workers)
    }
}

impl Transition for Reap {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.reap(now, inc, self.worker, self.limit)
    }
}

impl Transition for AttestJobs {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.attest(now, inc, self.worker, &self.member, &self.items)
    }
}

impl Transition for Attend {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.attend(now, inc, self.worker, self.after.as_ref(), self.limit)
    }
}

impl Transition for Dispatch {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        let (turn, ring) = self.by.parts();
        state.dispatch(now, inc, turn, ring, &self.items)
    }
}

impl Transition for Route {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.route(now, inc, self.ring, &self.entries, &self.jobs)
    }
}

impl Transition for LookUp {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.lookup(&self.items))
    }
}

impl Transition for ReadPayload {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.payload(&self.key))
    }
}

impl Transition for Explain {
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        state.explain(now, &self.key, self.id.as_ref())
    }
}

impl Transition for ReadFigures {
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        state.figures(now, self.look, &self.workers)
    }
}

impl Transition for ListJobs {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.jobs_page(self.cursor, self.limit))
    }
}

impl Transition for Begin {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.begin(now, inc, &self.begins)
    }
}

impl Transition for Started {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.started(now, inc, &self.starts)
    }
}

impl Transition for Release {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.release(now, inc, self.worker, &self.finished, &self.items)
    }
}

impl Transition for ListOwned {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.owned(inc, self.worker, self.after.as_ref(), self.limit)
    }
}

impl Transition for Save {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.save(now, inc, self.worker, &self.items)
    }
}

impl Transition for ReadCheckpoint {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.checkpoint(&self.key))
    }
}

impl Transition for Unpark {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.unpark(now, inc, &self.jobs)
    }
}

impl Transition for Steer {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.steer(now, inc, &self.items)
    }
}

impl Transition for ListParked {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.parked_page(self.cursor, self.limit))
    }
}

impl Transition for ReadPauses {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(self.keys.iter().map(|key| state.pause(key)).collect())
    }
}

impl Transition for ReadSchedules {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.all_schedules())
    }
}

impl Transition for ChangeSchedule {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.sched(now, inc, &self.schedule, &self.change)
    }
}

impl Transition for HoldTurns {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.term(now, inc, &self.node, &self.items)
    }
}

impl Transition for TakeTick {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.tick(now, inc, &self.schedule, self.turn, self.number)
    }
}

impl Transition for ListPlanned {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.planned(inc, &self.plan, self.after.as_ref(), self.limit)
    }
}

impl OnMemory for ReadPool {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<Option<Vec<PoolEvent>>> {
        let &Self { ref consumer, max, block } = self;
        let look = |state: &mut State, now| match state.pool_events(now, consumer, max) {
            Some(events) if events.is_empty() => None,
            found => Some(found),
        };
        Ok(store.wait_for(block, look).await?.unwrap_or_else(|| Some(Vec::new())))
    }
}

impl Transition for ClaimPool {
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.claim_events(now, &self.consumer, self.min_idle, self.max))
    }
}

impl OnMemory for ReadNode {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<NodeEvents> {
        let &Self { ref node, ref cursors, max, block } = self;
        let look = |state: &mut State, _| {
            let events = state.node_events(node, cursors, max);
            (!events.workers.is_empty() || !events.outcomes.is_empty()).then_some(events)
        };
        Ok(store.wait_for(block, look).await?.unwrap_or_default())
    }
}

impl Transition for ReadOldest {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.worker_streams.get(&self.worker).and_then(Log::oldest))
    }
}

impl Transition for ReadHeartbeats {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        let Self { workers } = self;
        let workers = workers.as_deref();
        let wanted = |worker: &WorkerId| workers.is_none_or(|workers| workers.contains(worker));
        let found = state.heartbeats.iter().filter(|(worker, _)| wanted(worker));
        Ok(found.map(|(worker, seq)| (*worker, *seq)).collect())
    }
}

impl OnMemory for Tell {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<()> {
        let Self { outcomes } = self;
        let addressed = outcomes
            .iter()
            .filter_map(|(id, outcome)| Some((NodeName::new(id.node()).ok()?, id.clone(), outcome.clone())));
        store
            .step(|state, now| {
                state.tell_nodes(now, addressed);
                Ok(())
            })
            .await
    }
}

impl Transition for ForgetNode {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        state.node_streams.remove(&self.node);
        Ok(())
    }
}

impl Transition for Note {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.note(now, inc, self.most, &self.entry)
    }
}

impl Transition for ReadHistory {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        state.history(self.after, self.limit)
    }
}

impl OnMemory for AwaitHistory {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<bool> {
        let &Self { after, block } = self;
        let look = |state: &mut State, _| state.history.after(after).next().map(|_| ());
        Ok(store.wait_for(block, look).await?.is_some())
    }
}

impl Transition for Sweep {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.sweep(now, inc, self.limit, self.kick)
    }
}

impl Transition for Inspect {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.inspect(now, inc, self.cursor, self.limit, &self.held)
    }
}

impl Transition for ShutDown {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.shutdown(now, inc, &self.by, self.mode)
    }
}

impl Transition for Purge {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.purge(now, inc, self.limit)
    }
}

impl Transition for CleanUp {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.cleanup(now, inc, self.tombstone)
    }
}

impl Transition for RestoreGroup {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.restore_group(inc)
    }
}

impl Transition for PruneConsumers {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.prune_consumers(now, inc, self.idle)
    }
}

impl Transition for ReadState {
    const ANY_SERVER: bool = true;
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.pool_state())
    }
}

impl OnMemory for ReadIdentity {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<ServerIdentity> {
        let server = store.reach()?;
        let uptime = Duration::from_millis(store.shared.clock.now().saturating_sub(server.started));
        Ok(ServerIdentity { run_id: server.run_id(), uptime, promoted: false, flushed: server.flushed })
    }
}

impl OnMemory for Survey {
    async fn on_memory(&self, store: &MemoryStore, inc: Incarnation) -> Result<(PoolState, ServerIdentity)> {
        Ok((ReadState.on_memory(store, inc).await?, ReadIdentity.on_memory(store, inc).await?))
    }
}

impl OnMemory for ReadTime {
    async fn on_memory(&self, store: &MemoryStore, _: Incarnation) -> Result<u64> {
        store.step(|_, now| Ok(now)).await
    }
}

impl MemoryStore {
    pub(in crate::store) fn level(&self) -> u32 {
        self.level
    }

    pub(in crate::store) fn server_checks(&self) -> Result<()> {
        self.reach().map(drop)
    }

    pub(in crate::store) fn bless(&self, run_id: &str) {
        *self.blessed.lock().unwrap_or_else(PoisonError::into_inner) = Some(run_id.to_owned());
    }

    pub(in crate::store) fn blessed(&self) -> Option<Box<str>> {
        self.blessed.lock().unwrap_or_else(PoisonError::into_inner).as_deref().map(Box::from)
    }

    pub(in crate::store) fn members(&self) -> watch::Receiver<Arc<Members>> {
        self.shared.members.subscribe()
    }

    pub(in crate::store) fn settings(&self) -> watch::Receiver<Arc<StoredSettings>> {
        self.shared.settings.subscribe()
    }

    pub(in crate::store) fn expect(&self, inc: Incarnation, members: Revision, settings: Revision) {
        let known = (self.shared.members.borrow().incarnation, self.shared.members.borrow().revision);
        let stale = known != (Some(inc), members) || self.shared.settings.borrow().revision != settings;
        if let (true, Ok(server)) = (stale, self.admitted()) {
            self.shared.publish(&server.state);
        }
    }

    pub(in crate::store) fn reread(&self, members: bool) {
        if let Ok(server) = self.admitted() {
            self.shared.publish_again(&server.state, members);
        }
    }

    /// The same client, for another runtime.
    pub(in crate::store) fn apart(&self) -> Self {
        Self { blessed: Arc::clone(&self.blessed), ..self.clone() }
    }
}
