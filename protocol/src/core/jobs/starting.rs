//! How jobs start (a part of [`Jobs`]).

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use tenure_steps::EntryId;

use super::Jobs;
use super::ending::fetch;
use super::held::{FirstStart, HeldJob, JobPhase, goes_on};
use super::timing::slow_start;
use super::unsaid::Word;
use crate::core::ctx::Ctx;
use crate::core::effect::Effect;
use crate::core::throttle::Throttle;
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::step::{StartedItem, StoreError};

/// A start for which nobody waits is noted by then, with others.
const NOTE_LATER: Duration = Duration::from_millis(20);

/// The jobs that wait for their start, and the starts under way.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// In turn.
    waiting: VecDeque<(JobKey, Token)>,
    /// The held jobs that came from another worker and have not started.
    coming: BTreeSet<JobKey>,
    /// The permits that are given out.
    permits: usize,
    throttle: Throttle,
}

impl Starts {
    /// A held job waits for its turn. `moved`: it came from another worker.
    pub(super) fn push(&mut self, key: &JobKey, token: Token, moved: bool) {
        if moved {
            self.coming.insert(key.clone());
        }
        self.waiting.push_back((key.clone(), token));
    }

    /// The next job in turn, if one of these permits is left and the rate admits a start.
    fn next(&mut self, now: Time, permits: usize, rate: Option<NonZeroU32>) -> Option<(JobKey, Token)> {
        let is_held_up = self.permits >= permits
            || rate.is_some() && (self.waiting.is_empty() || !self.throttle.admits(now, rate));
        if is_held_up { None } else { self.waiting.pop_front() }
    }

    fn give_permit(&mut self, held: &mut HeldJob) {
        held.has_permit = true;
        self.permits += 1;
    }

    fn take_permit(&mut self, held: &mut HeldJob) {
        self.permits -= usize::from(std::mem::take(&mut held.has_permit));
    }

    fn has_come(&mut self, key: &JobKey) {
        if !self.coming.is_empty() {
            self.coming.remove(key);
        }
    }

    /// The job is not held any more. `in_turn`: it must not take the turn of another start.
    pub(super) fn end(&mut self, key: &JobKey, held: &mut HeldJob, in_turn: bool) {
        self.has_come(key);
        if in_turn && matches!(held.phase, JobPhase::Waiting(_)) {
            self.waiting.retain(|(waits, token)| waits != key || *token != held.token);
        }
        self.take_permit(held);
    }

    /// When the rate admits the next start.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.throttle.deadline()
    }
}

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
        self.starts.throttle.look_again();
        while let Some((key, token)) = self.starts.next(ctx.now, permits, rate) {
            let Some(held) = self.held.get_mut(&key).filter(|h| h.token == token) else { continue };
            if !matches!(held.phase, JobPhase::Waiting(_)) {
                continue;
            }
            let JobPhase::Waiting(job) = std::mem::replace(&mut held.phase, JobPhase::Starting) else {
                continue;
            };
            self.starts.give_permit(held);
            let patience = if in_turn { ctx.config.start_timeout } else { slow_start(ctx) };
            self.timers.put(&mut held.overdue_at, &key, Some(ctx.now + patience));
            ctx.out.push(Effect::Start { local: self.local, worker: self.worker, job });
        }
    }

    /// The start of this job gives its permit back.
    pub(super) fn permit_back(&mut self, key: &JobKey) {
        if let Some(held) = self.held.get_mut(key) {
            self.starts.take_permit(held);
        }
    }

    pub(super) fn on_started(&mut self, ctx: &mut Ctx, key: &JobKey) {
        let Some(held) = self.held.get_mut(key) else { return };
        self.starts.take_permit(held);
        self.starts.has_come(key);
        held.phase = JobPhase::Running;
        let due = held.progress.map(|timeout| ctx.now + timeout.get());
        self.timers.put(&mut held.overdue_at, key, due);
        let ending = held.order.as_ref().map(|o| o.why);
        if ending.is_none_or(|why| goes_on(why) || why == StopReason::Shutdown) {
            let is_awaited = held.first_start == FirstStart::Awaited;
            let tell = if held.started_before() { None } else { held.waiting_node() };
            let item = StartedItem { key: key.clone(), token: held.token, tell };
            held.unsaid.add(Word::Start);
            held.first_start = FirstStart::Over;
            if is_awaited {
                self.starteds.push(item);
            } else {
                self.starteds.push_late(item, ctx.now + NOTE_LATER);
            }
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
        self.starts.waiting.len()
    }

    /// The number of held jobs that came from another worker and have not started.
    pub(in crate::core) fn coming(&self) -> usize {
        self.starts.coming.len()
    }

    /// The notes of these starts have no answer, and are sent again. Returns whether the error is news.
    pub(in crate::core) fn start_again(
        &mut self,
        now: Time,
        finished: Vec<EntryId>,
        items: Vec<StartedItem>,
        whole: usize,
        error: &StoreError,
    ) -> bool {
        self.inbox.not_deleted(finished);
        self.starteds.failed(now, items, whole, error)
    }
}
