//! Hands notifications and other payloads to a job that runs as one future, through a slot for one of a kind. One counts
//! as delivered only when the job has it, and at most one waits here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The slot between the actor, which gives one body at a time, and the job, which takes it.
#[derive(Debug)]
pub(crate) struct Handover<T> {
    slot: Mutex<Slot<T>>,
    given: Notify,
    taken: Notify,
}

#[derive(Debug)]
struct Slot<T> {
    body: Option<T>,
    closed: bool,
    /// The slot closed before the given body was taken.
    withdrawn: bool,
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        let slot = Mutex::new(Slot { body: None, closed: false, withdrawn: false });
        Self { slot, given: Notify::new(), taken: Notify::new() }
    }
}

impl<T> Handover<T> {
    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a body, and waits until it is taken or the slot is closed.
    pub(crate) async fn give(&self, body: T) {
        {
            let mut slot = self.slot();
            if slot.closed {
                slot.withdrawn = true;
                return;
            }
            slot.body = Some(body);
        }
        self.given.notify_one();
        loop {
            let taken = self.taken.notified();
            if self.slot().body.is_none() {
                return;
            }
            taken.await;
        }
    }

    /// Takes the next body; never returns once the slot is closed.
    ///
    /// # Cancel safety
    /// Yes: a body is taken only when it is returned.
    pub(crate) async fn take(&self) -> T {
        loop {
            let given = self.given.notified();
            if let Some(body) = self.slot().body.take() {
                self.taken.notify_one();
                return body;
            }
            given.await;
        }
    }

    /// Closes the slot: a body in it is withdrawn.
    pub(crate) fn close(&self) {
        {
            let mut slot = self.slot();
            slot.closed = true;
            slot.withdrawn |= slot.body.take().is_some();
        }
        self.taken.notify_one();
    }

    /// Whether a given body was withdrawn.
    pub(crate) fn has_withdrawn(&self) -> bool {
        self.slot().withdrawn
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_body_is_given_once_it_is_taken() {
        let handover = Handover::<&str>::default();
        let mut giving = std::pin::pin!(handover.give("a"));
        assert!(giving.as_mut().now_or_never().is_none());
        assert_eq!(handover.take().now_or_never(), Some("a"));
        assert!(giving.now_or_never().is_some());
        assert_eq!(handover.take().now_or_never(), None, "it is handed out once");
        handover.close();
        assert!(!handover.has_withdrawn());
    }

    #[tokio::test]
    async fn closing_withdraws_what_nobody_took() {
        let handover = Handover::<&str>::default();
        let mut giving = std::pin::pin!(handover.give("a"));
        assert!(giving.as_mut().now_or_never().is_none());
        handover.close();
        assert!(handover.has_withdrawn());
        assert!(giving.now_or_never().is_some());
        assert_eq!(handover.take().now_or_never(), None);
        assert!(handover.give("b").now_or_never().is_some(), "nobody would take it");
    }
}
