//! One worker of this node, from its join to its end: it joins, takes a slot, drains, leaves; or it loses its
//! lease, is fenced, and joins anew under another id once nothing of it runs.

use std::time::Duration;

use super::call::{Call, ToBegin};
use super::ctx::{Ctx, RETRY};
use super::effect::{Effect, Notice};
use super::input::{Answer, LocalWorker, Refused, ReplyTo};
use super::jobs::Jobs;
use super::rebalance::Rebalance;
use super::ring::Ring;
use super::time::{Time, earliest};
use crate::id::{Nonce, WorkerId};
use crate::member::{Member, MemberState};
use crate::record::JobState;
use crate::stop::StopReason;
use crate::store::{BeginReply, Expired, JoinRequest, OwnedPage, Refusal, Result, Seat, StoreError};

/// The pause before a worker that the pool refuses to have back asks again.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// One join under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seating {
    pub(crate) local: LocalWorker,
    /// When it was first sent: the lease counts from there, also when only a later sending is answered.
    pub(crate) since: Time,
}

/// Where a worker is in its life.
#[derive(Debug)]
enum Stage {
    /// Not a member. `since`: when the join under way was first sent.
    Out { since: Option<Time>, busy: bool, retry_at: Time },
    /// A member: standby, up, or draining.
    In { settle_at: Option<Time>, busy: bool },
    /// A member that drains; its drain may not be answered yet.
    Draining { told: bool, busy: bool, retry_at: Time },
    /// Not a member, or not for long: its jobs are on their way out.
    Fenced,
    /// Nothing of it runs; it says good-bye.
    Leaving { busy: bool, retry_at: Time },
    /// It has left for good.
    Gone,
}

/// What the pool lets a worker do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Phase N: workers may join.
    Open,
    /// Steps are answered, but no worker may join.
    Shut,
    /// Nothing is to be sent.
    Unknown,
    /// The pool was shut down.
    Gone,
}

impl Door {
    /// Whether steps may be sent.
    pub(crate) fn is_known(self) -> bool {
        matches!(self, Self::Open | Self::Shut)
    }
}

/// One worker of this node.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) local: LocalWorker,
    meta: String,
    joins: u32,
    stage: Stage,
    pub(crate) jobs: Jobs,
    slot: Option<u32>,
    /// It is to leave for good.
    departing: bool,
    rebalance: Rebalance,
    added: Option<ReplyTo>,
    /// The pool refuses to have it back, and that was told.
    refused: bool,
    drained: Vec<ReplyTo>,
    /// Compares the jobs that the store says are this worker's with those that are here.
    auditing: bool,
    audit_at: Time,
}

impl Worker {
    pub(crate) fn new(local: LocalWorker, meta: String, added: Option<ReplyTo>) -> Self {
        Self {
            local,
            meta,
            joins: 0,
            stage: Stage::Out { since: None, busy: false, retry_at: Time(0) },
            jobs: Jobs::new(WorkerId(0), local),
            slot: None,
            departing: false,
            rebalance: Rebalance::default(),
            added,
            refused: false,
            drained: Vec::new(),
            auditing: false,
            audit_at: Time(0),
        }
    }

    /// Its id, while it is a member and not fenced.
    pub(crate) fn member_id(&self) -> Option<WorkerId> {
        matches!(self.stage, Stage::In { .. } | Stage::Draining { .. }).then_some(self.jobs.worker)
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }

    /// Its drain has been acknowledged, or it is out of the ring for another reason.
    pub(crate) fn is_out_of_ring(&self) -> bool {
        !matches!(self.stage, Stage::In { .. } | Stage::Draining { told: false, .. })
    }

    /// Asks it to hand its jobs on and leave for good.
    pub(crate) fn drain(&mut self, ctx: &mut Ctx, reply: Option<ReplyTo>) {
        self.departing = true;
        self.drained.extend(reply);
        match self.stage {
            Stage::In { .. } => {
                self.stage = Stage::Draining { told: false, busy: false, retry_at: Time(0) };
            }
            Stage::Out { busy: false, .. } | Stage::Gone => self.gone(ctx),
            Stage::Out { .. } | Stage::Draining { .. } | Stage::Fenced | Stage::Leaving { .. } => {}
        }
    }

    /// Hands on what it holds, once the ring knows that it leaves. True when that has begun now.
    pub(crate) fn hand_on(&mut self, ctx: &mut Ctx) -> bool {
        let now = matches!(self.stage, Stage::Draining { told: true, .. }) && self.jobs.leaving.is_none();
        if now {
            self.jobs.leave(ctx, StopReason::Draining);
        }
        now
    }

