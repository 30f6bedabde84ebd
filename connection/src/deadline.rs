//! Until when a call may take.

use std::time::Duration;

use tokio::time::Instant;

/// How long a caller has, and what it was given in all.
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

/// A moment that much later. One that no clock can show is a lifetime away.
pub(crate) fn later(moment: Instant, by: Duration) -> Instant {
    moment.checked_add(by).unwrap_or_else(|| moment + Duration::from_secs(u64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_far_away_and_no_panic() {
        let deadline = Deadline::after(Duration::MAX);
        assert!(deadline.at > Instant::now() + Duration::from_secs(1_000_000_000));
    }
}
