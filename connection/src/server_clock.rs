//! The clock of a server in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of a server in memory: ms since 1970. Its clones are the same clock.
#[derive(Clone)]
pub struct ServerClock {
    time: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// How far a test has put it forward, ms.
    skipped: Arc<AtomicU64>,
}

impl ServerClock {
    /// A clock that goes by this time, in ms since 1970.
    pub fn new(time: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { time: Arc::new(time), skipped: Arc::default() }
    }

    /// The time, ms.
    pub fn now(&self) -> u64 {
        (self.time)().saturating_add(self.skipped.load(Ordering::Relaxed))
    }

    /// Puts the clock forward, at most to the last moment that it can tell.
    pub fn skip(&self, time: Duration) {
        let _ = self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |skipped| {
            Some(skipped.saturating_add(millis(time)))
        });
    }

    /// Puts the clock forward to this moment. A moment that has passed changes nothing.
    pub fn skip_to(&self, moment: SystemTime) {
        self.skip(Duration::from_millis(since_1970(moment).saturating_sub(self.now())));
    }
}

/// The time of the system.
impl Default for ServerClock {
    fn default() -> Self {
        Self::new(|| since_1970(SystemTime::now()))
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerClock").field(&self.now()).finish()
    }
}

fn since_1970(moment: SystemTime) -> u64 {
    millis(moment.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_forward_only() {
        let clock = ServerClock::new(|| 1_000);
        clock.skip_to(UNIX_EPOCH + Duration::from_secs(5));
        clock.skip_to(UNIX_EPOCH + Duration::from_secs(4));
        assert_eq!(clock.now(), 5_000);
        clock.clone().skip(Duration::from_millis(7));
        assert_eq!(clock.now(), 5_007);
        clock.skip(Duration::MAX);
        clock.skip(Duration::from_secs(1));
        assert_eq!(clock.now(), u64::MAX);
    }
}
