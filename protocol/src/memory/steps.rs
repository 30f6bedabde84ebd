//! The steps as changes of the state.

use std::time::Duration;

use super::log::Log;
use super::server::{Applied, OnMemory, Server, Transition};
use super::state::State;
use crate::model::id::{Incarnation, NodeName, WorkerId};
use crate::step::{
    Attend, AttestJobs, AwaitHistory, Begin, Bootstrap, ChangeSchedule, ChangeSettings, ClaimPool, CleanUp,
    Cordon, Dispatch, Drain, Expire, Explain, ForgetNode, HoldTurns, Inspect, Join, ListJobs, ListOwned,
    ListParked, ListPlanned, LookUp, Note, OpenNormal, PruneConsumers, Purge, RaiseLevel, ReadCheckpoint,
    ReadFigures, ReadHeartbeats, ReadHistory, ReadIdentity, ReadNode, ReadOldest, ReadPauses, ReadPayload,
    ReadPool, ReadSchedules, ReadState, ReadStatuses, ReadTime, Reap, Recover, Release, Renew, RestoreGroup,
    Route, Save, Settle, ShutDown, Started, Steer, Survey, Sweep, TakeTick, Tell, Unpark,
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
    fn on(&self, server: &mut Server, now: u64, inc: Incarnation) -> Applied<Self> {
        let &Self { seen, ref node, ref workers, ref status } = self;
        let (run_id, state) = (server.run_id(), &mut server.state);
        let renewal = state.renew(now, inc, seen, node.as_ref(), workers, &run_id)?;
        state.say(node.as_ref(), &renewal, status);
        Ok(renewal)
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
    fn on(&self, server: &mut Server, now: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.state.pool_events(now, &self.consumer, self.max))
    }
    fn wait(&self, answer: &Self::Answer) -> Option<Duration> {
        answer.as_ref().is_some_and(Vec::is_empty).then_some(self.block)
    }
}

impl Transition for ClaimPool {
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.claim_events(now, &self.consumer, self.min_idle, self.max))
    }
}

impl OnMemory for ReadNode {
    fn on(&self, server: &mut Server, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.state.node_events(&self.node, &self.cursors, self.max))
    }
    fn wait(&self, answer: &Self::Answer) -> Option<Duration> {
        (answer.workers.is_empty() && answer.outcomes.is_empty()).then_some(self.block)
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

impl Transition for Tell {
    fn apply(&self, state: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        let addressed = self
            .outcomes
            .iter()
            .filter_map(|(id, outcome)| Some((NodeName::new(id.node()).ok()?, id.clone(), outcome.clone())));
        state.tell_nodes(now, addressed);
        Ok(())
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
    fn on(&self, server: &mut Server, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.state.history.after(self.after).next().is_some())
    }
    fn wait(&self, found: &bool) -> Option<Duration> {
        (!found).then_some(self.block)
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
    const ANY_SERVER: bool = true;
    fn on(&self, server: &mut Server, now: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.identity(now))
    }
}

impl OnMemory for Survey {
    const ANY_SERVER: bool = true;
    fn on(&self, server: &mut Server, now: u64, _: Incarnation) -> Applied<Self> {
        Ok((server.state.pool_state(), server.identity(now)))
    }
}

impl Transition for ReadTime {
    fn apply(&self, _: &mut State, now: u64, _: Incarnation) -> Applied<Self> {
        Ok(now)
    }
}
