//! The dispatcher: jobs on their way into the pool, and callers that wait for their outcome.
//!
//! Hints from workers settle most waits. A lost hint costs one look at the record each second. A dispatch that may
//! have been lost is sent again with the same id until it is settled or its deadline has passed. The pool accepts it
//! at most once.

mod flushing;
mod open;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crate::breakage::Breakage;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::ReplyTo;
use crate::core::lane::Lane;
use crate::core::time::Time;
use crate::error::DispatchError;
use crate::model::id::DispatchId;
use crate::model::record::{Begun, JobState};
use crate::model::ticket::Ticket;
use crate::store::{DispatchItem, DispatchReply, Lookup, Outcome, StoreError};
use open::{Open, Waiter, is_known, reply};

const POLL: Duration = Duration::from_secs(1);

/// The meaning of a dispatch of which the pool has no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Pool {
    Open,
    /// Its data may have been lost: another caller may be about to send the dispatch again.
    Unsettled,
    Stopping,
}

/// The open dispatches of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Dispatching {
    /// Boxed: B-tree moves stay small when entries come or go.
    open: BTreeMap<DispatchId, Box<Open>>,
    /// When each dispatch is next looked at. The key is its number, which compares faster than its id.
    timers: BTreeMap<(Time, u64), DispatchId>,
    /// How many dispatches have been opened.
    count: u64,
    sends: Lane<DispatchItem>,
    polls: Lane<Ticket>,
    /// Some dispatches that were on their way in a lane are no longer open.
    some_ended: bool,
}

impl Dispatching {
    /// How many dispatches wait for their outcome.
    pub(in crate::core) fn open_count(&self) -> usize {
        self.open.len()
    }

    pub(in crate::core) fn submit(
        &mut self,
        ctx: &mut Ctx,
        to: ReplyTo,
        item: DispatchItem,
        started: bool,
        deadline: Time,
    ) {
        let ticket = Ticket { key: item.key.clone(), id: item.id.clone() };
        let waiter = Waiter { to, key: item.key.clone(), acceptance: !started, brought: true, deadline };
        if let Some(open) = self.open.get_mut(&ticket.id) {
            if open.item.as_ref().is_some_and(|i| i.key != item.key || i.hash != item.hash) {
                return reply(ctx, to, Err(DispatchError::Conflict));
            }
            if open.item.is_none() {
                // The dispatch was only waited for, perhaps as another job: the store must still compare or accept
                // this item.
                open.ticket.key = item.key.clone();
                open.item = Some(item.clone());
                open.under_way = true;
                (open.accepted, open.was_accepted) = (false, false);
                self.sends.push(item);
            }
            if open.accepted && !started {
                let ticket = open.ticket.clone();
                return reply(ctx, to, Ok(ticket));
            }
            open.admit(waiter);
            return self.look_by(&ticket.id, deadline);
        }
        self.sends.push(item.clone());
        self.insert(ctx, ticket, Some(item), false, waiter);
    }

    pub(in crate::core) fn wait(&mut self, ctx: &mut Ctx, to: ReplyTo, ticket: Ticket, deadline: Time) {
        let waiter = Waiter { to, key: ticket.key.clone(), acceptance: false, brought: false, deadline };
        if let Some(open) = self.open.get_mut(&ticket.id) {
            open.admit(waiter);
            return self.look_by(&ticket.id, deadline);
        }
        self.polls.push(ticket.clone());
        self.insert(ctx, ticket, None, true, waiter);
    }

    /// The caller no longer waits for the answer. A dispatch that is not known to be accepted is still sent.
    pub(in crate::core) fn withdraw(&mut self, id: &DispatchId, to: ReplyTo) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.waiters.retain(|waiter| waiter.to != to);
        if open.waiters.is_empty() && open.accepted {
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
        let open = Open {
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
            trouble: None,
        };
        self.open.insert(id, Box::new(open));
    }

