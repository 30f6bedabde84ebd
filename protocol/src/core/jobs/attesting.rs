//! The report of a living worker whose pool may have lost data. The report prevents second starts, and keeps running
//! jobs alive (a part of [`Jobs`], and of the engine).
//!
//! ```text
//! another incarnation ──attest──▶ pool knows worker, renews lease ──attest …──▶ all reported ──attend──▶ done
//! ```
//! 1. Only a worker whose lease holds reports running jobs, and it reports every job in its hands.
//! 2. Its final report, `attend`, frees the jobs that the data assign to it and that it has not named. So `attend`
//!    comes after the answers to all other reports and to the releases under way.
//! 3. Unanswered calls of the former incarnation are void. Releases and notes of starts are not: they hold in every
//!    incarnation, and are sent until they are answered.
//! 4. If the release of a job that must go on elsewhere finds no record, the worker reports the job as running, with
//!    its payload. It then releases the job once more, also if the pool has opened and answers no report. Until the
//!    second release, no other worker may know the job.
//! 5. A worker gives up after 3 T without an answer, or 10 T in all, because the pool cannot open until every member
//!    has finished.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::Jobs;
use super::held::{JobPhase, LeavingJob, StopOrder};
use super::inbox::Inbox;
use super::journal::{Left, Past};
use super::unsaid::{Word, Words};
use crate::core::batcher::Batcher;
use crate::core::call::{Call, PAGE};
use crate::core::ctx::Ctx;
use crate::core::effect::{Attested, Effect, Notice};
use crate::core::time::{Time, earliest};
use crate::model::id::{DispatchId, JobKey, Token};
use crate::model::member::Member;
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::step::{
    ATTEST_BYTES, Attend, Attest, AttestItem, AttestJobs, AttestReply, BATCH_MAX, ReleaseItem, ReleaseReply,
};

/// One item of the report.
#[derive(Debug)]
enum Statement {
    /// A job is here. The worker checks that again when it sends the item.
    Runs { key: JobKey, token: Token, with_payload: bool },
    /// A job was here.
    Past(Past),
}

impl Statement {
    /// The word for an item that must be reported again.
    fn of(now: Time, AttestItem { key, token, id, what }: AttestItem) -> Self {
        match what {
            Attest::Runs { payload, .. } => Self::Runs { key, token, with_payload: payload.is_some() },
            Attest::Ended { outcome, unless } => {
                Self::Past(Past { key, token, id, left: Left::Ended(outcome, unless.map(Box::new)) })
            }
            Attest::HandedOff(job) => Self::Past(Past { key, token, id, left: Left::handed_off(now, job) }),
        }
    }
}

/// A worker's progress with its report in this incarnation.
#[derive(Debug)]
pub(in crate::core) struct Attesting {
    words: Batcher<Statement>,
    /// The numbers of the journal's entries that are not yet reported.
    journal: Range<u64>,
    /// The pool knows the worker: its lease is renewed in this incarnation.
    known: bool,
    /// The last job that the final report has covered.
    after: Option<JobKey>,
    give_up_at: Time,
    /// The limit for the whole report, whatever its progress.
    ends_at: Time,
    /// Jobs that the pool knows as ended. Others may get their keys as soon as the pool is open.
    ending: BTreeSet<(JobKey, Token)>,
    /// The highest token under which a job has left this worker, for jobs on their way out and those that left since.
    left: BTreeMap<JobKey, Token>,
    /// The report must wait for another event.
    waits: bool,
    count: Attested,
}

impl Attesting {
    /// A job has left the worker's hands meanwhile.
    pub(super) fn has_gone(&mut self, past: Past) {
        let highest = self.left.entry(past.key.clone()).or_default();
        *highest = past.token.max(*highest);
        self.words.push(Statement::Past(past));
    }

    /// The worker has not finished its report in time.
    fn is_overdue(&self, now: Time) -> bool {
        now >= self.give_up_at
    }

    /// An item was answered, so the report makes progress.
    fn progressed(&mut self, ctx: &Ctx) {
        self.words.answered();
        self.give_up_at = self.ends_at.min(ctx.now + ctx.config.timing.ttl * 3);
    }

