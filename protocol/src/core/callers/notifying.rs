//! Notifications on their way to their jobs, and those that start their jobs.
//!
//! A notification that was not answered is sent again, so it may be kept twice. One that starts its job does so under one
//! dispatch: sent again, it starts no second job, and the job that it has started gets it once.

use super::line::Kind;
use super::request::{Request, Want, bad_record};
use super::requests::Requests;
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::ReplyTo;
use crate::core::ring::Ring;
use crate::core::time::Time;
use crate::error::{DispatchError, Error};
use crate::step::{
    DispatchItem, Notify, NotifyItem, NotifyOrStart, NotifyOrStartItem, NotifyOrStartReply, NotifyReply,
};

/// The bytes that a notification brings into a call, besides its key.
fn bytes(request: &Request) -> usize {
    let Want::Notify { body, start } = &request.want else { return 0 };
    body.len() + start.as_ref().map_or(0, |start| start.payload.len())
}

impl Requests {
    pub(super) fn on_notified(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: NotifyReply) {
        match reply {
            NotifyReply::Kept => self.done(ctx, to),
            NotifyReply::Full => self.refuse(ctx, to, Error::NotifyFull),
            NotifyReply::Absent => self.refuse(ctx, to, Error::JobNotFound),
            NotifyReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
            NotifyReply::Owner(owner) => self.redirect(Kind::Notify, to, owner),
            NotifyReply::Recovering => self.retry(ctx, to),
        }
    }

    pub(super) fn on_notified_or_started(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: NotifyOrStartReply) {
        let not_started = |error| Error::NotStarted(Box::new(error));
        match reply {
            // A job that has ended was accepted with it, by a call without an answer.
            NotifyOrStartReply::Kept | NotifyOrStartReply::Accepted | NotifyOrStartReply::Ended => {
                self.done(ctx, to);
            }
            NotifyOrStartReply::Full => self.refuse(ctx, to, Error::NotifyFull),
            NotifyOrStartReply::PoolFull => self.refuse(ctx, to, |_| not_started(DispatchError::PoolFull)),
            NotifyOrStartReply::OutOfTokens => {
                self.refuse(ctx, to, |_| not_started(DispatchError::OutOfTokens));
            }
            NotifyOrStartReply::ShuttingDown => self.refuse(ctx, to, |_| Error::ShuttingDown),
            NotifyOrStartReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
            NotifyOrStartReply::Owner(owner) => self.redirect(Kind::Start, to, owner),
            NotifyOrStartReply::Stopping | NotifyOrStartReply::Recovering => self.retry(ctx, to),
            NotifyOrStartReply::Late => {
                self.is_late = true;
                self.on_late(ctx, to);
            }
        }
    }

    /// The time that the first sending named has passed. A job that may have been accepted may also have ended and been
    /// forgotten. Any other is sent with a new time, from a new reading of the server's clock.
    fn on_late(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        let Some(Request { want: Want::Notify { start: Some(start), .. }, in_doubt, .. }) =
            self.open.get_mut(&to)
        else {
            return;
        };
        if *in_doubt {
            return self.time_out(ctx, to);
        }
        start.not_after = 0;
        self.retry(ctx, to);
    }

    pub(super) fn flush_notes(&mut self, ctx: &mut Ctx) {
        let item = |request: &mut Request| {
            let Want::Notify { body, .. } = &request.want else { return None };
            Some(NotifyItem { key: request.key.clone(), guess: request.owner, body: body.clone() })
        };
        self.send(ctx, Kind::Notify, bytes, item, |_, items| Call::Notify(Notify { items }));
    }

    /// Each item names the worker of a new job, so the job needs no router if the ring has not changed.
    pub(super) fn flush_starts(&mut self, ctx: &mut Ctx, ring: &Ring, not_after: impl Fn(Time) -> u64) {
        let item = |request: &mut Request| {
            let Want::Notify { body, start: Some(start) } = &mut request.want else { return None };
            if start.not_after == 0 {
                start.not_after = not_after(request.deadline);
            }
            let worker = ring.pick(request.key.as_bytes(), 0);
            let start = DispatchItem { worker, awaited: false, ..(**start).clone() };
            Some(NotifyOrStartItem { start, guess: request.owner, body: body.clone() })
        };
        let ring = ring.revision();
        self.send(ctx, Kind::Start, bytes, item, |_, items| {
            Call::NotifyOrStart(NotifyOrStart { ring, items })
        });
    }
}
