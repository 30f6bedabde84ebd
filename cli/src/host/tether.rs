//! What holds a host to the leases of its jobs, and ends it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_pool::LeaseGuard;

use crate::work::book::Line;
use crate::work::process::{Processes, Reins};

/// The keeper of a host: it kills the host at the end of the first of these leases that ends.
#[derive(Debug)]
pub(super) struct Keeper {
    line: Arc<Line>,
    reins: Reins,
}

impl Keeper {
    /// The keeper of these processes, which reads this line.
    ///
    /// # Errors
    /// The machine has no more files, or the processes are being killed.
    pub(super) fn of(processes: &Processes, line: Arc<Line>) -> io::Result<Self> {
        Ok(Self { line, reins: processes.reins()? })
    }

    /// The host gets jobs under this lease. False: the lease is over, or the keeper has gone.
    pub(super) fn bind(&self, number: u64, lease: &LeaseGuard) -> bool {
        if !self.line.add(number, lease).is_ok_and(|added| added) {
            return false;
        }
        let looks = self.reins.look().is_ok();
        if !looks {
            self.loosen(number);
        }
        looks
    }

    /// The host has no job under this lease any more.
    pub(super) fn loosen(&self, number: u64) {
        // A time that is too early ends a host that has no job of this lease.
        let _ = self.line.remove(number);
    }

    /// Kills the host, and waits until nothing of it is left. False: it took longer, or the keeper could not.
    pub(super) fn end(&self, within: Duration) -> bool {
        self.reins.end(within)
    }
}
