//! The router: reads start events from the pool's stream, picks each job's worker from the ring, and assigns.
//! A stale view can never assign: the step is refused unless the ring still has the revision that the picks used.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::core::batcher::{Width, is_of_an_item};
use crate::core::call::{CLAIM_IDLE, Call, READ_BLOCK, READ_ENTRIES, READ_RETRY};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::ring::Ring;
use crate::core::time::{Time, earliest};
use crate::model::id::{JobKey, Revision};
use crate::mutation::Mutation;
use crate::step::{
    ClaimPool, PoolEvent, ReadPool, Refusal, RestoreGroup, Result, Route, RouteReply, StoreError,
};

/// The pause when the pool has no tokens left, which an operator must repair.
const SPENT_RETRY: Duration = Duration::from_secs(5);

/// One node's router.
#[derive(Debug, Default)]
pub(in crate::core) struct Routing {
    events: Vec<PoolEvent>,
    reading: bool,
    claiming: bool,
    restoring: bool,
    assigning: bool,
    /// The group of consumers is gone; the next read waits until it exists again.
    group_lost: bool,
    retry_at: Option<Time>,
    /// Routes only with a ring of this revision or a later one.
    wants_ring: Option<Revision>,
    filling: Filling,
    leaving: Leaving,
    width: Width,
    /// Jobs on which a step has failed alone, and which were reported. The sweeper announces them again.
    told: BTreeSet<JobKey>,
    /// When a read was last answered; before that, when the first was sent.
    progressed: Option<Time>,
}

/// How far the router's leaving has come. Every entry that it has read must be routed.
#[derive(Debug, Default, PartialEq, Eq)]
enum Leaving {
    #[default]
    No,
    /// It reads no more; the entries of its last read are being claimed.
    Claiming,
    /// It routes its remaining entries.
    Routing,
}

/// Whether read entries wait until standbys have slots.
#[derive(Clone, Copy, Debug, Default)]
enum Filling {
    #[default]
    No,
    Until(Time),
    Over,
}

/// The limit of that wait: twice the time after which standbys take slots.
const FILLING: Duration = Duration::from_secs(2);

/// How many reported jobs are kept in mind.
const TOLD_MAX: usize = 1_000;

