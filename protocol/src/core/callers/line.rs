//! The calls about requests. Those of one kind form a line: one call is in flight, and requests that come meanwhile wait
//! for the next. Each request of a call is handed its reply, or the failure of the call.

use super::request::Request;
use super::requests::Requests;
use crate::core::batcher::{Batcher, is_of_an_item, may_be_done};
use crate::core::call::{Call, Done};
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::ReplyTo;
use crate::error::Error;
use crate::model::id::Incarnation;
use crate::step::{Lookup, Refusal, Result, Stop, StoreError};

/// The kinds of calls about requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Find,
    Stop,
    Notify,
    /// Notifications that may start their jobs.
    Start,
    Unpark,
    Steer,
    FindToUpdate,
    Update,
    FindAsked,
    Ask,
}

impl Kind {
    /// The number of kinds.
    pub(super) const COUNT: usize = Self::Ask as usize + 1;

    /// A look changes nothing.
    pub(super) fn is_look(self) -> bool {
        matches!(self, Self::Find | Self::FindToUpdate | Self::FindAsked)
    }
}

/// The calls of one kind.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) waiting: Batcher<ReplyTo>,
    /// The request of each item of the call in flight, in order.
    in_flight: Vec<ReplyTo>,
    /// The incarnation that the call in flight was sent in, if it was in phase N by then.
    settled_in: Option<Incarnation>,
}

impl Requests {
    pub(super) fn push(&mut self, kind: Kind, to: ReplyTo) {
        self.lines[kind as usize].waiting.push(to);
    }

    /// Sends the next call of this kind, if it is due. A request without an item drops out.
    pub(super) fn send<I>(
        &mut self,
        ctx: &mut Ctx,
        kind: Kind,
        bytes: impl Fn(&Request) -> usize,
        mut item: impl FnMut(&mut Request) -> Option<I>,
        call: impl FnOnce(&Ctx, Vec<I>) -> Call,
    ) {
        let (open, line) = (&mut self.open, &mut self.lines[kind as usize]);
        let Some(batch) = line.waiting.batch(ctx.now, |to| open.get(to).map_or(0, &bytes)) else { return };
        let item = |to| Some((to, item(open.get_mut(&to)?)?));
        let (in_flight, items): (_, Vec<_>) = batch.into_iter().filter_map(item).unzip();
        (line.in_flight, line.settled_in) = (in_flight, ctx.settled_in());
        if items.is_empty() {
            line.waiting.answered();
        } else {
            let call = call(ctx, items);
            ctx.call(call);
        }
    }

    /// Takes the answer to a call. `normal`: the pool is in phase N.
    pub(in crate::core) fn on_done(&mut self, ctx: &mut Ctx, done: Done, normal: bool) -> Result<()> {
        match done {
            Done::FindOwners(_, found) => self.found(ctx, Kind::Find, normal, found, Self::on_found),
            Done::Stop(Stop { repeat: true, items, .. }, answer) => self.on_stopped_again(ctx, items, answer),
            Done::Stop(_, answer) => self.each(ctx, Kind::Stop, answer, Self::on_stopped),
            Done::Notify(_, answer) => self.each(ctx, Kind::Notify, answer, Self::on_notified),
            Done::NotifyOrStart(_, answer) => {
                self.each(ctx, Kind::Start, answer, Self::on_notified_or_started)
            }
            Done::Unpark(_, answer) => self.each(ctx, Kind::Unpark, answer, Self::on_unparked),
            Done::Steer(_, answer) => self.each(ctx, Kind::Steer, answer, Self::on_steered),
            Done::LookToUpdate(_, found) => {
                self.found(ctx, Kind::FindToUpdate, normal, found, Self::on_found_to_update)
            }
            Done::Update(_, answer) => self.each(ctx, Kind::Update, answer, Self::on_updated),
            Done::LookAtAsked(_, found) => {
                self.found(ctx, Kind::FindAsked, normal, found, Self::on_found_asked)
            }
            Done::Ask(_, answer) => self.each(ctx, Kind::Ask, answer, Self::on_asked),
            _ => Ok(()),
        }
    }

    /// Hands each request the record that was found, and whether the look is of phase N. In phase R a key may have
    /// another job than its record says, or one without a record.
    fn found(
        &mut self,
        ctx: &mut Ctx,
        kind: Kind,
        normal: bool,
        answer: Result<Vec<Lookup>>,
        on: impl Fn(&mut Self, &mut Ctx, ReplyTo, Lookup, bool),
    ) -> Result<()> {
        let settled = normal && self.lines[kind as usize].settled_in == Some(ctx.incarnation);
        self.each(ctx, kind, answer, |all, ctx, to, found| on(all, ctx, to, found, settled))
    }

    fn each<R>(
        &mut self,
        ctx: &mut Ctx,
        kind: Kind,
        answer: Result<Vec<R>>,
        on: impl Fn(&mut Self, &mut Ctx, ReplyTo, R),
    ) -> Result<()> {
        let steers = matches!(kind, Kind::Unpark | Kind::Steer);
        let replies = match answer {
            Ok(replies) => Some(replies),
            Err(StoreError::Refused(Refusal::ShuttingDown)) if steers => None,
            Err(error) => return self.failed(ctx, kind, error),
        };
        let line = &mut self.lines[kind as usize];
        line.waiting.answered();
        let requests = std::mem::take(&mut line.in_flight);
        match replies {
            Some(replies) => requests.into_iter().zip(replies).for_each(|(to, r)| on(self, ctx, to, r)),
            None => requests.into_iter().for_each(|to| self.refuse(ctx, to, |_| Error::ShuttingDown)),
        }
        Ok(())
    }

    /// The call in flight has failed: its requests go again. The store may also refuse them as a whole, because the user
    /// lacks a right or the memory is full. That ends the requests that no earlier call may have carried out.
    fn failed(&mut self, ctx: &mut Ctx, kind: Kind, error: StoreError) -> Result<()> {
        let items = std::mem::take(&mut self.lines[kind as usize].in_flight);
        let first = items.iter().find_map(|to| self.open.get(to)).map(|request| request.key.clone());
        let (whole, unanswered) = (items.len(), may_be_done(&error));
        let goes = |to: &ReplyTo| self.open.get(to).is_some_and(|request| request.may_be_done(kind));
        let (mut again, refused): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|to| !error.is_refusal() || goes(to));
        for to in refused {
            self.refuse(ctx, to, |_| error.clone().into());
        }
        for to in &again {
            self.open.get_mut(to).into_iter().for_each(|request| request.failed(kind, unanswered));
        }
        if kind == Kind::Unpark && unanswered && !is_of_an_item(&error) {
            // The record tells what has become of them.
            again.drain(..).for_each(|to| self.wait_until(to, Some(ctx.now + RETRY)));
        }
        let news = self.lines[kind as usize].waiting.failed(ctx.now, again, whole, &error);
        ctx.heard(news, first, error)
    }
}
