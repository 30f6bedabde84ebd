//! The observer: who has stopped renewing? It compares rates, never clocks: a worker whose counter has not
//! changed for its time to live, by this node's own clock from **after** the reply that first showed it, is
//! expired, and the step that expires it is refused if the counter has moved meanwhile. Then it is reaped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::breakage::Breakage;
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::effect::Notice;
use crate::core::time::Time;
use crate::id::{DispatchId, WorkerId};
use crate::member::Members;
use crate::store::{BATCH_MAX, Expired, Outcome, Reaped, Result};

/// Up to this many workers, every node watches all.
const WATCH_ALL: usize = 256;
/// Above, every node watches this many, chosen by rendezvous of node and worker.
const WATCH_SOME: usize = 64;

/// One node's observer and reaper.
#[derive(Debug, Default)]
pub(in crate::core) struct Liveness {
    seen: BTreeMap<WorkerId, (u64, Time)>,
    next: Option<Time>,
    /// Until then all counters are looked at: somebody may be silent who is no member.
    all_until: Option<Time>,
    /// When the look under way was sent, and at whom; `None`: at all.
    asked: Option<(Time, Option<Vec<WorkerId>>)>,
    /// Those that are silent, with the counter that each stopped at.
    expires: BTreeMap<WorkerId, u64>,
    /// The nodes of those that are silent.
    nodes: BTreeMap<WorkerId, String>,
    expiring: bool,
    dead: BTreeSet<WorkerId>,
    reaping: bool,
    /// Whose turn it was last.
    reaped: Option<WorkerId>,
    retry_at: Option<Time>,
    /// Some member has renewed under this observer's eyes.
    pub(in crate::core) saw_life: bool,
}

impl Liveness {
    /// Another incarnation or server: what was seen says nothing any more.
    pub(in crate::core) fn reset(&mut self) {
        let asked = self.asked.take();
        *self = Self { asked, expiring: self.expiring, reaping: self.reaping, ..Self::default() };
    }

    /// There is an owner who is no member.
    pub(in crate::core) fn look_at_all(&mut self, ctx: &Ctx) {
        self.all_until = Some(ctx.now + ctx.config.timing.ttl * 2);
    }

    /// An expired worker that is not reaped yet.
    pub(in crate::core) fn found_dead(&mut self, worker: WorkerId) {
        self.dead.insert(worker);
    }

    /// Nothing is left to expire or reap, as far as is known.
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
        if answer.is_err() && broken.has(Breakage::ResetOnReconnect) {
            self.seen.clear();
        }
        let sent = asked.as_ref().map(|(at, _)| *at);
        let early = sent.filter(|_| broken.has(Breakage::FirstSeenBeforeReply));
        let since = early.unwrap_or(ctx.now);
        let mut beats = answer?;
        // A member without a counter has lost it: it is silent until it renews.
        let looked_at = match asked.and_then(|(_, workers)| workers) {
            Some(workers) => workers.into_iter().filter(|w| members.entries.contains_key(w)).collect(),
            None => members.entries.keys().copied().collect::<Vec<_>>(),
        };
        if !broken.has(Breakage::UncountedLive) {
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

    /// Returns those that are expired.
    pub(in crate::core) fn on_expired(
        &mut self,
        ctx: &mut Ctx,
        workers: &[(WorkerId, u64)],
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

    /// Looks, expires, and reaps. All that are to be expired are, before the first is reaped: so no job is
    /// assigned to a worker that is known to be dead. `may_reap`: the pool is in phase N.
    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, members: &Members, may_reap: bool) {
        let next = *self.next.get_or_insert(ctx.now);
        if ctx.now >= next && self.asked.is_none() {
            self.next = Some(ctx.now + ctx.jitter.stretch(ctx.config.timing.ttl / 10));
            if !members.entries.is_empty() {
                let watched = self.watched(ctx, members);
                self.asked = Some((ctx.now, watched.clone()));
                ctx.call(Call::Heartbeats(watched));
            }
        }
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        self.retry_at = None;
        if !self.expiring && !self.expires.is_empty() {
            self.expiring = true;
            ctx.call(Call::Expire(self.expires.iter().take(BATCH_MAX).map(|(w, seq)| (*w, *seq)).collect()));
        }
        if may_reap
            && !self.reaping
            && !self.expiring
            && let Some(worker) = self.next_dead(ctx)
        {
            (self.reaping, self.reaped) = (true, Some(worker));
            ctx.call(Call::Reap { worker });
        }
    }

    /// Whom to free jobs of: a page of each in turn, so that the jobs of one do not wait for all those of another, and one
    /// that cannot be reaped holds up nobody.
    fn next_dead(&self, ctx: &Ctx) -> Option<WorkerId> {
        let last = self.reaped.filter(|_| !ctx.config.broken.has(Breakage::ReapedOneByOne));
        let later = last.and_then(|last| self.dead.range((Bound::Excluded(last), Bound::Unbounded)).next());
        later.or_else(|| self.dead.first()).copied()
    }

    /// The workers to look at; `None` for all: in a small fleet, and as soon as one looks late in a large one.
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
