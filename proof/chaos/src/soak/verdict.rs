//! Finds growth: compares the first third after the warm-up with the last third.

use std::fmt;

use super::sample::{SERIES, Sample, Series};

/// The first part of a run, which is left out: caches fill, and the first nodes reach their size.
const WARM_UP: f64 = 0.15;
/// A series that grows by less than a twentieth is flat.
const TOLERANCE: f64 = 0.05;

/// A series at the beginning and at the end.
#[derive(Clone, Debug)]
pub struct Change {
    series: Series,
    first: f64,
    last: f64,
}

impl Change {
    /// Whether the end exceeds the beginning by more than chance allows.
    pub fn grows(&self) -> bool {
        self.last > self.first * (1.0 + TOLERANCE) + self.series.slack
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { series, first, last } = self;
        let word = if self.grows() { "GROWS" } else { "flat" };
        write!(f, "{:<18} {first:>10.1} -> {last:>10.1}  {word}", series.name)
    }
}

/// The median of each series in its first third, after the warm-up, and in its last third. Empty for fewer samples than
/// `fewest`.
pub fn growth(samples: &[Sample], fewest: usize) -> Vec<Change> {
    if samples.len() < fewest.max(3) {
        return Vec::new();
    }
    let warm = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    let third = (warm.len() / 3).max(1);
    let median = |part: &[Sample], index: usize| {
        let mut values: Vec<f64> = part.iter().map(|sample| sample.values[index]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let change = |(index, &series): (usize, &Series)| Change {
        series,
        first: median(&warm[..third], index),
        last: median(&warm[warm.len() - third..], index),
    };
    SERIES.iter().enumerate().map(change).collect()
}
