//! How jobs are asked to end, and leave a worker's hands (a part of [`Jobs`]).

use std::time::Duration;

use tenure_steps::EntryId;

use super::attesting::Attesting;
use super::held::{HeldJob, JobPhase, LeavingJob, StopOrder, goes_on, release_of};
use super::unsaid::{Word, Words};
use super::{Jobs, ToBegin, ToRelease};
use crate::core::batcher::Batcher;
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Failure};
use crate::core::time::{Time, earliest};
use crate::core::worker::shared_calls::InFlight;
use crate::model::id::{DispatchId, JobKey, NodeName, Token};
use crate::model::stop::StopReason;
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    BATCH_BYTES, Release, ReleaseItem, ReleaseMode, STOP_FAILED, StartedItem, Take, TakeItem, WorkerBegins,
    WorkerStarts,
};

impl Jobs {
    /// Asks for the notifications of a running job, if some may wait and no fetch is under way.
    pub(super) fn fetch(&mut self, key: &JobKey) {
        if let Some(held) = self.held.get_mut(key) {
            fetch(&mut self.takes, held, key);
            self.answering.touch(key, held.token);
        }
    }

    /// Asks a held job to end.
    pub(in crate::core) fn order(&mut self, ctx: &mut Ctx, key: &JobKey, order: StopOrder) {
        let Some(held) = self.held.get_mut(key) else { return };
        let why = order.why;
        let known = held.order.as_ref().map(|o| o.why);
        held.add_order(order);
        let (worker, token) = (self.worker, held.token);
        self.answering.touch(key, token);
        match held.phase {
            // The pool accepted it before it stopped, and the job has begun: it is started first, and then stopped.
            JobPhase::Waiting(_) if why == StopReason::Shutdown && !held.started_before() => {}
            JobPhase::Waiting(_) => self.never_ran(ctx, key),
            JobPhase::Starting if !goes_on(why) => {
                held.phase = JobPhase::Stopping;
                self.permit_back(key);
                self.arm(key, Some(ctx.now + ctx.config.stop_timeout));
                ctx.out.push(Effect::Cancel { worker, key: key.clone(), token, why });
            }
            JobPhase::Running if known.is_none() => self.run_stop(ctx, key, why),
            JobPhase::Starting | JobPhase::Running | JobPhase::Stopping | JobPhase::Aborting => {}
        }
    }

    pub(super) fn run_stop(&mut self, ctx: &mut Ctx, key: &JobKey, why: StopReason) {
        let Some(held) = self.held.get_mut(key) else { return };
        held.phase = JobPhase::Stopping;
        let (worker, token) = (self.worker, held.token);
        if goes_on(why) && ctx.config.broken.has(Mutation::HandOffBeforeStop) {
            let item = ReleaseItem::new(key.clone(), token, ReleaseMode::HandOff, Cause::Moved);
            self.push_release(item, LeavingJob::default(), Vec::new());
        }
        self.arm(key, Some(ctx.now + ctx.config.stop_timeout));
        ctx.out.push(Effect::Stop { worker, key: key.clone(), token, why });
    }

    /// The next deadline of a handler. While the worker may send, also the time at which a call is repeated. `open`:
    /// the pool is in phase N.
    pub(in crate::core) fn deadline(&self, may_send: bool, open: bool, in_flight: InFlight) -> Option<Time> {
        let overdue = earliest(self.timers.deadline(), self.pauses.deadline());
        let overdue = earliest(overdue, self.starts.deadline());
        let overdue = earliest(overdue, self.updates.deadline());
        let overdue = earliest(overdue, self.grants.deadline());
        let overdue = earliest(overdue, self.outside.front().map(|job| job.until));
        if !may_send {
            return overdue;
        }
        let attesting = self.attesting.as_ref().and_then(Attesting::deadline);
        let starts = if in_flight.starts { None } else { self.starteds.deadline() };
        let frees =
            [attesting, starts, self.releases.deadline(), self.saves.deadline(), self.answering.deadline()];
        let frees = frees.into_iter().fold(overdue, earliest);
        if !open {
            return frees;
        }
        let to_delete = self.inbox.has_handled() && self.takes.is_free() && !self.will_note_starts();
        let begins = [to_delete.then(|| self.begins.resumes_at()).flatten(), self.begins.deadline()];
        let begins = begins.into_iter().filter(|_| !in_flight.begins).fold(None, earliest);
        let batchers = [begins, self.takes.deadline()];
        batchers.into_iter().fold(frees, earliest)
    }

