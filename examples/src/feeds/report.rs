//! The findings of the demo: a table with a row for each step, one line of JSON, and a verdict.

use std::fmt;

use serde::Serialize;

use super::stats::Move;

/// The kind of change that a step made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// No tenant had to move.
    None,
    /// Live workers handed tenants off.
    HandOff,
    /// Other workers took tenants over from dead ones.
    Crash,
}

/// One step after it has settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The step's name.
    pub name: &'static str,
    /// The step's change of the ring.
    pub change: Change,
    /// Tenants that should be connected.
    pub expected: usize,
    /// Tenants that are connected.
    pub connected: usize,
    /// Changes of hands in this step.
    pub moves: Vec<Move>,
    /// The fewest moves that would do.
    pub fewest: usize,
}

/// The final findings of the judge and the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Pairs of connections of one tenant that both acted.
    pub duplicates: usize,
    /// Messages that were refused because of their token.
    pub refused: u64,
    /// Stale messages that had an effect.
    pub stale_accepted: u64,
    /// Tenants whose job was accepted and not stopped, but was gone or without a connection at the end.
    pub lost: usize,
    /// Keys that the pool left behind, without its tombstone.
    pub keys_left: Vec<String>,
}

/// The whole demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Tenants in the input.
    pub tenants: usize,
    /// The steps that were played.
    pub steps: Vec<StepReport>,
    /// The final findings.
    pub closing: Closing,
    /// The reasons why the demo did not end properly; empty when it did.
    pub failures: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    tenants: usize,
    connected: usize,
    duplicates: usize,
    stale_tokens_accepted: u64,
    lost: usize,
    moved: usize,
    moved_minimum: usize,
    crash_gap_ms_p99: u64,
    handoff_gap_ms_p99: u64,
    keys_left: usize,
}

impl Report {
    /// The last line of the demo's output.
    ///
    /// `connected` is `tenants` less the most that were missing after any step. The gaps are rounded to milliseconds.
    /// `moved` and `moved_minimum` are sums over all steps.
    pub fn json(&self) -> String {
        let missing = self.steps.iter().map(|s| s.expected.saturating_sub(s.connected)).max();
        let p99 = |change| Gaps::of(self.steps.iter().filter(|s| s.change == change)).at(99).round() as u64;
        let summary = Summary {
            tenants: self.tenants,
            connected: self.tenants.saturating_sub(missing.unwrap_or(self.tenants)),
            duplicates: self.closing.duplicates,
            stale_tokens_accepted: self.closing.stale_accepted,
            lost: self.closing.lost,
            moved: self.steps.iter().map(|s| s.moves.len()).sum(),
            moved_minimum: self.steps.iter().map(|s| s.fewest).sum(),
            crash_gap_ms_p99: p99(Change::Crash),
            handoff_gap_ms_p99: p99(Change::HandOff),
            keys_left: self.closing.keys_left.len(),
        };
        serde_json::to_string(&summary).unwrap_or_default()
    }

    /// The faults, one sentence each; empty when all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for step in &self.steps {
            let StepReport { name, expected, connected, moves, fewest, .. } = step;
            if connected < expected {
                faults.push(format!("{name}: {connected} tenants were connected, not {expected}"));
            }
            if moves.len() > *fewest {
                faults.push(format!("{name}: tenants moved {} times where {fewest} would do", moves.len()));
            }
        }
        let Closing { duplicates, stale_accepted, lost, ref keys_left, .. } = self.closing;
        if duplicates > 0 {
            faults.push(format!("tenants had two acting connections {duplicates} times"));
        }
        if stale_accepted > 0 {
            faults.push(format!("{stale_accepted} messages with a stale token had an effect"));
        }
        if lost > 0 {
            faults.push(format!("{lost} accepted tenants were lost"));
        }
        if let Some(first) = keys_left.first() {
            faults.push(format!("the pool left {} keys behind, such as {first}", keys_left.len()));
        }
        faults.extend(self.failures.iter().cloned());
        faults
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14} {:>9} {:>7} {:>7} {:>11} {:>9} {:>9}",
            "step", "connected", "moved", "fewest", "gap ms p50", "p99", "max"
        )?;
        for step in &self.steps {
            let StepReport { name, connected, moves, fewest, .. } = step;
            write!(f, "{name:<14} {connected:>9} {:>7} {fewest:>7}", moves.len())?;
            let gaps = Gaps::of([step]);
            if moves.is_empty() {
                writeln!(f, " {:>11} {:>9} {:>9}", "-", "-", "-")?;
            } else {
                writeln!(f, " {:>11.1} {:>9.1} {:>9.1}", gaps.at(50), gaps.at(99), gaps.at(100))?;
            }
        }
        write!(f, "messages refused for their token: {}", self.closing.refused)
    }
}

/// Gaps in milliseconds, in order of their length.
struct Gaps(Vec<f64>);

impl Gaps {
    fn of<'a>(steps: impl IntoIterator<Item = &'a StepReport>) -> Self {
        let moves = steps.into_iter().flat_map(|step| &step.moves);
        let mut gaps: Vec<_> = moves.map(|m| m.gap_us as f64 / 1000.0).collect();
        gaps.sort_by(f64::total_cmp);
        Self(gaps)
    }

    /// The smallest gap that `percent` of all do not exceed; 0 without gaps.
    fn at(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|index| self.0.get(index)).copied().unwrap_or(0.0)
    }
}
