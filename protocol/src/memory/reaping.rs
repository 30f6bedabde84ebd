//! The end of an expired worker: its jobs are freed.

use super::state::{Dead, State};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::record::JobState;
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{NOTES_PAGE, Reaped, Refusal};

impl State {
    /// Frees at most `limit` jobs of an expired worker. Its remains are deleted with the last job.
    pub(super) fn reap(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        limit: usize,
    ) -> Result<Reaped, Refusal> {
        self.guard_normal(inc)?;
        let Some(&Dead { heard, .. }) = self.dead.get(&worker) else {
            return Ok(Reaped { done: true, count: 0, outcomes: Vec::new() });
        };
        let stopping = self.stopping();
        let page: Vec<_> = self.owned_after(worker, None).take(limit).cloned().collect();
        let (mut outcomes, mut starts) = (Vec::new(), Vec::new());
        let (mut count, mut notes) = (0, 0);
        for key in &page {
            if notes >= NOTES_PAGE {
                break;
            }
            count += 1;
            let Some(mut record) = self.record(key).filter(|r| r.owner == Some(worker)).cloned() else {
                self.disown(worker, key);
                continue;
            };
            let id = record.id.clone();
            if record.state == JobState::Running {
                // Nobody knows whether a granted job has run. A start that ends its process never confirms.
                self.confirm(&mut record);
            }
            if record.state == JobState::Stopping || stopping || self.broken.has(Mutation::ReapEnds) {
                let outcome = if record.state == JobState::Stopping { "stopped" } else { "shutdown" };
                notes += self.notes_of(key);
                self.drop_job(key, &record, now, outcome);
                outcomes.push((id, outcome.to_owned()));
            } else {
                let delay = self.suspect(key, &mut record, heard);
                if !self.broken.has(Mutation::LossUnsaid) {
                    record.set_why(Cause::Lost);
                }
                if self.requeue(key, record, now, delay, "worker lost", &mut starts) == JobState::Parked {
                    outcomes.push((id, "parked".to_owned()));
                }
            }
        }
        self.emit(now, &starts);
        let done = count == page.len() && count < limit;
        if done {
            self.worker_streams.remove(&worker);
            self.dead.remove(&worker);
        }
        Ok(Reaped { done, count, outcomes })
    }
}
