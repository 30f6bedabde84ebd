//! Checkpoints on their way to the store (a part of [`Jobs`]).
//!
//! The newest checkpoint of a job waits while a call is in flight, in place of the one before. Without a timer and
//! without a throttle, the last one is never left out. The newest one stays here as long as the job does: after a loss
//! of data it is saved again.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Jobs;
use super::unsaid::{Word, Words};
use crate::core::batcher::{Batcher, is_of_an_item};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::stop::StopReason;
use crate::model::unsaved::NotSaved;
use crate::mutation::Mutation;
use crate::step::{Checkpoint, Result, Save, SaveItem, SaveReply, StoreError};

/// A job in this worker's hands.
type Id = (JobKey, Token);

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// No call is due for it now.
    Rests,
    /// It waits for the next call.
    Waits,
    /// The call in flight carries it.
    Goes,
}

/// The newest checkpoint of a job.
#[derive(Debug)]
struct Newest {
    /// The token under which it was given.
    given: Token,
    number: u64,
    bytes: Bytes,
    /// The store has it.
    kept: bool,
    /// The job must end, and its handler was told of the store's refusal.
    told: bool,
    way: Way,
}

impl Newest {
    fn is(&self, item: &SaveItem) -> bool {
        (self.given, self.number) == (item.given, item.number)
    }
}

/// The checkpoints of a worker's jobs.
#[derive(Debug, Default)]
pub(super) struct Saves {
    newest: BTreeMap<Id, Newest>,
    lane: Batcher<Id>,
}

