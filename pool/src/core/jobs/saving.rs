//! Checkpoints on their way to the store (a part of [`Jobs`]).
//!
//! The newest checkpoint of a job waits while a call is in flight, in place of the one before. Without a timer and
//! without a throttle, the last one is never left out. The newest one stays here as long as the job does: after a loss
//! of data it is saved again.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Jobs;
use super::unsaid::Word;
use crate::core::batcher::{Batcher, is_of_an_item};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::mutation::Mutation;
use crate::store::{Checkpoint, SaveItem, SaveReply, StoreError};

/// The newest checkpoint of a job.
#[derive(Debug)]
struct Newest {
    /// The token under which it was given.
    given: Token,
    number: u64,
    bytes: Bytes,
    /// The store has it.
    kept: bool,
    /// It waits for the next call.
    waits: bool,
}

/// The checkpoints of a worker's jobs.
#[derive(Debug, Default)]
pub(super) struct Saves {
    newest: BTreeMap<(JobKey, Token), Newest>,
    lane: Batcher<(JobKey, Token)>,
}

impl Saves {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.lane.deadline()
    }

    /// Puts the job's newest checkpoint into the next call.
    fn line_up(&mut self, id: &(JobKey, Token)) {
        if let Some(newest) = self.newest.get_mut(id)
            && !std::mem::replace(&mut newest.waits, true)
        {
            self.lane.push(id.clone());
        }
    }

    /// These were not saved: each waits again, unless a newer one waits by now.
    fn wait_again(&mut self, items: Vec<SaveItem>) -> Vec<(JobKey, Token)> {
        let ids = items.into_iter().map(|item| (item.key, item.token));
        let again = |id: &(JobKey, Token)| {
            self.newest.get_mut(id).is_some_and(|newest| !std::mem::replace(&mut newest.waits, true))
        };
        ids.filter(again).collect()
    }
}

impl Jobs {
    /// The handler has given a checkpoint.
    pub(super) fn checkpoint(
        &mut self,
        ctx: &mut Ctx,
        key: &JobKey,
        token: Token,
        number: u64,
        bytes: Bytes,
    ) {
        if !self.is_here(key, token) {
            return ctx.out.push(Effect::NotSaved { worker: self.worker, key: key.clone(), token });
        }
        let id = (key.clone(), token);
        let waits = self.saves.newest.get(&id).is_some_and(|newest| newest.waits);
        let newest = Newest { given: token, number, bytes, kept: false, waits };
        self.saves.newest.insert(id.clone(), newest);
        self.saves.line_up(&id);
        if !ctx.config.broken.has(Mutation::ReleaseBeforeCheckpoint) {
            self.unsaid.add(id, Word::Checkpoint);
        }
    }

    /// A job was begun that a former owner has left a checkpoint for.
    pub(super) fn inherit(&mut self, key: &JobKey, token: Token, checkpoint: &Checkpoint) {
        let Checkpoint { token: given, number, bytes, .. } = checkpoint;
        let newest =
            Newest { given: *given, number: *number, bytes: bytes.clone(), kept: true, waits: false };
        self.saves.newest.insert((key.clone(), token), newest);
    }

    /// The data may have gone back, and the job has its record: its checkpoint is saved again, before its release.
    pub(super) fn save_again(&mut self, ctx: &Ctx, id: &(JobKey, Token)) {
        if self.saves.newest.contains_key(id) && !ctx.config.broken.has(Mutation::StateNotSavedAgain) {
            self.saves.line_up(id);
            self.unsaid.add(id.clone(), Word::Checkpoint);
        }
    }

    /// The job has left this worker's hands, or ends here.
    pub(super) fn forget_checkpoint(&mut self, ctx: &mut Ctx, id: &(JobKey, Token)) {
        if self.saves.newest.is_empty() {
            return;
        }
        if let Some(newest) = self.saves.newest.remove(id) {
            self.not_saved(ctx, id, &newest);
            if let Some(release) = self.unsaid.said(id.clone(), Word::Checkpoint) {
                self.releases.push(release);
            }
        }
    }

    fn not_saved(&self, ctx: &mut Ctx, (key, token): &(JobKey, Token), newest: &Newest) {
        if newest.given == *token && !newest.kept {
            ctx.out.push(Effect::NotSaved { worker: self.worker, key: key.clone(), token: *token });
        }
    }

