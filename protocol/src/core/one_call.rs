//! A call that is made again and again, one at a time; and the times at which things go on.

use std::collections::BTreeSet;

use super::ctx::RETRY;
use super::time::Time;
use crate::step::Result;

/// One call. None is made while one is in flight, or before its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OneCall {
    busy: bool,
    next: Time,
}

impl OneCall {
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Whether it is made now. It is in flight then.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let begins = self.deadline().is_some_and(|at| now >= at);
        self.busy |= begins;
        begins
    }

    /// It is made now.
    pub(super) fn start(&mut self) {
        self.busy = true;
    }

    /// The one in flight has come back.
    pub(super) fn is_back(&mut self) {
        self.busy = false;
    }

    /// The one in flight has come back. The next is made after a pause.
    pub(super) fn again(&mut self, now: Time) {
        (self.busy, self.next) = (false, now + RETRY);
    }

    /// The one in flight has come back with this answer. After an error the next is made after a pause.
    pub(super) fn answered<T>(&mut self, now: Time, answer: Result<T>) -> Result<T> {
        self.busy = false;
        answer.inspect_err(|_| self.again(now))
    }

    /// The next is made at this time.
    pub(super) fn set(&mut self, at: Time) {
        self.next = at;
    }

    /// The next is made at this time at the latest.
    pub(super) fn set_by(&mut self, at: Time) {
        self.next = self.next.min(at);
    }

    /// When the next may be made, unless one is in flight.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.busy).then_some(self.next)
    }
}

/// The times at which things go on, each with its key.
#[derive(Debug)]
pub(super) struct Timers<K>(BTreeSet<(Time, K)>);

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord + Clone> Timers<K> {
    #[inline]
    pub(super) fn set(&mut self, at: Time, key: K) {
        self.0.insert((at, key));
    }

    #[inline]
    pub(super) fn remove(&mut self, at: Time, key: &K) {
        self.0.remove(&(at, key.clone()));
    }

    /// Puts the key from the time that it has to this one.
    #[inline]
    pub(super) fn put(&mut self, has: &mut Option<Time>, key: &K, at: Option<Time>) {
        if let Some(before) = std::mem::replace(has, at) {
            self.remove(before, key);
        }
        if let Some(at) = at {
            self.set(at, key.clone());
        }
    }

    /// Takes out the first that is due.
    #[inline]
    pub(super) fn due(&mut self, now: Time) -> Option<(Time, K)> {
        if self.deadline()? <= now { self.0.pop_first() } else { None }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }
}
