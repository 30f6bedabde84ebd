//! The node's clock: that of tokio, which stops while the machine is suspended, and the time of the suspends. The store's
//! leases end meanwhile.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

/// Readings of the two clocks differ by a little.
const NOISE: Duration = Duration::from_millis(50);

/// Now, suspends since the first call included. Compare it with what it has said before, and with nothing else.
pub(crate) fn now() -> Instant {
    Instant::now() + slept()
}

/// Waits until this clock says so. After a suspend that takes as much longer as the machine has slept.
pub(crate) async fn sleep_until(moment: Instant) {
    tokio::time::sleep(moment.saturating_duration_since(now())).await;
}

fn slept() -> Duration {
    static AT_FIRST: OnceLock<Duration> = OnceLock::new();
    // The clock of a test says nothing to nodes of other tests in the process.
    #[cfg(feature = "test-util")]
    if tenure_connection::paused::is_followed() {
        return Duration::ZERO;
    }
    let suspended = tenure_connection::suspended();
    let slept = suspended.saturating_sub(*AT_FIRST.get_or_init(|| suspended));
    #[cfg(test)]
    let slept = slept + tests::PRETENDED.get();
    if slept < NOISE { Duration::ZERO } else { slept }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// For how long this thread's machine pretends to have slept.
        pub(super) static PRETENDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    pub(crate) fn suspend(time: Duration) {
        PRETENDED.set(PRETENDED.get() + time);
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspend_counts_and_its_noise_does_not() {
        let began = now();
        assert_eq!(now(), began);
        suspend(Duration::from_secs(5));
        assert!(now() >= began + Duration::from_secs(5));
    }
}
