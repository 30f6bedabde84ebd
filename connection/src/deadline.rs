//! The end of the time for a call.

use std::time::Duration;

use tokio::time::Instant;

/// The caller's deadline, and the whole time that it was given.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) allowed: Duration,
}

impl Deadline {
    pub(crate) fn after(allowed: Duration) -> Self {
        Self { at: later(Instant::now(), allowed), allowed }
    }
}

/// A moment this much later. If no clock can show it, the result is a lifetime away.
pub(crate) fn later(moment: Instant, by: Duration) -> Instant {
    moment.checked_add(by).unwrap_or_else(|| moment + Duration::from_secs(u64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_far_away_and_does_not_panic() {
        let deadline = Deadline::after(Duration::MAX);
        assert!(deadline.at > Instant::now() + Duration::from_secs(1_000_000_000));
    }
}