    /// The handler has ended after an order to end. `stop`: the result of its stop handler, if that has returned.
    pub(super) fn end_as_ordered(&mut self, ctx: &mut Ctx, key: &JobKey, stop: Result<(), String>) {
        let Some(held) = self.held.get(key) else { return };
        let lost = StopOrder::own(StopReason::LeaseLost);
        let order = held.order.as_deref().unwrap_or(&lost);
        let (why, (mode, result)) = (order.why, order.release());
        match (why, held.progress) {
            (StopReason::Stalled, Some(timeout)) => {
                let error = format!("{result} for {} s", timeout.get().as_secs_f64());
                self.after_failure(ctx, key, Failure::Stalled, true, &error);
            }
            _ if mode == ReleaseMode::Fail => self.after_failure(ctx, key, Failure::Start, true, &result),
            _ => {
                let failed = stop.err().filter(|_| why == StopReason::Stopped);
                let result = failed.map_or(result, |error| format!("{STOP_FAILED}{error}"));
                self.give_up(ctx, key, mode, Duration::ZERO, result);
            }
        }
    }

    /// The job was begun here, but no handler of it was called. Without an order to end, it goes on elsewhere
    /// unchanged.
    pub(super) fn never_ran(&mut self, ctx: &mut Ctx, key: &JobKey) {
        self.give_up(ctx, key, ReleaseMode::GiveBack, Duration::ZERO, String::new());
    }

    /// The handler has ended or never ran: the job leaves this worker's hands.
    pub(super) fn give_up(
        &mut self,
        ctx: &mut Ctx,
        key: &JobKey,
        mode: ReleaseMode,
        delay: Duration,
        result: String,
    ) {
        let Some(mut held) = self.take_out(ctx, key) else { return };
        let id = (key.clone(), held.token);
        let unnoted = held.unsaid.has(Word::Start);
        let tell = if held.started_before() && !unnoted { None } else { held.waiting_node() };
        let cause = self.cause_of(mode, held.order.as_ref().map(|order| order.why));
        let mut item =
            ReleaseItem { delay, tell, result, ..ReleaseItem::new(key.clone(), id.1, mode, cause) };
        let mut entries = Vec::new();
        let stopped = held.order.as_ref().is_some_and(|order| order.why == StopReason::Stopped);
        let is_free = !held.ends_for_good();
        let rests = held.order.as_ref().filter(|order| order.is_to_rest()).map(|order| order.release().1);
        if let Some(order) = held.order.take() {
            if order.why == StopReason::LeaseLost {
                self.forget_checkpoint(ctx, &id);
                self.released.push(item.key);
                // The worker was told that others have the job, so it compares its jobs with the store's.
                self.audit_due |= self.leaving != Some(StopReason::LeaseLost);
                return;
            }
            order.overrides(&mut item);
            (item.tell_stopper, entries) = (order.tell, order.entries);
        }
        let decides = match item.mode {
            ReleaseMode::Delete | ReleaseMode::Refuse | ReleaseMode::Fail => true,
            // An operator wants it at rest, whatever its payload. The next run gets the stored one.
            ReleaseMode::Park => rests.is_none(),
            _ => false,
        };
        item.ran = (is_free && decides).then(|| held.generation());
        if item.mode == ReleaseMode::Delete && is_free {
            item.rests = rests.unwrap_or_default();
        }
        let goes_on = item.mode != ReleaseMode::Delete;
        if held.notes.owes && goes_on {
            if !held.notes.busy {
                self.takes.push(TakeItem { key: key.clone(), token: id.1, ack: held.notes.ack });
            }
            held.unsaid.add(Word::Deliveries);
        }
        let (attempts, started, words) = (held.attempts, held.started_before(), held.unsaid);
        let out = LeavingJob {
            id: Some(held.id.clone()),
            attempts,
            started,
            stopped,
            held: goes_on.then_some(held),
            ..LeavingJob::default()
        };
        self.releasing.insert(id.clone(), out);
        self.release_once_said(ctx, id, (item, entries), words);
    }

