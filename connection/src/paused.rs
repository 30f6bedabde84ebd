//! The time of a test that is paused: a thread may follow the time of its runtime in place of that of the machine.

use std::cell::Cell;
use std::time::Duration;

use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::time::Instant;

use super::ServerClock;

/// The time since boot at which followed time begins: later than any time to live.
const BEGIN: Duration = Duration::from_secs(1_000_000);
/// 2026-01-01 00:00 UTC: where the clock of a server in memory begins, ms.
const NEW_YEAR: u64 = 1_767_225_600_000;
/// A clock that runs, runs meanwhile.
const MOMENT: Duration = Duration::from_micros(100);

/// The runtime that a thread follows.
#[derive(Clone, Copy)]
struct Followed {
    runtime: Id,
    since: Instant,
    /// How many numbers were given.
    numbers: u64,
}

thread_local! {
    static FOLLOWED: Cell<Option<Followed>> = const { Cell::new(None) };
}

/// From now on this thread follows the paused time of its runtime. The clock begins at 2026-01-01 00:00 UTC, and follows too.
///
/// # Panics
/// Outside of a runtime of one thread whose time is paused.
#[must_use]
pub fn follow() -> ServerClock {
    assert!(
        follow_if_paused(),
        "paused time needs a runtime whose time is paused: write #[tokio::test(start_paused = true)]"
    );
    let since = Instant::now();
    ServerClock::new(move || NEW_YEAR + u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// From now on this thread follows the time of its runtime, if that time is paused. Returns whether it is.
pub fn follow_if_paused() -> bool {
    let here = Handle::try_current().ok().filter(|runtime| {
        let began = Instant::now();
        runtime.runtime_flavor() == RuntimeFlavor::CurrentThread && {
            std::thread::sleep(MOMENT);
            Instant::now() == began
        }
    });
    if let Some(here) = &here
        && followed().is_none()
    {
        FOLLOWED.set(Some(Followed { runtime: here.id(), since: Instant::now(), numbers: 0 }));
    }
    here.is_some()
}

/// Whether this thread follows the time of its runtime.
pub fn is_followed() -> bool {
    followed().is_some()
}

/// A number in place of a random one, if this thread follows its runtime. Each run of a test gets the same numbers.
pub fn counted() -> Option<u64> {
    let followed = followed()?;
    let numbers = followed.numbers + 1;
    FOLLOWED.set(Some(Followed { numbers, ..followed }));
    // An odd factor gives each number another place (Fibonacci hashing).
    Some(numbers.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The time since boot, if this thread follows its runtime.
pub(crate) fn time() -> Option<Duration> {
    followed().map(|followed| BEGIN + followed.since.elapsed())
}

/// What this thread follows, if it runs the test that began to follow. A thread may run several tests, one after another.
fn followed() -> Option<Followed> {
    let followed = FOLLOWED.get()?;
    let here = Handle::try_current().ok()?;
    (here.id() == followed.runtime).then_some(followed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::since_boot;

    #[tokio::test(start_paused = true)]
    async fn all_clocks_follow_the_runtime() {
        assert!(!is_followed() && counted().is_none());
        let server = follow();
        let (boot, began) = (since_boot(), server.now());
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(since_boot(), boot + Duration::from_secs(3_600));
        assert_eq!((began, server.now()), (NEW_YEAR, NEW_YEAR + 3_600_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_begins_anew_and_its_nodes_go_on() {
        drop(follow());
        let boot = since_boot();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(follow().now(), NEW_YEAR);
        assert_eq!(since_boot(), boot + Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_skips_time_that_its_nodes_do_not_see() {
        let (server, other) = (follow(), follow());
        let boot = since_boot();
        server.skip(Duration::from_secs(5));
        assert_eq!((server.now() - other.now(), since_boot()), (5_000, boot));
        assert_eq!(server.clone().now(), server.now());
    }

    #[test]
    fn each_run_counts_the_same_numbers() {
        let run = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.start_paused(true).enable_time().build().unwrap().block_on(async {
                drop(follow());
                [counted(), counted()]
            })
        };
        let first = run();
        assert!(first[0].is_some() && first[0] != first[1]);
        assert_eq!((run(), is_followed()), (first, false));
    }

    #[tokio::test]
    #[should_panic(expected = "start_paused")]
    async fn time_that_runs_is_not_followed() {
        drop(follow());
    }

    #[test]
    #[should_panic(expected = "start_paused")]
    fn a_thread_without_a_runtime_follows_none() {
        drop(follow());
    }
}