    /// The pool is stopping: end all jobs, then leave.
    pub(crate) fn stop_all(&mut self, ctx: &mut Ctx) {
        self.departing = true;
        match self.stage {
            Stage::In { .. } | Stage::Draining { .. } => {
                if self.jobs.leaving != Some(StopReason::Shutdown) {
                    self.jobs.leave(ctx, StopReason::Shutdown);
                }
            }
            Stage::Out { busy: false, .. } => self.gone(ctx),
            Stage::Out { .. } | Stage::Fenced | Stage::Leaving { .. } | Stage::Gone => {}
        }
    }

    /// It has lost its lease, or its pool: nothing is sent for it any more, its handlers are ended.
    pub(crate) fn fence(&mut self, ctx: &mut Ctx) {
        match self.stage {
            Stage::In { .. } | Stage::Draining { .. } => {}
            Stage::Out { .. } => {
                self.stage = Stage::Out { since: None, busy: false, retry_at: ctx.now + RETRY };
                return;
            }
            Stage::Fenced | Stage::Leaving { .. } | Stage::Gone => return,
        }
        ctx.report(Notice::Fenced { worker: self.jobs.worker, jobs: self.jobs.held.len() });
        ctx.out.push(Effect::Fence { worker: self.jobs.worker });
        self.stage = Stage::Fenced;
        self.jobs.fence(ctx);
    }

    /// The members changed: whether it is up may have.
    pub(crate) fn on_member(&mut self, ctx: &mut Ctx, member: Option<&Member>, ring_changed: bool) {
        let Stage::In { settle_at, .. } = &mut self.stage else { return };
        let Some(member) = member else { return };
        if member.state == MemberState::Up {
            *settle_at = None;
            self.slot = member.slot;
        }
        if ring_changed {
            self.rebalance.ring_changed(ctx);
        }
    }

    /// Returns whether the worker got the pool's first live slot. `behind`: a refusal of a setting says only that the
    /// pool's settings have changed, and this node goes by them soon.
    pub(crate) fn on_joined(
        &mut self,
        ctx: &mut Ctx,
        seating: Seating,
        behind: bool,
        answer: Result<Seat>,
    ) -> Result<bool> {
        let Stage::Out { since, busy, retry_at } = &mut self.stage else { return Ok(false) };
        if *since != Some(seating.since) {
            return Ok(false);
        }
        *busy = false;
        *retry_at = ctx.now + RETRY;
        let refused = match answer {
            Ok(seat) => {
                self.seated(ctx, seating.since, &seat);
                return Ok(seat.first);
            }
            Err(StoreError::Refused(Refusal::Setting { .. })) if behind => {
                // It joins with other settings: another join, with a lease of its own.
                *since = None;
                return Ok(false);
            }
            Err(StoreError::Refused(Refusal::ShuttingDown)) => {
                self.refuse(ctx, Refused::ShuttingDown);
                return Ok(false);
            }
            Err(StoreError::Refused(Refusal::Setting { name, theirs, ours })) => {
                Refused::Setting { name, theirs, ours }
            }
            Err(error @ StoreError::Refused(Refusal::BadArgument)) => Refused::Store(error),
            Err(error) => return Err(error),
        };
        if self.added.is_some() {
            self.refuse(ctx, refused);
        } else {
            // Nobody waits for it who could be told, and it was a member once: it asks again, now and then.
            *since = None;
            *retry_at = ctx.now + REFUSED_RETRY;
            if !std::mem::replace(&mut self.refused, true) {
                ctx.report(Notice::NotTakenBack { error: refused.into_error(REFUSED_RETRY) });
            }
        }
        Ok(false)
    }

    fn seated(&mut self, ctx: &mut Ctx, since: Time, seat: &Seat) {
        self.jobs = Jobs::new(seat.worker, self.local);
        self.rebalance = Rebalance::default();
        self.auditing = false;
        self.refused = false;
        self.slot = seat.member.slot.or(self.slot);
        let settle_at =
            (seat.member.state == MemberState::Standby).then(|| ctx.now + ctx.config.settings.join_settle);
        self.stage = Stage::In { settle_at, busy: false };
        ctx.out.push(Effect::Hold { incarnation: ctx.incarnation, worker: seat.worker, from: since });
        ctx.out.push(Effect::Seated { local: self.local, worker: Some(seat.worker) });
        if let Some(to) = self.added.take() {
            ctx.out.push(Effect::Reply { to, answer: Answer::WorkerAdded(Ok(())) });
        }
        if self.departing {
            self.drain(ctx, None);
        }
    }