    /// Takes the job out of all that concerns a held one.
    fn take_out(&mut self, ctx: &mut Ctx, key: &JobKey) -> Option<Box<HeldJob>> {
        if self.has_asks()
            && let Some(token) = self.held.get(key).map(|held| held.token)
        {
            // While the job is held: its release waits for what this says.
            self.drop_asks(ctx, key, token);
        }
        let mut held = self.held.remove(key)?;
        self.starts.end(key, &mut held, ctx.config.starts_per_second.is_some());
        self.timers.put(&mut held.overdue_at, key, None);
        if held.notes.paused {
            self.pauses.end(key);
        }
        if !self.updates.is_empty() {
            self.updates.end(key);
        }
        if ctx.config.broken.has(Mutation::ReleaseBeforeReply) {
            held.unsaid.remove(Word::Replies);
        }
        Some(held)
    }

    /// Releases the job as soon as the store knows of it what it must know before. The `words` are not yet said.
    fn release_once_said(&mut self, ctx: &mut Ctx, id: (JobKey, Token), release: ToRelease, words: Words) {
        let (mut item, entries) = release;
        let (goes_on, unnoted) = (item.mode != ReleaseMode::Delete, words.has(Word::Start));
        // The error of a stop handler is not "ok", which else stands for a start that is not noted.
        let waits = unnoted && item.result.starts_with(STOP_FAILED);
        if unnoted && (goes_on || waits) {
            item.tell = None;
        }
        // A job that has ended by itself may go on all the same, with a later payload.
        let may_go_on = goes_on || item.ran.is_some();
        if !may_go_on {
            self.forget_checkpoint(ctx, &id);
        } else if words.has(Word::Checkpoint) && self.attesting.is_some() {
            // The report names only what is held.
            self.saves.wake(&id);
        }
        if goes_on && !words.is_empty() {
            return self.unsaid.hold_back(id, words, (item, entries));
        }
        let owes_checkpoint = may_go_on && words.has(Word::Checkpoint);
        let mut words = words.only(Word::Replies);
        if owes_checkpoint {
            words.add(Word::Checkpoint);
        }
        if waits {
            words.add(Word::Start);
        } else if unnoted {
            // The release may overtake the report of the start, and the caller that waits for the start must hear of
            // it.
            item.result = "ok".into();
        }
        if !words.is_empty() {
            return self.unsaid.hold_back(id, words, (item, entries));
        }
        self.releases.push((item, entries));
    }

    /// The store knows the deliveries of a job on its way out, or never will. Returns whether there were any.
    pub(super) fn acknowledged(&mut self, item: &TakeItem) -> bool {
        let id = (item.key.clone(), item.token);
        let was = self.unsaid.has(&id, Word::Deliveries);
        if was {
            self.said(id, Word::Deliveries);
        }
        was
    }

    /// The store may not know this of the job, held or on its way out.
    pub(super) fn owes(&mut self, id: (JobKey, Token), word: Word) {
        match self.held.get_mut(&id.0).filter(|held| held.token == id.1) {
            Some(held) => held.unsaid.add(word),
            None => self.unsaid.add(id, word),
        }
    }

    /// The store knows this of the job, or never will: gives the job back, if it has waited for just that.
    pub(super) fn said(&mut self, id: (JobKey, Token), word: Word) {
        if let Some(held) = self.held.get_mut(&id.0).filter(|held| held.token == id.1) {
            held.unsaid.remove(word);
        } else if let Some(release) = self.unsaid.said(id, word) {
            self.releases.push(release);
        }
    }

