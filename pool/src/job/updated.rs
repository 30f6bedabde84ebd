//! Other payloads for a job that runs as one future: it takes them where it waits for what comes.

use std::sync::atomic::Ordering;

use super::payload::NewPayload;
use super::typed::{DecodeError, Payload};
use super::{Hearing, Job};

impl Job {
    /// Another payload, for a job that runs as one future ([`run`](crate::run)), instead of a restart. The job has it when
    /// this returns: [`payload`](Self::payload) gives it from then on. Of several updates in a row only the last one may
    /// come.
    ///
    /// A job takes updates from its first call of this on. One that has never called it is restarted by an update, and so
    /// is one that does not call it again within [`start_timeout`](crate::NodeBuilder::start_timeout). Asks and
    /// notifications that come later wait meanwhile, so wait for all of them in one place. If the job ends before it has
    /// taken an update, it runs again with that payload.
    ///
    /// # Cancel safety
    /// Safe to drop: a payload is taken only when it is returned.
    pub async fn updated(&self) -> NewPayload {
        let Hearing { updates, takes_updates, .. } = self.hearing();
        takes_updates.store(true, Ordering::Release);
        let new = updates.take().await;
        self.takes(new.clone());
        new
    }

    /// Like [`updated`](Self::updated), for payloads of a type.
    ///
    /// # Errors
    /// The payload is of another type, or cannot be read as this one. The job has it all the same.
    ///
    /// # Cancel safety
    /// Safe to drop: a payload is taken only when it is returned.
    pub async fn updated_as<T: Payload>(&self) -> Result<T, DecodeError> {
        self.updated().await.decode()
    }

    /// Offers another payload to [`updated`](Self::updated), and waits until it is taken or the job has ended. Returns
    /// whether it was taken. A job that has never asked for one takes none.
    pub(crate) async fn hand_update(&self, new: NewPayload) -> bool {
        let Some(Hearing { updates, takes_updates, .. }) =
            self.shared.hearing.get().map(|hearing| &**hearing)
        else {
            return false;
        };
        if !takes_updates.load(Ordering::Acquire) {
            return false;
        }
        tokio::select! {
            biased;
            () = self.ending() => updates.close(),
            () = updates.give(new) => {}
        }
        !updates.has_withdrawn()
    }
}
