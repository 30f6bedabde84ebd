//! The clock of leases: time since boot, sleep included, so that a suspended machine knows how long it was away.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since boot.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}
