//! The result of a judgement: the faults, and the times that keys were without a handler.

use std::{fmt, time::Duration};

/// A run's worker and fencing token.
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

/// A fault: an occurrence that must never happen. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Two handlers of one key ran at the same time.
    #[error("{key}: {first} and {second} both ran from {from} to {to}")]
    Overlap {
        /// The key.
        key: String,
        /// The holder that started first.
        first: Holder,
        /// The holder that started while the first one ran.
        second: Holder,
        /// The beginning of the overlap.
        from: u64,
        /// The end of the overlap; `u64::MAX` when both still run.
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
        /// When the job was accepted.
        accepted: u64,
        /// When it should have run.
        at: u64,
    },
    /// A stopped job ran when the pool was at rest.
    #[error("{key}: its stop was acknowledged at {acknowledged}, and {holder} runs it at {at}")]
    StillRunning {
        /// The key.
        key: String,
        /// The holder that runs it.
        holder: Holder,
        /// When the stop was acknowledged.
        acknowledged: u64,
        /// When it should not have run.
        at: u64,
    },
    /// A job was started after the pool had said that it was gone, or begun after its stop was recorded.
    #[error("{key}: its stop was acknowledged at {acknowledged}, and {holder} started it at {started}")]
    Resurrected {
        /// The key.
        key: String,
        /// The holder that started it.
        holder: Holder,
        /// When the stop was acknowledged.
        acknowledged: u64,
        /// When it was started.
        started: u64,
    },
    /// A key was free, and the pool has said that a job of the key exists.
    #[error("{key}: free at {freed}, and a job of it is said to exist at {at}")]
    Phantom {
        /// The key.
        key: String,
        /// When it was free.
        freed: u64,
        /// When the pool said that a job exists.
        at: u64,
    },
    /// A notification was accepted, and its job lived on but had not taken it when the pool was at rest.
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
    /// A notification was first taken before an earlier one.
    #[error("{key}: notification {earlier} was taken before {later} was, at {at}")]
    NotificationOrder {
        /// The key.
        key: String,
        /// The number of the notification that was taken first.
        earlier: u64,
        /// The number of the notification that was taken after it.
        later: u64,
        /// When the second one was taken.
        at: u64,
    },
    /// A key was without a handler for longer than allowed.
    #[error("{}: nobody ran it for {:?}, from {} to {}", .0.key, .0.length(), .0.from, .0.to)]
    LongGap(Gap),
    /// A stop that fits no start: the history has a hole.
    #[error("{key}: {holder} stopped at {at} without a start")]
    StopWithoutStart {
        /// The key.
        key: String,
        /// The holder that stopped.
        holder: Holder,
        /// When it stopped.
        at: u64,
    },
}

/// The time between the end of one handler of a key and the start of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The key.
    pub key: String,
    /// When the previous handler ended.
    pub from: u64,
    /// When the next handler started.
    pub to: u64,
}

impl Gap {
    /// The time that the key was without a handler.
    pub fn length(&self) -> Duration {
        Duration::from_nanos(self.to.saturating_sub(self.from))
    }
}

/// The median, the 99th percentile and the maximum of some durations.
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
    /// Computed by nearest rank; all zero without durations.
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
    /// The faults, by key.
    pub faults: Vec<Fault>,
    /// The times between two handlers of a key, by key and in order of time. The time after a stop does not count.
    pub gaps: Vec<Gap>,
    /// The number of keys that were started at least once.
    pub keys: usize,
    /// The number of starts.
    pub starts: usize,
}

impl Report {
    /// Whether there is no fault.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// The percentiles of the gaps' lengths.
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
