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

use std::collections::{BTreeMap, BTreeSet};

use super::refusing::split;
use super::request::bad_record;
use crate::core::batcher::Batcher;
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::{Answer, NewUpdate, ReplyTo};
use crate::core::time::{Time, earliest};
use crate::error::Error;
use crate::model::id::{DispatchId, Incarnation, JobKey, WorkerId};
use crate::model::record::Record;
use crate::store;
use crate::store::{LookUp, Lookup, Refusal, StoreError, UpdateItem, UpdateReply};

/// One open update.
#[derive(Debug)]
struct Update {
    new: NewUpdate,
    /// The dispatch and the generation that it follows, once they are known.
    follows: Option<(DispatchId, u64)>,
    owner: Option<WorkerId>,
    /// A call without an answer may have carried it out.
    in_doubt: bool,
    /// When it goes on, if it waits for a time.
    due: Option<Time>,
}

/// The open updates of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Updating {
    open: BTreeMap<ReplyTo, Update>,
    timers: BTreeSet<(Time, ReplyTo)>,
    looks: Batcher<ReplyTo>,
    sends: Batcher<ReplyTo>,
    looking: Vec<ReplyTo>,
    sending: Vec<ReplyTo>,
    /// The incarnation that the records are looked for in, if it was in phase N by then.
    looked_in: Option<Incarnation>,
}

impl Updating {
    pub(in crate::core) fn update(&mut self, to: ReplyTo, new: NewUpdate) {
        self.timers.insert((new.deadline, to));
        self.open.insert(to, Update { new, follows: None, owner: None, in_doubt: false, due: None });
        self.looks.push(to);
    }

    /// Whether any update is open. Most nodes have none in most steps.
    #[inline]
    pub(in crate::core) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Goes on after a pause.
    fn pause(&mut self, now: Time, to: ReplyTo) {
        if let Some(update) = self.open.get_mut(&to) {
            update.due = Some(now + RETRY);
            self.timers.insert((now + RETRY, to));
        }
    }

    /// `normal`: the pool is in phase N. In phase R a key may have another job than its record says, or one without a
    /// record.
    pub(in crate::core) fn on_looked(&mut self, ctx: &mut Ctx, found: Vec<Lookup>, normal: bool) {
        self.looks.answered();
        let settled = normal && self.looked_in == Some(ctx.incarnation);
        for (to, found) in std::mem::take(&mut self.looking).into_iter().zip(found) {
            let Some(update) = self.open.get_mut(&to) else { continue };
            let sent = update.follows.as_ref().filter(|_| update.in_doubt).map(|(id, _)| id.clone());
            match found.record {
                _ if !settled => self.pause(ctx.now, to),
                Some(record) if sent.as_ref().is_some_and(|sent| *sent == record.id) => self.sends.push(to),
                Some(_) if sent.is_some() => self.refuse(ctx, to, Error::UpdateInDoubt),
                Some(Record { id, .. }) if update.new.of.as_ref().is_some_and(|of| !of.is_same(&id)) => {
                    self.refuse(ctx, to, |key| Error::OtherDispatch { key, id });
                }
                Some(record) => {
                    let generation = update.new.expected.unwrap_or_else(|| record.generation());
                    update.owner = record.owner;
                    update.follows = Some((record.id, generation));
                    self.sends.push(to);
                }
                None if found.bad => self.refuse(ctx, to, |key| bad_record(&key)),
                None => self.refuse(ctx, to, Error::JobNotFound),
            }
        }
    }

    pub(in crate::core) fn on_updated(&mut self, ctx: &mut Ctx, replies: &[UpdateReply]) {
        self.sends.answered();
        for (to, reply) in std::mem::take(&mut self.sending).into_iter().zip(replies) {
            let Some(update) = self.open.get_mut(&to) else { continue };
            match *reply {
                UpdateReply::Kept(generation) | UpdateReply::Equal(generation) => {
                    self.finish(ctx, to, Ok(generation));
                }
                UpdateReply::Conflict(generation) => self.on_conflict(ctx, to, generation),
                UpdateReply::Absent if !update.in_doubt => self.look_anew(to),
                UpdateReply::Absent => self.looks.push(to),
                UpdateReply::Stopping => self.refuse(ctx, to, Error::JobNotFound),
                // A record that runs nowhere is damaged. The owners' looks at their records mend it.
                UpdateReply::Recovering | UpdateReply::Owner(None) => self.pause(ctx.now, to),
                UpdateReply::Owner(owner) => {
                    update.owner = owner;
                    self.sends.push(to);
                }
                UpdateReply::TooLong => {
                    let (what, len) = ("the payload", update.new.payload.len());
                    let max = ctx.config.settings.payload_max as usize;
                    self.finish(ctx, to, Err(Error::TooLong { what, len, max }));
                }
                UpdateReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
            }
        }
    }

    /// The job has another payload, of this generation.
    fn on_conflict(&mut self, ctx: &mut Ctx, to: ReplyTo, generation: u64) {
        let Some(update) = self.open.get_mut(&to) else { return };
        let next = update.follows.as_ref().map_or(0, |(_, followed)| followed + 1);
        if update.new.expected.is_some() {
            self.refuse(ctx, to, |key| Error::OtherGeneration { key, generation });
        } else if update.in_doubt && generation > next {
            self.finish(ctx, to, Ok(next));
        } else {
            self.look_anew(to);
        }
    }

