//! A slow look at all records. It compares them with other keys and with the jobs that run here. Each node looks at
//! one page of records and some of its jobs three times per worker TTL.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::Engine;
use crate::core::call::{Call, INSPECT};
use crate::core::ctx::Ctx;
use crate::core::input::LocalWorker;
use crate::core::jobs::held::JobPhase;
use crate::core::time::Time;
use crate::core::worker::Worker;
use crate::model::id::{JobKey, Token, WorkerId};
use crate::step::{BATCH_MAX, HeldState, Inspect, Inspected, Refusal, Result, StoreError};

/// How far a node's look has come.
#[derive(Debug, Default)]
pub(super) struct Inspecting {
    next: Option<Time>,
    busy: bool,
    /// The look under way concerns an earlier incarnation: its answer is ignored.
    outdated: bool,
    /// Where the next page of the records begins.
    cursor: u64,
    /// The last job of this node that was compared.
    after: Option<(LocalWorker, JobKey)>,
}

impl Inspecting {
    /// Another incarnation: the look starts again at the first record.
    pub(super) fn reset(&mut self) {
        *self = Self { busy: self.busy, outdated: self.busy, ..Self::default() };
    }

    pub(super) fn flush(&mut self, ctx: &mut Ctx, workers: &BTreeMap<LocalWorker, Worker>) {
        let due = self.next.is_some_and(|next| ctx.now >= next);
        if self.next.is_none() || due && !self.busy {
            self.next = Some(ctx.now + ctx.jitter.stretch(ctx.config.timing.ttl * 3));
        }
        if due && !self.busy {
            self.busy = true;
            let held = self.some_of(workers);
            ctx.call(Call::Inspect(Inspect { cursor: self.cursor, limit: INSPECT, held }));
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        if self.busy { None } else { self.next }
    }

    /// The next jobs of this node's workers, up to the limit of a step.
    fn some_of(&mut self, workers: &BTreeMap<LocalWorker, Worker>) -> Vec<(WorkerId, JobKey, Token)> {
        let mut some = Vec::new();
        let after = self.after.take();
        let from = after.as_ref().map_or(Unbounded, |(local, _)| Included(*local));
        for (&local, worker) in workers.range((from, Unbounded)) {
            let Some(id) = worker.member_id() else { continue };
            let behind =
                after.as_ref().filter(|(of, _)| *of == local).map_or(Unbounded, |(_, key)| Excluded(key));
            for (key, held) in worker.jobs.held().range::<JobKey, _>((behind, Unbounded)) {
                some.push((id, key.clone(), held.token));
                if some.len() == BATCH_MAX {
                    self.after = Some((local, key.clone()));
                    return some;
                }
            }
        }
        some
    }
}

impl Engine {
    /// A run here is void if its job has a higher token. A job that runs without a record shows a loss of data.
    pub(super) fn on_inspected(
        &mut self,
        held: Vec<(WorkerId, JobKey, Token)>,
        answer: Result<Inspected>,
    ) -> Result<()> {
        self.inspecting.busy = false;
        if std::mem::take(&mut self.inspecting.outdated) {
            return Ok(());
        }
        let inspected = answer?;
        self.inspecting.cursor = inspected.next;
        if inspected.next == 0 {
            // A look may have put back what says that a worker has a job.
            for worker in self.workers.values_mut() {
                worker.jobs.audit();
            }
        }
        if inspected.strangers > 0 {
            self.liveness.look_at_all(&self.ctx);
        }
        let mut is_missing = false;
        for ((id, key, token), state) in held.into_iter().zip(inspected.held) {
            let Some(worker) = self.workers.values_mut().find(|worker| worker.member_id() == Some(id)) else {
                continue;
            };
            match state {
                HeldState::Kept => {}
                HeldState::Outranked => worker.jobs.outranked(&mut self.ctx, key, token),
                HeldState::Missing => {
                    is_missing |= worker.jobs.held().get(&key).is_some_and(|held| {
                        let runs = matches!(
                            held.phase,
                            JobPhase::Waiting(_) | JobPhase::Starting | JobPhase::Running
                        );
                        held.token == token && held.order.is_none() && runs
                    });
                }
            }
        }
        if is_missing { Err(StoreError::Refused(Refusal::Lost("r".into()))) } else { Ok(()) }
    }
}
