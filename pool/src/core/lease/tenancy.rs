//! The leases of one node's workers: which to renew, and whose handlers are to end because a lease has run out.
//!
//! Pure, because it is what exclusion rests on: the lease thread and the simulator run the same lines.

use std::collections::BTreeMap;

use super::{Lease, Standing, Timing};
use crate::breakage::{Breakage, Breakages};
use crate::core::time::Time;
#[cfg(feature = "sim")]
use crate::core::time::earliest;
use crate::id::{Incarnation, WorkerId};
use crate::member::MemberState;

/// One worker's lease.
#[derive(Debug)]
struct Tenancy {
    incarnation: Incarnation,
    lease: Lease,
    renewing: bool,
    asked_to_end: bool,
    aborted: bool,
}

/// What is to happen to the handlers of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Expiry {
    /// The soft deadline has passed: they are asked to end.
    AskToEnd,
    /// The hard deadline has passed: they are aborted.
    Abort,
}

/// The leases of a node's workers.
#[derive(Debug)]
pub(crate) struct Tenancies {
    timing: Timing,
    broken: Breakages,
    incarnation: Option<Incarnation>,
    held: BTreeMap<WorkerId, Tenancy>,
}

impl Tenancies {
    pub(crate) fn new(timing: Timing, broken: Breakages) -> Self {
        Self { timing, broken, incarnation: None, held: BTreeMap::new() }
    }

    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// A lease that is held from now on runs out by this timing.
    pub(crate) fn go_by(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// Renew in this incarnation from now on.
    pub(crate) fn renew_in(&mut self, incarnation: Incarnation) {
        self.incarnation = Some(incarnation);
    }

    /// Hold a lease for this worker, from the time its join was sent.
    pub(crate) fn hold(&mut self, incarnation: Incarnation, worker: WorkerId, from: Time) -> Lease {
        let lease = Lease::new(from, self.timing);
        let tenancy = Tenancy { incarnation, lease, renewing: true, asked_to_end: false, aborted: false };
        self.held.insert(worker, tenancy);
        lease
    }

    /// Renew this worker's lease in another incarnation: it counts on as it stands.
    pub(crate) fn keep(&mut self, incarnation: Incarnation, worker: WorkerId) {
        if let Some(tenancy) = self.held.get_mut(&worker) {
            tenancy.incarnation = incarnation;
        }
    }

    /// Renew it no more. True when its handlers have not been asked to end before.
    pub(crate) fn give_up(&mut self, worker: WorkerId) -> bool {
        let Some(tenancy) = self.held.get_mut(&worker) else { return false };
        tenancy.renewing = false;
        !std::mem::replace(&mut tenancy.asked_to_end, true)
    }

    /// Nobody watches any more: all of them are given up, and their handlers aborted. Returns those that were not given
    /// up before.
    pub(crate) fn give_up_all(&mut self) -> Vec<WorkerId> {
        let mut lost = Vec::new();
        for (&worker, tenancy) in &mut self.held {
            tenancy.renewing = false;
            tenancy.aborted = true;
            if !std::mem::replace(&mut tenancy.asked_to_end, true) {
                lost.push(worker);
            }
        }
        lost
    }

    /// Nothing of the worker runs: forget it.
    pub(crate) fn remove(&mut self, worker: WorkerId) {
        self.held.remove(&worker);
    }

    /// A worker's lease.
    pub(crate) fn lease(&self, worker: WorkerId) -> Option<Lease> {
        self.held.get(&worker).map(|tenancy| tenancy.lease)
    }

    /// Until when a job of the worker may act: zero for one whose lease was given up.
    #[cfg(feature = "sim")]
    pub(crate) fn holds_until(&self, worker: WorkerId) -> Time {
        let tenancy = self.held.get(&worker).filter(|tenancy| !tenancy.asked_to_end);
        tenancy.map_or(Time(0), |tenancy| tenancy.lease.soft_at())
    }

    /// All leases that are held or were given up.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (WorkerId, Lease)> {
        self.held.iter().map(|(&worker, tenancy)| (worker, tenancy.lease))
    }

    /// What to renew now.
    pub(crate) fn to_renew(&self) -> Option<(Incarnation, Vec<WorkerId>)> {
        let incarnation = self.incarnation?;
        let own = |(_, t): &(&WorkerId, &Tenancy)| t.renewing && t.incarnation == incarnation;
        Some((incarnation, self.held.iter().filter(own).map(|(&worker, _)| worker).collect()))
    }

    /// A renewal that was sent at `sent` was answered. Returns the leases that are held on by it.
    pub(crate) fn renewed(
        &mut self,
        sent: Time,
        now: Time,
        workers: &[WorkerId],
        states: &[Option<MemberState>],
    ) -> Vec<(WorkerId, Lease)> {
        let mut held_on = Vec::new();
        let from = if self.broken.has(Breakage::RenewalFromReply) { now } else { sent };
        for (&worker, member) in workers.iter().zip(states) {
            if let Some(tenancy) = self.held.get_mut(&worker)
                && member.is_some()
                && tenancy.renewing
            {
                tenancy.lease.renewed(from, now);
                held_on.push((worker, tenancy.lease));
            }
        }
        held_on
    }

    /// What is to end now, once each. Soft comes before hard, also when both have passed.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<(WorkerId, Expiry)> {
        let mut due = Vec::new();
        if self.broken.has(Breakage::NoSelfFence) {
            return due;
        }
        for (&worker, tenancy) in &mut self.held {
            let standing = tenancy.lease.standing(now);
            if standing >= Standing::Soft && !tenancy.asked_to_end {
                (tenancy.renewing, tenancy.asked_to_end) = (false, true);
                due.push((worker, Expiry::AskToEnd));
            }
            if standing == Standing::Hard && !tenancy.aborted {
                tenancy.aborted = true;
                due.push((worker, Expiry::Abort));
            }
        }
        due
    }

    /// When [`expire`](Self::expire) has something to say next, if nothing is renewed.
    #[cfg(feature = "sim")]
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let next = |tenancy: &Tenancy| {
            let soft = (!tenancy.asked_to_end).then(|| tenancy.lease.soft_at());
            earliest(soft, (!tenancy.aborted).then(|| tenancy.lease.hard_at()))
        };
        self.held.values().map(next).fold(None, earliest)
    }
}
