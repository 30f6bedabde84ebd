//! One pending dispatch, and the callers that wait for its outcome.

use std::sync::Arc;

use crate::core::ctx::Ctx;
use crate::core::input::{Answer, ReplyTo};
use crate::core::time::Time;
use crate::error::DispatchError;
use crate::model::id::{JobKey, Token};
use crate::model::record::{Begun, JobState, Record};
use crate::model::ticket::Ticket;
use crate::mutation::Mutation;
use crate::step::{DispatchItem, SteerItem, StoreError, Way};

/// A dispatch with at least one waiting caller.
#[derive(Debug)]
pub(super) struct PendingDispatch {
    /// Tells it from other dispatches with the same time of the next look.
    pub(super) number: u64,
    /// The id, and the key to ask about.
    pub(super) ticket: Ticket,
    /// The item to send; `None` for a dispatch that is only waited for.
    pub(super) item: Option<DispatchItem>,
    pub(super) accepted: bool,
    /// It was accepted at some time, perhaps in an earlier incarnation.
    pub(super) was_accepted: bool,
    /// It may have been accepted by a call that was not answered.
    pub(super) in_doubt: bool,
    pub(super) waiters: Vec<Waiter>,
    /// The last of the waiters' deadlines.
    pub(super) deadline: Time,
    /// The time of the next look or sending.
    pub(super) next: Time,
    /// It is in one of the batchers.
    pub(super) under_way: bool,
    /// A look has found that it has ended. The reason may still be on its way.
    pub(super) has_ended: bool,
    /// The reason of the last refusal by a worker, as the last look found it.
    pub(super) refusal: Option<String>,
    /// Its job was granted under this token, and had not begun at any look since.
    pub(super) unbegun: Option<(Token, Time)>,
    /// Why the last call had no answer.
    pub(super) trouble: Option<Arc<StoreError>>,
}

/// A caller that waits for the start of a dispatch.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) to: ReplyTo,
    /// The key that it waits for under this id. Callers may use one id of their own for several keys.
    pub(super) key: JobKey,
    /// Acceptance is enough.
    pub(super) acceptance: bool,
    /// It sent the job itself, and does not only wait for another caller's dispatch.
    pub(super) submitted: bool,
    pub(super) deadline: Time,
}

impl PendingDispatch {
    /// Whether the pending dispatch is this one, and not an earlier dispatch of another job under the same id.
    pub(super) fn has_sent(&self, item: &DispatchItem) -> bool {
        self.item.as_ref().is_some_and(|own| own.key == item.key && own.hash == item.hash)
    }

    /// The dispatch has left its batcher.
    pub(super) fn is_back(&mut self) {
        self.under_way = false;
        self.trouble = None;
    }

    /// The job has not started at this look. Its owner is told once more of a granted job that it does not begin: the news
    /// of the grant may be lost. Nobody but the owner can take such a job away, and the owner notices only that its whole stream was
    /// deleted.
    pub(super) fn tell_again(&mut self, ctx: &Ctx, record: &Record) -> Option<SteerItem> {
        if record.state != JobState::Running
            || record.begun == Begun::Started
            || ctx.config.broken.has(Mutation::LostGrantsStay)
        {
            self.unbegun = None;
            return None;
        }
        let seen = self.unbegun.filter(|(token, _)| *token == record.token).map_or(ctx.now, |(_, at)| at);
        let tells = ctx.now >= seen + ctx.config.settings.assign_timeout;
        self.unbegun = Some((record.token, if tells { ctx.now } else { seen }));
        tells.then(|| SteerItem {
            key: self.ticket.key.clone(),
            id: record.id.clone(),
            token: record.token,
            since: record.since,
            way: Way::Now,
            guess: record.owner,
            reason: String::new(),
        })
    }

    pub(super) fn admit(&mut self, waiter: Waiter) {
        self.deadline = self.deadline.max(waiter.deadline);
        self.waiters.push(waiter);
    }

    /// The id stands for the key that was asked about. Callers that wait for another key under it learn that it is
    /// unknown.
    pub(super) fn dismiss_other_keys(&mut self, ctx: &mut Ctx) {
        let key = &self.ticket.key;
        for other in self.waiters.extract_if(.., |waiter| waiter.key != *key) {
            reply(ctx, other.to, Err(DispatchError::Unknown));
        }
    }

    /// The look has found nothing: asks about the key that the first of the other callers waits for. Returns whether
    /// there is one.
    pub(super) fn turn_to_others(&mut self) -> bool {
        let Some(first) = self.waiters.first() else { return false };
        self.ticket.key = first.key.clone();
        (self.item, self.accepted, self.was_accepted, self.in_doubt) = (None, true, true, false);
        true
    }
}

/// Whether this result shows that the id stands for the key.
pub(super) fn is_known(result: &Result<(), DispatchError>) -> bool {
    use DispatchError::{Cancelled, Ended, Parked, Paused, StartFailed, Stopped};
    matches!(result, Ok(()) | Err(Stopped | StartFailed(_) | Parked | Paused | Ended | Cancelled { .. }))
}

pub(super) fn reply(ctx: &mut Ctx, to: ReplyTo, answer: Result<Ticket, DispatchError>) {
    ctx.reply(to, Answer::Submitted(answer));
}
