//! The effects of the faults, by kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tenure_examples::feeds::stats::Move;

use crate::fault::Fault;

/// Rounds, moves and gaps of each kind of fault. A move counts for the round in which its tenant was connected again.
#[derive(Debug, Default)]
pub(crate) struct Totals(BTreeMap<Fault, Row>);

#[derive(Debug, Default)]
struct Row {
    rounds: usize,
    moves: usize,
    worst_gap: Duration,
}

impl Totals {
    pub(crate) fn add(&mut self, fault: Fault, moves: &[Move]) {
        let row = self.0.entry(fault).or_default();
        row.rounds += 1;
        row.moves += moves.len();
        let worst = moves.iter().map(|m| Duration::from_micros(m.gap_us)).max().unwrap_or_default();
        row.worst_gap = row.worst_gap.max(worst);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12} {:>6} {:>6} {:>9}", "fault", "rounds", "moves", "worst gap")?;
        self.0.iter().try_for_each(|(fault, row)| {
            let Row { rounds, moves, worst_gap } = row;
            write!(f, "\n{fault:12} {rounds:6} {moves:6} {:6} ms", worst_gap.as_millis())
        })
    }
}
