//! The checkpoints of jobs: a later owner is given what an earlier one has kept, or something later.

use std::collections::BTreeMap;

use tenure_testing::history::{Entry, Event};

/// The checkpoints that one owner has kept of a dispatch.
struct Kept {
    token: u64,
    number: u64,
    at: u64,
}

/// The owners that were given less than an earlier one had kept, in words. A loss of data between the two excuses it.
/// `early_ns`: how long before its record a checkpoint may have been kept.
pub(super) fn gone_back(entries: &[Entry], losses: &[u64], early_ns: u64) -> Vec<String> {
    let mut kept: BTreeMap<(&str, &str), Vec<Kept>> = BTreeMap::new();
    for entry in entries {
        if let Event::CheckpointKept { key, dispatch, token, number } = &entry.event {
            let of_dispatch = kept.entry((key, dispatch)).or_default();
            of_dispatch.push(Kept { token: *token, number: *number, at: entry.at });
        }
    }
    let given = entries.iter().filter_map(|entry| {
        let Event::CheckpointGiven { key, dispatch, token, number } = &entry.event else { return None };
        let lost_since = |kept: &Kept| {
            losses.iter().any(|&lost| kept.at.saturating_sub(early_ns) <= lost && lost <= entry.at)
        };
        let before = kept.get(&(key.as_str(), dispatch.as_str()))?.iter();
        let more = before.filter(|kept| kept.token < *token && kept.number > *number && !lost_since(kept));
        let most = more.max_by_key(|kept| kept.number)?;
        Some(format!(
            "{key}: checkpoint {} was kept under {}, and {token} was given {number}",
            most.number, most.token
        ))
    });
    given.collect()
}

#[cfg(test)]
mod tests {
    use tenure_testing::history::History;

    use super::*;

    /// Kept under token 3 at the moment 10, and given under token 4 at the moment 20.
    fn found(kept: u64, given: u64, losses: &[u64]) -> usize {
        let (history, of) = (History::new(), || ("k".to_owned(), "n.d1".to_owned()));
        let (key, dispatch) = of();
        history.record_at(10, Event::CheckpointKept { key, dispatch, token: 3, number: kept });
        let (key, dispatch) = of();
        history.record_at(20, Event::CheckpointGiven { key, dispatch, token: 4, number: given });
        gone_back(&history.entries(), losses, 2).len()
    }

    #[test]
    fn a_checkpoint_goes_back_only_with_the_data() {
        assert_eq!((found(5, 5, &[]), found(5, 6, &[])), (0, 0));
        assert_eq!((found(5, 4, &[]), found(5, 0, &[])), (1, 1));
        assert_eq!((found(5, 4, &[15]), found(5, 4, &[9]), found(5, 4, &[7, 21])), (0, 0, 1));
    }
}
