//! Sends dispatches and looks that are due, and ends those whose deadline has passed.

use std::sync::Arc;

use super::pending::reply;
use super::{Dispatching, POLL};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::ring::Ring;
use crate::core::time::Time;
use crate::error::{DispatchError, Obstacle};
use crate::model::id::DispatchId;
use crate::mutation::Mutation;
use crate::step::{Dispatch, LookUp, Placing, Refusal, StoreError};

impl Dispatching {
    /// Sends and looks. `may_send`: the pool's phase and incarnation are known. Each item names its worker, so it
    /// needs no router if the ring has not changed.
    pub(in crate::core) fn flush(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        not_after: impl Fn(Time) -> u64,
        may_send: bool,
    ) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= ctx.now) {
            let id = first.remove();
            self.on_time(ctx, &id, ring.obstacle());
        }
        if std::mem::take(&mut self.some_ended) {
            self.sends.retain(|item| self.pending.contains_key(&item.id));
            self.polls.retain(|ticket| self.pending.contains_key(&ticket.id));
        }
        if !may_send {
            return;
        }
        if let Some(mut items) = self.sends.batch(ctx.now, |i| i.payload.len() + i.key.as_bytes().len()) {
            let places = !ctx.config.broken.has(Mutation::NothingPlaced);
            for item in &mut items {
                item.worker = ring.pick(item.key.as_bytes(), 0).filter(|_| places);
                let Some(pending) = self.pending.get_mut(&item.id) else { continue };
                if let Some(sent) = &mut pending.item {
                    if sent.not_after == 0 {
                        sent.not_after = not_after(pending.deadline);
                    }
                    item.not_after = sent.not_after;
                }
            }
            ctx.call(Call::Dispatch(Dispatch { by: Placing::Ring(ring.revision()), items }));
        }
        if let Some(tickets) = self.polls.batch(ctx.now, |t| t.key.as_bytes().len()) {
            let items = tickets.into_iter().map(|ticket| (ticket.key, Some(ticket.id))).collect();
            ctx.call(Call::LookUp(LookUp { items }));
        }
    }

    fn on_time(&mut self, ctx: &mut Ctx, id: &DispatchId, obstacle: Option<Obstacle>) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        let gone = ctx.pool_is_gone.then(|| Arc::new(StoreError::Refused(Refusal::NoPool)));
        let (ticket, trouble) = (pending.ticket.clone(), gone.or_else(|| pending.trouble.clone()));
        let (accepted, refusal) = (pending.accepted, pending.refusal.clone());
        let error = DispatchError::Deadline { ticket, accepted, obstacle, refusal, failure: None, trouble };
        pending.waiters.retain(|waiter| {
            let waits = ctx.now < waiter.deadline;
            if !waits {
                reply(ctx, waiter.to, Err(error.clone()));
            }
            waits
        });
        let withdrawn = (!pending.accepted && ctx.now < pending.deadline).then_some(pending.deadline);
        let Some(first) = pending.waiters.iter().map(|waiter| waiter.deadline).min().or(withdrawn) else {
            self.pending.remove(id);
            self.some_ended = true;
            return;
        };
        pending.next = first.min(ctx.now + POLL);
        self.timers.insert((pending.next, pending.number), id.clone());
        if std::mem::replace(&mut pending.under_way, true) {
            return;
        }
        match (&pending.item, pending.accepted) {
            (Some(item), false) => self.sends.push(item.clone()),
            _ if ctx.config.broken.has(Mutation::EarlyAnswersUnheard) => {}
            _ => self.polls.push(pending.ticket.clone()),
        }
    }

    pub(in crate::core) fn deadline(&self, may_send: bool) -> Option<Time> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let batchers = [self.sends.deadline(), self.polls.deadline()].into_iter().filter(|_| may_send);
        batchers.fold(timer, crate::core::time::earliest)
    }
}
