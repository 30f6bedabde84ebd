//! The time in which a job takes notifications, asks and payloads.

use super::{Hearing, Job};

impl Job {
    /// Notifications may be taken until the returned value is dropped.
    pub(crate) fn listening(&self) -> Listening {
        Listening(self.clone())
    }
}

/// Withdraws notifications, asks and payloads that nobody took, when the job's future has ended.
pub(crate) struct Listening(Job);

impl Drop for Listening {
    fn drop(&mut self) {
        let Hearing { notes, asks, updates, .. } = self.0.hearing();
        notes.close();
        asks.close();
        updates.close();
    }
}
