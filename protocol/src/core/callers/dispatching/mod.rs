//! The dispatcher: jobs on their way into the pool, and callers that wait for their outcome.
//!
//! Hints from workers settle most waits. A lost hint costs one look at the record each second. A dispatch that may
//! have been lost is sent again with the same id until it is settled or its deadline has passed. The pool accepts it
//! at most once.

mod flushing;
mod pending;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crate::core::batcher::{Batcher, may_be_done};
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::ReplyTo;
use crate::core::time::Time;
use crate::error::DispatchError;
use crate::model::id::DispatchId;
use crate::model::record::{Begun, JobState};
use crate::model::ticket::Ticket;
use crate::mutation::Mutation;
use crate::step;
use crate::step::{DispatchItem, DispatchReply, Lookup, Outcome, STOP_FAILED, Steer, StoreError};
use pending::{PendingDispatch, Waiter, is_known, reply};

const POLL: Duration = Duration::from_secs(1);

/// The meaning of a dispatch of which the pool has no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Pool {
    Open,
    /// Its data may have been lost: another caller may be about to send the dispatch again.
    Unsettled,
    Stopping,
}

/// The pending dispatches of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Dispatching {
    /// Boxed: B-tree moves stay small when entries come or go.
    pending: BTreeMap<DispatchId, Box<PendingDispatch>>,
    /// When each dispatch is next looked at. The key is its number, which compares faster than its id.
    timers: BTreeMap<(Time, u64), DispatchId>,
    /// How many dispatches have been opened.
    count: u64,
    sends: Batcher<DispatchItem>,
    polls: Batcher<Ticket>,
    /// Some dispatches that were on their way in a batcher are no longer pending.
    some_ended: bool,
}

impl Dispatching {
    /// How many dispatches wait for their outcome.
    pub(in crate::core) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    pub(in crate::core) fn submit(
        &mut self,
        ctx: &mut Ctx,
        to: ReplyTo,
        mut item: DispatchItem,
        started: bool,
        deadline: Time,
    ) {
        item.awaited = started;
        let ticket = Ticket { key: item.key.clone(), id: item.id.clone() };
        let waiter = Waiter { to, key: item.key.clone(), acceptance: !started, submitted: true, deadline };
        if let Some(pending) = self.pending.get_mut(&ticket.id) {
            if pending.item.as_ref().is_some_and(|i| i.key != item.key || i.hash != item.hash) {
                return reply(ctx, to, Err(DispatchError::Conflict));
            }
            if pending.item.is_none() {
                // The dispatch was only waited for, perhaps as another job: the store must still compare or accept
                // this item.
                pending.ticket.key = item.key.clone();
                pending.item = Some(item.clone());
                pending.under_way = true;
                (pending.accepted, pending.was_accepted) = (false, false);
                self.sends.push(item);
            }
            if started && pending.item.as_ref().is_some_and(|item| !item.awaited) {
                let sent = self.sends.waiting().filter(|item| item.id == ticket.id);
                sent.chain(pending.item.as_mut()).for_each(|item| item.awaited = true);
            }
            if pending.accepted && !started {
                let ticket = pending.ticket.clone();
                return reply(ctx, to, Ok(ticket));
            }
            pending.admit(waiter);
            return self.look_by(&ticket.id, deadline);
        }
        self.sends.push(item.clone());
        self.insert(ctx, ticket, Some(item), false, waiter);
    }

    pub(in crate::core) fn wait(&mut self, ctx: &mut Ctx, to: ReplyTo, ticket: Ticket, deadline: Time) {
        let waiter = Waiter { to, key: ticket.key.clone(), acceptance: false, submitted: false, deadline };
        if let Some(pending) = self.pending.get_mut(&ticket.id) {
            pending.admit(waiter);
            return self.look_by(&ticket.id, deadline);
        }
        self.polls.push(ticket.clone());
        self.insert(ctx, ticket, None, true, waiter);
    }

