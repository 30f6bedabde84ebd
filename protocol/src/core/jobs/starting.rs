//! How jobs start (a part of [`Jobs`]).

use super::Jobs;
use super::ending::fetch;
use super::held::{JobPhase, goes_on};
use super::timing::slow_start;
use super::unsaid::Word;
use crate::core::ctx::Ctx;
use crate::core::effect::Effect;
use crate::model::id::JobKey;
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::step::StartedItem;

impl Jobs {
    /// Starts waiting jobs, up to the permits and at the rate of this node. A slow start gives its permit back, so it
    /// delays others for a bounded time only.
    pub(in crate::core) fn start_waiting(&mut self, ctx: &mut Ctx) {
        if !self.successors.is_empty() {
            self.take_up_successors(ctx);
        }
        let in_turn = ctx.config.broken.has(Mutation::StartsInTurn);
        let permits = if in_turn { 1 } else { ctx.config.start_permits };
        // A job that ends with the pool starts first. No rate delays the pool's end.
        let together = self.leaving.is_some() || ctx.config.broken.has(Mutation::StartsTogether);
        let rate = ctx.config.starts_per_second.filter(|_| !together);
        self.starts.look_again();
        while self.starting < permits {
            if rate.is_some() && (self.to_start.is_empty() || !self.starts.admits(ctx.now, rate)) {
                return;
            }
            let Some((key, token)) = self.to_start.pop_front() else { return };
            let Some(held) = self.held.get_mut(&key).filter(|h| h.token == token) else { continue };
            if !matches!(held.phase, JobPhase::Waiting(_)) {
                continue;
            }
            let JobPhase::Waiting(job) = std::mem::replace(&mut held.phase, JobPhase::Starting) else {
                continue;
            };
            held.has_permit = true;
            self.starting += 1;
            let patience = if in_turn { ctx.config.start_timeout } else { slow_start(ctx) };
            self.timers.put(&mut held.overdue_at, &key, Some(ctx.now + patience));
            ctx.out.push(Effect::Start { local: self.local, worker: self.worker, job });
        }
    }

    /// The start of this job gives its permit back.
    pub(super) fn permit_back(&mut self, key: &JobKey) {
        if let Some(held) = self.held.get_mut(key)
            && std::mem::take(&mut held.has_permit)
        {
            self.starting -= 1;
        }
    }

    pub(super) fn on_started(&mut self, ctx: &mut Ctx, key: &JobKey) {
        let Some(held) = self.held.get_mut(key) else { return };
        self.starting -= usize::from(std::mem::take(&mut held.has_permit));
        held.phase = JobPhase::Running;
        if !self.coming.is_empty() {
            self.coming.remove(key);
        }
        let due = held.progress.map(|timeout| ctx.now + timeout.get());
        self.timers.put(&mut held.overdue_at, key, due);
        let ending = held.order.as_ref().map(|o| o.why);
        if ending.is_none_or(|why| goes_on(why) || why == StopReason::Shutdown) {
            let tell = if held.started_before { None } else { held.waiting_node() };
            held.unsaid.add(Word::Start);
            self.starteds.push(StartedItem { key: key.clone(), token: held.token, tell });
            held.started_before = true;
        }
        let token = held.token;
        match ending {
            Some(why) => self.run_stop(ctx, key, why),
            None if self.updates.is_open(key) => self.read_update(key),
            None => fetch(&mut self.takes, held, key),
        }
        self.answering.touch(key, token);
    }

    /// The number of jobs that were begun and wait for their start.
    pub(in crate::core) fn to_start(&self) -> usize {
        self.to_start.len()
    }
}
