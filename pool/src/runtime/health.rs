//! The driver's report on the node's health: no round trip, and no wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::SetOnce;

use crate::clock;
use crate::core::engine::status::Status;
use crate::core::input::Input;
use crate::core::time::Time;
use crate::store::StoreError;

/// The last status of the engine, and the last news of the store.
#[derive(Debug, Default)]
pub(crate) struct HealthRecord {
    state: Mutex<Observed>,
    /// The engine has ended; the text of its panic, if that was why.
    end: SetOnce<Option<Arc<str>>>,
}

/// The last observations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub(crate) status: Status,
    /// When the store last answered a renewal.
    pub(crate) answered: Option<Time>,
    /// The error of a later renewal or step.
    pub(crate) error: Option<StoreError>,
    /// The last failure of a step, even if the step has succeeded since.
    latest: Option<StoreError>,
    /// The steps whose last call failed.
    failing: BTreeMap<&'static str, Failing>,
}

/// A step that fails.
#[derive(Clone, Debug)]
struct Failing {
    /// Since when all its calls have failed.
    since: Time,
    /// The time of the last failure.
    last: Time,
    error: StoreError,
}

/// After this pause a step no longer counts as failing: its caller has given up.
const FORGOTTEN: Duration = Duration::from_secs(10);

impl Observed {
    /// The steps that have failed for longer than this. Each has its duration and its last error.
    pub(crate) fn failing(
        &self,
        now: Time,
        longer_than: Duration,
    ) -> Vec<(&'static str, Duration, &StoreError)> {
        let failing = self.failing.iter();
        let known =
            failing.filter(|(_, f)| f.last.since(f.since) > longer_than && now.since(f.last) < FORGOTTEN);
        known.map(|(step, f)| (*step, now.since(f.since), &f.error)).collect()
    }
}

impl HealthRecord {
    fn state(&self) -> MutexGuard<'_, Observed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A renewal was answered, or not; other inputs tell nothing about the store.
    pub(super) fn hear(&self, input: &Input) {
        let Input::Renewed { answer, .. } = input else { return };
        let mut state = self.state();
        match answer {
            Ok(_) | Err(StoreError::Refused(_)) => {
                state.answered = Some(clock::now());
                state.error = None;
            }
            Err(error) => {
                state.error = Some(error.clone());
                state.latest = Some(error.clone());
            }
        }
    }

    /// The store has failed to do a step.
    pub(crate) fn trouble(&self, error: &StoreError) {
        self.state().error = Some(error.clone());
    }

    /// A step has succeeded or failed. Renewals do not count here: they succeed even when the store refuses other
    /// steps, as when the server's memory is full.
    pub(super) fn stepped(&self, step: &'static str, failure: Option<&StoreError>) {
        let (mut state, now) = (self.state(), clock::now());
        let Some(error) = failure else {
            state.failing.remove(step);
            return;
        };
        if !matches!(error, StoreError::Refused(_)) {
            state.latest = Some(error.clone());
        }
        let fresh = Failing { since: now, last: now, error: error.clone() };
        let failing = state.failing.entry(step).or_insert_with(|| fresh.clone());
        if now.since(failing.last) >= FORGOTTEN {
            failing.since = now;
        }
        (failing.last, failing.error) = (now, fresh.error);
    }

    /// The steps that keep failing. Each has its duration and its last error.
    pub(super) fn failing(&self, now: Time) -> Vec<(&'static str, Duration, StoreError)> {
        let state = self.state();
        if state.failing.is_empty() {
            return Vec::new();
        }
        let failing = state.failing(now, Duration::ZERO).into_iter();
        failing.map(|(step, long, error)| (step, long, error.clone())).collect()
    }

    /// The last failure of a renewal or step, even if it has succeeded since.
    pub(crate) fn latest_trouble(&self) -> Option<StoreError> {
        self.state().latest.clone()
    }

    /// The latest failure of a renewal or step without a success since.
    pub(crate) fn present_trouble(&self) -> Option<StoreError> {
        let (state, now) = (self.state(), clock::now());
        let failing = state.failing.values().filter(|failing| now.since(failing.last) < FORGOTTEN);
        let latest = failing.max_by_key(|failing| failing.last).map(|failing| failing.error.clone());
        latest.filter(|error| !matches!(error, StoreError::Refused(_))).or_else(|| state.error.clone())
    }

    /// Stores the engine's latest status.
    pub(super) fn show(&self, status: Status) {
        self.state().status = status;
    }

    /// The engine has ended. `panic` is the text of its panic.
    pub(crate) fn ended(&self, panic: Option<String>) {
        // An engine ends once.
        let _ = self.end.set(panic.map(Arc::from));
    }

    /// The text of the engine's panic.
    pub(crate) fn panic(&self) -> Option<Arc<str>> {
        self.end.get().cloned().flatten()
    }

    /// Waits for the engine's end. Returns the text of its panic.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub(crate) async fn end(&self) -> Option<Arc<str>> {
        self.end.wait().await.clone()
    }

    pub(crate) fn seen(&self) -> Observed {
        self.state().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Refusal;

    #[test]
    fn a_step_that_is_not_called_any_more_is_forgotten_after_10_s() {
        let health = HealthRecord::default();
        let error = StoreError::Refused(Refusal::NoPool);
        let begun = clock::now();
        while health.failing(clock::now()).is_empty() {
            health.stepped("sweep", Some(&error));
        }
        let last = clock::now();
        assert_eq!(health.failing(begun + Duration::from_millis(9_999)).len(), 1);
        assert!(health.failing(last + FORGOTTEN).is_empty());
        assert_eq!(FORGOTTEN, Duration::from_secs(10));
        health.stepped("sweep", None);
        assert!(health.failing(clock::now()).is_empty());
    }
}
