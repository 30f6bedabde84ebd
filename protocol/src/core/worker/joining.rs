//! How a worker becomes a member (a part of [`Worker`]).

use std::time::Duration;

use super::rebalance::Rebalance;
use super::{Stage, Worker};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::input::{Answer, LocalWorker, Seating};
use crate::core::one_call::OneCall;
use crate::core::time::Time;
use crate::error::Error;
use crate::model::id::Nonce;
use crate::model::member::MemberState;
use crate::step::{JoinRequest, Refusal, Result, Seat, StoreError};

/// The pause before a worker that the pool refuses to take back asks again.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// How long workers wait for each other if they join while none is up.
const GATHERING: Duration = Duration::from_secs(1);

impl Worker {
    /// Returns whether the worker got the pool's first live slot. `behind`: the refusal of a setting says only that
    /// the pool's settings have changed. This node follows them soon.
    pub(in crate::core) fn on_joined(
        &mut self,
        ctx: &mut Ctx,
        seating: Seating,
        behind: bool,
        answer: Result<Seat>,
    ) -> Result<bool> {
        let Stage::Out { since } = &mut self.stage else { return Ok(false) };
        if *since != Some(seating.since) {
            return Ok(false);
        }
        self.call.again(ctx.now);
        let refused = match answer {
            Ok(seat) => {
                self.seated(ctx, seating.since, &seat);
                return Ok(seat.first && seat.member.state == MemberState::Up);
            }
            Err(StoreError::Refused(Refusal::Setting { .. })) if behind => {
                // The next join has other settings, so it is a new join with a lease of its own.
                *since = None;
                return Ok(false);
            }
            Err(StoreError::Refused(Refusal::ShuttingDown)) => {
                self.refuse(ctx, Error::ShuttingDown);
                return Ok(false);
            }
            Err(StoreError::Refused(Refusal::Setting { name, theirs, ours })) => {
                Error::mismatch(&name, &theirs, &ours)
            }
            Err(StoreError::Refused(Refusal::OutOfTokens)) => Error::OutOfTokens,
            Err(error @ StoreError::Refused(Refusal::BadArgument | Refusal::Level(_))) => error.into(),
            Err(error) => return Err(error),
        };
        if self.added.is_some() {
            self.refuse(ctx, refused);
        } else {
            // No caller waits for the answer, and the worker was a member before: it asks again at intervals.
            *since = None;
            self.call.set(ctx.now + REFUSED_RETRY);
            if !std::mem::replace(&mut self.refused, true) {
                ctx.report(Notice::NotTakenBack { error: refused });
            }
        }
        Ok(false)
    }

    fn seated(&mut self, ctx: &mut Ctx, since: Time, seat: &Seat) {
        self.jobs = self.jobs.anew(seat.worker);
        self.rebalance = Rebalance::default();
        self.audit = OneCall::default();
        self.refused = false;
        let settle = ctx.config.settings.join_settle;
        // If no worker is up, no slot is handed over: it waits for workers that join at the same time.
        let settle = if seat.first { settle.min(GATHERING) } else { settle };
        self.enter(Stage::In { settles: seat.member.state == MemberState::Standby });
        self.call.set(ctx.now + settle);
        self.learn(ctx, &seat.member);
        ctx.out.push(Effect::Hold { incarnation: ctx.incarnation, worker: seat.worker, from: since });
        ctx.out.push(Effect::Seated { local: self.local, worker: Some(seat.worker) });
        if let Some(to) = self.added.take() {
            ctx.reply(to, Answer::WorkerAdded(Ok(())));
        }
        if self.departing {
            self.drain(ctx, None);
        }
    }

    pub(super) fn refuse(&mut self, ctx: &mut Ctx, why: Error) {
        if let Some(to) = self.added.take() {
            ctx.reply(to, Answer::WorkerAdded(Err(why)));
        }
        self.gone(ctx);
    }
}

/// The request of a worker's join; `joins` counts its joins.
pub(super) fn join_request(
    ctx: &Ctx,
    joins: u32,
    local: LocalWorker,
    meta: &str,
    preferred: Option<u32>,
) -> Option<JoinRequest> {
    let nonce = Nonce::new(format!("{:x}.{}.{joins}", ctx.config.nonce, local.0)).ok()?;
    let (node, settings) = (ctx.config.node.clone(), ctx.config.demands());
    let (meta, address) = (meta.to_owned(), ctx.config.address.clone());
    Some(JoinRequest { nonce, node, meta, address, preferred, settings })
}
