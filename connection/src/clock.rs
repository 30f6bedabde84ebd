//! The clocks of a machine that may be suspended: leases end meanwhile, and most clocks stand still.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time since the machine's boot, suspends included. A thread that follows the paused time of a test has
/// that of the test.
pub fn since_boot() -> Duration {
    #[cfg(any(test, feature = "test-util"))]
    if let Some(time) = crate::paused::time() {
        return time;
    }
    duration(clock_gettime(ClockId::Boottime))
}

/// Whether this thread follows the paused time of a test: a node then runs on the test's runtime, whose time is its own.
pub fn follows_a_test() -> bool {
    #[cfg(any(test, feature = "test-util"))]
    return crate::paused::is_followed();
    #[cfg(not(any(test, feature = "test-util")))]
    false
}

fn duration(time: Timespec) -> Duration {
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
