//! A lasting trouble is said once in half a minute, whatever else goes wrong.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(30);

/// The complaints of a consumer, by what fails: none silences another one.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    pub(crate) looks: Throttle,
    pub(crate) attempts: Throttle,
    pub(crate) saves: Throttle,
}

/// Lets one complaint through in half a minute, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<(Option<Instant>, u64)>);

impl Throttle {
    /// How many complaints were left out since the last one, if another one may be said now.
    pub(crate) fn say(&self) -> Option<u64> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if last.0.is_some_and(|at| now - at < EVERY) {
            last.1 += 1;
            return None;
        }
        let unsaid = last.1;
        *last = (Some(now), 0);
        Some(unsaid)
    }
}