    /// The caller no longer waits for the answer. A dispatch that is not known to be accepted is still sent.
    pub(in crate::core) fn withdraw(&mut self, id: &DispatchId, to: ReplyTo) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        pending.waiters.retain(|waiter| waiter.to != to);
        if pending.waiters.is_empty() && pending.accepted {
            self.forget(id);
        }
    }

    fn insert(
        &mut self,
        ctx: &Ctx,
        ticket: Ticket,
        item: Option<DispatchItem>,
        accepted: bool,
        waiter: Waiter,
    ) {
        let deadline = waiter.deadline;
        let next = deadline.min(ctx.now + POLL);
        self.count += 1;
        self.timers.insert((next, self.count), ticket.id.clone());
        let id = ticket.id.clone();
        let pending = PendingDispatch {
            number: self.count,
            ticket,
            item,
            accepted,
            was_accepted: accepted,
            in_doubt: false,
            waiters: vec![waiter],
            deadline,
            next,
            under_way: true,
            has_ended: false,
            refusal: None,
            unbegun: None,
            trouble: None,
        };
        self.pending.insert(id, Box::new(pending));
    }

    /// Looks at the dispatch at `at` at the latest.
    fn look_by(&mut self, id: &DispatchId, at: Time) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        if at < pending.next {
            self.timers.remove(&(pending.next, pending.number));
            self.timers.insert((at, pending.number), id.clone());
            pending.next = at;
        }
    }

    /// `settled`: phase N, where every running job has a record. Returns whether the server's clock must be read
    /// again.
    pub(in crate::core) fn on_sent(
        &mut self,
        ctx: &mut Ctx,
        settled: bool,
        items: &[DispatchItem],
        replies: Vec<DispatchReply>,
    ) -> bool {
        let mut late = false;
        for (item, answer) in items.iter().zip(replies) {
            let Some(pending) = self.pending.get_mut(&item.id).filter(|pending| pending.has_sent(item))
            else {
                continue;
            };
            pending.is_back();
            match answer {
                DispatchReply::Accepted => self.accepted(ctx, &item.id),
                DispatchReply::Exists | DispatchReply::Parked | DispatchReply::Paused => {
                    let (parked, paused) = (answer == DispatchReply::Parked, answer == DispatchReply::Paused);
                    let key = item.key.clone();
                    self.refuse(ctx, &item.id, &DispatchError::JobExists { key, parked, paused });
                }
                DispatchReply::Full => self.refuse(ctx, &item.id, &DispatchError::PoolFull),
                DispatchReply::Ended => self.settle(ctx, &item.id, &Err(DispatchError::Ended)),
                DispatchReply::OutOfTokens => self.refuse(ctx, &item.id, &DispatchError::OutOfTokens),
                DispatchReply::Conflict => self.refuse(ctx, &item.id, &DispatchError::Conflict),
                DispatchReply::Outcome(outcome) => self.on_outcome(ctx, &item.id, &outcome),
                DispatchReply::ShuttingDown => self.settle(ctx, &item.id, &Err(DispatchError::ShuttingDown)),
                DispatchReply::Bad => {
                    self.settle(ctx, &item.id, &Err(DispatchError::BadRecord(item.key.clone())));
                }
                DispatchReply::Late if !settled && self.was_accepted(&item.id) => {
                    self.send_later(ctx, &item.id);
                }
                DispatchReply::Late => {
                    late = true;
                    self.on_late(ctx, &item.id);
                }
                DispatchReply::Recovering => self.send_later(ctx, &item.id),
            }
        }
        late
    }

    pub(in crate::core) fn sent(&mut self) {
        self.sends.answered();
    }

    pub(in crate::core) fn send_again(
        &mut self,
        ctx: &mut Ctx,
        mut items: Vec<DispatchItem>,
        error: StoreError,
    ) -> step::Result<()> {
        let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
        // A right does not come by waiting. Memory may become free: a dispatch waits for free memory until its deadline.
        if error.is_forbidden() {
            items = self.forbidden(ctx, items, &error);
        }
        let (trouble, unanswered) = (Arc::new(error.clone()), may_be_done(&error));
        for item in &items {
            if let Some(pending) = self.pending.get_mut(&item.id) {
                pending.in_doubt |= unanswered;
                pending.trouble = Some(trouble.clone());
            }
        }
        let news = self.sends.failed(ctx.now, items, whole, &error);
        ctx.heard(news, first, error)
    }

    /// The store's user lacks a right for these. Answers their callers, unless an earlier call may have been carried out.
    /// Returns the others.
    fn forbidden(
        &mut self,
        ctx: &mut Ctx,
        items: Vec<DispatchItem>,
        error: &StoreError,
    ) -> Vec<DispatchItem> {
        let in_doubt = |item: &DispatchItem| {
            self.pending.get(&item.id).is_some_and(|pending| pending.in_doubt || pending.was_accepted)
        };
        let (again, refused): (Vec<_>, Vec<_>) = items.into_iter().partition(in_doubt);
        for item in refused {
            if let Some(pending) = self.pending.get_mut(&item.id).filter(|pending| pending.has_sent(&item)) {
                pending.is_back();
                self.refuse(ctx, &item.id, &DispatchError::Store(error.clone()));
            }
        }
        again
    }

    fn accepted(&mut self, ctx: &mut Ctx, id: &DispatchId) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        pending.accepted = true;
        pending.was_accepted = true;
        pending.dismiss_other_keys(ctx);
        let ticket = pending.ticket.clone();
        pending.waiters.retain(|waiter| {
            if waiter.acceptance {
                reply(ctx, waiter.to, Ok(ticket.clone()));
            }
            !waiter.acceptance
        });
        if pending.waiters.is_empty() {
            self.forget(id);
        }
    }

    /// The store refused the job. Callers that wait for another caller's dispatch under this id are not told.
    fn refuse(&mut self, ctx: &mut Ctx, id: &DispatchId, error: &DispatchError) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        for waiter in pending.waiters.extract_if(.., |waiter| waiter.submitted) {
            reply(ctx, waiter.to, Err(error.clone()));
        }
        self.look_for_others(id);
    }

    fn was_accepted(&self, id: &DispatchId) -> bool {
        self.pending.get(id).is_some_and(|pending| pending.was_accepted)
    }

    /// The time that the first sending named has passed. A dispatch that may have been accepted may also have ended
    /// and been forgotten. Any other is sent with a new time, from a new reading of the server's clock.
    fn on_late(&mut self, ctx: &mut Ctx, id: &DispatchId) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        if pending.was_accepted {
            return self.settle(ctx, id, &Err(DispatchError::Ended));
        }
        if pending.in_doubt {
            let ticket = pending.ticket.clone();
            return self.settle(ctx, id, &Err(DispatchError::late(ticket)));
        }
        if let Some(item) = &mut pending.item {
            item.not_after = 0;
        }
        self.send_later(ctx, id);
    }

    fn send_later(&mut self, ctx: &Ctx, id: &DispatchId) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        pending.accepted = false;
        self.look_by(id, ctx.now + RETRY);
    }

    /// The remaining callers wait for another key under the id: asks about that key now.
    fn look_for_others(&mut self, id: &DispatchId) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        if pending.turn_to_others() {
            pending.under_way = true;
            self.polls.push(pending.ticket.clone());
        } else {
            self.forget(id);
        }
    }

    /// A worker, or the node that ended the job, reports its outcome. The report does not say which job under a
    /// caller's id it means. It means this one if the store has accepted this one.
    pub(in crate::core) fn on_told(&mut self, ctx: &mut Ctx, id: &DispatchId, outcome: &Outcome) {
        let Some(pending) = self.pending.get(id) else { return };
        if !pending.was_accepted && ctx.config.broken.has(Mutation::EarlyAnswersUnheard) {
            return;
        }
        if id.caller_id().is_some() && (pending.item.is_none() || !pending.was_accepted) {
            return self.look_by(id, ctx.now);
        }
        self.on_outcome(ctx, id, outcome);
    }

    fn on_outcome(&mut self, ctx: &mut Ctx, id: &DispatchId, outcome: &Outcome) {
        let Some(pending) = self.pending.get(id) else { return };
        let result = match outcome.as_str() {
            "ok" => Ok(()),
            "stopped" => Err(DispatchError::Stopped),
            "cancelled" => Err(DispatchError::Cancelled { ticket: pending.ticket.clone() }),
            "parked" => Err(DispatchError::Parked),
            "paused" => Err(DispatchError::Paused),
            "shutdown" => Err(DispatchError::ShuttingDown),
            other if other.starts_with(STOP_FAILED) => Err(DispatchError::Stopped),
            other => match other.strip_prefix("e:") {
                Some(error) => Err(DispatchError::StartFailed(error.to_owned())),
                None => Err(DispatchError::Ended),
            },
        };
        self.settle(ctx, id, &result);
    }

    pub(in crate::core) fn on_looked_up(
        &mut self,
        ctx: &mut Ctx,
        tickets: &[Ticket],
        found: Vec<Lookup>,
        pool: Pool,
    ) {
        let stopping = pool == Pool::Stopping;
        let mut unbegun = Vec::new();
        for (ticket, found) in tickets.iter().zip(found) {
            let id = &ticket.id;
            // A caller's own id may stand for another job than the one in flight under it.
            let is_compared = |pending: &PendingDispatch| {
                id.caller_id().is_none() || pending.item.is_none() || pending.was_accepted
            };
            let Some(pending) = self.pending.get_mut(id) else { continue };
            if pending.ticket != *ticket || !is_compared(pending) {
                continue;
            }
            pending.is_back();
            match found {
                Lookup { record: Some(record), .. } if record.id.is_same(id) => {
                    pending.refusal = record.refusal().map(str::to_owned);
                    match (record.begun, record.state) {
                        (Begun::Started, _) => self.settle(ctx, id, &Ok(())),
                        _ if record.is_paused() => self.settle(ctx, id, &Err(DispatchError::Paused)),
                        (_, JobState::Parked) => self.settle(ctx, id, &Err(DispatchError::Parked)),
                        _ => unbegun.extend(pending.tell_again(ctx, &record)),
                    }
                }
                Lookup { outcome: Some(outcome), .. } => self.on_outcome(ctx, id, &outcome),
                // A stopping pool remembers a job that it drops as ended, without a reason.
                Lookup { ended: true, .. } if stopping => {
                    self.settle(ctx, id, &Err(DispatchError::ShuttingDown));
                }
                Lookup { ended: true, .. } if pending.item.is_some() && !pending.has_ended => {
                    pending.has_ended = true;
                }
                Lookup { ended: true, .. } => self.settle(ctx, id, &Err(DispatchError::Ended)),
                Lookup { bad: true, .. } | Lookup { bad_id: true, .. } => {
                    let key = ticket.key.clone();
                    self.settle(ctx, id, &Err(DispatchError::BadRecord(key)));
                }
                _ if stopping => self.settle(ctx, id, &Err(DispatchError::ShuttingDown)),
                Lookup { record: Some(record), .. } => {
                    let sent = self.pending.get(id).is_some_and(|pending| pending.item.is_some());
                    let (key, paused) = (ticket.key.clone(), record.is_paused());
                    let parked = record.state == JobState::Parked && !paused;
                    let exists = DispatchError::JobExists { key, parked, paused };
                    let error = if sent { exists } else { DispatchError::Unknown };
                    self.settle(ctx, id, &Err(error));
                }
                Lookup { record: None, .. } => {
                    let Some(pending) = self.pending.get_mut(id) else { continue };
                    if let Some(item) = pending.item.clone() {
                        pending.under_way = true;
                        self.sends.push(item);
                    } else if pool == Pool::Open {
                        self.settle(ctx, id, &Err(DispatchError::Unknown));
                    }
                }
            }
        }
        if !unbegun.is_empty() {
            ctx.call(Call::TellOwners(Steer { items: unbegun }));
        }
    }

    pub(in crate::core) fn looked_up(&mut self) {
        self.polls.answered();
    }

    pub(in crate::core) fn look_again(
        &mut self,
        ctx: &mut Ctx,
        tickets: Vec<Ticket>,
        error: StoreError,
    ) -> step::Result<()> {
        let trouble = Arc::new(error.clone());
        for ticket in &tickets {
            if let Some(pending) = self.pending.get_mut(&ticket.id) {
                pending.trouble = Some(trouble.clone());
            }
        }
        let (whole, first) = (tickets.len(), tickets.first().map(|ticket| ticket.key.clone()));
        let news = self.polls.failed(ctx.now, tickets, whole, &error);
        ctx.heard(news, first, error)
    }

    fn settle(&mut self, ctx: &mut Ctx, id: &DispatchId, result: &Result<(), DispatchError>) {
        let Entry::Occupied(mut entry) = self.pending.entry(id.clone()) else { return };
        let pending = entry.get_mut();
        let known = is_known(result);
        if known {
            pending.dismiss_other_keys(ctx);
        }
        let accepted_by_now = known && !matches!(result, Err(DispatchError::Cancelled { .. }));
        let key = &pending.ticket.key;
        for Waiter { to, acceptance, .. } in pending.waiters.extract_if(.., |waiter| waiter.key == *key) {
            let answer = if acceptance && accepted_by_now { Ok(()) } else { result.clone() };
            reply(ctx, to, answer.map(|()| pending.ticket.clone()));
        }
        if pending.waiters.is_empty() {
            let pending = entry.remove();
            self.forgotten(&pending);
        } else {
            self.look_for_others(id);
        }
    }

    fn forget(&mut self, id: &DispatchId) {
        if let Some(pending) = self.pending.remove(id) {
            self.forgotten(&pending);
        }
    }

    fn forgotten(&mut self, pending: &PendingDispatch) {
        self.some_ended |= pending.under_way;
        self.timers.remove(&(pending.next, pending.number));
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, error: &DispatchError) {
        for waiter in std::mem::take(&mut self.pending).into_values().flat_map(|pending| pending.waiters) {
            reply(ctx, waiter.to, Err(error.clone()));
        }
        self.timers.clear();
        self.sends.clear();
        self.polls.clear();
    }

    /// The pool lives in another incarnation, which may have forgotten accepted dispatches: all are sent again.
    pub(in crate::core) fn resubmit(&mut self) {
        for pending in self.pending.values_mut() {
            if let Some(item) = pending.item.clone().filter(|_| pending.accepted && !pending.under_way) {
                (pending.accepted, pending.under_way) = (false, true);
                self.sends.push(item);
            }
        }
    }
}
