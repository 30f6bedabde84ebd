//! How often the lease thread looks, renews and tries again, derived from the worker TTL.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::core::lease::Timing;

/// The time between two looks at the leases.
pub(super) fn tick(timing: Timing) -> Duration {
    (timing.ttl / 50).clamp(Duration::from_millis(5), Duration::from_millis(200))
}

/// Ticks whenever the leases must be looked at.
pub(super) fn watch_by(timing: Timing) -> Interval {
    let mut watch = interval(tick(timing));
    watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    watch
}

/// How long a renewal may take. After one that hangs, there is time for another before the soft deadline.
pub(super) fn patience(timing: Timing) -> Duration {
    timing.renew_every
}

/// The pause after a renewal that failed.
pub(super) fn pause(timing: Timing) -> Duration {
    timing.renew_every / 4
}
