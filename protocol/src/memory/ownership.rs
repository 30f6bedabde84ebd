//! The owner's steps: begin, started, release, and the listing of its jobs.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use tenure_steps::EntryId;

use super::state::{Ended, State};
use super::streams::Starts;
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::record::{Begun, JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    BATCH_BYTES, BeginReply, BegunJob, NOTES_PAGE, Outcome, OwnedPage, Refusal, ReleaseItem, ReleaseMode,
    ReleaseReply, STOP_FAILED, StartedItem, WorkerBegins, WorkerBegun, WorkerStarts,
};

/// The longest back-off of a release, ms.
const DELAY_MAX: u128 = 240_000;

/// A job that all have turned away asks this many workers after each of its pauses, and so long is the longest of them, ms.
const ROUND: u64 = 8;
const TURNED_AWAY_MAX: u64 = 30_000;

/// A back-off in the form that is stored, in ms.
pub(super) fn delay_ms(delay: Duration) -> u64 {
    delay.as_millis().min(DELAY_MAX) as u64
}

/// The worker gives a job up that no handler has had.
fn nobody_had(item: &ReleaseItem) -> bool {
    match item.mode {
        ReleaseMode::GiveBack => true,
        ReleaseMode::Elsewhere { .. } => item.result.is_empty(),
        _ => false,
    }
}

type Told = Vec<(NodeName, DispatchId, Outcome)>;

impl State {
    /// Lets owners take their assigned jobs.
    pub(super) fn begin(
        &mut self,
        now: u64,
        inc: Incarnation,
        begins: &[WorkerBegins],
    ) -> Result<Vec<WorkerBegun>, Refusal> {
        self.guard_normal(inc)?;
        let mut bytes = 0;
        Ok(begins.iter().map(|of| self.begin_of(now, of, &mut bytes)).collect())
    }

    fn begin_of(&mut self, now: u64, of: &WorkerBegins, bytes: &mut usize) -> WorkerBegun {
        let WorkerBegins { worker, finished, jobs } = of;
        if !self.members.contains_key(worker) {
            return Err(Refusal::Fenced);
        }
        if self.stopping() {
            return Err(Refusal::ShuttingDown);
        }
        let replies = jobs.iter().map(|(key, token)| self.begin_one(now, *worker, key, *token, bytes));
        let replies = replies.collect();
        self.finish(*worker, finished);
        Ok(replies)
    }

    fn begin_one(
        &mut self,
        now: u64,
        worker: WorkerId,
        key: &JobKey,
        token: Token,
        bytes: &mut usize,
    ) -> BeginReply {
        let mut found = self.record_of(key, worker, token).cloned();
        if self.broken.has(Mutation::BeginUnchecked) {
            let taken = |record: &Record| Record { owner: Some(worker), token, ..record.clone() };
            found = self.record(key).map(taken);
        }
        let Some(mut record) = found else {
            return BeginReply::Refused;
        };
        if !matches!(record.state, JobState::Assigned | JobState::Running) {
            return BeginReply::Refused;
        }
        if *bytes > BATCH_BYTES {
            return BeginReply::Full;
        }
        if record.state == JobState::Assigned {
            if record.begun == Begun::Never {
                // No owner has had this job: a checkpoint is of a job whose record was lost.
                self.checkpoints.remove(key);
            }
            self.confirm(&mut record);
            record.state = JobState::Running;
            record.attempts += 1;
            record.since = now;
            if !self.broken.has(Mutation::BegunStaysQueued) {
                self.queue.remove(key);
            }
            self.errors.remove(key);
            self.write(key, record.clone());
        } else if record.begun == Begun::Never {
            self.confirm(&mut record);
            self.write(key, record.clone());
        }
        let job = self.with_belongings(key, record);
        *bytes += job.bytes();
        BeginReply::Begun(job)
    }

    /// All that a worker gets with the job of this record.
    pub(super) fn with_belongings(&self, key: &JobKey, record: Record) -> BegunJob {
        let payload = self.payload(key).unwrap_or_default();
        let checkpoint = self.checkpoint(key).map(Box::new);
        BegunJob { record, waiting: self.mailboxes.contains_key(key), payload, checkpoint }
    }

