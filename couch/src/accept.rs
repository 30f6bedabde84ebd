//! Which job to accept.

use std::time::{Duration, SystemTime};

use tenure_jobs::Accept as Wish;

use super::CouchError;

/// Which job to accept, and how long to wait for one.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Accept {
    wish: Wish,
    no_schedule: bool,
    is_limited: bool,
}

impl Accept {
    /// Any job that is due, for as long as it takes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits no longer than this. With zero the answer comes at once.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.wish = self.wish.timeout(timeout);
        self
    }

    /// Only jobs that were scheduled for this time or before. A job without a time is scheduled for the moment of its add.
    /// While acceptors without this limit wait too, they are woken first.
    pub fn max_sched_time(mut self, time: SystemTime) -> Self {
        (self.wish, self.is_limited) = (self.wish.due_until(time), true);
        self
    }

    /// Says that the jobs of the type have no schedule. The store orders jobs at no cost, so the word only checks that
    /// there is no limit.
    pub fn no_schedule(mut self) -> Self {
        self.no_schedule = true;
        self
    }

    pub(crate) fn checked(self) -> Result<Wish, CouchError> {
        if self.no_schedule && self.is_limited { Err(CouchError::NoSchedule) } else { Ok(self.wish) }
    }
}
