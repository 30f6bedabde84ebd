//! The faults of the nodes, and their frequencies.

use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;

/// The pool's time to live, in milliseconds. A fifth of it separates the moment when a handler must have ended from the
/// one when another may begin. A busy machine may leave a process without a core for that long.
pub(crate) const TTL_MS: u64 = 2_000;
/// A pause that a lease survives.
pub(crate) const SHORT_PAUSE: Duration = Duration::from_millis(TTL_MS * 3 / 10);
/// A pause that no lease survives.
pub(crate) const LONG_PAUSE: Duration = Duration::from_millis(TTL_MS * 16 / 10);

/// The least number of nodes, so that one is healthy while another is paused.
const FEWEST: usize = 2;
const MOST: usize = 5;

/// The fault of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A node is killed.
    Kill,
    /// Two nodes are killed at once.
    KillTwo,
    /// A node is paused for less than its lease.
    ShortPause,
    /// A node is paused for longer than the time to live, and wakes up.
    LongPause,
    /// A node leaves in order.
    Drain,
    /// A node joins.
    Join,
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::Kill, Self::KillTwo, Self::ShortPause, Self::LongPause, Self::Drain, Self::Join];

    /// A random fault that this many nodes can bear.
    pub(crate) fn choose(random: &mut impl Rng, nodes: usize) -> Self {
        *Self::ALL.choose_weighted(random, |fault| fault.weight(nodes)).unwrap()
    }

    fn weight(self, nodes: usize) -> u32 {
        match self {
            Self::Kill if nodes > FEWEST => 4,
            Self::Drain if nodes > FEWEST => 3,
            Self::KillTwo if nodes > FEWEST + 1 => 2,
            Self::ShortPause | Self::LongPause => 2,
            Self::Join if nodes < MOST => 6,
            Self::Kill | Self::Drain | Self::KillTwo | Self::Join => 0,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill",
            Self::KillTwo => "kill two",
            Self::ShortPause => "short pause",
            Self::LongPause => "long pause",
            Self::Drain => "drain",
            Self::Join => "join",
        })
    }
}
