//! What the driver tells of itself for those who ask how the node is: no round trip, and nothing to wait for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::clock;
use crate::core::input::Input;
use crate::core::picture::Picture;
use crate::core::time::Time;
use crate::store::StoreError;

/// The last picture of the engine, and the last that was heard of the store.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    state: Mutex<Seen>,
}

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) picture: Picture,
    /// When the store has last answered a renewal.
    pub(crate) answered: Option<Time>,
    /// What it did not do since.
    pub(crate) error: Option<StoreError>,
}

impl Vitals {
    fn state(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A renewal was answered, or not; other inputs say nothing of the store.
    pub(super) fn hear(&self, input: &Input) {
        let Input::Renewed { answer, .. } = input else { return };
        let mut state = self.state();
        match answer {
            Ok(_) | Err(StoreError::Refused(_)) => {
                state.answered = Some(clock::now());
                state.error = None;
            }
            Err(error) => state.error = Some(error.clone()),
        }
    }

    /// The store did not do something.
    pub(super) fn trouble(&self, error: &StoreError) {
        self.state().error = Some(error.clone());
    }

    /// The engine looks like this now.
    pub(super) fn show(&self, picture: Picture) {
        self.state().picture = picture;
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state().clone()
    }
}
