//! The notification that a job's processes are given: one at a time, and the next one after the last is done.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

/// The place of one notification between the pool and a job.
#[derive(Debug, Default)]
pub(super) struct Notes {
    place: Mutex<Place>,
    changed: Notify,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Empty,
    /// Nobody has it yet.
    Offered(Bytes),
    /// The job has it, and has not said that it is done.
    Given(Bytes),
}

impl Notes {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, place: Place) {
        *self.place() = place;
        self.changed.notify_waiters();
    }

    /// Offers a notification, and waits until it is done.
    ///
    /// # Cancel safety
    /// A notification of a dropped call is not offered any more.
    pub(super) async fn offer(&self, body: Bytes) {
        let _withdrawn_after = Withdraws(self);
        self.put(Place::Offered(body));
        self.wait_for(|place| matches!(place, Place::Empty).then_some(())).await;
    }

    /// Takes the next notification. The one before is done.
    ///
    /// # Cancel safety
    /// Safe: a notification is taken only when it is returned.
    pub(super) async fn next(&self) -> Bytes {
        self.done();
        let taken = self.wait_for(|place| match place {
            Place::Offered(body) => {
                let body = body.clone();
                *place = Place::Given(body.clone());
                Some(body)
            }
            _ => None,
        });
        taken.await
    }

    /// The one that was taken is done.
    pub(super) fn done(&self) {
        let mut place = self.place();
        if matches!(*place, Place::Given(_)) {
            *place = Place::Empty;
            drop(place);
            self.changed.notify_waiters();
        }
    }

    /// The one that was taken did not arrive: it is offered again.
    pub(super) fn give_back(&self) {
        let mut place = self.place();
        if let Place::Given(body) = &*place {
            *place = Place::Offered(body.clone());
            drop(place);
            self.changed.notify_waiters();
        }
    }

    async fn wait_for<T>(&self, mut found: impl FnMut(&mut Place) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = found(&mut self.place()) {
                return found;
            }
            changed.await;
        }
    }
}

struct Withdraws<'a>(&'a Notes);

impl Drop for Withdraws<'_> {
    fn drop(&mut self) {
        self.0.put(Place::Empty);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_notification_is_done_when_the_next_is_asked_for() {
        let notes = Notes::default();
        assert!(notes.next().now_or_never().is_none());
        let mut first = std::pin::pin!(notes.offer("a".into()));
        assert!(first.as_mut().now_or_never().is_none());
        assert_eq!(notes.next().await, "a");
        assert!(first.as_mut().now_or_never().is_none(), "it may still fail");
        notes.give_back();
        assert_eq!(notes.next().await, "a");
        assert!(notes.next().now_or_never().is_none());
        assert!(first.now_or_never().is_some());
        notes.done();
        assert!(notes.next().now_or_never().is_none(), "there was only one");
    }

    #[tokio::test]
    async fn a_notification_that_is_withdrawn_is_not_given() {
        let notes = Notes::default();
        assert!(notes.offer("a".into()).now_or_never().is_none());
        assert!(notes.next().now_or_never().is_none());
    }
}
