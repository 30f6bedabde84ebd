//! The jobs that a worker has given up lately. A loss of data may make the store forget them, and the worker then
//! reports them again. So an ended job does not come back, and a handed-on job does not count as running.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::Jobs;
use super::held::LeavingJob;
use crate::core::ctx::Ctx;
use crate::core::time::Time;
use crate::model::id::{DispatchId, JobKey, Token};
use crate::model::record::Begun;
use crate::model::stop::StopReason;
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    Attest, AttestItem, HandedOff, LaterPayload, Outcome, ReleaseItem, ReleaseMode, ReleaseReply, STOP_FAILED,
};

/// The minimum reach of the journal: longer than any server lags behind its acknowledgements.
const REACH: Duration = Duration::from_secs(20);
/// The maximum number of entries.
const ENTRIES_MAX: usize = 100_000;

/// One job that has left the worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Past {
    pub(super) key: JobKey,
    pub(super) token: Token,
    pub(super) id: DispatchId,
    pub(super) left: Left,
}

/// How a job left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has ended, unless it has a later payload. The outcome is kept for a caller's own id; else it is empty.
    Ended(Outcome, Option<Box<LaterPayload>>),
    /// It goes on elsewhere from `due` on, or is parked with this error.
    HandedOff { begun: Begun, mode: ReleaseMode, cause: Cause, attempts: u32, due: Time, error: String },
}

impl Past {
    /// Its item of a report after a loss of data.
    pub(super) fn attested(&self, now: Time) -> AttestItem {
        let what = match self.left.clone() {
            Left::Ended(outcome, unless) => Attest::Ended { outcome, unless: unless.map(|unless| *unless) },
            Left::HandedOff { begun, mode, cause, attempts, due, error } => {
                Attest::HandedOff(HandedOff { begun, mode, cause, attempts, delay: due.since(now), error })
            }
        };
        AttestItem { key: self.key.clone(), token: self.token, id: self.id.clone(), what }
    }

    /// Its size in a report, in bytes.
    pub(super) fn size(&self) -> usize {
        let (Left::Ended(text, _) | Left::HandedOff { error: text, .. }) = &self.left;
        self.key.as_bytes().len() + text.len()
    }
}

impl Left {
    pub(super) fn handed_off(now: Time, job: HandedOff) -> Self {
        let HandedOff { begun, mode, cause, attempts, delay, error } = job;
        Self::HandedOff { begun, mode, cause, attempts, due: now + delay, error }
    }
}

/// A worker's journal. Its entries are numbered in order of arrival.
#[derive(Debug, Default)]
pub(in crate::core) struct Journal {
    entries: VecDeque<(Time, Past)>,
    /// The number of the first remaining entry.
    first: u64,
}

impl Journal {
    fn note(&mut self, now: Time, past: Past) {
        if self.entries.len() == ENTRIES_MAX {
            self.drop_first();
        }
        self.entries.push_back((now, past));
    }

    fn drop_first(&mut self) {
        self.entries.pop_front();
        self.first += 1;
    }

    /// Forgets old entries.
    fn forget(&mut self, ctx: &Ctx) {
        let reach = REACH.max(ctx.config.timing.ttl * 2);
        while self.entries.front().is_some_and(|(at, _)| ctx.now.since(*at) > reach) {
            self.drop_first();
        }
    }

    /// The numbers of all entries.
    pub(super) fn all(&self) -> Range<u64> {
        self.first..self.first + self.entries.len() as u64
    }

    /// The highest token of each of these jobs, for those that have entries.
    pub(super) fn highest_of(&self, keys: &BTreeSet<&JobKey>) -> BTreeMap<JobKey, Token> {
        let mut highest = BTreeMap::new();
        if !keys.is_empty() {
            for (_, past) in self.entries.iter().filter(|(_, past)| keys.contains(&past.key)) {
                let token: &mut Token = highest.entry(past.key.clone()).or_default();
                *token = past.token.max(*token);
            }
        }
        highest
    }

    /// The first `most` of these entries that still exist; `numbers` continues after them.
    pub(super) fn page(&self, numbers: &mut Range<u64>, most: usize) -> Vec<Past> {
        numbers.start = numbers.start.max(self.first);
        let from = (numbers.start - self.first) as usize;
        let count = (numbers.end.saturating_sub(numbers.start) as usize).min(most);
        let page: Vec<_> = self.entries.iter().skip(from).take(count).map(|(_, past)| past.clone()).collect();
        numbers.start += page.len() as u64;
        page
    }
}