impl Saves {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.lane.deadline()
    }

    /// Puts the job's newest checkpoint into the next call.
    fn line_up(&mut self, id: &Id) {
        if let Some(newest) = self.newest.get_mut(id)
            && std::mem::replace(&mut newest.way, Way::Waits) != Way::Waits
        {
            self.lane.push(id.clone());
        }
    }

    /// Does so, unless it is on its way.
    pub(super) fn wake(&mut self, id: &Id) {
        if self.newest.get(id).is_some_and(|newest| newest.way == Way::Rests) {
            self.line_up(id);
        }
    }

    /// These were not saved: each waits again, unless a newer one waits by now.
    fn wait_again(&mut self, items: Vec<SaveItem>) -> Vec<Id> {
        let ids = items.into_iter().map(|item| (item.key, item.token));
        let mut to_wait = |newest: &mut Newest| std::mem::replace(&mut newest.way, Way::Waits) != Way::Waits;
        ids.filter(|id| self.newest.get_mut(id).is_some_and(&mut to_wait)).collect()
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
        let lost = |why| why == StopReason::LeaseLost;
        let held = self.held.get_mut(key).filter(|held| held.token == token);
        let Some(held) = held.filter(|held| !held.order.as_ref().is_some_and(|order| lost(order.why))) else {
            return self.tell_unsaved(ctx, key.clone(), token, number, NotSaved::JobGone);
        };
        if !ctx.config.broken.has(Mutation::ReleaseBeforeCheckpoint) {
            held.unsaid.add(Word::Checkpoint);
        }
        let id = (key.clone(), token);
        let way = self.saves.newest.get(&id).map_or(Way::Rests, |newest| newest.way);
        let newest = Newest { given: token, number, bytes, kept: false, told: false, way };
        self.saves.newest.insert(id.clone(), newest);
        self.saves.line_up(&id);
    }

    /// A job was begun that a former owner has left a checkpoint for.
    pub(super) fn inherit(&mut self, key: &JobKey, token: Token, checkpoint: Option<&Checkpoint>) {
        let Some(Checkpoint { token: given, number, bytes, .. }) = checkpoint else { return };
        let (given, number, bytes) = (*given, *number, bytes.clone());
        let newest = Newest { given, number, bytes, kept: true, told: false, way: Way::Rests };
        self.saves.newest.insert((key.clone(), token), newest);
    }

    /// The data may have gone back. From now on no job leaves before its checkpoint is saved again. That of a held job
    /// goes when the job is known to have its record. One that is on its way goes once more, because its answer may be
    /// about the lost data.
    pub(super) fn owe_checkpoints(&mut self, ctx: &Ctx) {
        if self.saves.newest.is_empty() || ctx.config.broken.has(Mutation::StateNotSavedAgain) {
            return;
        }
        for id in self.saves.newest.keys().cloned().collect::<Vec<_>>() {
            let goes = self.saves.newest.get(&id).is_some_and(|newest| newest.way == Way::Goes);
            if goes || !self.is_here(&id.0, id.1) {
                self.saves.line_up(&id);
            }
            self.owes(id, Word::Checkpoint);
        }
        let waits = self.releases.take_out(|(item, _)| self.unsaid.holds(&(item.key.clone(), item.token)));
        for release in waits {
            let id = (release.0.key.clone(), release.0.token);
            self.unsaid.hold_back(id, Words::default(), release);
        }
    }

    /// The data may have gone back, and the job has its record: its checkpoint is saved again, before its release.
    pub(super) fn save_again(&mut self, ctx: &Ctx, id: &Id) {
        if self.saves.newest.contains_key(id) && !ctx.config.broken.has(Mutation::StateNotSavedAgain) {
            self.saves.line_up(id);
            self.owes(id.clone(), Word::Checkpoint);
        }
    }

    /// The report after a loss of data is over. Checkpoints of jobs that it gave no record go all the same.
    pub(super) fn save_the_rest(&mut self) {
        for id in self.saves.newest.keys().cloned().collect::<Vec<_>>() {
            let held = self.held.get(&id.0).filter(|held| held.token == id.1);
            if held.is_some_and(|held| held.unsaid.has(Word::Checkpoint)) {
                self.saves.wake(&id);
            }
        }
    }

    /// The job has left this worker's hands, or ends here.
    pub(super) fn forget_checkpoint(&mut self, ctx: &mut Ctx, id: &Id) {
        self.give_up_checkpoint(ctx, id, NotSaved::JobGone);
    }

    fn give_up_checkpoint(&mut self, ctx: &mut Ctx, id: &Id, why: NotSaved) {
        if self.saves.newest.is_empty() {
            return;
        }
        if let Some(newest) = self.saves.newest.remove(id) {
            self.not_saved(ctx, id, &newest, why);
            self.said(id.clone(), Word::Checkpoint);
        }
    }

    /// Those that wait for this checkpoint wait no longer.
    fn not_saved(&self, ctx: &mut Ctx, (key, token): &Id, newest: &Newest, why: NotSaved) {
        if newest.given == *token && !newest.kept {
            self.tell_unsaved(ctx, key.clone(), *token, newest.number, why);
        }
    }

    fn tell_unsaved(&self, ctx: &mut Ctx, key: JobKey, token: Token, number: u64, why: NotSaved) {
        ctx.out.push(Effect::NotSaved { worker: self.worker, key, token, number, why });
    }

    /// The worker is fenced: the next owners get what was kept.
    pub(super) fn drop_checkpoints(&mut self, ctx: &mut Ctx) {
        let saves = std::mem::take(&mut self.saves.newest);
        for (id, newest) in &saves {
            self.not_saved(ctx, id, newest, NotSaved::JobGone);
        }
        self.saves.lane.clear();
    }

    pub(super) fn flush_saves(&mut self, ctx: &mut Ctx) {
        let Saves { newest, lane } = &mut self.saves;
        loop {
            let size = |id: &Id| id.0.as_bytes().len() + newest.get(id).map_or(0, |n| n.bytes.len());
            let Some(ids) = lane.batch(ctx.now, size) else { return };
            let item = |(key, token): Id| {
                let id = (key, token);
                let newest = newest.get_mut(&id).filter(|newest| newest.way == Way::Waits)?;
                newest.way = Way::Goes;
                let (given, number, bytes) = (newest.given, newest.number, newest.bytes.clone());
                Some(SaveItem { key: id.0, token, given, number, bytes })
            };
            let items: Vec<_> = ids.into_iter().filter_map(item).collect();
            if !items.is_empty() {
                return ctx.call(Call::Save(Save { worker: self.worker, items }));
            }
            // All of their jobs have left meanwhile.
            lane.answered();
        }
    }

    pub(in crate::core) fn on_saved(&mut self, ctx: &mut Ctx, items: Vec<SaveItem>, replies: &[SaveReply]) {
        let mut unusable = Vec::new();
        for (item, reply) in items.into_iter().zip(replies) {
            match reply {
                SaveReply::Kept => self.kept(ctx, &item),
                SaveReply::Recovering | SaveReply::Stale => self.not_its_owner(ctx, &item),
                SaveReply::TooLong => self.too_long(ctx, &item),
                SaveReply::Unusable => unusable.push(item),
            }
        }
        if unusable.is_empty() {
            return self.saves.lane.answered();
        }
        let why = NotSaved::Refused("what it has of checkpoints is of another type".into());
        let is_reported = self.refuse(ctx, &unusable, &why);
        if let Some(first) = unusable.first().filter(|_| !is_reported) {
            ctx.report(Notice::NotSaved { key: first.key.clone(), why, others: 0 });
        }
        self.go_on_refused(ctx.now, unusable);
    }

    fn kept(&mut self, ctx: &mut Ctx, item: &SaveItem) {
        let id = (item.key.clone(), item.token);
        let Some(newest) = self.saves.newest.get_mut(&id) else { return };
        let is_newest = newest.is(item);
        newest.kept |= is_newest;
        let settled = is_newest && newest.way != Way::Waits;
        if settled {
            newest.way = Way::Rests;
        }
        if item.given == item.token {
            let (worker, key, token, number) = (self.worker, item.key.clone(), item.token, item.number);
            ctx.out.push(Effect::Saved { worker, key, token, number });
        }
        if settled {
            self.said(id, Word::Checkpoint);
        }
    }

    /// The store does not know the worker as the job's owner. Only the worker's report gives a job of lost data its
    /// record, so the bytes stay for that. The answer concerns no checkpoint that waits by now.
    fn not_its_owner(&mut self, ctx: &mut Ctx, item: &SaveItem) {
        let id = (item.key.clone(), item.token);
        let newest = self.saves.newest.get_mut(&id);
        let Some(newest) = newest.filter(|newest| newest.is(item) && newest.way != Way::Waits) else {
            return;
        };
        newest.way = Way::Rests;
        let held = self.held.get(&id.0).filter(|held| held.token == id.1);
        if let Some(held) = held {
            if self.attesting.is_some() && !held.ends_for_good() {
                return;
            }
            if let Some(newest) = self.saves.newest.get(&id) {
                self.not_saved(ctx, &id, newest, NotSaved::JobGone);
            }
        } else if !ctx.config.broken.has(Mutation::StateNotSavedAgain) && self.needs_record(&id) {
            return;
        }
        self.said(id, Word::Checkpoint);
    }

    /// A leaving job may have lost its record. Then the worker reports it first, saves its checkpoint again, and
    /// releases it after that. Returns whether the checkpoint is still owed.
    fn needs_record(&mut self, id: &Id) -> bool {
        if self.attesting.is_none() {
            return false;
        }
        if let Some(release) = self.unsaid.take_release(id) {
            let is_back = self.take_back(&release.0);
            if !is_back {
                self.unsaid.hold_back(id.clone(), Words::default(), release);
            }
            return is_back;
        }
        // Its release or its report is under way. If the release has no answer, the checkpoint goes before the next one.
        self.releasing.contains_key(id)
    }

    /// The pool's limit is lower by now than it was when the handler gave this.
    fn too_long(&mut self, ctx: &mut Ctx, item: &SaveItem) {
        let id = (item.key.clone(), item.token);
        let max = usize::try_from(ctx.config.settings.checkpoint_max).unwrap_or(usize::MAX);
        let why = NotSaved::TooLong { len: item.bytes.len(), max };
        ctx.report(Notice::NotSaved { key: item.key.clone(), why: why.clone(), others: 0 });
        match self.saves.newest.get(&id) {
            Some(newest) if newest.is(item) => self.give_up_checkpoint(ctx, &id, why),
            _ if item.given == item.token => {
                self.tell_unsaved(ctx, id.0, id.1, item.number, why);
            }
            _ => {}
        }
    }

    /// A call has no answer, or failed.
    pub(in crate::core) fn save_failed(
        &mut self,
        ctx: &mut Ctx,
        items: Vec<SaveItem>,
        error: StoreError,
    ) -> Result<()> {
        let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
        let all = matches!(error, StoreError::Unusable(_)) && !error.is_locked_out() || error.is_full();
        if all || is_of_an_item(&error) && whole == 1 {
            self.refuse(ctx, &items, &NotSaved::Refused(error.with_sources()));
        }
        if all {
            self.go_on_refused(ctx.now, items);
            return ctx.heard(true, first, error);
        }
        let stays = self.saves.wait_again(items);
        if stays.is_empty() {
            self.saves.lane.answered();
            return ctx.heard(true, first, error);
        }
        let news = self.saves.lane.failed(ctx.now, stays, whole, &error);
        ctx.heard(news, first, error)
    }

    /// The store refuses the checkpoints of a call. A newer checkpoint of the same job, or a second sending after a loss of
    /// data, is not refused, and has a call of its own. A leaving job and an ending handler wait no longer for a refused checkpoint. Returns whether a loss was
    /// reported.
    fn refuse(&mut self, ctx: &mut Ctx, items: &[SaveItem], why: &NotSaved) -> bool {
        let mut lost = Vec::new();
        let counts_for_all = ctx.config.broken.has(Mutation::RefusalOfNewest);
        for item in items {
            let id = (item.key.clone(), item.token);
            let newest = self.saves.newest.get_mut(&id);
            let was_sent =
                |newest: &&mut Newest| newest.is(item) && newest.way != Way::Waits || counts_for_all;
            let Some(newest) = newest.filter(was_sent) else { continue };
            match self.held.get(&id.0).filter(|held| held.token == id.1) {
                None => lost.push(id),
                Some(held) if held.order.is_some() => {
                    newest.told = true;
                    if newest.given == id.1 && !newest.kept {
                        self.tell_unsaved(ctx, id.0, id.1, item.number, why.clone());
                    }
                }
                Some(_) => {}
            }
        }
        let Some((key, _)) = lost.first() else { return false };
        let (key, why, others) = (key.clone(), why.clone(), lost.len() - 1);
        ctx.report(Notice::NotSaved { key, why: why.clone(), others });
        for id in &lost {
            self.give_up_checkpoint(ctx, id, why.clone());
        }
        true
    }

    /// The store has refused a call. The checkpoints of leaving jobs go first, and the checkpoints of ending handlers that
    /// have heard of no refusal. Each goes once. The refused checkpoints of staying jobs go last.
    fn go_on_refused(&mut self, now: Time, items: Vec<SaveItem>) {
        let stays = self.saves.wait_again(items);
        let Self { held, saves: Saves { newest, lane }, .. } = self;
        lane.refused(now, stays, |id| {
            let held = held.get(&id.0).filter(|held| held.token == id.1);
            newest.get(id).is_some_and(|newest| held.is_none_or(|held| held.order.is_some() && !newest.told))
        });
    }
}
