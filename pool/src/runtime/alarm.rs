//! The driver's alarm: one timer that stays from wait to wait.
//!
//! A timer that is made anew for each wait is often the earliest of its thread. Then tokio wakes the thread by a system
//! call, and the thread looks for events once more. A node that is waited for all the time would do both at each step.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The shortest wait: the alarm rings at most this often.
const SHORTEST: Duration = Duration::from_millis(1);

/// A timer that is moved only to ring earlier. While the waits need it later, it wakes the thread once in vain.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    timer: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Waits this long; for ever without a time.
    ///
    /// # Cancel safety
    /// Safe: the next wait uses the timer.
    pub(super) async fn after(&mut self, wait: Option<Duration>) {
        let Some(at) = wait.and_then(|wait| Instant::now().checked_add(wait.max(SHORTEST))) else {
            return pending().await;
        };
        loop {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if at < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(at);
            }
            timer.as_mut().await;
            if at <= Instant::now() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;

    use tokio::runtime::Builder;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    const HOUR: Option<Duration> = Some(Duration::from_secs(3_600));
    const PATIENCE: Duration = Duration::from_secs(60);

    fn alone<T>(work: impl Future<Output = T>) -> io::Result<T> {
        Ok(Builder::new_current_thread().enable_all().build()?.block_on(work))
    }

    /// Waits with the alarm, but the wait is given up at once.
    async fn given_up(alarm: &mut Alarm, wait: Option<Duration>) {
        tokio::select! {
            biased;
            () = alarm.after(wait) => {}
            () = yield_now() => {}
        }
    }

    #[test]
    fn it_rings_after_the_last_wait_and_not_after_one_before() -> io::Result<()> {
        alone(async {
            let mut alarm = Alarm::default();
            for before in [HOUR, Some(SHORTEST), None] {
                given_up(&mut alarm, before).await;
                let began = Instant::now();
                let rings = timeout(PATIENCE, alarm.after(Some(20 * SHORTEST))).await;
                assert!(rings.is_ok() && began.elapsed() >= 20 * SHORTEST, "{before:?}");
            }
        })
    }

    #[test]
    fn it_rings_again_and_at_most_once_a_millisecond() -> io::Result<()> {
        alone(async {
            let (mut alarm, began) = (Alarm::default(), Instant::now());
            for _ in 0..5 {
                alarm.after(Some(Duration::ZERO)).await;
            }
            assert!(began.elapsed() >= 5 * SHORTEST);
        })
    }

    #[test]
    fn it_never_rings_without_a_time() -> io::Result<()> {
        alone(async {
            let mut alarm = Alarm::default();
            given_up(&mut alarm, Some(SHORTEST)).await;
            for never in [None, Some(Duration::MAX)] {
                assert!(timeout(20 * SHORTEST, alarm.after(never)).await.is_err(), "{never:?}");
            }
        })
    }

    /// The system calls of this thread that wrote, as Linux counts them; `None` where it does not.
    fn writes() -> Option<u64> {
        let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
        counts.lines().find_map(|line| line.strip_prefix("syscw:")?.trim().parse().ok())
    }

    #[test]
    fn a_wait_that_is_given_up_writes_nothing() -> io::Result<()> {
        const WAITS: u64 = 100;
        let mut alarm = Alarm::default();
        let written = alone(async {
            given_up(&mut alarm, HOUR).await;
            let before = writes()?;
            for _ in 0..WAITS {
                given_up(&mut alarm, HOUR).await;
                // The thread looks for events while nobody waits.
                yield_now().await;
            }
            Some(writes()? - before)
        })?;
        assert!(written.is_none_or(|written| written < WAITS / 2), "{written:?} writes in {WAITS} waits");
        Ok(())
    }
}
