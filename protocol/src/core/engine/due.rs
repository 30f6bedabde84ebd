//! The engine's work after each round of inputs: every part that may act does its due work.

use std::time::Duration;

use super::{End, Engine};
use crate::core::call::Call;
use crate::core::effect::Effect;
use crate::core::input::Answer;
use crate::core::lease::longest_read;
use crate::core::roles::phase::Phase;
use crate::core::time::Time;
use crate::core::worker::{Gate, Worker};
use crate::error::{DispatchError, Error};
use crate::model::settings::ShardId;
use crate::mutation::Mutation;
use crate::step::{ForgetNode, ReadTime, Tell};

/// How often the server's clock is read again.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// A dispatch's deadline stays this far below the longest that the store honours.
const CLOCK_MARGIN: Duration = Duration::from_millis(250);

impl Engine {
    pub(super) fn flush(&mut self) {
        if self.end != End::No {
            return;
        }
        self.pool.elsewhere = self.settings.incarnation != self.pool.incarnation;
        self.pool.flush(&mut self.ctx);
        self.attach();
        let gate = self.gate();
        self.flush_workers(gate);
        let (normal, may_plan) = (self.is_normal() && gate.is_known(), self.may_plan(gate));
        self.scheduling.flush(&mut self.ctx, normal, may_plan);
        self.tell_news();
        if gate.may_read() {
            let reads = self.workers.values();
            let reads = reads.filter_map(|w| Some((w.member_id()?, w.jobs.cursor())));
            self.reading.flush(&mut self.ctx, reads);
        }
        if gate.is_known() {
            self.flush_known();
        }
        if self.is_normal() && gate.is_known() {
            let routes = self.serves() && !self.closing.is_stopping();
            if routes {
                if self.closing.leaving {
                    self.routing.leave(&mut self.ctx);
                }
                self.routing.flush(&mut self.ctx, &self.ring);
            }
            if self.sweeps() && self.sweeping.flush(&mut self.ctx) && routes && !self.closing.leaving {
                self.routing.claim(&mut self.ctx);
            }
        }
        if self.is_normal() && gate.is_known() && self.inspects() {
            self.inspecting.flush(&mut self.ctx, &self.workers);
        }
        self.flush_users(gate.is_known());
        self.finish();
    }

    /// The permissions that the pool gives its workers now.
    pub(super) fn gate(&self) -> Gate {
        match (self.pool.phase, self.too_old) {
            (Phase::Closed, _) => Gate::Gone,
            (Phase::Unknown, None) => Gate::Unknown,
            _ if self.pool.held_back => Gate::Unknown,
            (phase, Some(why)) => Gate::TooOld { why, reads: phase != Phase::Unknown },
            // A node that cannot hear news of its workers must not get any: their leases would run out again.
            (Phase::Normal, _) if self.closing.flag.is_none() && !self.closing.leaving && !self.is_deaf() => {
                Gate::Open
            }
            (Phase::Normal, _) => Gate::Shut,
            (Phase::Recovering { .. }, _) => Gate::Recovering,
        }
    }

    /// Whether the node is more than a client: it routes and sweeps.
    pub(super) fn serves(&self) -> bool {
        !self.ctx.config.client_only
    }

    /// Whether the node sweeps. A client does so while the pool stops. A sweep names workers that were expired and
    /// not reaped, and no other node may be left to hear of them.
    pub(super) fn sweeps(&self) -> bool {
        self.serves() || self.closing.is_stopping()
    }

    /// Whether the node compares the records with other keys and with the jobs that run here.
    pub(super) fn inspects(&self) -> bool {
        let broken = self.ctx.config.broken.has(Mutation::NeverInspects);
        self.serves() && !self.closing.is_stopping() && !self.closing.leaving && !broken
    }

    /// Whether the node looks for silent workers. A client does so while the pool seems unable to go on without that.
    pub(super) fn watches(&self) -> bool {
        self.serves() || !self.is_normal() || self.closing.flag.is_some() || !self.liveness.is_idle()
    }

