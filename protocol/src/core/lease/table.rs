//! The leases of one node's workers. They tell which workers to renew, and whose handlers must end because a lease
//! has run out.
//!
//! The code is pure because exclusion rests on it: the lease thread and the simulator run the same lines.

use std::collections::BTreeMap;

use super::{Lease, Standing, Timing};
use crate::core::time::Time;
#[cfg(any(test, feature = "proof"))]
use crate::core::time::earliest;
use crate::model::id::{Incarnation, WorkerId};
use crate::model::member::MemberState;
use crate::mutation::{Mutation, Mutations};

/// One worker's lease.
#[derive(Debug)]
struct HeldLease {
    incarnation: Incarnation,
    lease: Lease,
    renewing: bool,
    asked_to_end: bool,
    aborted: bool,
}

/// The action on a worker's handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// The soft deadline has passed: they are asked to end.
    AskToEnd,
    /// The hard deadline has passed: they are aborted.
    Abort,
}

/// The leases of a node's workers.
#[derive(Debug)]
pub struct LeaseTable {
    timing: Timing,
    broken: Mutations,
    incarnation: Option<Incarnation>,
    held: BTreeMap<WorkerId, HeldLease>,
}

impl LeaseTable {
    /// A table without leases.
    pub fn new(timing: Timing, broken: Mutations) -> Self {
        Self { timing, broken, incarnation: None, held: BTreeMap::new() }
    }

    /// The times of the leases.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Leases that begin from now on run out by this timing.
    pub fn go_by(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// Renew in this incarnation from now on.
    pub fn renew_in(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
    }

    /// Hold a lease for this worker, from the time its join was sent.
    pub fn hold(&mut self, incarnation: Incarnation, worker: WorkerId, from: Time) -> Lease {
        let lease = Lease::new(from, self.timing);
        let held = HeldLease { incarnation, lease, renewing: true, asked_to_end: false, aborted: false };
        self.held.insert(worker, held);
        lease
    }

    /// Renew this worker's lease in another incarnation: it counts on as it stands.
    pub fn keep(&mut self, incarnation: Incarnation, worker: WorkerId) {
        if let Some(held) = self.held.get_mut(&worker) {
            held.incarnation = incarnation;
        }
    }

    /// Renews it no more. True if its handlers have not been asked to end before.
    pub fn give_up(&mut self, worker: WorkerId) -> bool {
        let Some(held) = self.held.get_mut(&worker) else { return false };
        held.renewing = false;
        !std::mem::replace(&mut held.asked_to_end, true)
    }

    /// The lease thread no longer watches: gives up all leases and aborts their handlers. Returns those that were not
    /// given up before.
    pub fn give_up_all(&mut self) -> Vec<WorkerId> {
        let mut lost = Vec::new();
        for (&worker, held) in &mut self.held {
            held.renewing = false;
            held.aborted = true;
            if !std::mem::replace(&mut held.asked_to_end, true) {
                lost.push(worker);
            }
        }
        lost
    }

    /// None of the worker's handlers runs: forgets it.
    pub fn remove(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
    }

    /// A worker's lease.
    pub fn lease(&self, worker: WorkerId) -> Option<Lease> {
        self.held.get(&worker).map(|held| held.lease)
    }

    /// The end of a worker's right to act: zero for one whose lease was given up.
    #[cfg(any(test, feature = "proof"))]
    pub fn holds_until(&self, worker: WorkerId) -> Time {
        let held = self.held.get(&worker).filter(|held| !held.asked_to_end);
        held.map_or(Time(0), |held| held.lease.soft_at())
    }

    /// All leases, including those that were given up.
    pub fn leases(&self) -> impl Iterator<Item = (WorkerId, Lease)> {
        self.held.iter().map(|(&worker, held)| (worker, held.lease))
    }

    /// The leases to renew now, with their incarnation.
    pub fn to_renew(&self) -> Option<(Incarnation, Vec<WorkerId>)> {
        let incarnation = self.incarnation?;
        let own = |(_, t): &(&WorkerId, &HeldLease)| t.renewing && t.incarnation == incarnation;
        Some((incarnation, self.held.iter().filter(own).map(|(&worker, _)| worker).collect()))
    }

    /// A renewal that was sent at `sent` was answered. Returns the leases that it extends.
    pub fn renewed(
        &mut self,
        sent: Time,
        now: Time,
        workers: &[WorkerId],
        states: &[Option<MemberState>],
    ) -> Vec<(WorkerId, Lease)> {
        let mut held_on = Vec::new();
        let from = if self.broken.has(Mutation::RenewalFromReply) { now } else { sent };
        for (&worker, member) in workers.iter().zip(states) {
            if let Some(held) = self.held.get_mut(&worker)
                && member.is_some()
                && held.renewing
            {
                held.lease.renewed(from, now);
                held_on.push((worker, held.lease));
            }
        }
        held_on
    }

    /// The deadlines that have passed, each reported once. Soft comes before hard, even if both have passed.
    pub fn expire(&mut self, now: Time) -> Vec<(WorkerId, Expiry)> {
        let mut due = Vec::new();
        if self.broken.has(Mutation::NoSelfFence) {
            return due;
        }
        for (&worker, held) in &mut self.held {
            let standing = held.lease.standing(now);
            if standing >= Standing::Soft && !held.asked_to_end {
                (held.renewing, held.asked_to_end) = (false, true);
                due.push((worker, Expiry::AskToEnd));
            }
            if standing == Standing::Hard && !held.aborted {
                held.aborted = true;
                due.push((worker, Expiry::Abort));
            }
        }
        due
    }

    /// When [`expire`](Self::expire) next returns a deadline, if nothing is renewed.
    #[cfg(any(test, feature = "proof"))]
    pub fn next_expiry(&self) -> Option<Time> {
        let next = |held: &HeldLease| {
            let soft = (!held.asked_to_end).then(|| held.lease.soft_at());
            earliest(soft, (!held.aborted).then(|| held.lease.hard_at()))
        };
        self.held.values().map(next).fold(None, earliest)
    }
}