    /// Records that start handlers have succeeded.
    pub(super) fn started(
        &mut self,
        now: u64,
        inc: Incarnation,
        starts: &[WorkerStarts],
    ) -> Result<Vec<bool>, Refusal> {
        self.guard(inc)?;
        let allowed = u32::try_from(self.limit("strikes")).unwrap_or(u32::MAX).max(1);
        let mut told = Told::new();
        let mut replies = Vec::new();
        let items = starts.iter().flat_map(|of| of.items.iter().map(|item| (of.worker, item)));
        for (worker, StartedItem { key, token, tell }) in items {
            let record = self.record_of(key, worker, *token);
            let record =
                record.filter(|r| matches!(r.state, JobState::Running | JobState::Stopping)).cloned();
            replies.push(record.is_some());
            let Some(mut record) = record else { continue };
            let id = record.id.clone();
            self.confirm(&mut record);
            if record.begun != Begun::Started {
                let strikes = record.strikes - record.strikes % allowed;
                self.write(key, Record { begun: Begun::Started, strikes, ..record });
                self.settle_outcome(&id, "ok", now);
            }
            told.extend(tell.clone().map(|node| (node, id, "ok".to_owned())));
        }
        self.tell_nodes(now, told);
        for WorkerStarts { worker, finished, .. } in starts {
            self.finish(*worker, finished);
        }
        Ok(replies)
    }

    /// Takes jobs back from their owner.
    pub(super) fn release(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        finished: &[EntryId],
        items: &[ReleaseItem],
    ) -> Result<Vec<ReleaseReply>, Refusal> {
        self.guard(inc)?;
        let (mut told, mut starts) = (Told::new(), Starts::new());
        let (mut replies, mut notes) = (Vec::with_capacity(items.len()), 0);
        for item in items {
            replies.push(match self.record_of(&item.key, worker, item.token).cloned() {
                Some(record) if self.ends(item, &record) && notes >= NOTES_PAGE => ReleaseReply::Later,
                Some(record) => {
                    notes += if self.ends(item, &record) { self.notes_of(&item.key) } else { 0 };
                    self.release_one(now, item, record, &mut told, &mut starts)
                }
                None if self.is_damaged(&item.key) => ReleaseReply::Bad,
                None => ReleaseReply::Stale,
            });
        }
        self.emit(now, &starts);
        self.tell_nodes(now, told);
        self.finish(worker, finished);
        Ok(replies)
    }

    /// Whether its job is gone after this release.
    fn ends(&self, item: &ReleaseItem, record: &Record) -> bool {
        let must_end = record.state == JobState::Stopping || self.stopping();
        must_end || item.mode == ReleaseMode::Delete && !self.has_later_payload(item, record)
    }

    /// Whether the job was given a later payload than the one that it ran with.
    fn has_later_payload(&self, item: &ReleaseItem, record: &Record) -> bool {
        let has_later = item.ran.is_some_and(|ran| record.generation() > ran);
        has_later && !self.broken.has(Mutation::UpdateEndsWithRun)
    }

    fn release_one(
        &mut self,
        now: u64,
        item: &ReleaseItem,
        mut record: Record,
        told: &mut Told,
        starts: &mut Starts,
    ) -> ReleaseReply {
        let key = &item.key;
        let id = record.id.clone();
        if !nobody_had(item) && record.state == JobState::Running {
            self.confirm(&mut record);
        }
        if self.ends(item, &record) {
            return self.end_released(now, item, &record, told);
        }
        let rest = item.rest().filter(|_| !self.broken.has(Mutation::UpdateEndsRest));
        let (mode, cause, delay, result) = match rest {
            _ if !self.has_later_payload(item, &record) => {
                (item.mode, item.cause, item.delay, item.result.as_str())
            }
            Some(reason) => (ReleaseMode::Park, item.cause, Duration::ZERO, reason),
            None => (ReleaseMode::HandOff, Cause::Updated, Duration::ZERO, ""),
        };
        if cause == Cause::Refused {
            record.set_refusal(result);
        } else {
            record.set_why(cause);
        }
        let mut delay = delay_ms(delay);
        match mode {
            ReleaseMode::HandOff => {
                // A job that was not begun here has shown nothing.
                if record.state == JobState::Running {
                    record.attempts = 0;
                }
                record.strikes = 0;
            }
            ReleaseMode::GiveBack
            | ReleaseMode::Refuse
            | ReleaseMode::Elsewhere { .. }
            | ReleaseMode::Park => {
                if record.state == JobState::Running {
                    record.attempts = record.attempts.saturating_sub(1);
                }
                match mode {
                    ReleaseMode::GiveBack => record.strikes = 0,
                    ReleaseMode::Refuse => record.strikes += 1,
                    ReleaseMode::Elsewhere { workers } => delay = self.elsewhere(&mut record, workers),
                    _ => {}
                }
            }
            ReleaseMode::Fail | ReleaseMode::Delete => self.forgive(&mut record, now),
        }
        if self.broken.has(Mutation::ReleaseMints) {
            record.token = Token(self.mint());
        }
        let state = if mode == ReleaseMode::Park {
            self.park(key, record, now, result)
        } else {
            self.requeue(key, record, now, delay, result, starts)
        };
        if state == JobState::Parked {
            let outcome = if item.cause == Cause::Paused { "paused" } else { "parked" };
            told.extend(item.tell.clone().map(|node| (node, id, outcome.to_owned())));
            return ReleaseReply::Parked;
        }
        ReleaseReply::Queued
    }