    /// Whether the node has not read the streams of its workers for too long.
    fn is_deaf(&self) -> bool {
        let longest = longest_read(self.ctx.config.timing.ttl);
        self.reading.progressed().is_some_and(|at| self.ctx.now.since(at) > longest)
    }

    fn flush_workers(&mut self, gate: Gate) {
        let (stopping, mut speak, mut gone) = (self.closing.is_stopping(), false, false);
        for worker in self.workers.values_mut() {
            if stopping {
                worker.stop_all(&mut self.ctx);
            }
            worker.flush(&mut self.ctx, &self.ring, gate);
            speak |= worker.jobs.have_words();
            gone |= worker.is_gone();
        }
        if speak {
            self.shared_calls.flush(&mut self.ctx, &mut self.workers, gate);
        }
        if gone {
            self.workers.retain(|_, worker| !worker.is_gone());
        }
        // A leaving node takes all its workers out of the ring before the first job moves, so that no job moves
        // twice.
        let together = self.closing.leaving && !self.workers.values().all(Worker::is_out_of_ring);
        if !together {
            for worker in self.workers.values_mut() {
                if worker.hand_off(&mut self.ctx) {
                    worker.flush(&mut self.ctx, &self.ring, gate);
                }
            }
        }
    }

    /// Work that is allowed once the incarnation is known, in either phase.
    fn flush_known(&mut self) {
        let (normal, watches) = (self.is_normal(), self.watches());
        let ctx = &mut self.ctx;
        if watches {
            self.liveness.flush(ctx, &self.members, normal);
        }
        if self.clock.call.begin(ctx.now) {
            self.clock.call.set(ctx.now + CLOCK_EVERY);
            ctx.call(Call::ServerTime(ReadTime));
            self.rereading.flush(ctx, self.members.entries.len());
        }
        self.moves_now.flush(ctx);
        if !self.tells.queue.is_empty() && self.tells.call.begin(ctx.now) {
            let count = self.tells.queue.len().min(512);
            let outcomes = self.tells.queue.drain(..count).collect();
            ctx.call(Call::Tell(Tell { outcomes }));
        }
        self.closing.flush(ctx, self.workers.values().all(Worker::is_gone));
    }

    fn flush_users(&mut self, known: bool) {
        if let Some(why) = self.too_old {
            self.dispatching.end(&mut self.ctx, &DispatchError::TooOld(why));
            self.requests.end(&mut self.ctx, &Error::TooOld(why));
            self.closing.refuse(&mut self.ctx, &Error::TooOld(why));
            self.scheduling.refuse(&mut self.ctx, &Error::TooOld(why));
        }
        let (now, clock) = (self.ctx.now, &self.clock);
        let longest = self.ctx.config.settings.max_dispatch_deadline;
        let not_after = |deadline: Time| {
            let now_ms = clock.ms(now).unwrap_or_else(|| now.since(Time(0)).as_millis() as u64);
            let left = deadline.since(now).min(longest.saturating_sub(CLOCK_MARGIN));
            now_ms + left.as_millis() as u64
        };
        let clock_known = clock.read.is_some();
        self.dispatching.flush(&mut self.ctx, &self.ring, not_after, known && clock_known);
        self.requests.flush(&mut self.ctx, &self.ring, clock_known.then_some(not_after), known);
        let (workers, members) = (&self.workers, &self.members);
        let held = || workers.values().flat_map(|w| w.jobs.held().keys().cloned()).collect();
        let left = || members.entries.keys().copied().collect();
        self.closing.on_time(&mut self.ctx, held, left);
    }

