//! What a judgement says: the faults, and how long keys were without a handler.

use std::{fmt, time::Duration};

/// Who ran a key, under which token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The worker.
    pub worker: String,
    /// The fencing token.
    pub token: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with token {}", self.worker, self.token)
    }
}

/// Something that must never happen. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Two handlers of one key ran at the same time.
    #[error("{key}: {first} and {second} both ran from {from} to {to}")]
    Overlap {
        /// The key.
        key: String,
        /// The one that started first.
        first: Holder,
        /// The one that started while the first ran.
        second: Holder,
        /// Since when both ran.
        from: u64,
        /// Until when both ran; `u64::MAX` when they still do.
        to: u64,
    },
    /// A later start had a lower token.
    #[error("{key}: {later} started after {earlier}")]
    TokenOrder {
        /// The key.
        key: String,
        /// The earlier start.
        earlier: Holder,
        /// The later start.
        later: Holder,
    },
    /// Two starts had the same token.
    #[error("{key}: {second} started with the token of {first}")]
    TokenReused {
        /// The key.
        key: String,
        /// The earlier start.
        first: Holder,
        /// The later start.
        second: Holder,
    },
    /// An accepted job, never stopped, did not run when the pool was at rest.
    #[error("{key}: accepted at {accepted}, not stopped, and not running at {at}")]
    Lost {
        /// The key.
        key: String,
        /// When it was accepted.
        accepted: u64,
        /// When it should have run.
        at: u64,
    },
    /// A stopped job ran when the pool was at rest.
    #[error("{key}: its stop was acknowledged at {acknowledged}, and {holder} runs it at {at}")]
    StillRunning {
        /// The key.
        key: String,
        /// Who runs it.
        holder: Holder,
        /// When the stop was acknowledged.
        acknowledged: u64,
        /// When it should not have run.
        at: u64,
    },
    /// A job was started after it was said to be gone, or begun after its stop was recorded.
    #[error("{key}: its stop was acknowledged at {acknowledged}, and {holder} started it at {started}")]
    Resurrected {
        /// The key.
        key: String,
        /// Who started it.
        holder: Holder,
        /// When the stop was acknowledged.
        acknowledged: u64,
        /// When it was started.
        started: u64,
    },
    /// A key was free, and the pool has said that a job of it exists.
    #[error("{key}: free at {freed}, and a job of it is said to exist at {at}")]
    Phantom {
        /// The key.
        key: String,
        /// When it was free.
        freed: u64,
        /// When a job was said to exist.
        at: u64,
    },
    /// An accepted notification was not taken by its job, which lived on, when the pool was at rest.
    #[error("{key}: notification {number} was accepted at {accepted}, and is not taken at {at}")]
    NotificationLost {
        /// The key.
        key: String,
        /// The notification's number.
        number: u64,
        /// When it was accepted.
        accepted: u64,
        /// When it should have been taken.
        at: u64,
    },
    /// A notification was taken for the first time before one that was sent earlier.
    #[error("{key}: notification {earlier} was taken before {later} was, at {at}")]
    NotificationOrder {
        /// The key.
        key: String,
        /// The number of the one that was taken first.
        earlier: u64,
        /// The number of the one that was taken after it.
        later: u64,
        /// When the second one was taken.
        at: u64,
    },
    /// A key was without a handler for longer than it may be.
    #[error("{}: nobody ran it for {:?}, from {} to {}", .0.key, .0.length(), .0.from, .0.to)]
    LongGap(Gap),
    /// A stop that fits no start: the history has a hole.
    #[error("{key}: {holder} stopped at {at} without a start")]
    StopWithoutStart {
        /// The key.
        key: String,
        /// Who stopped.
        holder: Holder,
        /// When.
        at: u64,
    },
}

/// The time between the end of one handler of a key and the start of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The key.
    pub key: String,
    /// When the one before ended.
    pub from: u64,
    /// When the next one started.
    pub to: u64,
}

impl Gap {
    /// How long the key was without a handler.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.to.saturating_sub(self.from))
    }
}

/// The middle, the worst but one in a hundred, and the worst of some durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Percentiles {
    /// Half are at most this long.
    pub p50: Duration,
    /// 99 of 100 are at most this long.
    pub p99: Duration,
    /// All are at most this long.
    pub max: Duration,
}

impl Percentiles {
    /// By nearest rank; all zero when there are none.
    pub fn of(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut sorted: Vec<_> = durations.into_iter().collect();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(rank).copied().unwrap_or_default()
        };
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}

/// The judgement of a history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// What must never happen and did, by key.
    pub faults: Vec<Fault>,
    /// Every time that a key was between two handlers, by key and in order of time. The time after a stop is none.
    pub gaps: Vec<Gap>,
    /// How many keys were started at least once.
    pub keys: usize,
    /// How many starts there were.
    pub starts: usize,
}

impl Report {
    /// Whether there is no fault.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// How long the gaps were.
    pub fn gap_percentiles(&self) -> Percentiles {
        Percentiles::of(self.gaps.iter().map(Gap::length))
    }

    /// Ends a test that found a fault.
    ///
    /// # Panics
    /// When there is a fault; the message is the whole report.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { p50, p99, max } = self.gap_percentiles();
        let (keys, starts, faults) = (self.keys, self.starts, self.faults.len());
        write!(
            f,
            "{keys} keys, {starts} starts, gaps p50 {p50:?}, p99 {p99:?}, max {max:?}, {faults} faults"
        )?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}