impl Routing {
    pub(in crate::core) fn on_events(
        &mut self,
        ctx: &mut Ctx,
        claimed: bool,
        answer: Result<Option<Vec<PoolEvent>>>,
    ) -> Result<()> {
        if claimed {
            self.claiming = false;
            if self.leaving == Leaving::Claiming {
                self.leaving = Leaving::Routing;
            }
        } else {
            self.reading = false;
            if answer.is_ok() {
                self.progressed = Some(ctx.now);
            }
        }
        match answer {
            Ok(Some(events)) => self.events.extend(events),
            Ok(None) => self.group_lost = !ctx.config.broken.has(Mutation::GroupStaysLost),
            Err(error) => {
                self.retry_at = Some(ctx.now + READ_RETRY);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(in crate::core) fn on_restored(&mut self, ctx: &mut Ctx, answer: Result<()>) -> Result<()> {
        self.restoring = false;
        self.group_lost = false;
        self.retry_at = Some(ctx.now + READ_RETRY);
        answer
    }

    pub(in crate::core) fn on_routed(
        &mut self,
        ctx: &mut Ctx,
        mut events: Vec<PoolEvent>,
        answer: Result<Vec<RouteReply>>,
    ) -> Result<()> {
        self.assigning = false;
        let Err(error) = answer else {
            self.width.widen();
            return Ok(());
        };
        let whole = events.iter().map(|event| event.jobs.len()).sum();
        self.width.narrow(whole, &error);
        let is_bad = whole == 1 && is_of_an_item(&error);
        let bad = is_bad.then(|| events.iter_mut().find_map(|event| event.jobs.pop())).flatten();
        // The rest of an entry that was sent in part.
        if let (Some(part), Some(rest)) = (events.last_mut(), self.events.first_mut())
            && part.entry == rest.entry
        {
            part.jobs.append(&mut rest.jobs);
            self.events.remove(0);
        }
        self.events.splice(0..0, events);
        match error {
            error if is_of_an_item(&error) && whole > 0 => {
                self.retry_at = Some(ctx.now + READ_RETRY);
                if let Some((key, _)) = bad
                    && self.told.insert(key.clone())
                {
                    if self.told.len() > TOLD_MAX {
                        self.told.clear();
                    }
                    ctx.report(Notice::SetAside { key, error });
                }
                Ok(())
            }
            StoreError::Refused(Refusal::StaleRing(ring)) => {
                self.wants_ring = Some(ring);
                self.retry_at = Some(ctx.now + READ_RETRY);
                let (incarnation, settings) = (ctx.incarnation, Revision(0));
                ctx.out.push(Effect::Expect { incarnation, members: ring, settings });
                Ok(())
            }
            error => {
                let spent = matches!(error, StoreError::Refused(Refusal::OutOfTokens));
                self.retry_at = Some(ctx.now + if spent { SPENT_RETRY } else { READ_RETRY });
                Err(error)
            }
        }
    }

    /// When a read was last answered, or the first one sent; `None` before. The router does not read while read
    /// entries wait for their routing.
    pub(in crate::core) fn progressed(&self) -> Option<Time> {
        self.progressed.filter(|_| self.reading && self.leaving == Leaving::No)
    }

    /// Takes over entries that other routers have left.
    pub(in crate::core) fn claim(&mut self, ctx: &mut Ctx) {
        if !self.claiming && !self.group_lost {
            self.claiming = true;
            ctx.call(claim(ctx, CLAIM_IDLE));
        }
    }

    /// Reads no more: other nodes route from now on. This one routes its remaining entries before it goes.
    pub(in crate::core) fn leave(&mut self, ctx: &mut Ctx) {
        if self.leaving == Leaving::No && !self.claiming {
            self.leaving = Leaving::Claiming;
            self.reading = false;
            self.claiming = true;
            ctx.out.push(Effect::StopReadingPool);
            ctx.call(claim(ctx, Duration::ZERO));
        }
    }

    /// Reads no more until it is flushed again, and leaves the entries to other nodes.
    pub(in crate::core) fn rest(&mut self, ctx: &mut Ctx) {
        if self.reading {
            self.reading = false;
            ctx.out.push(Effect::StopReadingPool);
        }
        self.events.clear();
        self.progressed = None;
    }

    /// No entry that it has read is left.
    pub(in crate::core) fn has_left(&self) -> bool {
        self.leaving == Leaving::Routing && self.events.is_empty() && !self.assigning
    }

    /// Forgets its entries: the pool's data have changed.
    pub(in crate::core) fn reset(&mut self) {
        self.events.clear();
        self.filling = Filling::No;
        self.wants_ring = None;
        self.progressed = None;
    }

    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, ring: &Ring) {
        if self.wants_ring.is_some_and(|wanted| ring.revision() >= wanted) {
            self.wants_ring = None;
            self.retry_at = None;
        }
        if matches!(self.filling, Filling::Until(at) if ctx.now >= at) {
            self.filling = Filling::Over;
        }
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        self.retry_at = None;
        if self.group_lost {
            if !self.restoring {
                self.restoring = true;
                ctx.call(Call::RestoreGroup(RestoreGroup));
            }
            return;
        }
        let drains = self.leaving == Leaving::No || !ctx.config.broken.has(Mutation::LeavingStopsDraining);
        if drains && !self.assigning && !self.events.is_empty() && !self.waits_for_slots(ctx, ring) {
            self.route(ctx, ring);
        }
        if !self.reading && self.leaving == Leaving::No && self.events.len() < 16 {
            self.reading = true;
            self.progressed.get_or_insert(ctx.now);
            let consumer = ctx.config.node.clone();
            ctx.call(Call::ReadPool(ReadPool { consumer, max: READ_ENTRIES, block: READ_BLOCK }));
        }
    }

    /// Standbys are about to take slots: jobs that are routed meanwhile would wait long. Standbys that miss the time
    /// have died, or may not take slots.
    fn waits_for_slots(&mut self, ctx: &Ctx, ring: &Ring) -> bool {
        self.filling = match self.filling {
            _ if !ring.is_filling() || self.leaving != Leaving::No => Filling::No,
            Filling::No => Filling::Until(ctx.now + FILLING),
            still => still,
        };
        matches!(self.filling, Filling::Until(_))
    }

    /// Takes whole entries, up to the limit of a step. An entry with more jobs goes in parts, and is finished with
    /// the last part.
    fn route(&mut self, ctx: &mut Ctx, ring: &Ring) {
        let (most, mut count) = (self.width.most(), 0);
        let whole = self.events.iter().take_while(|event| {
            count += event.jobs.len();
            count <= most
        });
        let whole = whole.count();
        let (mut events, mut entries) = (Vec::new(), Vec::new());
        if whole > 0 {
            events.extend(self.events.drain(..whole));
            entries.extend(events.iter().map(|event| event.entry));
        } else if let Some(event) = self.events.first_mut() {
            let rest = event.jobs.split_off(most);
            let jobs = std::mem::replace(&mut event.jobs, rest);
            events.push(PoolEvent { entry: event.entry, jobs });
        }
        let jobs = events.iter().flat_map(|event| &event.jobs);
        let jobs = jobs.map(|(key, strikes)| (key.clone(), ring.pick(key.as_bytes(), *strikes))).collect();
        self.assigning = true;
        ctx.call(Call::Route(Route { ring: ring.revision(), entries, jobs }, events));
    }

    pub(in crate::core) fn deadline(&self) -> Option<Time> {
        match self.filling {
            Filling::Until(at) => earliest(self.retry_at, Some(at)),
            Filling::No | Filling::Over => self.retry_at,
        }
    }
}

/// Takes over entries of other routers, after this time without progress.
fn claim(ctx: &Ctx, min_idle: Duration) -> Call {
    Call::ClaimPool(ClaimPool { consumer: ctx.config.node.clone(), min_idle, max: READ_ENTRIES })
}