impl Jobs {
    /// Forgets what has left long ago, but for a report that is under way.
    pub(in crate::core) fn forget_past(&mut self, ctx: &Ctx) {
        if self.attesting.is_none() {
            self.journal.forget(ctx);
        }
    }

    /// The data were lost, and this worker does not finish its report. So its ended jobs may run again elsewhere, and
    /// a later loss of data must not end those runs.
    pub(in crate::core) fn fall_silent(&mut self, ctx: &Ctx) {
        if !ctx.config.broken.has(Mutation::SilentKeepsJournal) {
            self.journal = Journal::default();
        }
    }

    /// A release was answered. The journal keeps it for a while, and the worker reports it at once if data were lost
    /// meanwhile.
    pub(super) fn has_left(&mut self, ctx: &Ctx, out: &LeavingJob, item: &ReleaseItem, reply: ReleaseReply) {
        let Some(id) = out.id.clone() else { return };
        let ended = match reply {
            ReleaseReply::Deleted => true,
            // The data went back behind a stop that this worker knows of.
            ReleaseReply::Queued | ReleaseReply::Parked => out.stopped,
            // The release was carried out, and its answer was lost. Or the data went back, and the store no longer
            // knows the job as this worker's.
            ReleaseReply::Stale if out.unsure || self.attesting.is_some() => {
                item.mode == ReleaseMode::Delete || out.stopped
            }
            ReleaseReply::Stale | ReleaseReply::Bad | ReleaseReply::Later => return,
        };
        let left = if ended {
            let own = id.caller_id().is_some();
            // A lost answer may have said that the job goes on with a later payload. The data may have lost that answer.
            let broken = &ctx.config.broken;
            let lossy = self.attesting.is_some() && !broken.has(Mutation::LossEndIsSure);
            let unsaid = broken.has(Mutation::EndNamesNoPayload);
            let unsure = (reply == ReleaseReply::Stale || lossy) && !out.stopped && !unsaid;
            let unless = item.ran.filter(|_| unsure).map(|than| {
                let rest = item.rest().map(|reason| (item.cause, reason.to_owned()));
                Box::new(LaterPayload { than, begun: begun_of(out), rest })
            });
            Left::Ended(if own { self.outcome(out, item) } else { Outcome::new() }, unless)
        } else {
            let parks = reply == ReleaseReply::Parked || item.mode == ReleaseMode::Park;
            let error = if parks { item.rest().unwrap_or(&item.result) } else { "" }.to_owned();
            // A job with a later payload goes on, although it has ended here. Or it rests.
            let (mode, cause) = match item.mode {
                ReleaseMode::Delete if item.rest().is_some() => (ReleaseMode::Park, item.cause),
                ReleaseMode::Delete => (ReleaseMode::HandOff, Cause::Updated),
                mode => (mode, item.cause),
            };
            let due = ctx.now + item.delay;
            let begun = begun_of(out);
            let attempts = attempts_after(ctx, out, mode);
            Left::HandedOff { begun, mode, cause, attempts, due, error }
        };
        let past = Past { key: item.key.clone(), token: item.token, id, left };
        if let Some(attesting) = &mut self.attesting {
            attesting.has_gone(past.clone());
        }
        self.journal.note(ctx.now, past);
    }

    /// The outcome of a dispatch whose job is gone.
    fn outcome(&self, out: &LeavingJob, item: &ReleaseItem) -> Outcome {
        let stopping = self.leaving == Some(StopReason::Shutdown);
        match item.result.as_str() {
            _ if out.started => "ok",
            _ if item.mode != ReleaseMode::Delete && stopping => "shutdown",
            "" if out.stopped || item.mode != ReleaseMode::Delete => "stopped",
            "" => "ended",
            result if result.starts_with(STOP_FAILED) => "stopped",
            result => result,
        }
        .to_owned()
    }
}

fn begun_of(out: &LeavingJob) -> Begun {
    if out.started { Begun::Started } else { Begun::Begun }
}

/// The attempts of a job after this release, as the store counts them.
fn attempts_after(ctx: &Ctx, out: &LeavingJob, mode: ReleaseMode) -> u32 {
    let stable = ctx.config.settings.stable_run;
    match mode {
        ReleaseMode::HandOff => 0,
        ReleaseMode::GiveBack | ReleaseMode::Refuse | ReleaseMode::Elsewhere { .. } | ReleaseMode::Park => {
            out.attempts.saturating_sub(1)
        }
        ReleaseMode::Fail | ReleaseMode::Delete => {
            out.held.as_ref().map_or(out.attempts, |held| held.attempts_at(ctx.now, stable))
        }
    }
}
