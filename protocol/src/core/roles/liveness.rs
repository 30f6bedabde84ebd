//! The observer finds workers that have stopped renewing. It compares rates, never clocks. It expires a worker whose
//! counter has not changed for its time to live. This time runs on the node's own clock from **after** the reply that
//! first showed the counter. The step is refused if the counter has moved meanwhile. Then the worker is reaped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::core::call::{Call, PAGE};
use crate::core::ctx::{Ctx, RETRY};
use crate::core::effect::Notice;
use crate::core::time::Time;
use crate::model::id::{DispatchId, WorkerId};
use crate::model::member::Members;
use crate::mutation::Mutation;
use crate::step::{BATCH_MAX, Expire, Expired, Outcome, ReadHeartbeats, Reap, Reaped, Result};

/// Up to this many workers, every node watches all. Redis keeps so many counters in one piece that is searched from its
/// beginning for each worker asked for, so a look at all is the cheaper one (`hash-max-listpack-entries`).
const WATCH_ALL: usize = 512;
/// Above, every node watches this many, chosen by rendezvous of node and worker.
const WATCH_SOME: usize = 64;

/// One node's observer and reaper.
#[derive(Debug, Default)]
pub(in crate::core) struct Liveness {
    seen: BTreeMap<WorkerId, (u64, Time)>,
    next: Option<Time>,
    /// Until then the node looks at all counters: a worker that is no member may be silent.
    all_until: Option<Time>,
    /// When the look under way was sent, and at which workers; `None`: at all.
    asked: Option<(Time, Option<Vec<WorkerId>>)>,
    /// The silent workers, with the counter at which each stopped.
    expires: BTreeMap<WorkerId, u64>,
    /// The nodes of the silent workers.
    nodes: BTreeMap<WorkerId, String>,
    expiring: bool,
    dead: BTreeSet<WorkerId>,
    reaping: bool,
    /// The worker whose page was reaped last.
    reaped: Option<WorkerId>,
    retry_at: Option<Time>,
    /// Some member has renewed since this observer began.
    pub(in crate::core) saw_life: bool,
}

impl Liveness {
    /// Another incarnation or server: forgets all observations.
    pub(in crate::core) fn reset(&mut self) {
        let asked = self.asked.take();
        *self = Self { asked, expiring: self.expiring, reaping: self.reaping, ..Self::default() };
    }

    /// Some owner is no member.
    pub(in crate::core) fn look_at_all(&mut self, ctx: &Ctx) {
        self.all_until = Some(ctx.now + ctx.config.timing.ttl * 2);
    }

    /// An expired worker that is not yet reaped.
    pub(in crate::core) fn found_dead(&mut self, worker: WorkerId) {
        self.dead.insert(worker);
    }

    /// No known worker is left to expire or reap.
    pub(in crate::core) fn is_idle(&self) -> bool {
        self.expires.is_empty() && self.dead.is_empty() && !self.expiring && !self.reaping
    }

    pub(in crate::core) fn on_heartbeats(
        &mut self,
        ctx: &mut Ctx,
        members: &Members,
        answer: Result<BTreeMap<WorkerId, u64>>,
    ) -> Result<()> {
        let asked = self.asked.take();
        let broken = &ctx.config.broken;
        if answer.is_err() && broken.has(Mutation::ResetOnReconnect) {
            self.seen.clear();
        }
        let sent = asked.as_ref().map(|(at, _)| *at);
        let early = sent.filter(|_| broken.has(Mutation::FirstSeenBeforeReply));
        let since = early.unwrap_or(ctx.now);
        let mut beats = answer?;
        // A member without a counter has lost it: it counts as silent until it renews.
        let looked_at = match asked.and_then(|(_, workers)| workers) {
            Some(workers) => workers.into_iter().filter(|w| members.entries.contains_key(w)).collect(),
            None => members.entries.keys().copied().collect::<Vec<_>>(),
        };
        if !broken.has(Mutation::UncountedLive) {
            for worker in looked_at {
                beats.entry(worker).or_insert(0);
            }
        }
        self.seen.retain(|worker, _| members.entries.contains_key(worker) || beats.contains_key(worker));
        for (worker, seq) in beats {
            match self.seen.get_mut(&worker) {
                Some((known, _)) if *known == seq => {}
                Some(seen) => {
                    *seen = (seq, since);
                    self.saw_life = true;
                }
                None => {
                    self.seen.insert(worker, (seq, since));
                }
            }
        }
        let ttl = ctx.config.timing.ttl;
        for (&worker, &(seq, since)) in &self.seen {
            let own = members.entries.get(&worker).map_or(ttl, |m| m.ttl);
            let silent = ctx.now.since(since) >= ttl.max(own);
            if silent {
                self.expires.insert(worker, seq);
                let of = members.entries.get(&worker).map(|member| (worker, member.node.to_string()));
                self.nodes.extend(of);
            }
        }
        Ok(())
    }

