//! The ids of attempts that have come to a worker: one bit each, because there may be many.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::core::time::Time;
use crate::step::AskId;

/// The ids in one block.
const BLOCK: u64 = 1_024;

/// The ids of attempts that have come, in blocks of neighbours.
#[derive(Debug, Default)]
pub(super) struct Seen {
    blocks: BTreeMap<(u64, u64), Block>,
    /// The blocks, oldest first, each with a time at which it was in use.
    ages: VecDeque<(Time, (u64, u64))>,
}

#[derive(Debug)]
struct Block {
    bits: [u64; 16],
    last: Time,
}

impl Seen {
    /// Remembers an id. True if it is new.
    pub(super) fn note(&mut self, now: Time, id: AskId) -> bool {
        let place = (id.life, id.number / BLOCK);
        let block = self.blocks.entry(place).or_insert_with(|| {
            self.ages.push_back((now, place));
            Block { bits: [0; 16], last: now }
        });
        block.last = now;
        let at = id.number % BLOCK;
        let (word, bit) = (&mut block.bits[(at / 64) as usize], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Forgets the blocks that were not used for this long.
    pub(super) fn forget(&mut self, now: Time, after: Duration) {
        while let Some((at, place)) = self.ages.front().copied().filter(|(at, _)| now.since(*at) > after) {
            self.ages.pop_front();
            match self.blocks.get(&place).map(|block| block.last) {
                Some(last) if last > at => self.ages.push_back((last, place)),
                _ => {
                    self.blocks.remove(&place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> AskId {
        AskId { life: 7, number }
    }

    #[test]
    fn an_id_is_new_once_until_it_is_forgotten() {
        let mut seen = Seen::default();
        let (hour, at) = (Duration::from_secs(3_600), |secs| Time(0) + Duration::from_secs(secs));
        for number in [0, 1, 63, 64, 1_023, 1_024, 5_000] {
            assert!(seen.note(at(0), id(number)), "{number}");
            assert!(!seen.note(at(0), id(number)), "{number}");
        }
        assert!(seen.note(at(0), AskId { life: 8, number: 0 }), "another node's");
        seen.note(at(3_000), id(2));
        seen.forget(at(3_601), hour);
        assert!(!seen.note(at(3_601), id(1)), "its block was in use");
        assert!(seen.note(at(3_601), id(5_000)));
        seen.forget(at(9_000), hour);
        assert_eq!((seen.blocks.len(), seen.ages.len()), (0, 0));
    }
}
