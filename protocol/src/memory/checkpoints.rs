//! The states that owners leave with their jobs.

use super::state::{State, Stored};
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::{Begun, JobState};
use crate::mutation::Mutation;
use crate::step::{Checkpoint, Refusal, SaveItem, SaveReply};

/// Whether the record is in R or S and names this owner and token. A damaged rest of it does not matter.
fn is_run_by(stored: &Stored, worker: WorkerId, token: Token) -> bool {
    match stored {
        Stored::Record(record) => {
            (record.owner, record.token) == (Some(worker), token)
                && matches!(record.state, JobState::Running | JobState::Stopping)
        }
        Stored::Damaged(text) => {
            ['R', 'S'].iter().any(|state| text.starts_with(format!("1|{state}|{worker}|{token}|").as_bytes()))
        }
    }
}

impl State {
    /// Keeps checkpoints, each in place of the one before.
    pub(super) fn save(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        items: &[SaveItem],
    ) -> Result<Vec<SaveReply>, Refusal> {
        let recovering = self.guard(inc)?;
        Ok(items.iter().map(|item| self.save_one(now, worker, item, recovering)).collect())
    }

    fn save_one(&mut self, now: u64, worker: WorkerId, item: &SaveItem, recovering: bool) -> SaveReply {
        let SaveItem { key, token, given, number, bytes } = item;
        let Some(job) = self.jobs.get(key) else {
            return if recovering { SaveReply::Recovering } else { SaveReply::Stale };
        };
        if !is_run_by(&job.stored, worker, *token) {
            return SaveReply::Stale;
        }
        let is_late = self.checkpoints.get(key).is_some_and(|kept| {
            kept.token == *given && kept.number >= *number || given != token && kept.token > *given
        });
        if is_late && !self.broken.has(Mutation::LateSaveWins) {
            return SaveReply::Kept;
        }
        if bytes.len() as u64 > self.limit("checkpoint_max") {
            return SaveReply::TooLong;
        }
        if let Some(mut record) = self.record(key).cloned().filter(|record| record.begun == Begun::Never)
            && !self.broken.has(Mutation::SaveLeavesUnbegun)
        {
            self.confirm(&mut record);
            self.write(key, record);
        }
        let kept = Checkpoint { token: *given, number: *number, at: now, bytes: bytes.clone() };
        self.checkpoints.insert(key.clone(), kept);
        SaveReply::Kept
    }

    /// A job's checkpoint.
    pub(super) fn checkpoint(&self, key: &JobKey) -> Option<Checkpoint> {
        self.checkpoints.get(key).cloned()
    }
}
