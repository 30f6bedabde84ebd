//! The moved jobs, and the times without a handler, from the events that handlers recorded.

use std::collections::{BTreeMap, BTreeSet};

use crate::figures::percentile;
use crate::report::Report;
use crate::tally::Event;

/// The moves of jobs from some moment on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Moves {
    /// Jobs that were started again, each with its last worker.
    pub(crate) moved: BTreeMap<String, u64>,
    /// The number of starts: a job may move twice.
    pub(crate) starts: usize,
    /// The times between the end of a job and its next start, in µs, ascending; only for jobs whose end was seen.
    pub(crate) gaps_us: Vec<u64>,
    /// The first end.
    pub(crate) first_us: u64,
    /// The last start.
    pub(crate) last_us: u64,
}

impl Moves {
    pub(crate) fn of(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at_us);
        let mut moves = Self { first_us: u64::MAX, ..Self::default() };
        let mut down = BTreeMap::new();
        for Event { key, up, at_us, worker } in events {
            if up {
                if let Some(since) = down.remove(&key) {
                    moves.gaps_us.push(at_us - since);
                }
                moves.starts += 1;
                moves.last_us = at_us;
                moves.moved.insert(key, worker);
            } else {
                moves.first_us = moves.first_us.min(at_us);
                down.insert(key, at_us);
            }
        }
        moves.gaps_us.sort_unstable();
        moves
    }

    /// The time from the first end to the last start, in ms.
    pub(crate) fn settled_ms(&self) -> f64 {
        self.last_us.saturating_sub(self.first_us) as f64 / 1e3
    }

    /// The gap that this share of the moves does not exceed, in ms.
    pub(crate) fn gap_ms(&self, share: f64) -> f64 {
        percentile(&self.gaps_us, share).map_or(0.0, |gap| gap as f64 / 1e3)
    }

    /// The number of jobs that moved to other workers than these.
    pub(crate) fn elsewhere(&self, than: &BTreeSet<u64>) -> usize {
        self.moved.values().filter(|worker| !than.contains(worker)).count()
    }
}

/// Reports the gaps of repetitions.
pub(crate) fn report_gaps(report: &mut Report, suffix: &str, runs: &[Moves]) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let gaps = runs.iter().map(|moves| moves.gap_ms(share)).collect();
        report.figure(format!("gap_{name}_ms{suffix}"), gaps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_starts_make_moves_with_gaps() {
        let event = |key: &str, up, at_us, worker| Event { key: key.into(), up, at_us, worker };
        let events = vec![
            event("b", true, 9_000, 3),
            event("a", false, 1_000, 1),
            event("a", true, 3_000, 2),
            event("a", false, 4_000, 2),
            event("a", true, 5_000, 3),
        ];
        let moves = Moves::of(events);
        assert_eq!(moves.moved, [("a".to_owned(), 3), ("b".to_owned(), 3)].into());
        assert_eq!((moves.starts, &moves.gaps_us[..]), (3, &[1_000, 2_000][..]));
        assert_eq!((moves.settled_ms(), moves.gap_ms(1.0)), (8.0, 2.0));
        assert_eq!((moves.elsewhere(&[3].into()), moves.elsewhere(&[2].into())), (0, 2));
    }
}
