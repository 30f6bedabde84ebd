//! One open dispatch, and those who wait for what becomes of it.

use std::sync::Arc;

use crate::core::ctx::Ctx;
use crate::core::effect::Effect;
use crate::core::input::{Answer, ReplyTo};
use crate::core::time::Time;
use crate::error::DispatchError;
use crate::id::JobKey;
use crate::store::{DispatchItem, StoreError};
use crate::ticket::Ticket;

/// One dispatch that somebody waits for.
#[derive(Debug)]
pub(super) struct Open {
    /// Tells it from others that are to be looked at at the same time.
    pub(super) number: u64,
    /// The id, and the key that is asked about.
    pub(super) ticket: Ticket,
    /// What to send; `None` for a dispatch that is only waited for.
    pub(super) item: Option<DispatchItem>,
    pub(super) accepted: bool,
    /// It was accepted at some time, perhaps in an earlier incarnation.
    pub(super) was_accepted: bool,
    /// It may have been accepted by a call that was not answered.
    pub(super) in_doubt: bool,
    pub(super) waiters: Vec<Waiter>,
    /// The last of the waiters' deadlines.
    pub(super) deadline: Time,
    /// When it is next looked at or sent.
    pub(super) next: Time,
    /// It is in one of the lanes.
    pub(super) under_way: bool,
    /// A look has found that it has ended. Whoever ended it says why, which may be on its way.
    pub(super) has_ended: bool,
    /// Why the last call had no answer.
    pub(super) trouble: Option<Arc<StoreError>>,
}

/// Somebody who waits for a dispatch to be started.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) to: ReplyTo,
    /// The key that it waits for under this id. A caller's own id may be thought to stand for several.
    pub(super) key: JobKey,
    /// Acceptance is enough.
    pub(super) acceptance: bool,
    /// It brought the job, and does not just wait for what somebody else dispatched.
    pub(super) brought: bool,
    pub(super) deadline: Time,
}

impl Open {
    /// Whether this is what is open under its id, and not an earlier dispatch of another job.
    pub(super) fn has_sent(&self, item: &DispatchItem) -> bool {
        self.item.as_ref().is_some_and(|own| own.key == item.key && own.hash == item.hash)
    }

    /// It is in none of the lanes any more.
    pub(super) fn is_back(&mut self) {
        self.under_way = false;
        self.trouble = None;
    }

    pub(super) fn admit(&mut self, waiter: Waiter) {
        self.deadline = self.deadline.max(waiter.deadline);
        self.waiters.push(waiter);
    }

    /// The id stands for the key that was asked about: nothing is known under it of any other.
    pub(super) fn is_of_this_key(&mut self, ctx: &mut Ctx) {
        let key = &self.ticket.key;
        for other in self.waiters.extract_if(.., |waiter| waiter.key != *key) {
            reply(ctx, other.to, Err(DispatchError::Unknown));
        }
    }

    /// What was asked about has come to nothing: asks about the key that the first of the others waits for. Returns
    /// whether there is one.
    pub(super) fn turn_to_others(&mut self) -> bool {
        let Some(first) = self.waiters.first() else { return false };
        self.ticket.key = first.key.clone();
        (self.item, self.accepted, self.was_accepted, self.in_doubt) = (None, true, true, false);
        true
    }
}

/// Whether this says that the id stands for the key.
pub(super) fn is_known(result: &Result<(), DispatchError>) -> bool {
    use DispatchError::{Cancelled, Ended, Parked, StartFailed, Stopped};
    matches!(result, Ok(()) | Err(Stopped | StartFailed(_) | Parked | Ended | Cancelled { .. }))
}

pub(super) fn reply(ctx: &mut Ctx, to: ReplyTo, answer: Result<Ticket, DispatchError>) {
    ctx.out.push(Effect::Reply { to, answer: Answer::Submitted(answer) });
}
