//! When a job that has failed is tried again.

use std::time::Duration;

use tenure_connection::Backoff;

/// The retry policy of a job. While a job waits for its next attempt it keeps its slot, and the progress stays below it.
#[derive(Clone, Debug)]
pub struct Retry {
    attempts: u32,
    first: Duration,
    longest: Duration,
}

impl Retry {
    /// A job that fails ends its consumer. This is the default.
    pub fn never() -> Self {
        Self { attempts: 1, first: Duration::ZERO, longest: Duration::ZERO }
    }

    /// A job is tried until it succeeds, after pauses that double from `first` to `longest`. Each is shortened by up to
    /// half at random.
    pub fn forever(first: Duration, longest: Duration) -> Self {
        Self { attempts: u32::MAX, first, longest }
    }

    /// At most this many attempts, the first included. After that the consumer ends.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Whether another attempt may follow this one.
    pub(crate) fn allows_after(&self, attempt: u32) -> bool {
        self.attempts == u32::MAX || attempt < self.attempts
    }

    pub(crate) fn is_usable(&self) -> bool {
        self.attempts > 0 && self.first <= self.longest
    }

    pub(crate) fn pauses(&self) -> Backoff {
        Backoff::new(self.first, self.longest)
    }
}
