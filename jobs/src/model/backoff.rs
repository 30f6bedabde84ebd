//! The pauses between the attempts of a job.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::id::{JobId, Token};

/// The pauses between the attempts of a job that fails: each is twice the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Default for Backoff {
    /// From a second to ten minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_secs(600))
    }
}

impl Backoff {
    /// From `first` to `longest`. The pauses vary by a tenth, so that jobs that failed together come back apart.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// No pause: the next attempt comes at once.
    pub const fn none() -> Self {
        Self::new(Duration::ZERO, Duration::ZERO)
    }

    /// The first pause and the longest.
    pub(crate) const fn bounds(&self) -> (Duration, Duration) {
        (self.first, self.longest)
    }

    /// The pause after an execution, of a job that was begun this many times. Each execution has another jitter.
    pub(crate) fn after(&self, attempts: u32, id: &JobId, token: Token) -> Duration {
        let mut hasher = DefaultHasher::new();
        (id, token).hash(&mut hasher);
        self.pause(attempts, hasher.finish() as f64 / u64::MAX as f64)
    }

    /// The pause after this many attempts; `jitter` is from 0 to 1.
    fn pause(&self, attempts: u32, jitter: f64) -> Duration {
        let doubled = self.first.saturating_mul(1 << attempts.saturating_sub(1).min(30));
        doubled.min(self.longest).mul_f64(0.9 + 0.2 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let pauses: Vec<_> = (1..=6).map(|n| backoff.pause(n, 0.5).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.pause(u32::MAX, 0.0), Duration::from_secs(9));
        assert_eq!(Backoff::none().pause(5, 1.0), Duration::ZERO);
    }
}
