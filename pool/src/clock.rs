//! The node's clock: time since boot, sleep included, so that a suspended machine knows how long it was away.

use rustix::time::{ClockId, clock_gettime};

use crate::core::time::Time;

/// Now, on `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Time {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Time(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0))
}
