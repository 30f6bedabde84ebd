//! Natural batching: one call in flight, and whatever arrives meanwhile is the next batch. No timers, no added
//! latency when idle. What was not answered goes back to the front and is sent again, unchanged.

use std::collections::VecDeque;
use std::time::Duration;

use super::time::Time;
use crate::store::{BATCH_BYTES, BATCH_MAX};

const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Items of one kind on their way to the store.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    queue: VecDeque<T>,
    busy: bool,
    /// The call in flight was abandoned.
    void: bool,
    retry_at: Option<Time>,
    retry: Duration,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), busy: false, void: false, retry_at: None, retry: RETRY_MIN }
    }
}

impl<T> Lane<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.queue.push_back(item);
    }

    /// The next batch, when no call is in flight and no retry is being waited for. The lane is busy from then on
    /// until [`answered`](Self::answered) or [`put_back`](Self::put_back).
    pub(crate) fn batch(&mut self, now: Time, bytes: impl Fn(&T) -> usize) -> Option<Vec<T>> {
        self.batch_within(now, BATCH_MAX, BATCH_BYTES, bytes)
    }

    /// The same, with bounds of its own in items and bytes; an item that has more bytes goes alone.
    pub(crate) fn batch_within(
        &mut self,
        now: Time,
        most: usize,
        most_bytes: usize,
        bytes: impl Fn(&T) -> usize,
    ) -> Option<Vec<T>> {
        if self.queue.is_empty() || !self.occupy(now) {
            return None;
        }
        let mut total = 0;
        let mut count = 0;
        for item in self.queue.iter().take(most) {
            total += bytes(item);
            if count > 0 && total > most_bytes {
                break;
            }
            count += 1;
        }
        Some(self.queue.drain(..count).collect())
    }

    /// Marks a call in flight, also one that carries nothing from the queue; false when none may be sent now.
    pub(crate) fn occupy(&mut self, now: Time) -> bool {
        let ready = !self.busy && self.retry_at.is_none_or(|at| now >= at);
        if ready {
            self.busy = true;
            self.retry_at = None;
        }
        ready
    }

    /// The call in flight was answered.
    pub(crate) fn answered(&mut self) {
        self.busy = false;
        self.retry = RETRY_MIN;
    }

    /// The call in flight was not answered, or not executed: its items come first in the next one, after a pause.
    pub(crate) fn put_back(&mut self, now: Time, items: Vec<T>) {
        self.busy = false;
        for item in items.into_iter().rev() {
            self.queue.push_front(item);
        }
        self.retry_at = Some(now + self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }

    /// Forgets what waits, but for these.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.queue.retain(keep);
    }

    /// Forgets what waits. A call in flight stays in flight.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Forgets what waits, and marks the call in flight as one of which nothing is to be made, whatever comes back.
    /// Returns what waited.
    pub(crate) fn abandon(&mut self) -> VecDeque<T> {
        self.void = self.busy;
        std::mem::take(&mut self.queue)
    }

    /// A call has come back: true when it was abandoned. The lane is free again then.
    pub(crate) fn was_abandoned(&mut self) -> bool {
        let void = std::mem::take(&mut self.void);
        if void {
            self.answered();
        }
        void
    }

    /// What waits.
    pub(crate) fn waiting(&mut self) -> impl Iterator<Item = &mut T> {
        self.queue.iter_mut()
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }

    /// When a call may be sent again after one that was not answered, if anything waits for that.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.queue.is_empty() { None } else { self.resumes_at() }
    }

    /// When a call may be sent again after one that was not answered, whatever waits for that.
    pub(crate) fn resumes_at(&self) -> Option<Time> {
        if self.busy { None } else { self.retry_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_during_a_call_is_the_next_batch() {
        let mut lane = Lane::default();
        lane.push(1);
        assert_eq!(lane.batch(Time(0), |_| 1), Some(vec![1]));
        lane.push(2);
        lane.push(3);
        assert_eq!(lane.batch(Time(0), |_| 1), None);
        lane.answered();
        assert_eq!(lane.batch(Time(0), |_| 1), Some(vec![2, 3]));
    }

    #[test]
    fn an_unanswered_batch_comes_first_again_after_a_pause_that_grows() {
        let mut lane = Lane::default();
        lane.push(1);
        let batch = lane.batch(Time(0), |_| 1).unwrap_or_default();
        lane.push(2);
        lane.put_back(Time(0), batch);
        assert_eq!(lane.batch(Time(0), |_| 1), None);
        let at = lane.deadline().unwrap_or_default();
        assert_eq!(at, Time(0) + RETRY_MIN);
        assert_eq!(lane.batch(at, |_| 1), Some(vec![1, 2]));
        lane.put_back(at, vec![1, 2]);
        assert_eq!(lane.deadline(), Some(at + RETRY_MIN * 2));
    }

    #[test]
    fn batches_keep_to_the_bounds_of_a_step() {
        let mut lane = Lane::default();
        for i in 0..300 {
            lane.push(i);
        }
        assert_eq!(lane.batch(Time(0), |_| 1).map(|b| b.len()), Some(BATCH_MAX));
        lane.answered();
        assert_eq!(lane.batch(Time(0), |_| BATCH_BYTES / 2).map(|b| b.len()), Some(2));
        lane.answered();
        assert_eq!(lane.batch(Time(0), |_| BATCH_BYTES * 2).map(|b| b.len()), Some(1));
    }
}
