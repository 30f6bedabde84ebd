//! The jobs of one worker share its lease: its end, and the order to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::core::time::Time;

/// Whether a job's worker still holds its lease. Two loads and a clock read: check it before each outside effect.
#[derive(Clone, Debug)]
pub struct LeaseGuard {
    terms: Arc<Terms>,
}

#[derive(Debug)]
struct Terms {
    soft_at: AtomicU64,
    /// Fires when all handlers under the lease must end.
    cancel: CancellationToken,
}

impl LeaseGuard {
    /// The guard of a lease until `soft_at`.
    pub(crate) fn until(soft_at: Time) -> Self {
        let terms = Terms { soft_at: AtomicU64::new(soft_at.0), cancel: CancellationToken::new() };
        Self { terms: Arc::new(terms) }
    }

    /// True while no other worker can have begun the job.
    pub fn check(&self) -> bool {
        clock::now() < self.soft_at()
    }

    /// How long the lease lasts without another renewal.
    pub fn remaining(&self) -> Duration {
        self.soft_at().since(clock::now())
    }

    /// A cancellation for one job. It fires at the latest when all handlers under the lease must end.
    pub(crate) fn cancellation(&self) -> CancellationToken {
        self.terms.cancel.child_token()
    }

    /// Whether all handlers under the lease must end.
    pub(crate) fn is_ending(&self) -> bool {
        self.terms.cancel.is_cancelled()
    }

    pub(crate) fn soft_at(&self) -> Time {
        Time(self.terms.soft_at.load(Ordering::Acquire))
    }

    /// The lease was renewed until `soft_at`.
    pub(crate) fn renewed(&self, soft_at: Time) {
        self.terms.soft_at.store(soft_at.0, Ordering::Release);
    }

    /// The lease has ended: all handlers under it must end.
    pub(crate) fn give_up(&self) {
        self.terms.soft_at.store(0, Ordering::Release);
        self.terms.cancel.cancel();
    }
}