    fn refuse(&mut self, ctx: &mut Ctx, why: Refused) {
        if let Some(to) = self.added.take() {
            ctx.out.push(Effect::Reply { to, answer: Answer::WorkerAdded(Err(why)) });
        }
        self.gone(ctx);
    }

    pub(crate) fn on_settled(&mut self, ctx: &mut Ctx, answer: Result<Seat>) -> Result<bool> {
        let Stage::In { settle_at, busy } = &mut self.stage else { return Ok(false) };
        *busy = false;
        match answer {
            Ok(seat) => {
                *settle_at = None;
                self.slot = seat.member.slot.or(self.slot);
                Ok(seat.first)
            }
            Err(error) => {
                *settle_at = Some(ctx.now + RETRY);
                Err(error)
            }
        }
    }

    pub(crate) fn on_drained(&mut self, ctx: &mut Ctx, answer: Result<Member>) -> Result<()> {
        let Stage::Draining { told, busy, retry_at } = &mut self.stage else { return Ok(()) };
        *busy = false;
        match answer {
            Ok(_) => {
                *told = true;
                Ok(())
            }
            Err(error) => {
                *retry_at = ctx.now + RETRY;
                Err(error)
            }
        }
    }

    /// Its own good-bye was answered, or not.
    pub(crate) fn on_left(&mut self, ctx: &mut Ctx, answer: Result<Expired>) -> Result<()> {
        let Stage::Leaving { busy, retry_at } = &mut self.stage else { return Ok(()) };
        match answer {
            Ok(_) => {
                self.left(ctx);
                Ok(())
            }
            Err(error) => {
                *busy = false;
                *retry_at = ctx.now + RETRY;
                Err(error)
            }
        }
    }

    /// The pool that it was a member of is gone, and the membership with it.
    pub(crate) fn pool_gone(&mut self, ctx: &mut Ctx) {
        self.departing = true;
        self.fence(ctx);
        if matches!(self.stage, Stage::Out { .. }) {
            self.gone(ctx);
        }
    }

    fn left(&mut self, ctx: &mut Ctx) {
        if self.departing {
            self.gone(ctx);
        } else {
            self.stage = Stage::Out { since: None, busy: false, retry_at: Time(0) };
        }
    }

    fn gone(&mut self, ctx: &mut Ctx) {
        if !self.is_gone() {
            self.stage = Stage::Gone;
            ctx.out.push(Effect::Seated { local: self.local, worker: None });
        }
        for to in self.drained.drain(..) {
            ctx.out.push(Effect::Reply { to, answer: Answer::Drained(Ok(())) });
        }
        if let Some(to) = self.added.take() {
            ctx.out.push(Effect::Reply { to, answer: Answer::WorkerAdded(Err(Refused::NodeClosed)) });
        }
    }

    /// Looks once more for jobs to hand on, when one of these was begun here and belongs elsewhere.
    pub(crate) fn check_places(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        begun: &[BeginReply],
        jobs: &[ToBegin],
    ) {
        let worker = self.jobs.worker;
        let elsewhere = jobs.iter().zip(begun).any(|((key, ..), reply)| {
            let BeginReply::Begun { record, .. } = reply else { return false };
            ring.pick(key.as_bytes(), record.mix).is_some_and(|w| w != worker)
        });
        if elsewhere {
            self.rebalance.misplaced(ctx);
        }
    }

    pub(crate) fn on_owned(&mut self, ctx: &mut Ctx, answer: Result<OwnedPage>) -> Result<()> {
        self.auditing = false;
        if self.member_id().is_none() {
            return Ok(());
        }
        let page = answer.inspect_err(|_| {
            self.jobs.audit_due = true;
            self.audit_at = ctx.now + RETRY;
        })?;
        let worker = self.jobs.worker;
        for (key, record) in page.jobs {
            if let Some(record) = record
                && record.state == JobState::Running
                && record.owner == Some(worker)
                && !self.jobs.knows(&key, record.token)
            {
                self.jobs.disown(key, record.token);
            }
        }
        if page.next.is_some() {
            self.auditing = true;
            ctx.call(Call::Owned { worker, after: page.next });
        }
        Ok(())
    }

