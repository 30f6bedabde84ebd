//! A host is held to the leases of its jobs: by a keeper that ends it, or by its own word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_pool::LeaseGuard;

use crate::work::book::Line;
use crate::work::process::{Processes, Reins};

/// The way in which a host is held to its leases.
#[derive(Debug)]
pub(super) enum Tether {
    /// It is a process of this node.
    Kept(Keeper),
    /// Somebody else runs it, and nobody here can end it. It ends its jobs by the leases that it was told: until then, and
    /// for its margin, they are taken to run.
    Told,
}

impl Tether {
    /// The host gets jobs under this lease. False: the lease is over, or the host cannot be bound to it.
    pub(super) fn bind(&self, number: u64, lease: &LeaseGuard) -> bool {
        match self {
            Self::Kept(keeper) => keeper.bind(number, lease),
            Self::Told => lease.check(),
        }
    }

    /// The host has no job under this lease any more.
    pub(super) fn loosen(&self, number: u64) {
        if let Self::Kept(keeper) = self {
            keeper.loosen(number);
        }
    }
}

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

    fn bind(&self, number: u64, lease: &LeaseGuard) -> bool {
        if !self.line.add(number, lease).is_ok_and(|added| added) {
            return false;
        }
        let looks = self.reins.look().is_ok();
        if !looks {
            self.loosen(number);
        }
        looks
    }

    fn loosen(&self, number: u64) {
        // A time that is too early ends a host that has no job of this lease.
        let _ = self.line.remove(number);
    }

    /// Kills the host, and waits until nothing of it is left. False: it took longer, or the keeper could not.
    pub(super) fn end(&self, within: Duration) -> bool {
        self.reins.end(within)
    }
}