    /// The record has changed since it was looked at.
    fn look_anew(&mut self, to: ReplyTo) {
        if let Some(update) = self.open.get_mut(&to) {
            (update.follows, update.in_doubt) = (None, false);
            self.looks.push(to);
        }
    }

    /// Returns whether the error is news, and the key of the first job.
    pub(in crate::core) fn look_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.looking);
        let (whole, key) = (items.len(), self.first(&items));
        let items = self.refused(ctx, items, error);
        (self.looks.failed(ctx.now, items, whole, error), key)
    }

    /// The same for updates. `unanswered`: they may have been carried out.
    pub(in crate::core) fn send_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
        unanswered: bool,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.sending);
        let (whole, key) = (items.len(), self.first(&items));
        let items = self.refused(ctx, items, error);
        for to in &items {
            if let Some(update) = self.open.get_mut(to) {
                update.in_doubt |= unanswered;
            }
        }
        (self.sends.failed(ctx.now, items, whole, error), key)
    }

    /// As [`Requests::refused`](super::requests::Requests::refused).
    fn refused(&mut self, ctx: &mut Ctx, items: Vec<ReplyTo>, error: &StoreError) -> Vec<ReplyTo> {
        let in_doubt = |to: &ReplyTo| self.open.get(to).is_some_and(|update| update.in_doubt);
        let (again, refused) = split(items, error, in_doubt);
        for to in refused {
            self.finish(ctx, to, Err(error.clone().into()));
        }
        again
    }

    fn first(&self, items: &[ReplyTo]) -> Option<JobKey> {
        Some(self.open.get(items.first()?)?.new.key.clone())
    }

    /// Answers with a refusal that names the job.
    fn refuse(&mut self, ctx: &mut Ctx, to: ReplyTo, why: impl FnOnce(JobKey) -> Error) {
        if let Some(update) = self.open.get(&to) {
            let why = why(update.new.key.clone());
            self.finish(ctx, to, Err(why));
        }
    }

    fn finish(&mut self, ctx: &mut Ctx, to: ReplyTo, result: Result<u64, Error>) {
        if self.close(to) {
            ctx.reply(to, Answer::Updated(result));
        }
    }

    /// Returns whether it was open.
    fn close(&mut self, to: ReplyTo) -> bool {
        let Some(update) = self.open.remove(&to) else { return false };
        self.timers.remove(&(update.new.deadline, to));
        if let Some(due) = update.due {
            self.timers.remove(&(due, to));
        }
        true
    }

    /// The deadline of an update has passed.
    fn time_out(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        if ctx.pool_is_gone {
            return self.finish(ctx, to, Err(StoreError::Refused(Refusal::NoPool).into()));
        }
        if self.close(to) {
            ctx.reply(to, Answer::Late { stopping: None });
        }
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, why: &Error) {
        while let Some((&to, _)) = self.open.first_key_value() {
            self.finish(ctx, to, Err(why.clone()));
        }
        let _ = [&mut self.looks, &mut self.sends].map(Batcher::clear);
    }

    fn on_time(&mut self, ctx: &mut Ctx) {
        let mut some_ended = false;
        while let Some((at, to)) = self.timers.first().copied().filter(|(at, _)| *at <= ctx.now) {
            self.timers.remove(&(at, to));
            let Some(update) = self.open.get_mut(&to) else { continue };
            if ctx.now >= update.new.deadline {
                self.time_out(ctx, to);
                some_ended = true;
            } else {
                update.due = None;
                if update.follows.is_some() { self.sends.push(to) } else { self.looks.push(to) }
            }
        }
        if some_ended {
            for batcher in [&mut self.looks, &mut self.sends] {
                batcher.retain(|to| self.open.contains_key(to));
            }
        }
    }

    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, may_send: bool) {
        self.on_time(ctx);
        if !may_send {
            return;
        }
        if let Some(batch) = self.looks.batch(ctx.now, |_| 512) {
            let key = |to: &ReplyTo| Some((*to, self.open.get(to)?.new.key.clone()));
            let (tos, keys): (_, Vec<_>) = batch.iter().filter_map(key).unzip();
            (self.looking, self.looked_in) = (tos, ctx.settled_in());
            ctx.call(Call::LookToUpdate(LookUp::of_keys(keys)));
        }
        let bytes = |to: &ReplyTo| self.open.get(to).map_or(0, |update| update.new.payload.len() + 512);
        if let Some(batch) = self.sends.batch(ctx.now, bytes) {
            let item = |to: &ReplyTo| {
                let Update { new, follows, owner, .. } = self.open.get(to)?;
                let (id, generation) = follows.clone()?;
                let (key, payload) = (new.key.clone(), new.payload.clone());
                Some((*to, UpdateItem { key, id, generation, guess: *owner, payload }))
            };
            let (tos, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(item).unzip();
            self.sending = tos;
            ctx.call(Call::Update(store::Update { turn: None, items }));
        }
    }

    pub(in crate::core) fn deadline(&self, may_send: bool) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        if !may_send {
            return timer;
        }
        [self.looks.deadline(), self.sends.deadline()].into_iter().fold(timer, earliest)
    }
}