    /// Looks at the dispatch at `at` at the latest.
    fn look_by(&mut self, id: &DispatchId, at: Time) {
        let Some(open) = self.open.get_mut(id) else { return };
        if at < open.next {
            self.timers.remove(&(open.next, open.number));
            self.timers.insert((at, open.number), id.clone());
            open.next = at;
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
            let Some(open) = self.open.get_mut(&item.id).filter(|open| open.has_sent(item)) else { continue };
            open.is_back();
            match answer {
                DispatchReply::Accepted => self.accepted(ctx, &item.id),
                DispatchReply::Exists | DispatchReply::Parked => {
                    let parked = answer == DispatchReply::Parked;
                    let key = item.key.clone();
                    self.refuse(ctx, &item.id, &DispatchError::JobExists { key, parked });
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

    /// `unanswered`: the store may have carried it out. Returns whether the error is news.
    pub(in crate::core) fn send_again(
        &mut self,
        now: Time,
        items: Vec<DispatchItem>,
        error: &StoreError,
        unanswered: bool,
    ) -> bool {
        let trouble = Arc::new(error.clone());
        for item in &items {
            if let Some(open) = self.open.get_mut(&item.id) {
                open.in_doubt |= unanswered;
                open.trouble = Some(trouble.clone());
            }
        }
        let whole = items.len();
        self.sends.failed(now, items, whole, error)
    }

    fn accepted(&mut self, ctx: &mut Ctx, id: &DispatchId) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.accepted = true;
        open.was_accepted = true;
        open.is_of_this_key(ctx);
        let ticket = open.ticket.clone();
        open.waiters.retain(|waiter| {
            if waiter.acceptance {
                reply(ctx, waiter.to, Ok(ticket.clone()));
            }
            !waiter.acceptance
        });
        if open.waiters.is_empty() {
            self.forget(id);
        }
    }

    /// The store refused the job. Callers that wait for another caller's dispatch under this id are not told.
    fn refuse(&mut self, ctx: &mut Ctx, id: &DispatchId, error: &DispatchError) {
        let Some(open) = self.open.get_mut(id) else { return };
        for waiter in open.waiters.extract_if(.., |waiter| waiter.brought) {
            reply(ctx, waiter.to, Err(error.clone()));
        }
        self.look_for_others(id);
    }

    fn was_accepted(&self, id: &DispatchId) -> bool {
        self.open.get(id).is_some_and(|open| open.was_accepted)
    }

    /// The time that the first sending named has passed. A dispatch that may have been accepted may also have ended
    /// and been forgotten. Any other is sent with a new time, from a new reading of the server's clock.
    fn on_late(&mut self, ctx: &mut Ctx, id: &DispatchId) {
        let Some(open) = self.open.get_mut(id) else { return };
        if open.was_accepted {
            return self.settle(ctx, id, &Err(DispatchError::Ended));
        }
        if open.in_doubt {
            let ticket = open.ticket.clone();
            return self.settle(ctx, id, &Err(DispatchError::late(ticket)));
        }
        if let Some(item) = &mut open.item {
            item.not_after = 0;
        }
        self.send_later(ctx, id);
    }

    fn send_later(&mut self, ctx: &Ctx, id: &DispatchId) {
        let Some(open) = self.open.get_mut(id) else { return };
        open.accepted = false;
        self.look_by(id, ctx.now + RETRY);
    }

    /// The remaining callers wait for another key under the id: asks about that key now.
    fn look_for_others(&mut self, id: &DispatchId) {
        let Some(open) = self.open.get_mut(id) else { return };
        if open.turn_to_others() {
            open.under_way = true;
            self.polls.push(open.ticket.clone());
        } else {
            self.forget(id);
        }
    }

    /// A worker, or the node that ended the job, reports its outcome. The report does not say which job under a
    /// caller's id it means. It means this one if the store has accepted this one.
    pub(in crate::core) fn on_told(&mut self, ctx: &mut Ctx, id: &DispatchId, outcome: &Outcome) {
        let Some(open) = self.open.get(id) else { return };
        if !open.was_accepted && ctx.config.broken.has(Breakage::EarlyAnswersUnheard) {
            return;
        }
        if id.caller_id().is_some() && (open.item.is_none() || !open.was_accepted) {
            return self.look_by(id, ctx.now);
        }
        self.on_outcome(ctx, id, outcome);
    }

    fn on_outcome(&mut self, ctx: &mut Ctx, id: &DispatchId, outcome: &Outcome) {
        let Some(open) = self.open.get(id) else { return };
        let result = match outcome.as_str() {
            "ok" => Ok(()),
            "stopped" => Err(DispatchError::Stopped),
            "cancelled" => Err(DispatchError::Cancelled { ticket: open.ticket.clone() }),
            "parked" => Err(DispatchError::Parked),
            "shutdown" => Err(DispatchError::ShuttingDown),
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
        for (ticket, found) in tickets.iter().zip(found) {
            let id = &ticket.id;
            // A caller's own id may stand for another job than the one in flight under it.
            let is_compared =
                |open: &Open| id.caller_id().is_none() || open.item.is_none() || open.was_accepted;
            let Some(open) = self.open.get_mut(id) else { continue };
            if open.ticket != *ticket || !is_compared(open) {
                continue;
            }
            open.is_back();
            match found {
                Lookup { record: Some(record), .. } if record.id.is_same(id) => {
                    match (record.begun, record.state) {
                        (Begun::Started, _) => self.settle(ctx, id, &Ok(())),
                        (_, JobState::Parked) => self.settle(ctx, id, &Err(DispatchError::Parked)),
                        _ => {}
                    }
                }
                Lookup { outcome: Some(outcome), .. } => self.on_outcome(ctx, id, &outcome),
                // A stopping pool remembers a job that it drops as ended, without a reason.
                Lookup { ended: true, .. } if stopping => {
                    self.settle(ctx, id, &Err(DispatchError::ShuttingDown));
                }
                Lookup { ended: true, .. } if open.item.is_some() && !open.has_ended => open.has_ended = true,
                Lookup { ended: true, .. } => self.settle(ctx, id, &Err(DispatchError::Ended)),
                Lookup { bad: true, .. } | Lookup { bad_id: true, .. } => {
                    let key = ticket.key.clone();
                    self.settle(ctx, id, &Err(DispatchError::BadRecord(key)));
                }
                _ if stopping => self.settle(ctx, id, &Err(DispatchError::ShuttingDown)),
                Lookup { record: Some(record), .. } => {
                    let sent = self.open.get(id).is_some_and(|open| open.item.is_some());
                    let (key, parked) = (ticket.key.clone(), record.state == JobState::Parked);
                    let exists = DispatchError::JobExists { key, parked };
                    let error = if sent { exists } else { DispatchError::Unknown };
                    self.settle(ctx, id, &Err(error));
                }
                Lookup { record: None, .. } => {
                    let Some(open) = self.open.get_mut(id) else { continue };
                    if let Some(item) = open.item.clone() {
                        open.under_way = true;
                        self.sends.push(item);
                    } else if pool == Pool::Open {
                        self.settle(ctx, id, &Err(DispatchError::Unknown));
                    }
                }
            }
        }
    }

    pub(in crate::core) fn looked_up(&mut self) {
        self.polls.answered();
    }

    pub(in crate::core) fn look_again(
        &mut self,
        now: Time,
        tickets: Vec<Ticket>,
        error: &StoreError,
    ) -> bool {
        let trouble = Arc::new(error.clone());
        for ticket in &tickets {
            if let Some(open) = self.open.get_mut(&ticket.id) {
                open.trouble = Some(trouble.clone());
            }
        }
        let whole = tickets.len();
        self.polls.failed(now, tickets, whole, error)
    }

    fn settle(&mut self, ctx: &mut Ctx, id: &DispatchId, result: &Result<(), DispatchError>) {
        let Entry::Occupied(mut entry) = self.open.entry(id.clone()) else { return };
        let open = entry.get_mut();
        let known = is_known(result);
        if known {
            open.is_of_this_key(ctx);
        }
        let accepted_by_now = known && !matches!(result, Err(DispatchError::Cancelled { .. }));
        let key = &open.ticket.key;
        for Waiter { to, acceptance, .. } in open.waiters.extract_if(.., |waiter| waiter.key == *key) {
            let answer = if acceptance && accepted_by_now { Ok(()) } else { result.clone() };
            reply(ctx, to, answer.map(|()| open.ticket.clone()));
        }
        if open.waiters.is_empty() {
            let open = entry.remove();
            self.forgotten(&open);
        } else {
            self.look_for_others(id);
        }
    }

    fn forget(&mut self, id: &DispatchId) {
        if let Some(open) = self.open.remove(id) {
            self.forgotten(&open);
        }
    }

    fn forgotten(&mut self, open: &Open) {
        self.some_ended |= open.under_way;
        self.timers.remove(&(open.next, open.number));
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, error: &DispatchError) {
        for waiter in std::mem::take(&mut self.open).into_values().flat_map(|open| open.waiters) {
            reply(ctx, waiter.to, Err(error.clone()));
        }
        self.timers.clear();
        self.sends.clear();
        self.polls.clear();
    }

    /// The pool lives in another incarnation, which may have forgotten accepted dispatches: all are sent again.
    pub(in crate::core) fn resubmit(&mut self) {
        for open in self.open.values_mut() {
            if let Some(item) = open.item.clone().filter(|_| open.accepted && !open.under_way) {
                (open.accepted, open.under_way) = (false, true);
                self.sends.push(item);
            }
        }
    }
}