    /// A job must end before the final report. Its handler has the usual time to stop, and is then aborted. Only
    /// after that does the worker give up all its jobs.
    fn awaits_end(&mut self, ctx: &Ctx, key: JobKey, token: Token) {
        let patience = ctx.config.stop_timeout.saturating_add(ctx.config.abort_grace * 2);
        self.give_up_at = self.ends_at.min(self.give_up_at.max(ctx.now + patience));
        self.ending.insert((key, token));
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let again = if self.waits { None } else { self.words.resumes_at() };
        earliest(again, Some(self.give_up_at))
    }
}

impl Jobs {
    /// The pool lives in another incarnation, and this worker's lease holds.
    pub(in crate::core) fn attest(&mut self, ctx: &mut Ctx) {
        self.void(ctx);
        self.owe_checkpoints(ctx);
        let mut words = Batcher::default();
        for (key, held) in &self.held {
            words.push(Statement::Runs { key: key.clone(), token: held.token, with_payload: false });
        }
        let journal = self.journal.all();
        let leaving: BTreeSet<&JobKey> = self.releasing.keys().map(|(key, _)| key).collect();
        let left = self.journal.highest_of(&leaving);
        let (known, after, count) = (false, None, Attested::default());
        let ttl = ctx.config.timing.ttl;
        let (give_up_at, ends_at) = (ctx.now + ttl * 3, ctx.now + ttl * 10);
        self.attesting = Some(Attesting {
            words,
            journal,
            known,
            after,
            give_up_at,
            ends_at,
            ending: BTreeSet::new(),
            left,
            waits: false,
            count,
        });
    }

    /// Drops the calls and events of the former incarnation. The worker reads its streams from their beginning and
    /// fetches notifications anew, because data that went back may reuse numbers and ids.
    fn void(&mut self, ctx: &mut Ctx) {
        self.begins.abandon();
        self.grants.void();
        self.outside.clear();
        self.void_updates(ctx);
        self.beginning.clear();
        self.give_successors_back(ctx);
        for item in self.takes.abandon() {
            if let Some(held) = self.held.get_mut(&item.key).filter(|held| held.token == item.token) {
                held.notes.busy = false;
            }
        }
        self.inbox = Inbox::default();
        for id in self.unsaid.all(Word::Deliveries) {
            self.said(id, Word::Deliveries);
        }
        self.release_taken_back();
        for (_, entries) in self.releases.waiting().chain(self.unsaid.waiting()) {
            entries.clear();
        }
        for held in self.held.values_mut() {
            if let Some(order) = &mut held.order {
                order.entries.clear();
            }
            held.notes.void();
        }
        let keys: Vec<_> = self.held.keys().cloned().collect();
        for key in keys {
            self.fetch(&key);
        }
        self.audit_due = true;
    }

    /// Sends the next items of the report, while the lease holds.
    pub(in crate::core) fn flush_attesting(&mut self, ctx: &mut Ctx, member: Option<&Member>) {
        let (Some(attesting), Some(member)) = (&mut self.attesting, member) else { return };
        let (incarnation, worker, broken) = (ctx.incarnation, self.worker, &ctx.config.broken);
        let room = BATCH_MAX.saturating_sub(attesting.words.len());
        for past in self.journal.page(&mut attesting.journal, room) {
            attesting.words.push(Statement::Past(past));
        }
        let holds = ctx.lease_holds(worker) || broken.has(Mutation::FencedAttests);
        attesting.ending.retain(|(key, token)| self.held.get(key).is_some_and(|held| held.token == *token));
        let at_rest = self.releasing.is_empty() && attesting.ending.is_empty();
        let under_way = attesting.known && attesting.words.is_empty() && !at_rest;
        attesting.waits = !holds || under_way && !broken.has(Mutation::AttendBeforeAttested);
        if attesting.waits {
            return;
        }
        let said = attesting.words.is_empty() && at_rest;
        if attesting.known && (said || broken.has(Mutation::AttendBeforeAttested)) {
            if attesting.words.occupy(ctx.now) {
                let after = attesting.after.clone();
                ctx.call(Call::Attend(Attend { worker, after, limit: PAGE }, incarnation));
            }
            return;
        }
        let going = |key: &JobKey, token| {
            let id = (key.clone(), token);
            self.retaken.contains_key(&id).then(|| self.releasing.get(&id)?.held.as_deref()).flatten()
        };
        let held = |key: &JobKey, token| {
            self.held
                .get(key)
                .map(Box::as_ref)
                .filter(|held| held.token == token)
                .or_else(|| going(key, token))
        };
        let size = |word: &Statement| match word {
            Statement::Runs { key, token, with_payload } => {
                let payload = held(key, *token).filter(|_| *with_payload);
                key.as_bytes().len() + payload.map_or(0, |held| held.envelope.len())
            }
            Statement::Past(past) => past.size(),
        };
        let words = match attesting.words.batch_within(ctx.now, BATCH_MAX, ATTEST_BYTES, size) {
            Some(words) => words,
            None if attesting.words.is_empty() && attesting.words.occupy(ctx.now) => Vec::new(),
            None => return,
        };
        // A job that has ended meanwhile is reported after the answer to its release.
        let item = |word: &Statement| match word {
            Statement::Runs { key, token, with_payload } => {
                let back = self.retaken.contains_key(&(key.clone(), *token));
                Some(held(key, *token)?.attested(key, *with_payload, back))
            }
            Statement::Past(_) if broken.has(Mutation::JournalNotSent) => None,
            Statement::Past(past) => Some(past.attested(ctx.now)),
        };
        let items = words.iter().filter_map(item).collect();
        ctx.call(Call::Attest(AttestJobs { worker, member: member.clone(), items }, incarnation));
    }

