//! The clocks of a machine that may be suspended: leases end meanwhile, and most clocks stand still.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clocks are read again when more than this lies between two readings.
const NOISE: Duration = Duration::from_millis(1);
/// At most so often.
const READINGS: u32 = 16;

/// The time since the machine's boot, suspends included. A thread that [follows](crate::paused) the paused time of a test has
/// that of the test.
pub fn since_boot() -> Duration {
    #[cfg(feature = "test-util")]
    if let Some(time) = crate::paused::time() {
        return time;
    }
    duration(clock_gettime(ClockId::Boottime))
}

/// Whether this thread follows the paused time of a test: a node then runs on the test's runtime, whose time is its own.
pub fn follows_a_test() -> bool {
    #[cfg(feature = "test-util")]
    return crate::paused::is_followed();
    #[cfg(not(feature = "test-util"))]
    false
}

/// For how long the machine was suspended since its boot: what [`Instant`](std::time::Instant) does not count. Exact to a
/// millisecond, unless the thread is interrupted again and again.
pub fn suspended() -> Duration {
    #[cfg(feature = "test-util")]
    if crate::paused::is_followed() {
        return Duration::ZERO;
    }
    let mut best = (Duration::MAX, Duration::ZERO);
    for _ in 0..READINGS {
        let before = duration(clock_gettime(ClockId::Monotonic));
        let boot = since_boot();
        let took = duration(clock_gettime(ClockId::Monotonic)).saturating_sub(before);
        if took < best.0 {
            best = (took, boot.saturating_sub(before));
        }
        if took < NOISE {
            break;
        }
    }
    best.1
}

fn duration(time: Timespec) -> Duration {
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_awake_is_not_suspended_longer() {
        let (booted, slept) = (since_boot(), suspended());
        assert!(booted >= slept && since_boot() >= booted);
        assert!(suspended().abs_diff(slept) < Duration::from_millis(20));
    }
}
