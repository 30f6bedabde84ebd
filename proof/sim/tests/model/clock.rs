//! Time, where leases are walked: that of the first worker, and of one observer of it. At each tick the worker's clock
//! and the observer's go on by 1 or 2, each by itself. A worker fences itself before the tick after its deadline, as
//! the lease thread does. The second worker's lease never runs out.

use bytes::Bytes;
use tenure_protocol::step::{Expire, Renew, Seen};

use super::act::Act;
use super::scope::Lapse;
use super::world::{Life, Pool, World};

/// The age at which a lease has run out, by its worker's clock.
const HARD: u8 = 2;
/// The age at which a heartbeat has, by an observer's: more than the fastest clock shows while the slowest one shows
/// `HARD`.
const TTL: u8 = 5;

/// A renewal on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    /// Since it was sent, by the worker's clock.
    age: u8,
    /// The result, once it was executed: whether the worker is a member.
    done: Option<bool>,
}

/// The measurements of the first worker and of its observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    /// Since the sending of the last renewal that was answered in time.
    age: u8,
    flight: Option<Flight>,
    /// The heartbeat that the observer saw last, and for how long.
    seen: Option<(u64, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Time {
    Tick {
        worker: u8,
        observer: u8,
    },
    RenewalSent,
    RenewalExecuted,
    RenewalAnswered,
    RenewalLost,
    /// The observer reads the heartbeat.
    Observed,
    /// The observer has seen no other heartbeat for as long as a lease lasts.
    Expired,
}

impl Pool {
    pub(crate) fn acts_of_time(&self, world: &World, acts: &mut Vec<Act>) {
        if !self.scope.leases {
            return;
        }
        let (clock, first) = (&world.clock, &world.workers[0]);
        let due = first.lives() && clock.age >= HARD;
        let fences = !self.scope.lapses(Lapse::NoSelfFence);
        let mut may = |time| acts.push(Act::Time(time));
        if !due || !fences {
            for observer in [1, 2] {
                may(Time::Tick { worker: 1, observer });
                if first.lives() {
                    may(Time::Tick { worker: 2, observer });
                }
            }
        }
        match clock.flight {
            None if first.lives() && world.left.renewals > 0 => may(Time::RenewalSent),
            None => {}
            Some(flight) => {
                may(if flight.done.is_some() { Time::RenewalAnswered } else { Time::RenewalExecuted });
                may(Time::RenewalLost);
            }
        }
        let beats = world.store.heartbeat(first.id);
        if beats.is_some() && beats != clock.seen.map(|(seq, _)| seq) {
            may(Time::Observed);
        }
        let ttl = if self.scope.lapses(Lapse::ObserverHasty) { TTL - 1 } else { TTL };
        if clock.seen.is_some_and(|(_, age)| age >= ttl) {
            may(Time::Expired);
        }
        if due && fences {
            acts.push(Act::Fence(0));
        }
    }

    pub(crate) fn pass(&self, world: &mut World, time: Time) -> Option<()> {
        let id = world.workers[0].id;
        let mut clock = world.clock;
        match time {
            Time::Tick { worker, observer } => {
                clock.age = (clock.age + worker).min(HARD);
                if let Some(flight) = &mut clock.flight {
                    flight.age = (flight.age + worker).min(HARD);
                }
                if let Some((_, age)) = &mut clock.seen {
                    *age = (*age + observer).min(TTL);
                }
            }
            Time::RenewalSent => {
                world.left.renewals -= 1;
                clock.flight = Some(Flight { age: 0, done: None });
            }
            Time::RenewalExecuted => {
                let renewal = world
                    .on(&Renew {
                        seen: Seen::default(),
                        node: None,
                        workers: vec![id],
                        status: Bytes::new(),
                        looks_at_memory: false,
                    })
                    .ok()?;
                clock.flight.as_mut()?.done = Some(renewal.states[0].is_some());
            }
            Time::RenewalAnswered => {
                let Flight { age, done } = clock.flight.take()?;
                let counted = if self.scope.lapses(Lapse::RenewalFromReply) { 0 } else { age };
                match done {
                    Some(true) if clock.age < HARD => clock.age = clock.age.min(counted),
                    Some(false) if world.workers[0].lives() => self.fence(world, 0),
                    _ => {}
                }
            }
            Time::RenewalLost => clock.flight = None,
            Time::Observed => clock.seen = Some((world.store.heartbeat(id)?, 0)),
            Time::Expired => {
                let (seq, _) = clock.seen.take()?;
                world.on(&Expire { workers: vec![(id, Some(seq))] }).ok()?;
            }
        }
        if world.workers[0].life == Life::Fenced {
            clock.age = 0;
        }
        world.clock = clock;
        Some(())
    }
}
