//! One worker of this node, from its join to its end. It joins, takes a slot, drains, and leaves. Or it loses its
//! lease and is fenced. Once all its handlers have ended, it joins anew under another id.

mod auditing;
mod granted;
mod joining;
mod rebalance;
pub(super) mod shared_calls;

use std::num::NonZeroU32;

use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::input::{Answer, LocalWorker, ReplyTo, Seating};
use crate::core::jobs::Jobs;
use crate::core::one_call::OneCall;
use crate::core::ring::Ring;
use crate::core::time::{Time, earliest};
use crate::error::Error;
use crate::model::id::WorkerId;
use crate::model::level::TooOld;
use crate::model::member::{Member, MemberState};
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::step::{Drain, Expire, Join, Result, Seat, Settle};
use joining::join_request;
use rebalance::Rebalance;
use shared_calls::InFlight;

/// Where a worker is in its life.
#[derive(Debug)]
enum Stage {
    /// Not a member. `since`: when the join under way was first sent.
    Out { since: Option<Time> },
    /// A member: standby, up, or draining. `settles`: it asks for a slot.
    In { settles: bool },
    /// A member that drains; its drain may not yet be answered.
    Draining { told: bool },
    /// Not a member, or not for long: its jobs are ending.
    Fenced,
    /// None of its handlers runs; it says good-bye.
    Leaving,
    /// It has left for good.
    Gone,
}

/// The pool's permissions for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Phase N: workers may join.
    Open,
    /// Phase N, but no worker may join.
    Shut,
    /// Phase R: nothing is begun or moved.
    Recovering,
    /// No call may be sent.
    Unknown,
    /// The pool's floor is above this node's level: it refuses every step. Streams are read if the pool is known.
    TooOld { why: TooOld, reads: bool },
    /// The pool was shut down.
    Gone,
}

impl Gate {
    /// Whether steps may be sent.
    pub(super) fn is_known(self) -> bool {
        matches!(self, Self::Open | Self::Shut | Self::Recovering)
    }

    /// Whether streams may be read: a node that never reads would not be renewed either.
    pub(super) fn may_read(self) -> bool {
        self.is_known() || matches!(self, Self::TooOld { reads: true, .. })
    }
}

/// One worker of this node.
#[derive(Debug)]
pub(super) struct Worker {
    local: LocalWorker,
    meta: String,
    joins: u32,
    stage: Stage,
    /// The call that this stage waits for.
    call: OneCall,
    pub(super) jobs: Jobs,
    slot: Option<u32>,
    /// Its entry, as last seen.
    member: Option<Member>,
    /// It must leave for good.
    departing: bool,
    rebalance: Rebalance,
    added: Option<ReplyTo>,
    /// The pool refuses to take it back, and this was reported.
    refused: bool,
    drained: Vec<ReplyTo>,
    /// Comparisons of its jobs with the store's.
    audit: OneCall,
}

impl Worker {
    pub(super) fn new(
        local: LocalWorker,
        meta: String,
        capacity: Option<NonZeroU32>,
        added: Option<ReplyTo>,
    ) -> Self {
        let mut jobs = Jobs::new(WorkerId(0), local);
        jobs.limit(capacity);
        Self {
            local,
            meta,
            joins: 0,
            stage: Stage::Out { since: None },
            call: OneCall::default(),
            jobs,
            slot: None,
            member: None,
            departing: false,
            rebalance: Rebalance::default(),
            added,
            refused: false,
            drained: Vec::new(),
            audit: OneCall::default(),
        }
    }

