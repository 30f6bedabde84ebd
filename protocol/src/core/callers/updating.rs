//! Payloads on their way to jobs. The record is looked at first, because an update names the dispatch and the generation
//! that it follows. So a late copy changes nothing.
//!
//! A record that was read in phase R says nothing: the next report of a worker may replace it with the job that really
//! runs. No step of that phase takes an update, so nothing is lost by a look after it.
//!
//! An update whose call had no answer may have been carried out. It is sent again unchanged. The answer to that tells:
//! - the job has the payload: the update was carried out, now or before;
//! - it has the next generation with another payload: others have updated it, and this update never was or will be carried
//!   out. So it is made anew;
//! - it has a later generation: others had the last word, whether this update came before theirs or not. It counts as
//!   done, with the generation that it would have had;
//! - the dispatch is gone: the key may have another one. Whether the update was carried out before, nothing tells. So it is
//!   not made anew, and the caller hears that it is in doubt.
//!
//! A caller who named a generation hears of the conflict in the last two cases.

use bytes::Bytes;

use super::line::Kind;
use super::request::{Request, Want, bad_record};
use super::requests::Requests;
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::{Answer, ReplyTo};
use crate::error::Error;
use crate::model::id::DispatchId;
use crate::model::record::Record;
use crate::step;
use crate::step::{Lookup, UpdateItem, UpdateReply};

/// An update on its way.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) payload: Bytes,
    /// The dispatch that the job must be.
    pub(super) of: Option<DispatchId>,
    /// The generation that the job must have.
    pub(super) expected: Option<u64>,
    /// The dispatch and the generation that it follows, once they are known.
    pub(super) follows: Option<(DispatchId, u64)>,
}

impl Requests {
    pub(super) fn on_found_to_update(&mut self, ctx: &mut Ctx, to: ReplyTo, found: Lookup, settled: bool) {
        let Some(request) = self.open.get_mut(&to) else { return };
        let Want::Update(update) = &mut request.want else { return };
        let sent = update.follows.as_ref().filter(|_| request.in_doubt).map(|(id, _)| id);
        match found.record {
            _ if !settled => self.retry(ctx, to),
            Some(record) if sent.is_some_and(|sent| *sent == record.id) => self.push(Kind::Update, to),
            Some(_) if sent.is_some() => self.refuse(ctx, to, Error::UpdateInDoubt),
            Some(Record { id, .. }) if update.of.as_ref().is_some_and(|of| !of.is_same(&id)) => {
                self.refuse(ctx, to, |key| Error::OtherDispatch { key, id });
            }
            Some(record) => {
                let generation = update.expected.unwrap_or_else(|| record.generation());
                update.follows = Some((record.id, generation));
                self.redirect(Kind::Update, to, record.owner);
            }
            None if found.bad => self.refuse(ctx, to, |key| bad_record(&key)),
            None => self.refuse(ctx, to, Error::JobNotFound),
        }
    }

    pub(super) fn on_updated(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: UpdateReply) {
        let Some(Request { want: Want::Update(update), in_doubt, .. }) = self.open.get_mut(&to) else {
            return;
        };
        let next = update.follows.as_ref().map_or(0, |(_, followed)| followed + 1);
        match reply {
            UpdateReply::Kept(generation) | UpdateReply::Equal(generation) => {
                self.reply(ctx, to, Answer::Updated(Ok(generation)));
            }
            // The job has another payload, of this generation.
            UpdateReply::Conflict(generation) if update.expected.is_some() => {
                self.refuse(ctx, to, |key| Error::OtherGeneration { key, generation });
            }
            UpdateReply::Conflict(generation) if *in_doubt && generation > next => {
                self.reply(ctx, to, Answer::Updated(Ok(next)));
            }
            UpdateReply::Absent if *in_doubt => self.push(Kind::FindToUpdate, to),
            // The record has changed since it was looked at.
            UpdateReply::Conflict(_) | UpdateReply::Absent => {
                (update.follows, *in_doubt) = (None, false);
                self.push(Kind::FindToUpdate, to);
            }
            UpdateReply::Stopping => self.refuse(ctx, to, Error::JobNotFound),
            // A record that runs nowhere is damaged. The owners' looks at their records mend it.
            UpdateReply::Recovering | UpdateReply::Owner(None) => self.retry(ctx, to),
            UpdateReply::Owner(owner) => self.redirect(Kind::Update, to, owner),
            UpdateReply::TooLong => {
                let (what, len) = ("the payload", update.payload.len());
                let max = ctx.config.settings.payload_max as usize;
                self.refuse(ctx, to, |_| Error::TooLong { what, len, max });
            }
            UpdateReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
        }
    }

    pub(super) fn flush_updates(&mut self, ctx: &mut Ctx) {
        let bytes = |request: &Request| match &request.want {
            Want::Update(update) => update.payload.len() + 512,
            _ => 0,
        };
        let item = |request: &mut Request| {
            let Request { key, want: Want::Update(update), owner, .. } = request else { return None };
            let (id, generation) = update.follows.clone()?;
            let (key, payload) = (key.clone(), update.payload.clone());
            Some(UpdateItem { key, id, generation, guess: *owner, payload })
        };
        self.send(ctx, Kind::Update, bytes, item, |_, items| {
            Call::Update(step::Update { turn: None, items })
        });
    }
}
