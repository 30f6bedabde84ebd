//! Parked jobs: retries and listings.

use super::server::{Applied, Transition};
use super::state::State;
use super::streams::Starts;
use crate::model::id::{DispatchId, Incarnation, JobKey};
use crate::model::record::{JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{LOOK_MAX, Parked, ParkedPage, Pause, ReadDue, Refusal, UnparkReply};

impl State {
    /// Retries parked jobs. Their attempts and strikes count from zero.
    pub(super) fn unpark(
        &mut self,
        now: u64,
        inc: Incarnation,
        jobs: &[(JobKey, DispatchId)],
    ) -> Result<Vec<UnparkReply>, Refusal> {
        self.guard(inc)?;
        if self.stopping() {
            return Err(Refusal::ShuttingDown);
        }
        let mut starts = Starts::new();
        let replies = jobs.iter().map(|(key, id)| self.unpark_one(now, key, id, &mut starts)).collect();
        self.emit(now, &starts);
        Ok(replies)
    }

    fn unpark_one(&mut self, now: u64, key: &JobKey, id: &DispatchId, starts: &mut Starts) -> UnparkReply {
        match self.record(key).cloned() {
            None if self.is_damaged(key) => UnparkReply::Bad,
            Some(record) if record.id != *id => UnparkReply::Absent,
            None if self.meta.recovering => UnparkReply::Recovering,
            None => UnparkReply::Absent,
            Some(record) if record.state != JobState::Parked => UnparkReply::Lives,
            Some(record) if record.is_paused() && !self.broken.has(Mutation::UnparkResumes) => {
                UnparkReply::Paused
            }
            Some(record) => {
                self.parked.remove(key);
                self.errors.remove(key);
                let mut record = Record { attempts: 0, strikes: 0, ..record };
                record.set_why(Cause::Unparked);
                self.requeue(key, record, now, 0, "", starts);
                UnparkReply::Queued
            }
        }
    }

    /// Why a job waits, and until when.
    pub(super) fn pause(&self, key: &JobKey) -> Pause {
        let error = self.errors.get(key).filter(|error| !error.is_empty());
        let error = error.map(|text| String::from_utf8_lossy(text).into_owned());
        Pause { until: self.queue.score(key), error }
    }

    /// A page of the parked jobs, in the order of their acceptance.
    pub(super) fn parked_page(&self, cursor: u64, limit: usize) -> ParkedPage {
        let mut page = self.serials.range(cursor..).filter(|(_, key)| self.parked.contains(*key));
        let jobs = page.by_ref().take(limit.max(1)).map(|(_, key)| {
            let error = self.errors.get(key).map(|text| String::from_utf8_lossy(text).into_owned());
            let record = self.record(key).cloned();
            Parked { key: key.clone(), error: error.unwrap_or_default(), record }
        });
        let jobs = jobs.collect();
        ParkedPage { next: page.next().map(|(serial, _)| *serial), jobs }
    }
}

impl Transition for ReadDue {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        let due = state.queue.iter().take(self.limit.clamp(1, LOOK_MAX));
        Ok(due.map(|(_, key)| (key.clone(), state.record(key).cloned())).collect())
    }
}
