//! How long a server has owed an answer: what tells a dead link from a caller in a hurry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// When a link was last heard, and since when the server has owed it something.
///
/// Times are whole milliseconds since the link was made, in atomics: this is touched by every command.
pub(crate) struct Pulse {
    start: Instant,
    /// When something last came in.
    heard: AtomicU64,
    /// When the first command after that was sent.
    owed: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        // What is heard in the first millisecond counts as heard after the start.
        Self { start: Instant::now(), heard: AtomicU64::new(1), owed: AtomicU64::new(0) }
    }

    /// Something came in.
    pub(crate) fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    /// A command is handed to the link.
    pub(crate) fn sent(&self) {
        if self.owed.load(Ordering::Relaxed) <= self.heard.load(Ordering::Relaxed) {
            self.owed.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Whether the server has owed an answer for this long and said nothing meanwhile.
    pub(crate) fn silent_for(&self, long: Duration) -> bool {
        let last = self.owed.load(Ordering::Relaxed).max(self.heard.load(Ordering::Relaxed));
        // Rounded down when it was noted: without this, a wait of exactly `long` might seem a little shorter.
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
    async fn hasty_callers_find_a_dead_link_together_and_a_late_reply_that_nobody_waited_for_counts() {
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
