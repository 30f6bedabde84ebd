//! Time as the core knows it: an argument, never a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds on the node's boot-time clock, which goes on while the machine sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The time from `earlier` to this one; zero if it was not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The earlier of two optional times.
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    let never = Time(u64::MAX);
    Some(a.unwrap_or(never).min(b.unwrap_or(never))).filter(|at| *at != never)
}

/// Spread without randomness: a splitmix64 sequence from the shell's seed.
///
/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014, section 5.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// A source of jitter.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A duration from `base` to `base` and a tenth.
    pub fn stretch(&mut self, base: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let tenth = base.saturating_mul((z ^ (z >> 31)) as u32 >> 8) / 10 / (1 << 24);
        base.saturating_add(tenth)
    }
}