    /// The worker is fenced: the next owners get what was kept.
    pub(super) fn drop_checkpoints(&mut self, ctx: &mut Ctx) {
        let saves = std::mem::take(&mut self.saves.newest);
        for (id, newest) in &saves {
            self.not_saved(ctx, id, newest);
        }
        self.saves.lane.clear();
    }

    pub(super) fn flush_saves(&mut self, ctx: &mut Ctx) {
        let Saves { newest, lane } = &mut self.saves;
        let size = |id: &(JobKey, Token)| id.0.as_bytes().len() + newest.get(id).map_or(0, |n| n.bytes.len());
        let Some(ids) = lane.batch(ctx.now, size) else { return };
        let item = |(key, token): (JobKey, Token)| {
            let id = (key, token);
            let newest = newest.get_mut(&id)?;
            newest.waits = false;
            let (given, number, bytes) = (newest.given, newest.number, newest.bytes.clone());
            Some(SaveItem { key: id.0, token, given, number, bytes })
        };
        let items: Vec<_> = ids.into_iter().filter_map(item).collect();
        if items.is_empty() {
            return lane.answered();
        }
        ctx.call(Call::Save { worker: self.worker, items });
    }

    pub(in crate::core) fn on_saved(&mut self, ctx: &mut Ctx, items: Vec<SaveItem>, replies: &[SaveReply]) {
        let mut again = Vec::new();
        for (item, reply) in items.into_iter().zip(replies) {
            let id = (item.key.clone(), item.token);
            match reply {
                SaveReply::Kept => self.kept(ctx, &id, &item),
                // The job has no record yet, or an old one. Only the worker's report gives it one.
                SaveReply::Recovering | SaveReply::Stale if self.attesting.is_some() => {
                    if self.is_here(&id.0, id.1) {
                        again.push(item);
                    } else {
                        self.give_up_waiting(id);
                    }
                }
                SaveReply::Recovering | SaveReply::Stale | SaveReply::TooLong => {
                    self.forget_checkpoint(ctx, &id);
                }
            }
        }
        let again = self.saves.wait_again(again);
        if again.is_empty() {
            self.saves.lane.answered();
        } else {
            self.saves.lane.put_back(ctx.now, again);
        }
    }

    fn kept(&mut self, ctx: &mut Ctx, id: &(JobKey, Token), item: &SaveItem) {
        let Some(newest) = self.saves.newest.get_mut(id) else { return };
        let is_newest = (newest.given, newest.number) == (item.given, item.number);
        newest.kept |= is_newest;
        if item.given == id.1 {
            let (worker, key, token, number) = (self.worker, id.0.clone(), id.1, item.number);
            ctx.out.push(Effect::Saved { worker, key, token, number });
        }
        if is_newest && !newest.waits {
            self.give_up_waiting(id.clone());
        }
    }

    /// The release of this job no longer waits for its checkpoint.
    fn give_up_waiting(&mut self, id: (JobKey, Token)) {
        if let Some(release) = self.unsaid.said(id, Word::Checkpoint) {
            self.releases.push(release);
        }
    }

    /// A call has no answer, or failed. Where the store refuses a checkpoint itself, its job does not wait for that any
    /// longer when it is to leave. Returns whether the error is news.
    pub(in crate::core) fn save_failed(
        &mut self,
        ctx: &mut Ctx,
        items: Vec<SaveItem>,
        error: &StoreError,
    ) -> bool {
        let whole = items.len();
        let unusable = matches!(error, StoreError::Unusable(_));
        let refused = unusable || error.is_full() || is_of_an_item(error) && whole == 1;
        let mut stays = Vec::with_capacity(items.len());
        for item in items {
            let id = (item.key.clone(), item.token);
            if refused && self.releasing.contains_key(&id) {
                ctx.report(Notice::NotSaved { key: id.0.clone(), error: error.clone() });
                self.forget_checkpoint(ctx, &id);
            } else {
                stays.push(item);
            }
        }
        let stays = self.saves.wait_again(stays);
        self.saves.lane.failed(ctx.now, stays, whole, error)
    }
}
