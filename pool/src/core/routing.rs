//! The router: reads start events from the pool's stream, picks each job's worker from the ring, and assigns.
//! A stale view can never assign: the step is refused unless the ring is at the revision that was picked from.

use std::time::Duration;

use super::call::Call;
use super::ctx::Ctx;
use super::effect::Effect;
use super::ring::Ring;
use super::time::Time;
use crate::breakage::Breakage;
use crate::id::Revision;
use crate::store::{PoolEvent, Refusal, Result, RouteReply, StoreError};

const RETRY: Duration = Duration::from_millis(50);
/// The pause where the pool has no tokens left: somebody must see to that.
const SPENT_RETRY: Duration = Duration::from_secs(5);

/// One node's router.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    events: Vec<PoolEvent>,
    reading: bool,
    claiming: bool,
    restoring: bool,
    assigning: bool,
    /// The group of consumers is gone; made again before the next read.
    group_lost: bool,
    retry_at: Option<Time>,
    /// Not before the ring is at this revision.
    wants_ring: Option<Revision>,
    leaving: Leaving,
    /// When a read was last answered, or the first one sent.
    progressed: Option<Time>,
}

/// How far the router has come in leaving: what it has read, somebody has to route.
#[derive(Debug, Default, PartialEq, Eq)]
enum Leaving {
    #[default]
    No,
    /// It reads no more; what it was handed at the last moment is being claimed.
    Claiming,
    /// It routes what it still has.
    Routing,
}

/// How many jobs one step assigns; whole entries only.
const JOBS: usize = 128;

impl Routing {
    pub(crate) fn on_events(
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
            Ok(None) => self.group_lost = !ctx.config.broken.has(Breakage::GroupStaysLost),
            Err(error) => {
                self.retry_at = Some(ctx.now + RETRY);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn on_restored(&mut self, ctx: &mut Ctx, answer: Result<()>) -> Result<()> {
        self.restoring = false;
        self.group_lost = false;
        self.retry_at = Some(ctx.now + RETRY);
        answer
    }

    pub(crate) fn on_routed(
        &mut self,
        ctx: &mut Ctx,
        events: Vec<PoolEvent>,
        answer: Result<Vec<RouteReply>>,
    ) -> Result<()> {
        self.assigning = false;
        let Err(error) = answer else { return Ok(()) };
        self.events.splice(0..0, events);
        match error {
            StoreError::Refused(Refusal::StaleRing(ring)) => {
                self.wants_ring = Some(ring);
                self.retry_at = Some(ctx.now + RETRY);
                let (incarnation, settings) = (ctx.incarnation, Revision(0));
                ctx.out.push(Effect::Expect { incarnation, members: ring, settings });
                Ok(())
            }
            error => {
                let spent = matches!(error, StoreError::Refused(Refusal::OutOfTokens));
                self.retry_at = Some(ctx.now + if spent { SPENT_RETRY } else { RETRY });
                Err(error)
            }
        }
    }

    /// When a read was last answered, or the first one sent; `None` before. Nothing is read while what was read
    /// waits for its routing.
    pub(crate) fn progressed(&self) -> Option<Time> {
        self.progressed.filter(|_| self.reading && self.leaving == Leaving::No)
    }

    /// Takes over what other routers have left.
    pub(crate) fn claim(&mut self, ctx: &mut Ctx) {
        if !self.claiming && !self.group_lost {
            self.claiming = true;
            ctx.call(Call::ClaimPool { all: false });
        }
    }

    /// Reads no more: other nodes route from now on, and what this one has read is routed before it goes.
    pub(crate) fn leave(&mut self, ctx: &mut Ctx) {
        if self.leaving == Leaving::No && !self.claiming {
            self.leaving = Leaving::Claiming;
            self.reading = false;
            self.claiming = true;
            ctx.out.push(Effect::StopReadingPool);
            ctx.call(Call::ClaimPool { all: true });
        }
    }

    /// Nothing that it has read is left with it.
    pub(crate) fn has_left(&self) -> bool {
        self.leaving == Leaving::Routing && self.events.is_empty() && !self.assigning
    }

    /// Forgets what it read: the pool's data is not what it was.
    pub(crate) fn reset(&mut self) {
        self.events.clear();
        self.wants_ring = None;
        self.progressed = None;
    }

    pub(crate) fn flush(&mut self, ctx: &mut Ctx, ring: &Ring) {
        if self.wants_ring.is_some_and(|wanted| ring.revision() >= wanted) {
            self.wants_ring = None;
            self.retry_at = None;
        }
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        self.retry_at = None;
        if self.group_lost {
            if !self.restoring {
                self.restoring = true;
                ctx.call(Call::RestoreGroup);
            }
            return;
        }
        let drains = self.leaving == Leaving::No || !ctx.config.broken.has(Breakage::LeavingStopsDraining);
        if drains && !self.assigning && !self.events.is_empty() {
            self.route(ctx, ring);
        }
        if !self.reading && self.leaving == Leaving::No && self.events.len() < 16 {
            self.reading = true;
            self.progressed.get_or_insert(ctx.now);
            ctx.call(Call::ReadPool);
        }
    }

    fn route(&mut self, ctx: &mut Ctx, ring: &Ring) {
        let mut count = 0;
        let whole = self.events.iter().take_while(|event| {
            count += event.jobs.len();
            count <= JOBS
        });
        let take = whole.count().max(1);
        let events: Vec<_> = self.events.drain(..take).collect();
        let entries = events.iter().map(|event| event.entry).collect();
        let jobs = events.iter().flat_map(|event| &event.jobs);
        let jobs = jobs.map(|(key, mix)| (key.clone(), ring.pick(key.as_bytes(), *mix))).collect();
        self.assigning = true;
        ctx.call(Call::Route { ring: ring.revision(), events, entries, jobs });
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.retry_at
    }
}
