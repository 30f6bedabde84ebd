//! The store's answers to the calls about a worker's jobs.

use tenure_steps::EntryId;

use super::ToRelease;
use super::held::{JobPhase, LeavingJob};
use super::unsaid::{Word, Words};
use super::{Jobs, PendingBegin, Purpose, ToBegin};
use crate::core::batcher::is_of_an_item;
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    BeginReply, ReleaseItem, ReleaseReply, Result, StartedItem, StoreError, TakeItem, Taken, WorkerBegins,
};

impl Jobs {
    pub(in crate::core) fn on_begun(
        &mut self,
        ctx: &mut Ctx,
        finished: &[EntryId],
        jobs: Vec<(JobKey, Token)>,
        replies: Vec<BeginReply>,
    ) {
        self.begins.answered();
        self.inbox.deleted(finished);
        let purposes = std::mem::take(&mut self.begin_in_flight);
        for (((key, token), reply), purpose) in jobs.into_iter().zip(replies).zip(purposes) {
            if reply == BeginReply::Full {
                self.begins.push(ToBegin { key, token, purpose, entry: None });
                continue;
            }
            let id = (key, token);
            let early = match purpose {
                Purpose::Take => self.beginning.remove(&id),
                Purpose::Confirm => None,
                Purpose::Read => {
                    self.on_reread(ctx, id, reply);
                    continue;
                }
            };
            let Some(early) = early else { continue };
            let (key, token) = id;
            let newer = (early.generation > 0).then(|| (key.clone(), early.generation.into()));
            match reply {
                BeginReply::Begun(mut job) => {
                    if let Some((tell, entries)) = early.stop {
                        let out = LeavingJob::begun_to_stop(&job.record);
                        self.release_for_stopper(key, token, out, tell, entries);
                    } else {
                        job.waiting |= early.notified;
                        self.receive(ctx, key, job);
                    }
                }
                BeginReply::Refused | BeginReply::Full => {
                    if let Some((tell, entries)) = early.stop {
                        self.release_for_stopper(key, token, LeavingJob::to_stop(early.of), tell, entries);
                    }
                }
            }
            if let Some((key, generation)) = newer {
                self.updated(ctx, key, token, generation);
            }
        }
    }

    /// The pool is stopping: it begins no more jobs, and these end where they are.
    pub(in crate::core) fn on_begin_shut(&mut self, finished: Vec<EntryId>, jobs: Vec<(JobKey, Token)>) {
        self.begins.answered();
        self.inbox.not_deleted(finished);
        let purposes = std::mem::take(&mut self.begin_in_flight);
        let takes = |(_, purpose): &(_, Purpose)| *purpose == Purpose::Take;
        for ((key, token), _) in jobs.into_iter().zip(purposes).filter(takes) {
            match self.beginning.remove(&(key.clone(), token)) {
                Some(PendingBegin { stop: Some((tell, entries)), of, .. }) => {
                    self.release_for_stopper(key, token, LeavingJob::to_stop(of), tell, entries);
                }
                Some(_) => self.give_back(key, token, LeavingJob::default(), None, vec![]),
                None => {}
            }
        }
    }

    pub(in crate::core) fn on_released(
        &mut self,
        ctx: &mut Ctx,
        finished: &[EntryId],
        items: Vec<ReleaseItem>,
        replies: &[ReleaseReply],
    ) {
        self.releases.answered();
        self.inbox.deleted(finished);
        for (item, reply) in items.into_iter().zip(replies) {
            if *reply == ReleaseReply::Later {
                if let Some(release) = self.unless_it_owes(item) {
                    self.releases.push(release);
                }
                continue;
            }
            if *reply == ReleaseReply::Stale && self.take_back(&item) {
                continue;
            }
            let id = (item.key.clone(), item.token);
            let out = self.releasing.remove(&id);
            self.forget_checkpoint(ctx, &id);
            self.has_left(ctx, &out.unwrap_or_default(), &item, *reply);
            match reply {
                ReleaseReply::Parked => {
                    let (key, reason) = (item.key.clone(), item.rest().unwrap_or(&item.result).to_owned());
                    ctx.report(match item.cause {
                        Cause::Paused => Notice::Paused { key, pause: reason },
                        _ => Notice::Parked { key, error: reason },
                    });
                }
                ReleaseReply::Bad => ctx.report(Notice::BadRecord { key: item.key.clone() }),
                ReleaseReply::Deleted | ReleaseReply::Queued | ReleaseReply::Stale | ReleaseReply::Later => {}
            }
            self.released.push(item.key);
        }
    }