    /// Returns whether this answer is the first by which the pool knows the worker.
    pub(in crate::core) fn on_attested(
        &mut self,
        ctx: &mut Ctx,
        items: Vec<AttestItem>,
        replies: &[AttestReply],
    ) -> bool {
        let Some(attesting) = &mut self.attesting else { return false };
        attesting.progressed(ctx);
        let first = !std::mem::replace(&mut attesting.known, true);
        if first {
            ctx.out.push(Effect::Keep { incarnation: ctx.incarnation, worker: self.worker });
        }
        for (AttestItem { key, token, id, what }, reply) in items.into_iter().zip(replies) {
            if *reply == AttestReply::Later {
                let Some(attesting) = &mut self.attesting else { break };
                attesting.words.push(Statement::of(ctx.now, AttestItem { key, token, id, what }));
                continue;
            }
            if *reply != AttestReply::SendPayload && self.was_retaken(ctx, &key, token, *reply) {
                continue;
            }
            let Some(Attesting { words, count, .. }) = &mut self.attesting else { break };
            match reply {
                AttestReply::Kept => {
                    count.kept += 1;
                    self.save_again(ctx, &(key, token));
                }
                AttestReply::SendPayload => words.push(Statement::Runs { key, token, with_payload: true }),
                AttestReply::MustStop => {
                    count.stopped += 1;
                    self.must_stop(ctx, key, token, id);
                }
                AttestReply::Outranked => {
                    count.outranked += 1;
                    self.outranked(ctx, key, token);
                }
                AttestReply::Unreadable => {
                    count.unreadable += 1;
                    ctx.report(Notice::BadRecord { key });
                }
                AttestReply::Ended if matches!(what, Attest::Runs { .. }) => {
                    count.stopped += 1;
                    if let Some(attesting) = &mut self.attesting {
                        attesting.awaits_end(ctx, key.clone(), token);
                    }
                    self.must_stop(ctx, key, token, id);
                }
                AttestReply::Ended => count.ended += 1,
                AttestReply::Requeued => count.requeued += 1,
                AttestReply::Gone => count.gone += 1,
                AttestReply::Nothing | AttestReply::Later => {}
            }
        }
        first
    }

    /// A release found no record. If the data may be lost and the job must go on elsewhere, the worker reports it as
    /// running. The job then gets a record, and is released again. Returns whether it is.
    pub(super) fn take_back(&mut self, item: &ReleaseItem) -> bool {
        if self.came_again(&item.key, item.token) {
            return false;
        }
        let (id, Some(attesting)) = ((item.key.clone(), item.token), &mut self.attesting) else {
            return false;
        };
        // The same, and it has left under that token, too.
        if attesting.left.get(&id.0).is_some_and(|left| *left > id.1) {
            return false;
        }
        let is_kept = self.releasing.get(&id).is_some_and(|out| out.held.is_some() && !out.stopped);
        if is_kept {
            attesting.words.push(Statement::Runs { key: id.0.clone(), token: id.1, with_payload: true });
            self.retaken.insert(id, item.clone());
        }
        is_kept
    }