    /// A job on its way out must stop. Its release ends it if the store knows of the stop. If the data go back
    /// meanwhile, only this worker can end it. The node `tell` waits for the stop.
    pub(super) fn stop_leaving(
        &mut self,
        ctx: &mut Ctx,
        id: &(JobKey, Token),
        of: Option<DispatchId>,
        tell: Option<NodeName>,
    ) {
        let Some(out) = self.releasing.get_mut(id) else { return };
        out.stopped = true;
        // Of a job that was never begun here the stop alone names the dispatch.
        out.id = out.id.take().or(of);
        out.stopper = tell.or(out.stopper.take());
        if let Some((item, _)) = self.unsaid.release_of(id) {
            end_for_good(item, out);
        } else if let Some(item) = self.retaken.get_mut(id) {
            end_for_good(item, out);
        } else {
            let its = |item: &&mut ReleaseItem| (&item.key, item.token) == (&id.0, id.1);
            let waiting = self.releases.waiting().map(|(item, _)| item);
            waiting.filter(its).for_each(|item| end_for_good(item, out));
        }
        // A job that ends for good has no next owner.
        self.forget_checkpoint(ctx, id);
    }

    /// Repeats a release that may have been carried out. It ends the job for good if that must stop by now.
    pub(super) fn once_more(&mut self, mut item: ReleaseItem) -> ReleaseItem {
        if let Some(out) = self.releasing.get_mut(&(item.key.clone(), item.token)) {
            out.unsure = true;
            if out.stopped {
                end_for_good(&mut item, out);
            }
        }
        item
    }

    pub(super) fn push_release(&mut self, item: ReleaseItem, out: LeavingJob, entries: Vec<EntryId>) {
        self.grants.has_seen(item.token);
        self.releasing.insert((item.key.clone(), item.token), out);
        self.releases.push((item, entries));
    }

    /// Asks all jobs to end, and from now on hands off every new job.
    pub(in crate::core) fn leave(&mut self, ctx: &mut Ctx, why: StopReason) {
        self.leaving = Some(why);
        self.turn_outside_away();
        let keys: Vec<_> = self.held.keys().cloned().collect();
        for key in keys {
            self.order(ctx, &key, StopOrder::own(why));
        }
    }

    /// The worker is no longer a member: it sends nothing, and its handlers are ending.
    pub(in crate::core) fn fence(&mut self, ctx: &mut Ctx) {
        if ctx.config.broken.has(Mutation::FencedForgets) {
            self.held.clear();
            ctx.out.retain(|effect| !matches!(effect, Effect::Fence { .. }));
        }
        self.leave(ctx, StopReason::LeaseLost);
        self.begins.clear();
        self.grants.void();
        self.outside.clear();
        self.starteds.clear();
        self.unsaid.clear();
        self.drop_checkpoints(ctx);
        self.forget_asks();
        self.updates.clear();
        self.releases.clear();
        self.takes.clear();
        self.beginning.clear();
        self.successors.clear();
        self.releasing.clear();
        self.retaken.clear();
        if self.attesting.take().is_some() && !ctx.config.broken.has(Mutation::FencedKeepsJournal) {
            self.fall_silent(ctx);
        }
    }

