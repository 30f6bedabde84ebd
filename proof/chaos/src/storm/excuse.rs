//! The losses of data, which excuse what a pool may forget.

use tenure_testing::history::{Entry, Event};

use crate::losses::Loss;

/// How long after a loss its effects may still be recorded, in nanoseconds.
const RECORDED_NS: u64 = 1_000_000_000;

/// The losses of data of a history.
#[derive(Debug, Default)]
pub(super) struct Losses(Vec<Loss>);

impl Losses {
    pub(super) fn of(entries: &[Entry]) -> Self {
        let loss = |entry: &Entry| match entry.event {
            Event::DataLost { lost, since, back, wiped } => Some(Loss { lost, since, back, wiped }),
            _ => None,
        };
        Self(entries.iter().filter_map(loss).collect())
    }

    /// When data were lost.
    pub(super) fn moments(&self) -> Vec<u64> {
        self.0.iter().map(|loss| loss.lost).collect()
    }

    /// Whether data may have been lost between these two moments, so that the second one says nothing of the first.
    pub(super) fn lie_between(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|loss| loss.since <= to && from <= loss.back.saturating_add(RECORDED_NS))
    }
}

#[cfg(test)]
mod tests {
    use tenure_testing::history::History;

    use super::*;

    #[test]
    fn a_loss_excuses_from_before_it_until_it_is_over() {
        let history = History::new();
        history.record_at(40, Event::DataLost { lost: 20, since: 10, back: 30, wiped: false });
        let losses = Losses::of(&history.entries());
        assert_eq!(losses.moments(), [20]);
        assert!(
            losses.lie_between(1, 10)
                && losses.lie_between(15, 16)
                && losses.lie_between(30 + RECORDED_NS, u64::MAX)
        );
        assert!(!losses.lie_between(1, 9) && !losses.lie_between(31 + RECORDED_NS, u64::MAX));
    }
}