    /// The report of these jobs has no answer, and needs none any more. Their releases go on.
    fn release_taken_back(&mut self) {
        for (_, item) in std::mem::take(&mut self.retaken) {
            if let Some(release) = self.unless_it_owes(item) {
                self.releases.push(release);
            }
        }
    }

    /// The key came here again under a later token: the release under this one was carried out, and its answer was
    /// lost.
    fn came_again(&self, key: &JobKey, token: Token) -> bool {
        let later = (key.clone(), Token(token.0.saturating_add(1)))..=(key.clone(), Token(u64::MAX));
        self.held.get(key).is_some_and(|held| held.token > token)
            || self.beginning.range(later.clone()).next().is_some()
            || self.releasing.range(later).next().is_some()
    }

    /// The answer to the report of a job that must be released again. Returns whether it was such a job.
    fn was_retaken(&mut self, ctx: &mut Ctx, key: &JobKey, token: Token, reply: AttestReply) -> bool {
        let id = (key.clone(), token);
        let Some(item) = self.retaken.remove(&id) else { return false };
        if matches!(reply, AttestReply::Kept | AttestReply::MustStop) {
            self.save_again(ctx, &id);
            if reply == AttestReply::Kept && self.unsaid.holds(&id) {
                self.unsaid.hold_back(id, Words::default(), (item, Vec::new()));
            } else {
                self.releases.push((item, Vec::new()));
            }
            return true;
        }
        self.forget_checkpoint(ctx, &id);
        let out = self.releasing.remove(&id);
        if reply == AttestReply::Nothing {
            self.has_left(ctx, &out.unwrap_or_default(), &item, ReleaseReply::Queued);
        }
        self.released.push(id.0);
        true
    }

    /// The job was stopped, or is known to have ended: its release frees its key.
    fn must_stop(&mut self, ctx: &mut Ctx, key: JobKey, token: Token, id: DispatchId) {
        if self.held.get(&key).is_some_and(|held| held.token == token) {
            self.order(ctx, &key, StopOrder::own(StopReason::Stopped));
            self.forget_checkpoint(ctx, &(key, token));
        } else if self.releasing.contains_key(&(key.clone(), token)) {
            self.stop_leaving(ctx, &(key, token), Some(id), None);
        } else {
            self.release_for_stopper(key, token, LeavingJob::to_stop(Some(id)), None, vec![]);
        }
    }

    /// The job has a higher token by now: its run under this one must end at once.
    pub(in crate::core) fn outranked(&mut self, ctx: &mut Ctx, key: JobKey, token: Token) {
        if self.held.get(&key).is_none_or(|held| held.token != token) {
            return;
        }
        self.order(ctx, &key, StopOrder::own(StopReason::LeaseLost));
        self.forget_checkpoint(ctx, &(key.clone(), token));
        if self.held.get(&key).is_some_and(|held| !matches!(held.phase, JobPhase::Aborting)) {
            self.arm(&key, Some(ctx.now + ctx.config.timing.kill));
        }
        ctx.report(Notice::Outranked { key, token });
    }

    /// The report takes so long that the worker must be fenced.
    pub(in crate::core) fn must_give_up(&self, now: Time) -> bool {
        self.attesting.as_ref().is_some_and(|attesting| attesting.is_overdue(now))
    }

    /// The pool knows the worker in this incarnation.
    pub(in crate::core) fn is_known(&self) -> bool {
        self.attesting.as_ref().is_none_or(|attesting| attesting.known)
    }

    /// A call has failed: all its items are reported again, also after a failure on stored data. Passing over one of them
    /// would free a job that runs here.
    pub(in crate::core) fn attest_again(&mut self, now: Time, items: Vec<AttestItem>) {
        let Some(attesting) = &mut self.attesting else { return };
        let words = items.into_iter().map(|item| Statement::of(now, item)).collect();
        attesting.words.put_back(now, words);
    }

    pub(in crate::core) fn on_attended(&mut self, ctx: &mut Ctx, next: Option<JobKey>) {
        let Some(attesting) = &mut self.attesting else { return };
        attesting.progressed(ctx);
        attesting.after = next;
        if attesting.after.is_none() {
            let (worker, count) = (self.worker, attesting.count);
            self.attesting = None;
            self.release_taken_back();
            self.save_the_rest();
            ctx.report(Notice::Attested { worker, count });
        }
    }
}
