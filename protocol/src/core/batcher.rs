//! Natural batching: one call in flight, and items that arrive meanwhile form the next batch. It needs no timer and
//! adds no latency when idle. Unanswered items return to the front and are sent again, unchanged.
//!
//! A call that fails on stored data is sent again in halves, until the failing item is alone. That item is set aside:
//! it is tried again alone, after pauses, and the others go on.

use std::collections::VecDeque;
use std::time::Duration;

use super::time::{Time, earliest};
use crate::step::{BATCH_BYTES, BATCH_MAX, Result, StoreError};

const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The pauses of an item that was set aside.
const ASIDE_MIN: Duration = Duration::from_secs(1);
const ASIDE_MAX: Duration = Duration::from_secs(10);

/// The maximum number of items in a call. It halves after a failure on stored data, and doubles after any other call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width(usize);

impl Default for Width {
    fn default() -> Self {
        Self(BATCH_MAX)
    }
}

impl Width {
    pub(super) fn most(self) -> usize {
        self.0
    }

    pub(super) fn widen(&mut self) {
        self.0 = (self.0 * 2).min(BATCH_MAX);
    }

    /// A call of `items` items has failed.
    pub(super) fn narrow(&mut self, items: usize, error: &StoreError) {
        if is_of_an_item(error) {
            self.0 = (items / 2).max(1);
        }
    }
}

/// Whether some of the items may have made the call fail, so that the others alone could succeed.
pub(super) fn is_of_an_item(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged(_))
}

/// The store may have carried out the call, although there is no answer.
pub(super) fn may_be_done(error: &StoreError) -> bool {
    matches!(error, StoreError::Unanswered(_) | StoreError::Damaged(_) | StoreError::Unusable(_))
}

/// An item on which a call has failed alone.
#[derive(Debug)]
struct Aside<T> {
    item: T,
    /// When the item is tried again, and after which pause.
    at: Time,
    pause: Duration,
}

/// Items of one kind on their way to the store.
#[derive(Debug)]
pub(super) struct Batcher<T> {
    queue: VecDeque<T>,
    /// Until then the items may wait for others to fill a call.
    fills_until: Option<Time>,
    busy: bool,
    /// The call in flight was abandoned.
    void: bool,
    retry_at: Option<Time>,
    retry: Duration,
    width: Width,
    aside: Vec<Aside<T>>,
    /// The call in flight, or the last one, carries an item that was set aside and has waited this long.
    alone: Option<Duration>,
}

impl<T> Default for Batcher<T> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            fills_until: None,
            busy: false,
            void: false,
            retry_at: None,
            retry: RETRY_MIN,
            width: Width::default(),
            aside: Vec::new(),
            alone: None,
        }
    }
}

impl<T> Batcher<T> {
    pub(super) fn push(&mut self, item: T) {
        self.fills_until = None;
        self.queue.push_back(item);
    }

    /// An item for which nobody waits. It goes with the next one that does not wait, or when a call is full, at this time at
    /// the latest.
    pub(super) fn push_late(&mut self, item: T, at: Time) {
        if self.queue.is_empty() {
            self.fills_until = Some(at);
        }
        self.queue.push_back(item);
    }

    /// The items wait no longer for others.
    pub(super) fn hurry(&mut self) {
        self.fills_until = None;
    }

    /// Items wait that wait for no others.
    pub(super) fn has_due(&self, now: Time) -> bool {
        !self.queue.is_empty() && self.fills_until().is_none_or(|at| now >= at)
    }

    /// Until when the items wait for others.
    fn fills_until(&self) -> Option<Time> {
        self.fills_until.filter(|_| self.queue.len() < self.width.most())
    }

    /// The next batch, if no call is in flight and no retry is pending. The batcher is then busy until
    /// [`answered`](Self::answered) or [`put_back`](Self::put_back).
    #[inline]
    pub(super) fn batch(&mut self, now: Time, bytes: impl Fn(&T) -> usize) -> Option<Vec<T>> {
        // Most batchers are empty in most steps.
        if self.is_empty() {
            return None;
        }
        self.batch_alone(now).or_else(|| self.batch_within(now, BATCH_MAX, BATCH_BYTES, bytes))
    }

    /// An item that was set aside and has waited long enough: it must be alone in its call. Every second time the
    /// others go first.
    #[inline]
    pub(super) fn batch_alone(&mut self, now: Time) -> Option<Vec<T>> {
        if self.aside.is_empty() { None } else { self.again(now) }
    }

    #[cold]
    fn again(&mut self, now: Time) -> Option<Vec<T>> {
        let next = self.aside.iter().position(|aside| now >= aside.at)?;
        if (self.alone.is_some() && self.has_due(now)) || !self.occupy(now) {
            return None;
        }
        let Aside { item, pause, .. } = self.aside.remove(next);
        self.alone = Some(pause);
        Some(vec![item])
    }

    /// A batch without set-aside items, within these limits of items and bytes. An item with more bytes goes alone.
    pub(super) fn batch_within(
        &mut self,
        now: Time,
        most: usize,
        most_bytes: usize,
        bytes: impl Fn(&T) -> usize,
    ) -> Option<Vec<T>> {
        if !self.has_due(now) || !self.occupy(now) {
            return None;
        }
        (self.alone, self.fills_until) = (None, None);
        let mut total = 0;
        let mut count = 0;
        for item in self.queue.iter().take(most.min(self.width.most())) {
            total += bytes(item);
            if count > 0 && total > most_bytes {
                break;
            }
            count += 1;
        }
        Some(self.queue.drain(..count).collect())
    }

