//! The time for which a server has owed an answer: it distinguishes a dead link from a caller in a hurry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When a link was last heard, and since when the server has owed an answer.
///
/// Times are whole milliseconds since the link was made, in atomics: every command touches them.
pub(crate) struct Pulse {
    start: Instant,
    /// When bytes last arrived.
    heard: AtomicU64,
    /// When the first command after that was sent.
    owed: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        // Bytes in the first millisecond count as heard after the start.
        Self { start: Instant::now(), heard: AtomicU64::new(1), owed: AtomicU64::new(0) }
    }

    /// Notes that bytes have arrived.
    pub(crate) fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    /// Notes that a command was handed to the link.
    pub(crate) fn sent(&self) {
        if self.owed.load(Ordering::Relaxed) <= self.heard.load(Ordering::Relaxed) {
            self.owed.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Whether the server has owed an answer for this long and has said nothing.
    pub(crate) fn silent_for(&self, long: Duration) -> bool {
        let last = self.owed.load(Ordering::Relaxed).max(self.heard.load(Ordering::Relaxed));
        // The noted times are rounded down: without this, a wait of exactly `long` might seem shorter.
        let silent = Duration::from_millis(self.now().saturating_sub(last));
        silent + Duration::from_millis(1) >= long
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const LONG: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_owes_an_answer_is_silent() {
        let pulse = Pulse::new();
        advance(10 * LONG).await;
        pulse.sent();
        assert!(!pulse.silent_for(LONG), "idle is not silent");
        advance(LONG / 2).await;
        pulse.sent();
        assert!(!pulse.silent_for(LONG));
        advance(LONG / 2).await;
        assert!(pulse.silent_for(LONG), "since the first command that nothing came after");
        pulse.heard();
        assert!(!pulse.silent_for(LONG));
    }

    #[tokio::test(start_paused = true)]
    async fn hasty_callers_find_a_dead_link_and_any_late_reply_counts() {
        let pulse = Pulse::new();
        for _ in 0..10 {
            assert!(!pulse.silent_for(LONG));
            advance(LONG / 20).await;
            pulse.sent();
            advance(LONG / 20).await;
        }
        assert!(!pulse.silent_for(LONG));
        advance(LONG / 20).await;
        assert!(pulse.silent_for(LONG));
        pulse.heard();
        advance(10 * LONG).await;
        pulse.sent();
        advance(LONG / 20).await;
        assert!(!pulse.silent_for(LONG));
    }
}
