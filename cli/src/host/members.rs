//! Which workers of the node are in the pool: those that have a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The workers of a node, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Members(Arc<[AtomicBool]>);

impl Members {
    /// None of this number of workers is in the pool yet.
    pub(super) fn new(workers: u16) -> Self {
        Self((0..workers).map(|_| AtomicBool::new(false)).collect())
    }

    /// This worker is in the pool, or is not.
    pub(super) fn set(&self, worker: u16, is_member: bool) {
        if let Some(member) = self.0.get(usize::from(worker)) {
            member.store(is_member, Ordering::Relaxed);
        }
    }

    /// Says that some have no host. None: all have one.
    pub(super) fn lack(&self) -> Option<String> {
        let (there, all) =
            (self.0.iter().filter(|member| member.load(Ordering::Relaxed)).count(), self.0.len());
        (there < all).then(|| format!("{there} of {all} workers have a host"))
    }
}
