//! The warnings of jobs that fail. Producers decide how many jobs fail, so the log has a line a minute for each queue
//! and cause.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The time in which a cause is not told again.
const QUIET: Duration = Duration::from_secs(60);
/// How many queues and causes are told apart. The rest of a queue is told together.
const APART: usize = 256;
/// How much of an error tells causes apart.
const CAUSE_MAX: usize = 256;

/// The failures of a node's executions.
#[derive(Debug, Default)]
pub(crate) struct Failures(HashMap<(String, String), Failure>);

#[derive(Debug)]
struct Failure {
    told: Instant,
    /// How many jobs have failed since then.
    jobs: u64,
}

impl Failures {
    /// A job of the queue has failed for a cause. Returns the number of failures to tell of, if it is time.
    pub(crate) fn add(&mut self, queue: &str, cause: &str, now: Instant) -> Option<u64> {
        let of = |cause: String| (queue.to_owned(), cause);
        let mut key = of(cause.chars().take(CAUSE_MAX).collect());
        if self.0.len() >= APART && !self.0.contains_key(&key) {
            key = of(String::new());
        }
        let is_over = |failure: &Failure| now.saturating_duration_since(failure.told) >= QUIET;
        match self.0.get_mut(&key) {
            Some(failure) if is_over(failure) => {
                failure.told = now;
                Some(std::mem::take(&mut failure.jobs) + 1)
            }
            Some(failure) => {
                failure.jobs += 1;
                None
            }
            None => {
                // Failures that were told in full make room.
                self.0.retain(|_, failure| failure.jobs > 0 || !is_over(failure));
                self.0.insert(key, Failure { told: now, jobs: 0 });
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_and_cause_is_told_once_a_minute() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(failures.add("q", "no", at(0)), Some(1));
        for _ in 0..2_000 {
            assert_eq!(failures.add("q", "no", at(59)), None);
        }
        assert_eq!(failures.add("q", "shut", at(59)), Some(1), "another cause");
        assert_eq!(failures.add("r", "no", at(59)), Some(1), "another queue");
        assert_eq!(failures.add("q", "no", at(60)), Some(2_001));
    }

    #[test]
    fn texts_that_differ_for_each_job_are_told_together() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let told = (0..10_000).filter_map(|job| failures.add("q", &format!("no {job}"), now)).count();
        assert_eq!((told, failures.0.len()), (APART + 1, APART + 1));
    }
}
