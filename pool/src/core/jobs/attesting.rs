//! What a living worker does when its pool's data were lost, or may have been: it says what it has, so that nothing of
//! it is started twice and nothing that runs is ended (a part of [`Jobs`], and of the engine).
//!
//! ```text
//! another incarnation ──attest──▶ the pool knows it: its lease is renewed ──attest …──▶ all is said ──attend──▶ done
//! ```
//! 1. Only a worker whose lease holds says that a job runs; it says so of every job in its hands.
//! 2. Its last word, `attend`, frees what the data say that it owns and what it has not named: so it comes after
//!    everything else was answered, and after the releases that are under way.
//! 3. What was asked for in the incarnation before and is not answered yet is void, but for releases and notes of
//!    starts, which are true in every incarnation and are sent until they are answered.
//! 4. A job that is to go on elsewhere and whose release finds nothing is said to run, with its payload, and is released
//!    once more: until then this worker may be the only one that has it.
//! 5. Who gets no answer for three times to live, or does not come to the end of it in ten, gives up: the pool waits for
//!    every member.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Jobs;
use super::held::{Order, Out, Phase};
use super::intake::Intake;
use super::journal::{Left, Past};
use crate::breakage::Breakage;
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::effect::{Attested, Effect, Notice};
use crate::core::lane::Lane;
use crate::core::time::{Time, earliest};
use crate::id::{DispatchId, JobKey, Token};
use crate::member::Member;
use crate::stop::StopReason;
use crate::store::{
    ATTEST_BYTES, Attest, AttestItem, AttestReply, BATCH_MAX, ReleaseItem, ReleaseReply, StoreError,
};

/// Something that is to be said.
#[derive(Debug)]
enum Word {
    /// A job is here. Whether it still is, is looked at when it is said.
    Runs { key: JobKey, token: Token, with_payload: bool },
    /// A job was here.
    Past(Past),
}

impl Word {
    /// What was said, to be said again.
    fn of(now: Time, AttestItem { key, token, id, what }: AttestItem) -> Self {
        match what {
            Attest::Runs { payload, .. } => Self::Runs { key, token, with_payload: payload.is_some() },
            Attest::Ended { outcome } => Self::Past(Past { key, token, id, left: Left::Ended(outcome) }),
            Attest::HandedOn(on) => Self::Past(Past { key, token, id, left: Left::handed_on(now, on) }),
        }
    }
}

/// How far a worker has come in this incarnation.
#[derive(Debug)]
pub(in crate::core) struct Attesting {
    words: Lane<Word>,
    /// What of the journal is to be said still.
    journal: Range<u64>,
    /// The pool knows the worker: its lease is renewed in this incarnation.
    known: bool,
    /// How far its last word has come.
    after: Option<JobKey>,
    give_up_at: Time,
    /// However far it has come by then.
    ends_at: Time,
    /// Jobs that have ended as the pool knows, and whose keys others may get as soon as it is open.
    ending: BTreeSet<(JobKey, Token)>,
    /// Nothing can be said before something else happens.
    waits: bool,
    count: Attested,
}

impl Attesting {
    /// A job has left the worker's hands meanwhile.
    pub(super) fn has_gone(&mut self, past: Past) {
        self.words.push(Word::Past(past));
    }

    /// The worker has not come to its end in time.
    pub(in crate::core) fn is_overdue(&self, now: Time) -> bool {
        now >= self.give_up_at
    }

    /// A word was answered: there is progress.
    fn progressed(&mut self, ctx: &Ctx) {
        self.words.answered();
        self.give_up_at = self.ends_at.min(ctx.now + ctx.config.timing.ttl * 3);
    }

