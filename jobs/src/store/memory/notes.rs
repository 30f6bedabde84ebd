//! The notes of handlers, beside the data of a job.

use bytes::Bytes;

use super::edit::{Edit, flag, unflag};
use crate::model::record::Record;

impl Edit<'_> {
    /// Notes belong to the data of a job in a single queue.
    pub(super) fn set_notes(&mut self, id: &str, job: &mut Record, notes: &Bytes) {
        self.state.data.extras.insert(format!("n:{id}"), notes.clone());
        flag(job, 'n');
        self.put(id, job);
    }

    pub(super) fn forget_notes(&mut self, id: &str, job: &mut Record) {
        if job.has('n') {
            self.state.data.extras.remove(&format!("n:{id}"));
            unflag(job, "n");
            self.put(id, job);
        }
    }
}
