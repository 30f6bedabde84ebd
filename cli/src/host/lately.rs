//! Remembers recent log lines, so that a trouble that lasts is logged at intervals and not each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The pause between two lines of one cause.
const PAUSE: Duration = Duration::from_secs(30);

/// The causes, each with the time of its last line, and how often it has occurred since.
#[derive(Debug, Default)]
pub(super) struct Lately(Mutex<HashMap<&'static str, (Instant, u64)>>);

impl Lately {
    /// A cause has occurred. Returns its occurrences since the last line, this one included, if a line is due now. A line is
    /// due at once, and then every half minute.
    pub(super) fn say(&self, cause: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((at, unsaid)) = causes.get_mut(cause) else {
            causes.insert(cause, (now, 0));
            return Some(1);
        };
        *unsaid += 1;
        if now.duration_since(*at) < PAUSE {
            return None;
        }
        *at = now;
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_cause_has_a_line_at_once_and_then_each_half_minute() {
        let lately = Lately::default();
        let mut said = Vec::new();
        for second in 0..=60 {
            said.extend(lately.say("x").map(|count| (second, count)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(said, [(0, 1), (30, 30), (60, 30)]);
        assert_eq!(lately.say("y"), Some(1), "another cause");
    }
}
