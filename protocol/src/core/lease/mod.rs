//! A worker's lease, bounded by its own clock: how long it may trust its last acknowledged renewal.
//!
//! T is the pool's time to live, ρ the bound of the clocks' rate error. κ is the time from the hard deadline until
//! all handlers are dead. Count from the sending of the last effective renewal. The worker's jobs become claimable
//! after T·(1−ρ) at the earliest, and its handlers are dead after `hard`·(1+ρ) + κ. [`Timing::of`] keeps the second
//! below the first for all clocks: only their rates matter.

pub mod table;

use std::time::Duration;

use crate::core::call::READ_BLOCK;
use crate::core::time::Time;

/// When a lease ends, counted from the sending of the last renewal that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// T: a silent worker's jobs are free after it.
    pub ttl: Duration,
    /// No new begins, and handlers are asked to end: 0.6 T.
    pub soft: Duration,
    /// Handlers are aborted: 0.8 T.
    pub hard: Duration,
    /// κ: the longest time from abort to dead that the proof allows: min(1 s, T/10).
    pub kill: Duration,
    /// Time between renewals: T/5.
    pub renew_every: Duration,
}

impl Timing {
    /// The timing for a time to live. The inequality `hard·1.01 + κ < T·0.99` holds for every T.
    pub fn of(ttl: Duration) -> Self {
        Self {
            ttl,
            soft: ttl * 6 / 10,
            hard: ttl * 8 / 10,
            kill: (ttl / 10).min(Duration::from_secs(1)),
            renew_every: ttl / 5,
        }
    }
}

/// The least time that a read may take on top of its own waiting, because a busy machine is not a deaf node.
const READ_MARGIN: Duration = Duration::from_secs(3);

/// How long a read may go unanswered in a pool with this worker TTL. A read that finds nothing waits for its whole
/// time.
pub fn longest_read(ttl: Duration) -> Duration {
    ttl.max(READ_MARGIN).saturating_add(READ_BLOCK)
}

/// The permission that a lease gives now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Begin and run jobs.
    Held,
    /// Begin nothing, ask the handlers to end.
    Soft,
    /// Abort the handlers.
    Hard,
}

/// A lease: the time at which its last acknowledged renewal was **sent**.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    from: Time,
    timing: Timing,
}

impl Lease {
    /// A lease from the time its join was sent.
    fn new(from: Time, timing: Timing) -> Self {
        Self { from, timing }
    }

    /// A renewal that was sent at `sent` was acknowledged at `now`. An acknowledgement after the soft deadline is
    /// ignored: the worker has given up by then.
    fn renewed(&mut self, sent: Time, now: Time) {
        if self.standing(now) == Standing::Held {
            self.from = self.from.max(sent);
        }
    }

    /// Its permission at `now`.
    pub fn standing(&self, now: Time) -> Standing {
        let age = now.since(self.from);
        if age >= self.timing.hard {
            Standing::Hard
        } else if age >= self.timing.soft {
            Standing::Soft
        } else {
            Standing::Held
        }
    }

    /// When its last acknowledged renewal was sent.
    pub fn from(&self) -> Time {
        self.from
    }

    /// When the soft deadline is.
    pub fn soft_at(&self) -> Time {
        self.from + self.timing.soft
    }

    /// When the hard deadline is.
    pub fn hard_at(&self) -> Time {
        self.from + self.timing.hard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_before_claimable_for_every_ttl() {
        for ms in [500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000] {
            let t = Timing::of(Duration::from_millis(ms));
            assert!(t.hard * 101 / 100 + t.kill < t.ttl * 99 / 100, "{ms}");
            assert!(t.soft + t.renew_every <= t.hard, "{ms}");
        }
    }

    #[test]
    fn a_renewal_counts_from_its_sending_until_the_soft_deadline() {
        let t = Timing::of(Duration::from_secs(10));
        let at = |s| Time(0) + Duration::from_secs(s);
        let mut lease = Lease::new(at(0), t);
        lease.renewed(at(2), at(5));
        assert_eq!((lease.soft_at(), lease.hard_at()), (at(8), at(10)));
        assert_eq!(lease.standing(at(8)), Standing::Soft);
        lease.renewed(at(7), at(9));
        assert_eq!(lease.standing(at(10)), Standing::Hard);
        let mut lease = Lease::new(at(3), t);
        lease.renewed(at(1), at(4));
        assert_eq!(lease.soft_at(), at(9), "an older renewal shortens nothing");
    }
}
