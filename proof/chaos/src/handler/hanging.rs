//! The runs that are to hang: they go on, and make no progress.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The runs of a worker that were asked to hang and have not begun to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hanging(Arc<Mutex<BTreeSet<(String, u64)>>>);

impl Hanging {
    pub(super) fn add(&self, key: &str, token: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((key.to_owned(), token));
    }

    /// Whether the run was asked to hang; once for each time that it was.
    pub(super) fn take(&self, key: &str, token: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(key.to_owned(), token))
    }
}