    /// Its id, while it is a member and not fenced.
    pub(super) fn member_id(&self) -> Option<WorkerId> {
        matches!(self.stage, Stage::In { .. } | Stage::Draining { .. }).then_some(self.jobs.worker())
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone)
    }

    /// Its drain was acknowledged, or it is out of the ring for another reason.
    pub(super) fn is_out_of_ring(&self) -> bool {
        !matches!(self.stage, Stage::In { .. } | Stage::Draining { told: false, .. })
    }

    /// Asks it to hand its jobs off and leave for good.
    pub(super) fn drain(&mut self, ctx: &mut Ctx, reply: Option<ReplyTo>) {
        self.departing = true;
        self.drained.extend(reply);
        match self.stage {
            Stage::In { .. } => self.enter(Stage::Draining { told: false }),
            Stage::Out { .. } if self.call.is_busy() => {}
            Stage::Out { .. } | Stage::Gone => self.gone(ctx),
            Stage::Draining { .. } | Stage::Fenced | Stage::Leaving => {}
        }
    }

    /// Hands off its jobs, once the ring knows that it leaves. True if that begins now.
    pub(super) fn hand_off(&mut self, ctx: &mut Ctx) -> bool {
        let now = matches!(self.stage, Stage::Draining { told: true, .. }) && self.jobs.leaving().is_none();
        if now {
            self.jobs.leave(ctx, StopReason::Draining);
        }
        now
    }

    /// The pool is stopping: end all jobs, then leave.
    pub(super) fn stop_all(&mut self, ctx: &mut Ctx) {
        self.departing = true;
        match self.stage {
            Stage::In { .. } | Stage::Draining { .. } => {
                if self.jobs.leaving() != Some(StopReason::Shutdown) {
                    self.jobs.leave(ctx, StopReason::Shutdown);
                }
            }
            Stage::Out { .. } if !self.call.is_busy() => self.gone(ctx),
            Stage::Out { .. } | Stage::Fenced | Stage::Leaving | Stage::Gone => {}
        }
    }

    /// It has lost its lease or its pool: it sends nothing more, and its handlers are ended.
    pub(super) fn fence(&mut self, ctx: &mut Ctx) {
        match self.stage {
            Stage::In { .. } | Stage::Draining { .. } => {}
            Stage::Out { .. } => {
                self.stage = Stage::Out { since: None };
                return self.call.again(ctx.now);
            }
            Stage::Fenced | Stage::Leaving | Stage::Gone => return,
        }
        ctx.report(Notice::Fenced { worker: self.jobs.worker(), jobs: self.jobs.held().len() });
        ctx.out.push(Effect::Fence { worker: self.jobs.worker() });
        self.stage = Stage::Fenced;
        self.jobs.fence(ctx);
    }

    /// The pool lives in another incarnation. A worker whose lease holds reports its jobs; any other is fenced.
    pub(super) fn on_incarnation(&mut self, ctx: &mut Ctx) {
        let broken = ctx.config.broken.has(Mutation::FencedAttests) && matches!(self.stage, Stage::Fenced);
        let holds = self.member_id().is_some() && ctx.lease_holds(self.jobs.worker());
        if !holds && !broken {
            self.jobs.fall_silent(ctx);
            return self.fence(ctx);
        }
        if let Stage::Draining { told, .. } = &mut self.stage {
            *told = false;
        }
        self.jobs.attest(ctx);
    }

    /// Phase N has begun.
    pub(super) fn opened(&mut self, ctx: &mut Ctx) {
        self.rebalance.opened(ctx);
    }

    /// An operator wants all that belongs elsewhere to move at once.
    pub(super) fn move_now(&mut self, ctx: &Ctx) {
        self.rebalance.now(ctx);
    }

    /// The data did not know it, and its slot may belong to another: it asks for one.
    pub(super) fn may_have_no_slot(&mut self, ctx: &Ctx) {
        if let Stage::In { settles } = &mut self.stage {
            *settles = true;
            self.call.set(ctx.now + ctx.config.settings.join_settle);
        }
    }

    /// The members changed, and perhaps whether it is up.
    pub(super) fn on_member(&mut self, ctx: &mut Ctx, member: Option<&Member>, ring_changed: bool) {
        if !matches!(self.stage, Stage::In { .. }) {
            return;
        }
        let Some(member) = member else { return };
        self.learn(ctx, member);
        if ring_changed {
            self.rebalance.ring_changed(ctx);
        }
    }

    /// Its entry says this, while it is a member that does not drain by itself.
    fn learn(&mut self, ctx: &Ctx, member: &Member) {
        self.slot = member.slot.or(self.slot);
        self.member = Some(member.clone());
        // Another node drained it: it is out of the ring already.
        if member.state == MemberState::Draining && !ctx.config.broken.has(Mutation::DrainsUnheard) {
            self.departing = true;
            self.enter(Stage::Draining { told: true });
        } else if let Stage::In { settles } = &mut self.stage
            && member.state == MemberState::Up
        {
            *settles = false;
        }
    }

    pub(super) fn on_settled(&mut self, ctx: &mut Ctx, answer: Result<Seat>) -> Result<bool> {
        let Stage::In { settles } = &mut self.stage else { return Ok(false) };
        *settles = answer.is_err();
        let seat = self.call.answered(ctx.now, answer)?;
        self.learn(ctx, &seat.member);
        Ok(seat.first)
    }

    pub(super) fn on_drained(&mut self, ctx: &mut Ctx, answer: Result<Member>) -> Result<()> {
        let Stage::Draining { told } = &mut self.stage else { return Ok(()) };
        self.member = Some(self.call.answered(ctx.now, answer)?);
        *told = true;
        Ok(())
    }

    /// Its own good-bye has come back, with or without an answer.
    pub(super) fn on_left(&mut self, ctx: &mut Ctx, answer: Result<()>) -> Result<()> {
        if matches!(self.stage, Stage::Leaving) {
            self.call.answered(ctx.now, answer)?;
            self.left(ctx);
        }
        Ok(())
    }

    /// Its pool is gone, and so is its membership.
    pub(super) fn pool_gone(&mut self, ctx: &mut Ctx) {
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
            self.enter(Stage::Out { since: None });
        }
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.call) = (stage, OneCall::default());
    }

    fn gone(&mut self, ctx: &mut Ctx) {
        if !self.is_gone() {
            self.stage = Stage::Gone;
            ctx.out.push(Effect::Seated { local: self.local, worker: None });
        }
        for to in self.drained.drain(..) {
            ctx.reply(to, Answer::Drained(Ok(())));
        }
        if let Some(to) = self.added.take() {
            ctx.reply(to, Answer::WorkerAdded(Err(Error::NodeClosed)));
        }
    }

    /// Makes the due calls that the pool permits.
    pub(super) fn flush(&mut self, ctx: &mut Ctx, ring: &Ring, gate: Gate) {
        if self.jobs.must_give_up(ctx.now) {
            self.fence(ctx);
        }
        self.jobs.forget_past(ctx);
        self.jobs.on_time(ctx);
        self.jobs.start_waiting(ctx);
        self.jobs.take_in(ctx);
        if self.jobs.has_stuck() && matches!(self.stage, Stage::In { .. }) {
            self.enter(Stage::Draining { told: false });
        }
        for key in self.jobs.take_released() {
            self.rebalance.released(&key);
        }
        if let (Gate::TooOld { why, .. }, Stage::Out { .. }) = (gate, &self.stage)
            && !self.call.is_busy()
            && self.added.is_some()
        {
            self.refuse(ctx, Error::TooOld(why));
        }
        self.flush_stage(ctx, ring, gate);
        if self.may_leave(ctx) && self.has_said_all(ctx, gate) {
            ctx.out.push(Effect::Drop { worker: self.jobs.worker() });
            self.enter(Stage::Leaving);
        }
        if matches!(self.stage, Stage::Leaving) {
            match gate {
                // The others notice that it is silent.
                Gate::Gone | Gate::TooOld { .. } => self.left(ctx),
                _ if gate.is_known() && self.call.begin(ctx.now) => {
                    ctx.call(Call::Leave(Expire { workers: vec![(self.jobs.worker(), None)] }));
                }
                _ => {}
            }
        }
    }

    fn flush_stage(&mut self, ctx: &mut Ctx, ring: &Ring, gate: Gate) {
        let worker = self.jobs.worker();
        let normal = gate != Gate::Recovering && !self.jobs.is_attesting();
        let open = gate == Gate::Open && !self.jobs.is_attesting();
        if gate.is_known() {
            self.jobs.flush_attesting(ctx, self.member.as_ref());
        }
        match &mut self.stage {
            Stage::Out { .. } if self.departing && !self.call.is_busy() => self.gone(ctx),
            Stage::Out { since } => {
                if open && self.call.begin(ctx.now) {
                    if since.is_none() {
                        self.joins += 1;
                    }
                    let seating = Seating { local: self.local, since: *since.get_or_insert(ctx.now) };
                    if let Some(request) = join_request(ctx, self.joins, self.local, &self.meta, self.slot) {
                        ctx.call(Call::Join(Join { request: Box::new(request) }, seating));
                    }
                }
            }
            Stage::In { .. } | Stage::Draining { .. } if !gate.is_known() => {}
            Stage::In { settles } => {
                if open && *settles && self.call.begin(ctx.now) {
                    ctx.call(Call::Settle(Settle { worker }));
                }
                if normal {
                    self.flush_audit(ctx);
                }
                if normal && self.jobs.leaving().is_none() {
                    self.rebalance.flush(ctx, &mut self.jobs, ring);
                }
                self.jobs.flush(ctx, normal);
            }
            Stage::Draining { told } => {
                if !*told && self.call.begin(ctx.now) {
                    ctx.call(Call::Drain(Drain { workers: vec![worker] }));
                }
                self.jobs.flush(ctx, normal);
            }
            Stage::Fenced | Stage::Leaving | Stage::Gone => {}
        }
    }

    /// The number of jobs that belong elsewhere and wait for their move.
    pub(in crate::core) fn to_move(&self) -> usize {
        let moves = matches!(self.stage, Stage::In { .. }) && self.jobs.leaving().is_none();
        if moves { self.rebalance.to_move() } else { 0 }
    }

    /// Whether the pool lets it begin jobs, while it is a member.
    fn is_served(&self, gate: Gate) -> bool {
        gate.is_known() && gate != Gate::Recovering && !self.jobs.is_attesting()
    }

    /// None of its handlers runs, and it must go: only then does it say good-bye.
    fn may_leave(&self, ctx: &Ctx) -> bool {
        let asked = match &self.stage {
            Stage::Fenced => true,
            Stage::In { .. } => self.jobs.leaving() == Some(StopReason::Shutdown),
            Stage::Draining { .. } => self.jobs.leaving().is_some(),
            Stage::Out { .. } | Stage::Leaving | Stage::Gone => false,
        };
        let ended = self.jobs.is_idle() || ctx.config.broken.has(Mutation::ExpireBeforeJoined);
        asked && ended && !self.jobs.is_attesting()
    }

    /// Whether its asks have their last word. Only a member says any, to a pool that hears it.
    fn has_said_all(&mut self, ctx: &mut Ctx, gate: Gate) -> bool {
        let speaks = self.member_id().is_some() && gate.is_known();
        !speaks || self.jobs.has_said_all(ctx)
    }

    /// The time of its next work that the gate permits.
    pub(super) fn deadline(&self, gate: Gate, in_flight: InFlight) -> Option<Time> {
        let (attesting, known) = (self.jobs.is_attesting(), gate.is_known());
        let (open, normal) = (gate == Gate::Open && !attesting, gate != Gate::Recovering && !attesting);
        let own = match &self.stage {
            Stage::Out { .. } | Stage::In { settles: true } if open => self.call.deadline(),
            Stage::Draining { told: false } | Stage::Leaving if known => self.call.deadline(),
            _ => None,
        };
        let serves = known && normal && matches!(self.stage, Stage::In { .. });
        let audit = if serves && self.jobs.is_audit_due() { self.audit.deadline() } else { None };
        let moves = (serves && self.jobs.leaving().is_none()).then(|| self.rebalance.deadline()).flatten();
        let jobs = self.jobs.deadline(known && self.member_id().is_some(), normal, in_flight);
        [own, audit, moves, jobs].into_iter().fold(None, earliest)
    }
}