    /// Sends the worker's own calls that are due, one per batcher. `open`: the pool is in phase N; else only calls that
    /// free jobs are sent.
    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, open: bool) {
        let worker = self.worker;
        if let Some(items) =
            self.releases.batch(ctx.now, |(item, _)| item.key.as_bytes().len() + item.result.len())
        {
            for entry in items.iter().flat_map(|(_, entries)| entries) {
                self.inbox.answered(*entry);
            }
            let finished = self.inbox.take_handled();
            let items = items.into_iter().map(|(item, _)| item).collect();
            ctx.call(Call::Release(Release { worker, finished, items }));
        }
        self.flush_saves(ctx);
        self.flush_asks(ctx);
        if open && let Some(items) = self.takes.batch(ctx.now, |item| item.key.as_bytes().len()) {
            let finished = self.inbox.take_handled();
            ctx.call(Call::Take(Take { worker, finished, items }));
        }
    }

    /// Some jobs begin or have begun, or an entry is finished. The node reports these for all its workers together.
    pub(in crate::core) fn have_words(&self) -> bool {
        !self.begins.is_empty() || !self.starteds.is_empty() || self.inbox.has_handled()
    }

    /// The next jobs to begin, at most `most`, and the finished entries. `None` when there are neither.
    pub(in crate::core) fn next_begins(&mut self, now: Time, most: usize) -> Option<WorkerBegins> {
        let mut jobs = self.begins.batch_within(now, most, BATCH_BYTES, to_begin_bytes);
        if jobs.is_none()
            && self.inbox.has_handled()
            && !self.will_note_starts()
            && self.begins.is_free()
            && self.takes.is_free()
            && self.begins.occupy(now)
        {
            jobs = Some(Vec::new());
        }
        Some(self.begins_of(jobs?))
    }

    /// The next note of starts names the finished entries: no call of their own is due for them.
    fn will_note_starts(&self) -> bool {
        self.grants.has_unconfirmed() || self.starteds.has_next()
    }

    /// A job that must be begun alone, if one is due.
    pub(in crate::core) fn next_begin_alone(&mut self, now: Time) -> Option<WorkerBegins> {
        let job = self.begins.batch_alone(now)?;
        Some(self.begins_of(job))
    }

    fn begins_of(&mut self, jobs: Vec<ToBegin>) -> WorkerBegins {
        self.begin_in_flight = jobs.iter().map(|job| job.purpose).collect();
        let jobs = jobs.into_iter().map(|ToBegin { key, token, entry, .. }| {
            if let Some(entry) = entry {
                self.inbox.answered(entry);
            }
            (key, token)
        });
        let jobs = jobs.collect();
        WorkerBegins { worker: self.worker, finished: self.inbox.take_handled(), jobs }
    }

    /// A note of a start is due. A job that goes on elsewhere leaves once its start is noted.
    pub(in crate::core) fn has_due_start(&self, now: Time) -> bool {
        self.starteds.has_due(now) || self.starteds.has_next() && !self.unsaid.is_empty()
    }

    /// The notes of starts wait no longer for others.
    pub(in crate::core) fn hurry_starts(&mut self) {
        self.starteds.hurry();
    }

    /// A start that must be noted alone, if one is due.
    pub(in crate::core) fn next_start_alone(&mut self, now: Time) -> Option<WorkerStarts> {
        let items = self.starteds.batch_alone(now)?;
        Some(self.starts_of(items))
    }

    /// The next starts to note, at most `most`.
    pub(in crate::core) fn next_starts(&mut self, now: Time, most: usize) -> Option<WorkerStarts> {
        let bytes = |item: &StartedItem| item.key.as_bytes().len();
        let items = self.starteds.batch_within(now, most, BATCH_BYTES, bytes)?;
        Some(self.starts_of(items))
    }

    fn starts_of(&mut self, items: Vec<StartedItem>) -> WorkerStarts {
        WorkerStarts { worker: self.worker, finished: self.inbox.take_handled(), items }
    }
}

fn to_begin_bytes(job: &ToBegin) -> usize {
    job.key.as_bytes().len()
}

/// Asks for the notifications of a running job, if some may wait and no fetch is under way.
pub(super) fn fetch(takes: &mut Batcher<TakeItem>, held: &mut HeldJob, key: &JobKey) {
    let may_take = !held.notes.busy && !held.notes.paused && !held.notes.behind_update;
    if held.notes.wanted && may_take && matches!(held.phase, JobPhase::Running) {
        held.notes.wanted = false;
        held.notes.busy = true;
        takes.push(TakeItem { key: key.clone(), token: held.token, ack: held.notes.ack });
    }
}

/// The job ends here for good, and the release tells the node that waits for its stop.
fn end_for_good(item: &mut ReleaseItem, out: &LeavingJob) {
    item.ran = None;
    if out.stopper.is_some() {
        item.tell_stopper.clone_from(&out.stopper);
    }
    if item.mode != ReleaseMode::Delete {
        let (mode, result) = release_of(StopReason::Stopped);
        (item.mode, item.delay, item.result) = (mode, Duration::ZERO, result.into());
    }
}
