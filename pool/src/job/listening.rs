//! The time in which a job takes notifications, asks and payloads, and what a notification means.

use super::typed::{DecodeError, Payload};
use super::{Hearing, Job};

impl Job {
    /// Notifications may be taken until the returned value is dropped.
    pub(crate) fn listening(&self) -> Listening {
        Listening(self.clone())
    }

    /// Like [`notified`](Self::notified), for values from [`Node::notify_as`](crate::Node::notify_as).
    ///
    /// # Errors
    /// The notification is of another type, or cannot be read as this one. It counts as delivered.
    ///
    /// # Cancel safety
    /// Safe to drop: a notification is taken only when it is returned.
    pub async fn notified_as<T: Payload>(&self) -> Result<T, DecodeError> {
        T::from_body(&self.notified().await)
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
