//! One clock for all processes of a benchmark, which share a machine.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since the machine was started.
pub(crate) fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
}
