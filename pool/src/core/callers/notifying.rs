//! Notifications on their way to their jobs, and those that start their jobs.
//!
//! A notification that was not answered is sent again, so it may be kept twice. One that starts its job does so under one
//! dispatch: sent again, it starts no second job, and the job that it has started gets it once.

use bytes::Bytes;

use super::request::{Request, Starting, Want, bad_record};
use super::requests::{Requests, send};
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::ReplyTo;
use crate::core::ring::Ring;
use crate::core::time::Time;
use crate::error::{DispatchError, Error};
use crate::model::id::JobKey;
use crate::store::{
    DispatchItem, Notify, NotifyItem, NotifyOrStart, NotifyOrStartItem, NotifyOrStartReply, NotifyReply,
    StoreError,
};

impl Requests {
    /// `start`: the job that is started with it if there is none.
    pub(in crate::core) fn notify(
        &mut self,
        to: ReplyTo,
        key: JobKey,
        body: Bytes,
        start: Option<DispatchItem>,
        ring: &Ring,
        deadline: Time,
    ) {
        self.timers.insert((deadline, to));
        let owner = ring.home(key.as_bytes());
        let sends = if start.is_some() { &mut self.starts } else { &mut self.notes };
        sends.push(to);
        let start = start.map(|item| Box::new(Starting { item, in_doubt: false }));
        self.open.insert(to, Request::new(key, Want::Notify { body, start }, owner, deadline));
    }

    pub(in crate::core) fn on_notified(&mut self, ctx: &mut Ctx, replies: &[NotifyReply]) {
        self.notes.answered();
        for (to, reply) in std::mem::take(&mut self.in_flight.notes).into_iter().zip(replies) {
            match reply {
                NotifyReply::Kept => self.finish(ctx, to, Ok(())),
                NotifyReply::Full => self.refuse(ctx, to, Error::NotifyFull),
                NotifyReply::Absent => self.refuse(ctx, to, Error::JobNotFound),
                NotifyReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
                NotifyReply::Owner(owner) => {
                    if let Some(request) = self.open.get_mut(&to) {
                        request.owner = *owner;
                        self.notes.push(to);
                    }
                }
                NotifyReply::Recovering => self.wait_until(to, Some(ctx.now + RETRY)),
            }
        }
    }

    /// Returns whether the server's clock must be read again.
    pub(in crate::core) fn on_notified_or_started(
        &mut self,
        ctx: &mut Ctx,
        replies: &[NotifyOrStartReply],
    ) -> bool {
        self.starts.answered();
        let mut late = false;
        for (to, reply) in std::mem::take(&mut self.in_flight.starts).into_iter().zip(replies) {
            let not_started = |error| Err(Error::NotStarted(Box::new(error)));
            match reply {
                // A job that has ended was accepted with it, by a call without an answer.
                NotifyOrStartReply::Kept | NotifyOrStartReply::Accepted | NotifyOrStartReply::Ended => {
                    self.finish(ctx, to, Ok(()));
                }
                NotifyOrStartReply::Full => self.refuse(ctx, to, Error::NotifyFull),
                NotifyOrStartReply::PoolFull => {
                    self.finish(ctx, to, not_started(DispatchError::PoolFull));
                }
                NotifyOrStartReply::OutOfTokens => {
                    self.finish(ctx, to, not_started(DispatchError::OutOfTokens));
                }
                NotifyOrStartReply::ShuttingDown => self.finish(ctx, to, Err(Error::ShuttingDown)),
                NotifyOrStartReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
                NotifyOrStartReply::Owner(owner) => {
                    if let Some(request) = self.open.get_mut(&to) {
                        request.owner = *owner;
                        self.starts.push(to);
                    }
                }
                NotifyOrStartReply::Stopping | NotifyOrStartReply::Recovering => {
                    self.wait_until(to, Some(ctx.now + RETRY));
                }
                NotifyOrStartReply::Late => {
                    late = true;
                    self.on_late(ctx, to);
                }
            }
        }
        late
    }

    /// The time that the first sending named has passed. A job that may have been accepted may also have ended and been
    /// forgotten. Any other is sent with a new time, from a new reading of the server's clock.
    fn on_late(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        let Some(Request { want: Want::Notify { start: Some(start), .. }, .. }) = self.open.get_mut(&to)
        else {
            return;
        };
        if start.in_doubt {
            return self.time_out(ctx, to);
        }
        start.item.not_after = 0;
        self.wait_until(to, Some(ctx.now + RETRY));
    }

    pub(in crate::core) fn send_notes_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.in_flight.notes);
        let (whole, key) = (items.len(), self.first(&items));
        let items = self.refused(ctx, items, error);
        (self.notes.failed(ctx.now, items, whole, error), key)
    }

    /// `unanswered`: they may have been carried out.
    pub(in crate::core) fn send_starts_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
        unanswered: bool,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.in_flight.starts);
        let (whole, key) = (items.len(), self.first(&items));
        let items = self.refused(ctx, items, error);
        for to in &items {
            if let Some(Request { want: Want::Notify { start: Some(start), .. }, .. }) = self.open.get_mut(to)
            {
                start.in_doubt |= unanswered;
            }
        }
        (self.starts.failed(ctx.now, items, whole, error), key)
    }

    pub(super) fn flush_notes(&mut self, ctx: &mut Ctx) {
        let bytes = |to: &ReplyTo| self.open.get(to).map_or(0, Request::bytes);
        let Some(batch) = self.notes.batch(ctx.now, bytes) else { return };
        let open = |to: &ReplyTo| {
            let r = self.open.get(to)?;
            let Want::Notify { body, .. } = &r.want else { return None };
            Some((*to, NotifyItem { key: r.key.clone(), guess: r.owner, body: body.clone() }))
        };
        let (tos, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(open).unzip();
        self.in_flight.notes = tos;
        send(ctx, &mut self.notes, items, |items| Call::Notify(Notify { items }));
    }

    /// Each item names the worker of a new job, so the job needs no router if the ring has not changed.
    #[inline]
    pub(in crate::core) fn flush_starts(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        not_after: impl Fn(Time) -> u64,
    ) {
        // Most nodes have none.
        if !self.open.is_empty() {
            self.flush_open_starts(ctx, ring, not_after);
        }
    }

    fn flush_open_starts(&mut self, ctx: &mut Ctx, ring: &Ring, not_after: impl Fn(Time) -> u64) {
        let bytes = |to: &ReplyTo| self.open.get(to).map_or(0, Request::bytes);
        let Some(batch) = self.starts.batch(ctx.now, bytes) else { return };
        let mut open = |to: &ReplyTo| {
            let r = self.open.get_mut(to)?;
            let Want::Notify { body, start: Some(start) } = &mut r.want else { return None };
            if start.item.not_after == 0 {
                start.item.not_after = not_after(r.deadline);
            }
            let worker = ring.pick(r.key.as_bytes(), 0);
            let start = DispatchItem { worker, ..start.item.clone() };
            Some((*to, NotifyOrStartItem { start, guess: r.owner, body: body.clone() }))
        };
        let (tos, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(&mut open).unzip();
        self.in_flight.starts = tos;
        let ring = ring.revision();
        send(ctx, &mut self.starts, items, |items| Call::NotifyOrStart(NotifyOrStart { ring, items }));
    }
}