    /// A job is to end before the last word: its handler has the time that handlers have, and is aborted then, before all
    /// jobs of the worker are given up for it.
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
    pub(in crate::core) fn attest(&mut self, ctx: &Ctx) {
        self.void(ctx);
        let mut words = Lane::default();
        for (key, held) in &self.held {
            words.push(Word::Runs { key: key.clone(), token: held.token, with_payload: false });
        }
        let journal = self.journal.all();
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
            waits: false,
            count,
        });
    }

    /// Drops what belongs to the incarnation before. Its streams are read from their beginning, and notifications are
    /// asked for anew: numbers and ids may be used again by data that went back.
    fn void(&mut self, ctx: &Ctx) {
        self.begins.abandon();
        self.beginning.clear();
        self.give_back_successors(ctx);
        for item in self.takes.abandon() {
            if let Some(held) = self.held.get_mut(&item.key).filter(|held| held.token == item.token) {
                held.notes.busy = false;
            }
        }
        self.intake = Intake::default();
        for id in std::mem::take(&mut self.unacknowledged) {
            self.release_after(&id);
        }
        for (_, item) in std::mem::take(&mut self.retaken) {
            self.releases.push((item, Vec::new()));
        }
        for (_, entries) in self.releases.waiting().chain(self.after_note.values_mut()) {
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

    /// Says what is to be said next, while the lease holds.
    pub(in crate::core) fn flush_attesting(&mut self, ctx: &mut Ctx, member: Option<&Member>) {
        let (Some(attesting), Some(member)) = (&mut self.attesting, member) else { return };
        let (incarnation, worker, broken) = (ctx.incarnation, self.worker, &ctx.config.broken);
        let room = BATCH_MAX.saturating_sub(attesting.words.len());
        for past in self.journal.page(&mut attesting.journal, room) {
            attesting.words.push(Word::Past(past));
        }
        let holds = ctx.lease_holds(worker) || broken.has(Breakage::FencedAttests);
        attesting.ending.retain(|(key, token)| self.held.get(key).is_some_and(|held| held.token == *token));
        let at_rest = self.releasing.is_empty() && attesting.ending.is_empty();
        let under_way = attesting.known && attesting.words.is_empty() && !at_rest;
        attesting.waits = !holds || under_way && !broken.has(Breakage::AttendBeforeAttested);
        if attesting.waits {
            return;
        }
        let said = attesting.words.is_empty() && at_rest;
        if attesting.known && (said || broken.has(Breakage::AttendBeforeAttested)) {
            if attesting.words.occupy(ctx.now) {
                ctx.call(Call::Attend { incarnation, worker, after: attesting.after.clone() });
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
        let size = |word: &Word| match word {
            Word::Runs { key, token, with_payload } => {
                let payload = held(key, *token).filter(|_| *with_payload);
                key.as_bytes().len() + payload.map_or(0, |held| held.envelope.len())
            }
            Word::Past(past) => past.size(),
        };
        let words = match attesting.words.batch_within(ctx.now, BATCH_MAX, ATTEST_BYTES, size) {
            Some(words) => words,
            None if attesting.words.is_empty() && attesting.words.occupy(ctx.now) => Vec::new(),
            None => return,
        };
        // What has ended meanwhile is said once its release is answered.
        let item = |word: &Word| match word {
            Word::Runs { key, token, with_payload } => Some(held(key, *token)?.attested(key, *with_payload)),
            Word::Past(_) if broken.has(Breakage::JournalNotSent) => None,
            Word::Past(past) => Some(past.attested(ctx.now)),
        };
        let items = words.iter().filter_map(item).collect();
        ctx.call(Call::Attest { incarnation, worker, member: member.clone(), items });
    }

    /// Returns whether the pool has just come to know the worker.
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
                attesting.words.push(Word::of(ctx.now, AttestItem { key, token, id, what }));
                continue;
            }
            if *reply != AttestReply::SendPayload && self.was_retaken(ctx, &key, token, *reply) {
                continue;
            }
            let Some(Attesting { words, count, .. }) = &mut self.attesting else { break };
            match reply {
                AttestReply::Kept => count.kept += 1,
                AttestReply::SendPayload => words.push(Word::Runs { key, token, with_payload: true }),
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

    /// A release found nothing. If the data may have been lost and the job is to go on elsewhere, it is said to run,
    /// so that it has a record, and is released again then. Returns whether it is.
    pub(super) fn take_back(&mut self, item: &ReleaseItem) -> bool {
        if self.came_again(&item.key, item.token) {
            return false;
        }
        let (id, Some(attesting)) = ((item.key.clone(), item.token), &mut self.attesting) else {
            return false;
        };
        let is_kept = self.releasing.get(&id).is_some_and(|out| out.held.is_some() && !out.stopped);
        if is_kept {
            attesting.words.push(Word::Runs { key: id.0.clone(), token: id.1, with_payload: true });
            self.retaken.insert(id, item.clone());
        }
        is_kept
    }

    /// The key came here again under a later token: the release under this one was carried out, and its answer was lost.
    fn came_again(&self, key: &JobKey, token: Token) -> bool {
        let later = (key.clone(), Token(token.0.saturating_add(1)))..=(key.clone(), Token(u64::MAX));
        self.held.get(key).is_some_and(|held| held.token > token)
            || self.beginning.range(later.clone()).next().is_some()
            || self.releasing.range(later).next().is_some()
    }

    /// What was said of a job that is to be released again. Returns whether it was one.
    fn was_retaken(&mut self, ctx: &Ctx, key: &JobKey, token: Token, reply: AttestReply) -> bool {
        let id = (key.clone(), token);
        let Some(item) = self.retaken.remove(&id) else { return false };
        if matches!(reply, AttestReply::Kept | AttestReply::MustStop) {
            self.releases.push((item, Vec::new()));
            return true;
        }
        let out = self.releasing.remove(&id);
        if reply == AttestReply::Nothing {
            self.has_left(ctx, &out.unwrap_or_default(), &item, ReleaseReply::Queued);
        }
        self.released.push(id.0);
        true
    }

    /// The job was stopped, or is known to have ended: its key is free once it is released.
    fn must_stop(&mut self, ctx: &mut Ctx, key: JobKey, token: Token, id: DispatchId) {
        if self.held.get(&key).is_some_and(|held| held.token == token) {
            self.order(ctx, &key, Order::own(StopReason::Stopped));
        } else if self.releasing.contains_key(&(key.clone(), token)) {
            self.stop_leaving(&(key, token), None);
        } else {
            self.release_for_stopper(key, token, Out::to_stop(Some(id)), None, vec![]);
        }
    }

    /// The job has a higher token by now: its run under this one has no time left.
    pub(in crate::core) fn outranked(&mut self, ctx: &mut Ctx, key: JobKey, token: Token) {
        if self.held.get(&key).is_none_or(|held| held.token != token) {
            return;
        }
        self.order(ctx, &key, Order::own(StopReason::LeaseLost));
        if self.held.get(&key).is_some_and(|held| !matches!(held.phase, Phase::Aborting)) {
            self.arm(&key, Some(ctx.now + ctx.config.timing.kill));
        }
        ctx.report(Notice::Outranked { key, token });
    }

    /// The pool knows the worker in this incarnation.
    pub(in crate::core) fn is_known(&self) -> bool {
        self.attesting.as_ref().is_none_or(|attesting| attesting.known)
    }

    /// What was to be said is said again. Returns whether the error is news.
    pub(in crate::core) fn attest_again(
        &mut self,
        now: Time,
        items: Vec<AttestItem>,
        error: &StoreError,
    ) -> bool {
        let Some(attesting) = &mut self.attesting else { return true };
        let whole = items.len();
        let words = items.into_iter().map(|item| Word::of(now, item)).collect();
        attesting.words.failed(now, words, whole, error)
    }

    pub(in crate::core) fn on_attended(&mut self, ctx: &mut Ctx, next: Option<JobKey>) {
        let Some(attesting) = &mut self.attesting else { return };
        attesting.progressed(ctx);
        attesting.after = next;
        if attesting.after.is_none() {
            let (worker, count) = (self.worker, attesting.count);
            self.attesting = None;
            ctx.report(Notice::Attested { worker, count });
        }
    }
}
