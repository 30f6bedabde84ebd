//! The incarnation of the set that a node follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::model::id::Incarnation;

/// One part's view of the node's incarnation. All parts share one value.
///
/// Parts that wait hear of another incarnation in the order in which they began to wait. The receivers of
/// [`tokio::sync::watch`] hear of it in a random order, and a simulated run would not repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Incarnations {
    shared: Arc<Shared>,
    seen: Incarnation,
}

#[derive(Debug, Default)]
struct Shared {
    latest: AtomicU64,
    changed: Notify,
}

impl Incarnations {
    pub(crate) fn latest(&self) -> Incarnation {
        Incarnation(self.shared.latest.load(Ordering::Acquire))
    }

    /// Says to all parts that the node follows another incarnation.
    pub(crate) fn change(&self, to: Incarnation) {
        self.shared.latest.store(to.0, Ordering::Release);
        self.shared.changed.notify_waiters();
    }

    /// Whether there is another incarnation than this part has seen.
    pub(crate) fn has_changed(&self) -> bool {
        self.latest() != self.seen
    }

    /// The latest one, which this part has seen from now on.
    pub(crate) fn see(&mut self) -> Incarnation {
        self.seen = self.latest();
        self.seen
    }

    /// Waits until there is another incarnation than this part has seen. A dropped wait loses nothing.
    pub(crate) async fn changed(&self) {
        let mut notified = std::pin::pin!(self.shared.changed.notified());
        // It hears of a change from here on.
        notified.as_mut().enable();
        if !self.has_changed() {
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_change_is_heard_once_by_each_part() {
        let mut one = Incarnations::default();
        let mut other = one.clone();
        assert!(one.changed().now_or_never().is_none());
        other.change(Incarnation(7));
        for part in [&mut one, &mut other] {
            part.changed().await;
            assert!(part.has_changed(), "a wait alone sees nothing");
            assert_eq!(part.see(), Incarnation(7));
            assert!(part.changed().now_or_never().is_none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn parts_hear_of_a_change_in_the_order_they_came() {
        let source = Incarnations::default();
        let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
        // Fewer than the tasks that the runtime runs in a row: all wait before the change.
        for part in 0..32 {
            let (own, sender) = (source.clone(), sender.clone());
            tokio::spawn(async move {
                own.changed().await;
                let _ = sender.send(part);
            });
        }
        tokio::task::yield_now().await;
        source.change(Incarnation(1));
        for part in 0..32 {
            assert_eq!(heard.recv().await, Some(part));
        }
    }
}