    /// Does what is due, as far as the pool lets it.
    pub(crate) fn flush(&mut self, ctx: &mut Ctx, ring: &Ring, door: Door) {
        self.jobs.on_time(ctx);
        self.jobs.start_waiting(ctx);
        if self.jobs.stuck && matches!(self.stage, Stage::In { .. }) {
            self.stage = Stage::Draining { told: false, busy: false, retry_at: Time(0) };
        }
        for key in self.jobs.take_released() {
            self.rebalance.released(&key);
        }
        self.flush_stage(ctx, ring, door);
        if self.may_leave() {
            ctx.out.push(Effect::Drop { worker: self.jobs.worker });
            self.stage = Stage::Leaving { busy: false, retry_at: Time(0) };
        }
        if let Stage::Leaving { busy, retry_at } = &mut self.stage {
            match door {
                Door::Gone => self.left(ctx),
                _ if door.is_known() && !*busy && ctx.now >= *retry_at => {
                    *busy = true;
                    ctx.call(Call::Expire { worker: self.jobs.worker, seq: None });
                }
                _ => {}
            }
        }
    }

    fn flush_stage(&mut self, ctx: &mut Ctx, ring: &Ring, door: Door) {
        let worker = self.jobs.worker;
        let open = door == Door::Open;
        match &mut self.stage {
            Stage::Out { busy: false, .. } if self.departing => self.gone(ctx),
            Stage::Out { since, busy, retry_at } => {
                if open && !*busy && ctx.now >= *retry_at {
                    *busy = true;
                    if since.is_none() {
                        self.joins += 1;
                    }
                    let seating = Seating { local: self.local, since: *since.get_or_insert(ctx.now) };
                    if let Some(request) = join_request(ctx, self.joins, self.local, &self.meta, self.slot) {
                        ctx.call(Call::Join { seating, request });
                    }
                }
            }
            Stage::In { .. } | Stage::Draining { .. } if !door.is_known() => {}
            Stage::In { settle_at, busy } => {
                if open && !*busy && settle_at.is_some_and(|at| ctx.now >= at) {
                    *busy = true;
                    ctx.call(Call::Settle { worker });
                }
                if self.jobs.audit_due && !self.auditing && ctx.now >= self.audit_at {
                    self.jobs.audit_due = false;
                    self.auditing = true;
                    ctx.call(Call::Owned { worker, after: None });
                }
                if self.jobs.leaving.is_none() {
                    self.rebalance.flush(ctx, &mut self.jobs, ring);
                }
                self.jobs.flush(ctx);
            }
            Stage::Draining { told, busy, retry_at } => {
                if !*told && !*busy && ctx.now >= *retry_at {
                    *busy = true;
                    ctx.call(Call::Drain { worker });
                }
                self.jobs.flush(ctx);
            }
            Stage::Fenced | Stage::Leaving { .. } | Stage::Gone => {}
        }
    }

    /// Nothing of it runs, and it is to go: only then does it say good-bye.
    fn may_leave(&self) -> bool {
        let asked = match &self.stage {
            Stage::Fenced => true,
            Stage::In { .. } => self.jobs.leaving == Some(StopReason::Shutdown),
            Stage::Draining { .. } => self.jobs.leaving.is_some(),
            Stage::Out { .. } | Stage::Leaving { .. } | Stage::Gone => false,
        };
        asked && self.jobs.is_idle()
    }

    /// When something is due that the door lets it do.
    pub(crate) fn deadline(&self, door: Door) -> Option<Time> {
        let (open, known) = (door == Door::Open, door.is_known());
        let own = match &self.stage {
            Stage::Out { busy: false, retry_at, .. } if open => Some(*retry_at),
            Stage::Draining { told: false, busy: false, retry_at }
            | Stage::Leaving { busy: false, retry_at }
                if known =>
            {
                Some(*retry_at)
            }
            Stage::In { settle_at, busy: false } if open => *settle_at,
            _ => None,
        };
        let serves = known && matches!(self.stage, Stage::In { .. });
        let audit = (serves && self.jobs.audit_due && !self.auditing).then_some(self.audit_at);
        let moves = (serves && self.jobs.leaving.is_none()).then(|| self.rebalance.deadline()).flatten();
        let jobs = self.jobs.deadline(known && self.member_id().is_some());
        [own, audit, moves, jobs].into_iter().fold(None, earliest)
    }
}

fn join_request(
    ctx: &Ctx,
    joins: u32,
    local: LocalWorker,
    meta: &str,
    preferred: Option<u32>,
) -> Option<JoinRequest> {
    let nonce = Nonce::new(format!("{:x}.{}.{joins}", ctx.config.nonce, local.0)).ok()?;
    let (node, settings) = (ctx.config.node.clone(), ctx.config.settings.clone());
    Some(JoinRequest { nonce, node, meta: meta.to_owned(), preferred, settings })
}