    fn end_released(
        &mut self,
        now: u64,
        item: &ReleaseItem,
        record: &Record,
        told: &mut Told,
    ) -> ReleaseReply {
        let (id, was_stopping) = (record.id.clone(), record.state == JobState::Stopping);
        let stop_failed = item.mode == ReleaseMode::Delete && item.result.starts_with(STOP_FAILED);
        let outcome = match item.result.as_str() {
            _ if item.mode != ReleaseMode::Delete && !was_stopping => "shutdown",
            result if !result.is_empty() && !stop_failed => result,
            _ if was_stopping => "stopped",
            _ => "ended",
        };
        self.drop_job(&item.key, record, now, outcome);
        // A run under a higher token may be reported.
        let by_run = self.meta.recovering && item.ran.is_some() && !was_stopping;
        if item.mode != ReleaseMode::Delete || by_run {
            // A worker that is not told of the end may claim the job after a loss of data.
            let at = now.max(record.created);
            let until = at + self.limit("max_dispatch_deadline");
            self.ended.put(Ended::Dispatch(id.clone()), until);
            if by_run {
                self.end_by_run(&id, item.token, at, until);
            }
        }
        let for_stopper = if stop_failed { &item.result } else { outcome };
        let told_what = [(&item.tell, outcome), (&item.tell_stopper, for_stopper)];
        told.extend(
            told_what
                .into_iter()
                .filter_map(|(node, what)| Some((node.clone()?, id.clone(), what.to_owned()))),
        );
        ReleaseReply::Deleted
    }

    /// Sends a job that its worker does not take to the next worker of its chain. Returns its pause, ms. There is none
    /// before all of them have turned it away. From then on one follows each [`ROUND`] of them, and it grows.
    pub(super) fn elsewhere(&self, record: &mut Record, workers: u32) -> u64 {
        let allowed = self.limit("strikes").max(1);
        let turned_away = u64::from(record.strikes) / allowed + 1;
        record.strikes = u32::try_from(turned_away * allowed).unwrap_or(0);
        let workers = u64::from(workers.max(1));
        let (again, round) = (turned_away.checked_sub(workers), workers.min(ROUND));
        let pauses = again.filter(|again| again % round == 0).map(|again| again / round);
        pauses.map_or(0, |n| (1_000 << n.min(5)).min(TURNED_AWAY_MAX))
    }

    /// The keys in a worker's index, beginning after `after`.
    pub(super) fn owned_after(
        &self,
        worker: WorkerId,
        after: Option<&JobKey>,
    ) -> impl Iterator<Item = &JobKey> {
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        self.owned.get(&worker).into_iter().flat_map(move |keys| keys.range::<JobKey, _>(range))
    }

    /// A page of a worker's jobs.
    pub(super) fn owned(
        &self,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<OwnedPage, Refusal> {
        self.guard(inc)?;
        let page = self.owned_after(worker, after).take(limit);
        let jobs: Vec<_> = page.map(|key| (key.clone(), self.record(key).cloned())).collect();
        let next = jobs.last().filter(|_| jobs.len() == limit).map(|(key, _)| key.clone());
        Ok(OwnedPage { next, jobs })
    }
}
