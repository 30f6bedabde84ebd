//! Exponential pauses with jitter between attempts that keep failing.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::time::Duration;

use tokio::time::sleep;

/// The pauses between attempts: none before the first, then doubling up to a bound. Each is shortened by up to half at
/// random, so that many clients do not return at the same instant.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    seed: Option<u64>,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0, seed: None }
    }

    /// The same pauses for the same seed, in place of random ones: another seed for each client.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Counts a failure: the next pause is longer.
    pub fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Starts again without a pause.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The number of failures since the last reset.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Waits until the next attempt is due; not at all without a failure.
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    pub async fn wait(&self) {
        let pause = self.pause();
        // Even an empty sleep would last until the clock's next tick.
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    /// The time to wait before the next attempt.
    pub fn pause(&self) -> Duration {
        // The standard hasher draws its seeds at random: enough for jitter.
        let random = match self.seed {
            Some(seed) => BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, self.failures)),
            None => RandomState::new().hash_one(self.failures),
        };
        self.pause_with(random)
    }

    fn pause_with(&self, random: u64) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let full = self.first.saturating_mul(factor).min(self.longest);
        full.mul_f64(1.0 - 0.5 * (random as f64 / u64::MAX as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push(backoff.pause_with(0).as_millis());
            backoff.fail();
        }
        assert_eq!(pauses, [0, 20, 40, 80, 100, 100]);
        backoff.reset();
        assert_eq!(backoff.pause_with(0), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_wait_before_the_first_failure() {
        let start = tokio::time::Instant::now();
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100));
        backoff.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        backoff.fail();
        backoff.wait().await;
        assert!(start.elapsed() >= Duration::from_millis(10));
    }

    #[test]
    fn jitter_takes_at_most_half_and_any_count_is_fine() {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.pause_with(u64::MAX), Duration::from_millis(50));
        assert!(backoff.pause() >= Duration::from_millis(50));
        backoff.fail();
        assert_eq!(backoff.failures(), u32::MAX);
    }
}