    /// Takes part once the pool's settings are known to be this node's, and answers the callers that wait for that.
    fn attach(&mut self) {
        let Some(incarnation) =
            self.pool.incarnation.filter(|_| self.settings.incarnation == self.pool.incarnation)
        else {
            return;
        };
        let refusal = if self.pool.held_back { self.other_setting() } else { None };
        if self.pool.held_back && refusal.is_none() {
            self.pool.held_back = false;
            // Before any renewal: the leases follow the pool's worker TTL.
            self.take_over_settings();
            self.ctx.out.push(Effect::Renew { incarnation });
        }
        if self.attaching.is_empty() {
            return;
        }
        let refusal = refusal.or_else(|| self.too_old.map(Error::TooOld));
        let answer = match refusal {
            Some(refusal) => Err(refusal),
            None if self.closing.flag.is_some()
                && (self.liveness.saw_life || self.closing.awaits_others(&self.ctx)) =>
            {
                Err(Error::ShuttingDown)
            }
            None if self.closing.flag.is_none() && self.is_normal() && self.renewed => {
                self.pool.attached();
                Ok(())
            }
            None => return,
        };
        for to in self.attaching.drain(..) {
            self.ctx.reply(to, Answer::Attached(answer.clone()));
        }
    }

    /// The pool and this node disagree on the node's shard. They differ in its place or in the count of shards, or
    /// only one of them has shards.
    fn other_shard(&self) -> Option<Error> {
        let ours = self.ctx.config.settings.shard.map(|shard| shard.to_string());
        let theirs = self.settings.fields.get(ShardId::SETTING);
        let differs = ours.as_ref() != theirs && !self.ctx.config.broken.has(Mutation::OtherShardsJoin);
        let none = || "none".to_owned();
        let theirs = theirs.cloned().unwrap_or_else(none);
        differs.then(|| Error::mismatch(ShardId::SETTING, &theirs, &ours.unwrap_or_else(none)))
    }

    /// The first of the pool's settings that differs from one that this node was given.
    fn other_setting(&self) -> Option<Error> {
        if let Some(refused) = self.other_shard() {
            return Some(refused);
        }
        let differs = |(name, ours): (&'static str, String)| {
            let theirs = self.settings.fields.get(name)?.clone();
            if !self.ctx.config.given.has(name) {
                return None;
            }
            (theirs != ours && name != ShardId::SETTING).then(|| Error::mismatch(name, &theirs, &ours))
        };
        self.ctx.config.settings.fields().into_iter().find_map(differs)
    }

    /// Ends the engine once nothing of this node is left in the pool, or of the pool.
    fn finish(&mut self) {
        let gone = self.workers.values().all(Worker::is_gone);
        let closed = self.pool.phase == Phase::Closed;
        let out_of_use = self.pool.held_back || !self.is_normal() || self.closing.is_stopping();
        let routed = out_of_use || (!self.serves() || self.routing.has_left()) && self.scheduling.has_left();
        // A pool that refuses every step of this node learns of its end from the silence of its workers.
        let says_all = self.liveness.is_idle() && routed && !self.tells.is_pending();
        let left = self.closing.leaving && (says_all || self.too_old.is_some());
        if self.end == End::No && gone && (closed || left) {
            self.end = End::Forgetting;
            let node = self.ctx.config.node.clone();
            self.ctx.call(Call::ForgetNode(ForgetNode { node }));
        }
    }

    /// The node's last call has come back, with or without an answer.
    pub(super) fn on_forgotten(&mut self) {
        self.end = End::Ended;
        let closed = self.pool.phase == Phase::Closed;
        let gone = if closed { Error::PoolClosed } else { Error::NodeClosed };
        for to in self.attaching.drain(..) {
            self.ctx.reply(to, Answer::Attached(Err(gone.clone())));
        }
        self.dispatching.end(&mut self.ctx, &DispatchError::NodeClosed);
        self.requests.end(&mut self.ctx, &Error::NodeClosed);
        self.scheduling.close(&mut self.ctx, &Error::NodeClosed);
        self.closing.end(&mut self.ctx, closed);
        self.ctx.out.push(Effect::End);
    }
}