    /// Marks a call in flight, which may carry nothing from the queue; false if none may be sent now.
    pub(super) fn occupy(&mut self, now: Time) -> bool {
        let ready = !self.busy && self.retry_at.is_none_or(|at| now >= at);
        if ready {
            self.busy = true;
            self.retry_at = None;
        }
        ready
    }

    /// The call in flight was answered.
    pub(super) fn answered(&mut self) {
        self.busy = false;
        self.retry = RETRY_MIN;
        self.width.widen();
        if self.alone.is_some() {
            // The obstacle of this item may have kept the others as well.
            self.aside.iter_mut().for_each(|aside| aside.at = Time(0));
        }
    }

    /// The call in flight has no answer, or was not executed: its items go first in the next one, after a pause.
    pub(super) fn put_back(&mut self, now: Time, items: Vec<T>) {
        self.busy = false;
        match self.alone {
            Some(pause) => {
                self.aside.extend(items.into_iter().map(|item| Aside { item, at: now, pause }));
            }
            None => self.put_first(items),
        }
        self.retry_at = Some(now + self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }

    /// The store has refused the call in flight, and would refuse similar calls. The remaining `items` of the call go last,
    /// after a growing pause. `urgent` items go first. The pause is short if an urgent item waits, or if no item of the call
    /// remains.
    pub(super) fn refused(&mut self, now: Time, items: Vec<T>, urgent: impl FnMut(&T) -> bool) {
        let is_over = items.is_empty();
        let queue = std::mem::take(&mut self.queue);
        self.put_back(now, items);
        let (first, rest): (Vec<_>, Vec<_>) = queue.into_iter().partition(urgent);
        if is_over || !first.is_empty() {
            self.retry_at = Some(now + RETRY_MIN);
        }
        let last = std::mem::replace(&mut self.queue, first.into());
        self.queue.extend(rest.into_iter().chain(last));
    }

    /// The call in flight has failed, with these of its `whole` items. Returns whether the error is news. It is not
    /// for an item that fails again, or for a call that will be halved.
    pub(super) fn failed(&mut self, now: Time, items: Vec<T>, whole: usize, error: &StoreError) -> bool {
        if !is_of_an_item(error) || items.is_empty() {
            self.put_back(now, items);
            return true;
        }
        self.busy = false;
        self.retry_at = Some(now + RETRY_MIN);
        if whole > 1 {
            self.width.narrow(whole, error);
            self.put_first(items);
            return false;
        }
        let pause = self.alone.map_or(ASIDE_MIN, |pause| (pause * 2).min(ASIDE_MAX));
        self.aside.extend(items.into_iter().map(|item| Aside { item, at: now + pause, pause }));
        self.alone.is_none()
    }

    /// The call in flight has failed with all its items. Returns the error if the error is news.
    pub(super) fn failed_whole(&mut self, now: Time, items: Vec<T>, error: StoreError) -> Result<()> {
        let whole = items.len();
        if self.failed(now, items, whole, &error) { Err(error) } else { Ok(()) }
    }

    fn put_first(&mut self, items: Vec<T>) {
        self.fills_until = None;
        for item in items.into_iter().rev() {
            self.queue.push_front(item);
        }
    }

    /// Forgets the waiting items, except these.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.queue.retain(&mut keep);
        self.aside.retain(|aside| keep(&aside.item));
    }

    /// Takes these waiting items out.
    pub(super) fn take_out(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let waiting = std::mem::take(&mut self.queue);
        let (mut taken, stay): (Vec<_>, Vec<_>) = waiting.into_iter().partition(&mut wanted);
        self.queue = stay.into();
        taken.extend(self.aside.extract_if(.., |aside| wanted(&aside.item)).map(|aside| aside.item));
        taken
    }

    /// Forgets the waiting items. A call in flight stays in flight.
    pub(super) fn clear(&mut self) {
        if !self.is_empty() {
            self.queue.clear();
            self.aside.clear();
        }
    }

    /// Forgets the waiting items, and marks the call in flight as abandoned: its answer will be ignored. Returns the
    /// waiting items.
    pub(super) fn abandon(&mut self) -> VecDeque<T> {
        self.void = self.busy;
        let mut waited = std::mem::take(&mut self.queue);
        waited.extend(std::mem::take(&mut self.aside).into_iter().map(|aside| aside.item));
        waited
    }

    /// A call has come back: true if it was abandoned. The batcher is then free again.
    pub(super) fn was_abandoned(&mut self) -> bool {
        let void = std::mem::take(&mut self.void);
        if void {
            self.answered();
        }
        void
    }

    /// The waiting items.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut T> {
        self.queue.iter_mut().chain(self.aside.iter_mut().map(|aside| &mut aside.item))
    }

    /// The number of waiting items.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.aside.len()
    }

    /// No item waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.aside.is_empty()
    }

    /// Items wait that the next call names, but for those that were set aside.
    pub(super) fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// No item waits and no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.is_empty()
    }

    /// No call is in flight, and only set-aside items wait.
    pub(super) fn is_free(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }

    /// When a call may be sent again after an unanswered one, if an item waits for it.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        if self.busy || self.is_empty() { None } else { self.next() }
    }

    #[cold]
    fn next(&self) -> Option<Time> {
        let fills = self.fills_until().max(self.resumes_at());
        let queue = if self.queue.is_empty() { None } else { fills };
        let aside = self.aside.iter().map(|aside| aside.at).min();
        earliest(queue, aside.map(|at| at.max(self.retry_at.unwrap_or_default())))
    }

    /// When a call may be sent again after an unanswered one.
    pub(super) fn resumes_at(&self) -> Option<Time> {
        if self.busy { None } else { self.retry_at }
    }
}

#[cfg(test)]
mod tests;