    /// Returns the expired workers.
    pub(in crate::core) fn on_expired(
        &mut self,
        ctx: &mut Ctx,
        workers: &[(WorkerId, Option<u64>)],
        answer: Result<Vec<Expired>>,
    ) -> Result<Vec<WorkerId>> {
        self.expiring = false;
        for (worker, _) in workers {
            self.expires.remove(worker);
        }
        let answers = answer.inspect_err(|_| self.retry_at = Some(ctx.now + RETRY))?;
        let mut expired = Vec::new();
        for (&(worker, _), answer) in workers.iter().zip(answers) {
            self.seen.remove(&worker);
            let of = self.nodes.remove(&worker);
            if answer == Expired::Done {
                ctx.report(Notice::Expired { worker, of });
                self.dead.insert(worker);
                expired.push(worker);
            }
        }
        Ok(expired)
    }

    pub(in crate::core) fn on_reaped(
        &mut self,
        ctx: &mut Ctx,
        worker: WorkerId,
        answer: Result<Reaped>,
    ) -> Result<Vec<(DispatchId, Outcome)>> {
        self.reaping = false;
        let reaped = answer.inspect_err(|_| self.retry_at = Some(ctx.now + RETRY))?;
        if reaped.done {
            self.dead.remove(&worker);
        }
        Ok(reaped.outcomes)
    }

    /// Looks, expires, and reaps. It expires all silent workers before it reaps the first, so no job is assigned to a
    /// worker that is known to be dead. `may_reap`: the pool is in phase N.
    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, members: &Members, may_reap: bool) {
        let next = *self.next.get_or_insert(ctx.now);
        if ctx.now >= next && self.asked.is_none() {
            self.next = Some(ctx.now + ctx.jitter.stretch(ctx.config.timing.ttl / 10));
            if !members.entries.is_empty() {
                let watched = self.watched(ctx, members);
                self.asked = Some((ctx.now, watched.clone()));
                ctx.call(Call::Heartbeats(ReadHeartbeats { workers: watched }));
            }
        }
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        self.retry_at = None;
        if !self.expiring && !self.expires.is_empty() {
            self.expiring = true;
            let silent = self.expires.iter().take(BATCH_MAX);
            let workers = silent.map(|(worker, seq)| (*worker, Some(*seq))).collect();
            ctx.call(Call::Expire(Expire { workers }));
        }
        if may_reap
            && !self.reaping
            && !self.expiring
            && let Some(worker) = self.next_dead(ctx)
        {
            (self.reaping, self.reaped) = (true, Some(worker));
            ctx.call(Call::Reap(Reap { worker, limit: PAGE }));
        }
    }

    /// The next worker to reap. Each gets a page in turn, so no worker's jobs wait for all jobs of another. A worker
    /// that cannot be reaped delays no other.
    fn next_dead(&self, ctx: &Ctx) -> Option<WorkerId> {
        let last = self.reaped.filter(|_| !ctx.config.broken.has(Mutation::ReapedOneByOne));
        let later = last.and_then(|last| self.dead.range((Bound::Excluded(last), Bound::Unbounded)).next());
        later.or_else(|| self.dead.first()).copied()
    }

    /// The workers to look at. `None`: all of them, in a small fleet, and in a large one as soon as one looks late.
    fn watched(&self, ctx: &Ctx, members: &Members) -> Option<Vec<WorkerId>> {
        let late = ctx.config.timing.ttl / 2;
        if members.entries.len() <= WATCH_ALL
            || self.all_until.is_some_and(|until| ctx.now < until)
            || self.seen.values().any(|(_, since)| ctx.now.since(*since) > late)
        {
            return None;
        }
        let mut ranked: Vec<_> =
            members.entries.keys().map(|&w| (rendezvous(ctx.config.nonce, w), w)).collect();
        ranked.sort_unstable();
        Some(ranked.into_iter().take(WATCH_SOME).map(|(_, w)| w).collect())
    }

    pub(in crate::core) fn deadline(&self) -> Option<Time> {
        let look = if self.asked.is_some() { None } else { self.next };
        crate::core::time::earliest(look, self.retry_at)
    }
}

fn rendezvous(nonce: u64, worker: WorkerId) -> u64 {
    let mut z = nonce ^ worker.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}
