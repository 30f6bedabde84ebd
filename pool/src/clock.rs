//! The node's clock: time since boot, sleep included, so that a suspended machine knows how long it was away.

use crate::core::time::Time;

/// Now, on `CLOCK_BOOTTIME`.
pub(crate) fn now() -> Time {
    Time(u64::try_from(tenure_connection::since_boot().as_nanos()).unwrap_or(u64::MAX))
}
