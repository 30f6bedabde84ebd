//! The measurements of a round, from the histories, and the promised bounds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tenure_testing::history::{Entry, Event, Percentiles};

/// A job of a crashed node runs elsewhere within this many tenths of the time to live.
const CRASH_TENTHS: u32 = 13;
/// The longest time of a drain after its first hand-off.
const DRAIN: Duration = Duration::from_secs(2);
/// The bound of the 99th percentile of a drain's gaps.
const DRAIN_GAP: Duration = Duration::from_millis(250);

/// The times that jobs were without a handler after their node had gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    crashed: bool,
    gaps: Vec<Duration>,
    /// The time from the first end of a handler to the last start of another one.
    took: Duration,
}

impl Round {
    /// Measures the jobs that these workers ran at the moment `from`, when their node was killed or told to leave.
    /// `None` while nothing has moved.
    pub fn of(crashed: bool, from: u64, victims: &[String], entries: &[Entry]) -> Option<Self> {
        // The end of each job's handler; `None` while it still runs.
        let mut ends: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        let mut moves = Vec::new();
        for Entry { at, event, .. } in entries {
            match event {
                Event::Started { key, worker, .. } if victims.contains(worker) => {
                    // A kill ends all handlers at once.
                    ends.insert(key, crashed.then_some(from));
                }
                Event::Stopped { key, worker, .. } if victims.contains(worker) => {
                    if *at >= from {
                        ends.insert(key, Some(*at));
                    } else {
                        ends.remove(&**key);
                    }
                }
                Event::Started { key, .. } => {
                    if let Some(Some(end)) = ends.remove(&**key) {
                        moves.push((end, *at));
                    }
                }
                _ => {}
            }
        }
        let first = moves.iter().map(|(end, _)| end).min()?;
        let last = moves.iter().map(|(_, start)| start).max()?;
        let gap = |&(end, start): &(u64, u64)| Duration::from_nanos(start.saturating_sub(end));
        let took = Duration::from_nanos(last.saturating_sub(*first));
        Some(Self { crashed, gaps: moves.iter().map(gap).collect(), took })
    }

    /// The number of jobs that run elsewhere.
    pub fn moved(&self) -> usize {
        self.gaps.len()
    }

    fn percentiles(&self) -> Percentiles {
        Percentiles::of(self.gaps.iter().copied())
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.crashed { "crash" } else { "drain" };
        let Percentiles { p50, p99, max } = self.percentiles();
        write!(
            f,
            "{what} of a node with {} jobs: gaps p50 {} ms, p99 {} ms, max {} ms; first end to last start {} ms",
            self.moved(),
            p50.as_millis(),
            p99.as_millis(),
            max.as_millis(),
            self.took.as_millis()
        )
    }
}

/// The measurements of all rounds.
#[derive(Clone, Debug)]
pub struct Figures {
    ttl: Duration,
    jobs: usize,
    rounds: Vec<Round>,
}

impl Figures {
    /// No measurements yet, of a pool with this time to live and this many jobs on the node that goes.
    pub fn new(ttl: Duration, jobs: usize) -> Self {
        Self { ttl, jobs, rounds: Vec::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// The verdict as one line. Of several rounds of a kind it has the worst.
    pub fn json(&self, seed: u64, within_bounds: bool) -> String {
        let (crash, drain) = (self.worst(true), self.worst(false));
        let ttls = |gap: Duration| (gap.as_secs_f64() / self.ttl.as_secs_f64() * 1_000.0).round() / 1_000.0;
        let count = |crashed| self.of(crashed).count();
        serde_json::json!({
            "within_bounds": within_bounds, "ttl_ms": self.ttl.as_millis() as u64, "jobs": self.jobs,
            "crashes": count(true), "crash_gap_worst_ttls": ttls(crash.max), "crash_gap_p99_ttls": ttls(crash.p99),
            "drains": count(false), "drain_ms": self.longest_drain().as_millis() as u64,
            "drain_gap_p50_ms": drain.p50.as_millis() as u64, "drain_gap_p99_ms": drain.p99.as_millis() as u64,
            "drain_gap_max_ms": drain.max.as_millis() as u64, "seed": seed,
        })
        .to_string()
    }

    fn of(&self, crashed: bool) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(move |round| round.crashed == crashed)
    }

    fn worst(&self, crashed: bool) -> Percentiles {
        self.of(crashed).map(Round::percentiles).fold(Percentiles::default(), |worst, round| Percentiles {
            p50: worst.p50.max(round.p50),
            p99: worst.p99.max(round.p99),
            max: worst.max.max(round.max),
        })
    }

    fn longest_drain(&self) -> Duration {
        self.of(false).map(|round| round.took).max().unwrap_or_default()
    }
}

/// The exceeded bounds, in words.
pub fn bounds(figures: &Figures) -> Vec<String> {
    let (crash, drain) = (figures.worst(true), figures.worst(false));
    let checks = [
        ("the worst gap of a crash", crash.max, figures.ttl * CRASH_TENTHS / 10),
        ("a drain, from its first hand-off", figures.longest_drain(), DRAIN),
        ("the 99th percentile of a drain's gaps", drain.p99, DRAIN_GAP),
    ];
    let over = checks.into_iter().filter(|(_, measured, bound)| measured > bound);
    over.map(|(what, measured, bound)| {
        format!("{what}: {} ms, and {} ms are promised", measured.as_millis(), bound.as_millis())
    })
    .collect()
}
