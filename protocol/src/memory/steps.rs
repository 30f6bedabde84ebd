//! The steps as changes of the state.

use std::time::Duration;

use super::server::{Applied, OnMemory, Server, Transition};
use super::state::State;
use crate::model::id::{Incarnation, NodeName, WorkerId};
use crate::step::{
    Attend, AttestJobs, AwaitHistory, Begin, Bootstrap, ChangeSchedule, ChangeSettings, ClaimPool, CleanUp,
    Cordon, Dispatch, Drain, Expire, Explain, ForgetNode, HoldTurns, Inspect, Join, ListJobs, ListOwned,
    ListParked, ListPlanned, LookUp, Note, OpenNormal, PruneConsumers, Purge, RaiseLevel, ReadCheckpoint,
    ReadFigures, ReadHeartbeats, ReadHistory, ReadIdentity, ReadNode, ReadPauses, ReadPayload, ReadPool,
    ReadSchedules, ReadState, ReadStatuses, ReadTime, Reap, Recover, Release, Renew, RestoreGroup, Route,
    Save, Settle, ShutDown, Started, Steer, Survey, Sweep, TakeTick, Tell, Unpark, WhenFull,
};

/// Steps whose whole change of the state is one expression: the state, the time, the incarnation, and the step.
macro_rules! transitions {
    ($($step:ident: |$this:tt, $state:tt, $now:tt, $inc:tt| $change:expr;)*) => {$(
        impl Transition for $step {
            fn apply(&self, $state: &mut State, $now: u64, $inc: Incarnation) -> Applied<Self> {
                let $this = self;
                $change
            }
        }
    )*};
}

transitions! {
    OpenNormal: |_, state, _, inc| state.open_normal(inc);
    ChangeSettings: |step, state, _, inc| state.change_settings(inc, &step.changes);
    Cordon: |step, state, _, inc| state.cordon(inc, step.seen, &step.node, step.on);
    RaiseLevel: |step, state, _, inc| state.raise_level(inc, step.level);
    Join: |step, state, now, inc| state.join(now, inc, &step.request);
    Settle: |step, state, now, inc| state.settle(now, inc, step.worker);
    ReadStatuses: |_, state, _, _| Ok(state.statuses.iter().map(|(node, said)| (node.to_string(), said.clone())).collect());
    Drain: |step, state, _, inc| state.drain(inc, &step.workers);
    Expire: |step, state, now, inc| state.expire(now, inc, &step.workers);
    Reap: |step, state, now, inc| state.reap(now, inc, step.worker, step.limit);
    AttestJobs: |step, state, now, inc| state.attest(now, inc, step.worker, &step.member, &step.items);
    Attend: |step, state, now, inc| state.attend(now, inc, step.worker, step.after.as_ref(), step.limit);
    Dispatch: |step, state, now, inc| state.dispatch(now, inc, step.by.parts(), &step.items);
    Route: |step, state, now, inc| state.route(now, inc, step.ring, &step.entries, &step.jobs);
    LookUp: |step, state, _, _| Ok(state.lookup(&step.items));
    ReadPayload: |step, state, _, _| Ok(state.payload(&step.key));
    Explain: |step, state, now, _| state.explain(now, &step.key, step.id.as_ref());
    ReadFigures: |step, state, now, _| state.figures(now, step.look, &step.workers);
    ListJobs: |step, state, _, _| Ok(state.jobs_page(step.cursor, step.limit));
    Begin: |step, state, now, inc| state.begin(now, inc, &step.begins);
    Started: |step, state, now, inc| state.started(now, inc, &step.starts);
    Release: |step, state, now, inc| state.release(now, inc, step.worker, &step.finished, &step.items);
    ListOwned: |step, state, _, inc| state.owned(inc, step.worker, step.after.as_ref(), step.limit);
    Save: |step, state, now, inc| state.save(now, inc, step.worker, &step.items);
    ReadCheckpoint: |step, state, _, _| Ok(state.checkpoint(&step.key));
    Unpark: |step, state, now, inc| state.unpark(now, inc, &step.jobs);
    Steer: |step, state, now, inc| state.steer(now, inc, &step.items);
    ListParked: |step, state, _, _| Ok(state.parked_page(step.cursor, step.limit));
    ReadPauses: |step, state, _, _| Ok(step.keys.iter().map(|key| state.pause(key)).collect());
    ReadSchedules: |_, state, _, _| Ok(state.all_schedules());
    ChangeSchedule: |step, state, now, inc| state.sched(now, inc, &step.schedule, &step.change);
    HoldTurns: |step, state, now, inc| state.term(now, inc, &step.node, &step.items);
    TakeTick: |step, state, now, inc| state.tick(now, inc, &step.schedule, step.turn, step.number);
    ListPlanned: |step, state, _, inc| state.planned(inc, &step.plan, step.after.as_ref(), step.limit);
    ClaimPool: |step, state, now, _| Ok(state.claim_events(now, &step.consumer, step.min_idle, step.max));
    Note: |step, state, now, inc| state.note(now, inc, step.most, &step.entry);
    ReadHistory: |step, state, _, _| state.history(step.after, step.limit);
    Sweep: |step, state, now, inc| state.sweep(now, inc, step.limit, step.kick);
    Inspect: |step, state, now, inc| state.inspect(now, inc, step.cursor, step.limit, &step.held);
    ShutDown: |step, state, now, inc| state.shutdown(now, inc, &step.by, step.mode);
    Purge: |step, state, now, inc| state.purge(now, inc, step.limit);
    CleanUp: |step, state, now, inc| state.cleanup(now, inc, step.tombstone);
    RestoreGroup: |_, state, _, inc| state.restore_group(inc);
    PruneConsumers: |step, state, now, inc| state.prune_consumers(now, inc, step.idle);
    ReadTime: |_, _, now, _| Ok(now);
}

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

impl Transition for ReadState {
    const ANY_SERVER: bool = true;
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.pool_state())
    }
}

impl OnMemory for Renew {
    fn on(&self, server: &mut Server, now: u64, inc: Incarnation) -> Applied<Self> {
        let &Self { seen, ref node, ref workers, ref status, looks_at_memory } = self;
        let (run_id, state) = (server.run_id(), &mut server.state);
        // This server never drops a key.
        let when_full = if looks_at_memory { WhenFull::Refuses } else { WhenFull::Unknown };
        let renewal = state.renew(now, inc, seen, node.as_ref(), workers, (&run_id, when_full))?;
        state.say(node.as_ref(), &renewal, status);
        Ok(renewal)
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

impl OnMemory for ReadNode {
    fn on(&self, server: &mut Server, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.state.node_events(&self.node, &self.cursors, self.max))
    }
    fn wait(&self, answer: &Self::Answer) -> Option<Duration> {
        (answer.workers.is_empty() && answer.outcomes.is_empty()).then_some(self.block)
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

impl OnMemory for AwaitHistory {
    fn on(&self, server: &mut Server, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(server.state.history.after(self.after).next().is_some())
    }
    fn wait(&self, found: &bool) -> Option<Duration> {
        (!found).then_some(self.block)
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