    pub(in crate::core) fn on_taken(
        &mut self,
        ctx: &mut Ctx,
        finished: &[EntryId],
        items: Vec<TakeItem>,
        replies: Vec<Option<Taken>>,
    ) {
        self.takes.answered();
        self.inbox.deleted(finished);
        for (item, reply) in items.into_iter().zip(replies) {
            let Some(held) = self.held.get_mut(&item.key).filter(|h| h.token == item.token) else {
                self.acknowledged(&item);
                continue;
            };
            held.notes.owes = false;
            held.notes.refused = reply.is_none();
            let gives = matches!(held.phase, JobPhase::Running) && !held.notes.paused;
            match reply {
                Some(taken) if !taken.bodies.is_empty() && gives => {
                    held.notes.ack = taken.first;
                    held.notes.in_hand = u16::try_from(taken.bodies.len()).unwrap_or(u16::MAX);
                    let (worker, key, token) = (self.worker, item.key, item.token);
                    ctx.out.push(Effect::Deliver { worker, key, token, taken });
                }
                _ => {
                    held.notes.busy = false;
                    self.fetch(&item.key);
                }
            }
        }
    }

    /// A call of these batchers has no answer, and will be sent again. Its entries are already counted. `whole`: the
    /// number of jobs in the call, with those of other workers. Returns whether the error is news.
    pub(in crate::core) fn begin_again(
        &mut self,
        ctx: &Ctx,
        begins: WorkerBegins,
        whole: usize,
        error: &StoreError,
    ) -> bool {
        let WorkerBegins { finished, jobs, .. } = begins;
        self.inbox.not_deleted(finished);
        if ctx.config.broken.has(Mutation::BeginGivenUp) {
            self.beginning.retain(|id, _| !jobs.iter().any(|(key, token)| (key, token) == (&id.0, &id.1)));
            self.begins.put_back(ctx.now, Vec::new());
            return true;
        }
        let purposes = std::mem::take(&mut self.begin_in_flight);
        let again = |((key, token), purpose)| ToBegin { key, token, purpose, entry: None };
        let jobs = jobs.into_iter().zip(purposes).map(again).collect();
        self.audit_due = true;
        self.begins.failed(ctx.now, jobs, whole, error)
    }

    pub(in crate::core) fn release_again(
        &mut self,
        ctx: &mut Ctx,
        finished: Vec<EntryId>,
        items: Vec<ReleaseItem>,
        error: StoreError,
    ) -> Result<()> {
        self.inbox.not_deleted(finished);
        let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
        let mut again = Vec::with_capacity(whole);
        for item in items {
            let item = self.once_more(item);
            again.extend(self.unless_it_owes(item));
        }
        self.audit_due = true;
        let news = self.releases.failed(ctx.now, again, whole, &error);
        ctx.heard(news, first, error)
    }

    /// A release that must go again. If data were lost meanwhile, the job's checkpoint goes first, and the release waits
    /// for it.
    pub(super) fn unless_it_owes(&mut self, item: ReleaseItem) -> Option<ToRelease> {
        let id = (item.key.clone(), item.token);
        let release = (item, Vec::new());
        if !self.unsaid.holds(&id) {
            return Some(release);
        }
        self.saves.wake(&id);
        self.unsaid.hold_back(id, Words::default(), release);
        None
    }

    /// These notifications were not fetched: they are fetched again.
    pub(in crate::core) fn not_taken(&mut self, items: &[TakeItem]) {
        for TakeItem { key, token, .. } in items {
            if let Some(held) = self.held.get_mut(key).filter(|held| held.token == *token) {
                held.notes.busy = false;
                self.fetch(key);
            }
        }
    }

    pub(in crate::core) fn take_again(
        &mut self,
        ctx: &mut Ctx,
        finished: Vec<EntryId>,
        items: Vec<TakeItem>,
        error: StoreError,
    ) -> Result<()> {
        self.inbox.not_deleted(finished);
        let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
        if let [item] = &items[..]
            && is_of_an_item(&error)
            && self.acknowledged(item)
        {
            // Damaged notifications hold up no release.
            self.takes.put_back(ctx.now, Vec::new());
            return ctx.heard(true, first, error);
        }
        let news = self.takes.failed(ctx.now, items, whole, &error);
        ctx.heard(news, first, error)
    }

    /// `noted`: for each, whether the store knew the job as this worker's.
    pub(in crate::core) fn on_started_noted(
        &mut self,
        now: Time,
        finished: &[EntryId],
        items: Vec<StartedItem>,
        noted: &[bool],
    ) {
        self.inbox.deleted(finished);
        let mut again = Vec::new();
        for (item, noted) in items.into_iter().zip(noted) {
            match self.held.get_mut(&item.key).filter(|held| held.token == item.token) {
                // The report of the start came before that of the job. Only an attestation gives a lost job its
                // record.
                Some(_) if !noted && self.attesting.is_some() => again.push(item),
                Some(held) => held.unsaid.remove(Word::Start),
                None => self.said((item.key, item.token), Word::Start),
            }
        }
        if again.is_empty() {
            self.starteds.answered();
        } else {
            self.starteds.put_back(now, again);
        }
    }
}
