//! The leases of a node's workers: their renewals, and what ends with them.

use std::time::Duration;

use super::calls::{Request, Role};
use super::world::{Event, World};
use tenure_protocol::core::input::Input;
use tenure_protocol::core::lease::table::Expiry;
use tenure_protocol::core::lease::{Lease, Standing, Timing, longest_read};
use tenure_protocol::core::time::{Time, earliest};
use tenure_protocol::model::id::{Incarnation, WorkerId};
use tenure_protocol::mutation::Mutation;
use tenure_protocol::step::{Renewal, Result};

/// The lease thread's pause between two looks at the leases.
fn tick(timing: Timing) -> Duration {
    (timing.ttl / 50).clamp(Duration::from_millis(5), Duration::from_millis(200))
}

impl World {
    pub(super) fn renew_now(&mut self, at: usize) {
        let now = self.local(at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.next_renewal = now;
        node.lease_at = None;
        self.after(0, Event::Lease(at));
    }

    /// One round of the lease thread.
    pub(super) fn look_at_leases(&mut self, at: usize) {
        self.expire_leases(at);
        let now = self.local(at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        let (ttl, tick) = (node.config.timing.ttl, tick(node.config.timing));
        if !node.renewing && now >= node.next_renewal {
            let read = node.engine.read_at().unwrap_or(now);
            let stalled = now.since(node.progress) > ttl || now.since(read) > longest_read(ttl);
            if let Some((incarnation, workers)) = node.leases.to_renew().filter(|_| !stalled) {
                node.renewing = true;
                node.next_renewal = now + node.config.timing.renew_every;
                let seen = node.engine.seen();
                self.send(at, Role::Renewal, Request::Renew { incarnation, seen, workers, sent: now });
            }
        }
        let Some(node) = self.nodes.get_mut(at) else { return };
        let expiry = node.leases.next_expiry();
        let renewal = (!node.renewing).then_some(node.next_renewal);
        let next = earliest(expiry, renewal).unwrap_or(now + ttl);
        // The thread looks once per tick, and not at once.
        let due = next.max(now + Duration::from_millis(1)) + tick * (self.rng.below(100) as u32) / 100;
        let time = node.clock.when(self.now, due);
        if node.lease_at.is_none_or(|known| known <= self.now || time < known) {
            node.lease_at = Some(time);
            self.at(time, Event::Lease(at));
        }
    }

    /// Handlers whose lease has run out are asked to end, or aborted.
    pub(super) fn expire_leases(&mut self, at: usize) {
        let now = self.local(at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        for (worker, expiry) in node.leases.expire(now) {
            self.note(|| format!("n{at} lease of {worker}: {expiry:?}"));
            match expiry {
                Expiry::AskToEnd => {
                    self.cancel_all(at, worker);
                    self.say(at, Input::LeaseLost(worker));
                }
                Expiry::Abort => self.abort_all(at, worker),
            }
        }
    }

    /// The node was paused: expired leases end their handlers before any of them goes on.
    pub(super) fn expire_at_once(&mut self, at: usize) {
        self.expire_leases(at);
        let now = self.local(at);
        let Some(node) = self.nodes.get(at) else { return };
        if node.config.broken.has(Mutation::NoSelfFence) {
            return;
        }
        let hard =
            |(worker, lease): (WorkerId, Lease)| (lease.standing(now) == Standing::Hard).then_some(worker);
        let over: Vec<WorkerId> = node.leases.leases().filter_map(hard).collect();
        for worker in over {
            self.end_all(at, worker);
        }
    }

    /// A renewal has come back, with or without an answer.
    pub(super) fn renewed(
        &mut self,
        at: usize,
        sent: Time,
        input: (Incarnation, Vec<WorkerId>, Result<Renewal>),
    ) {
        let now = self.local(at);
        let (incarnation, workers, answer) = input;
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.renewing = false;
        match &answer {
            Ok(renewal) => {
                node.leases.renewed(sent, now, &workers, &renewal.states);
            }
            Err(_) => node.next_renewal = now + node.config.timing.renew_every / 4,
        }
        self.say(at, Input::Renewed { incarnation, workers, answer });
        self.after(0, Event::Lease(at));
    }
}
